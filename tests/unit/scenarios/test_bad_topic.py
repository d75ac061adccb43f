"""One bad record stops the tables that it feeds, and no other table of its pipeline, in whatever order they come."""

from dataclasses import replace
from typing import Any

import pytest
from fakes import BAD, LosesARecord, MemoryEngine, World, build_pipeline, build_table
from tidegate.errors import BadRecord, GiveUp, NothingToDo, SomeTablesFailed
from tidegate.flush.flush import flush
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage, stage_tables
from tidegate.jobs.stage_job import StageJob
from tidegate.model.batch import Plan
from tidegate.ports.session import Job
from tidegate.spec.pipeline import Pipeline

GOOD, BROKEN = "lake.shop.good", "lake.shop.broken"
APART = (build_table(BROKEN, topics=("broken",)), build_table(GOOD, topics=("good",)))
ORDERS = [build_pipeline(*APART), build_pipeline(*reversed(APART)), build_pipeline(*APART, max_records=1)]


@pytest.fixture
def world() -> World:
    world = World()
    for topic in ("broken", "good"):
        world.broker.create(topic, 2)
    produce(world, "broken", "a", 0)
    return world


def produce(world: World, topic: str, key: str, n: int, partition: int = 0) -> None:
    world.broker.produce(topic, {"id": key}, {"id": key, "name": str(n)}, partition)


def flush_and_fail(world: World, pipeline: Pipeline, **options: Any) -> str:
    with pytest.raises(SomeTablesFailed) as failed:
        flush(world.open_session(pipeline, **options))
    return str(failed.value)


def read_committed_offsets(world: World) -> dict[str, dict[int, int]]:
    return world.broker.groups["tidegate-shop"]


@pytest.mark.parametrize("pipeline", ORDERS, ids=["bad first", "bad last", "small batches"])
def test_others_take_each_batch_while_a_bad_record_is_told_in_every_run(world: World, pipeline: Pipeline) -> None:
    flush(world.open_session(pipeline))
    world.broker.produce("broken", {"id": "b"}, BAD, 1)
    for n in range(14):
        produce(world, "good", f"{n % 3}", n, n % 2)
        message = flush_and_fail(world, pipeline)
        for words in (f"tables={BROKEN} cannot go on", "topic=broken partition=1 offset=0", "the others go on"):
            assert words in message
        assert "queue is full" not in message
        assert world.read_rows(GOOD)[n % 3]["name"] == str(n)
    assert world.read_rows(BROKEN) == [{"id": "a", "name": "0"}]
    assert read_committed_offsets(world) == {"broken": {0: 1, 1: 0}, "good": {0: 7, 1: 7}}


def test_table_takes_its_records_when_the_bad_one_is_gone(world: World) -> None:
    pipeline = ORDERS[0]
    world.broker.produce("broken", {"id": "b"}, BAD, 1)
    produce(world, "good", "g", 1)
    for n in (1, 2):
        produce(world, "broken", "a", n)
        if n == 1:
            flush_and_fail(world, pipeline)
    produce(world, "broken", "b", 3, 1)
    world.broker.compact("broken", 1)
    flush(world.open_session(pipeline))
    assert world.read_rows(BROKEN) == [{"id": "a", "name": "2"}, {"id": "b", "name": "3"}]
    assert world.read_rows(GOOD) == [{"id": "g", "name": "1"}]


def test_table_that_shares_its_read_with_one_that_fails_keeps_what_was_staged_for_it(world: World) -> None:
    shared = build_pipeline(build_table(BROKEN, topics=("good",)), build_table(GOOD, topics=("good",)))
    for n in range(2):
        produce(world, "good", f"{n}", n, n)
    message = flush_and_fail(world, shared, engine=LosesARecord(world.engine, BROKEN))
    assert f"tables={BROKEN} cannot go on" in message
    assert "do not add up" in message
    assert (len(world.read_rows(GOOD)), world.read_rows(BROKEN)) == (2, [])
    assert [len(job.tables) for job in world.engine.stages] == [2]
    flush(world.open_session(shared))
    assert world.read_rows(BROKEN) == world.read_rows(GOOD)


class RefusesJob:
    """Spark that refuses every stage job of one table for good."""

    def __init__(self, engine: MemoryEngine) -> None:
        self._port = engine

    def run(self, job: Job) -> None:
        if isinstance(job, StageJob) and any(table.intermediate.startswith(BROKEN) for table in job.tables):
            raise GiveUp("this job cannot be run")
        self._port.run(job)


def test_job_that_is_refused_stops_the_tables_that_share_it(world: World) -> None:
    produce(world, "good", "g", 1)
    assert "this job cannot be run" in flush_and_fail(world, ORDERS[0], engine=RefusesJob(world.engine))
    assert (world.read_rows(GOOD), world.read_rows(BROKEN)) == ([{"id": "g", "name": "1"}], [])


def test_where_nothing_can_be_staged_the_reasons_are_raised_and_the_offsets_kept(world: World) -> None:
    flush(world.open_session(ORDERS[0]))
    for topic in ("broken", "good"):
        world.broker.produce(topic, {"id": "b"}, BAD)
    world.broker.groups.clear()
    with pytest.raises(BadRecord) as failed:
        flush(world.open_session(ORDERS[0]))
    for words in ("topic=broken partition=0 offset=1", "topic=good partition=0 offset=0"):
        assert words in str(failed.value)
    assert read_committed_offsets(world) == {"broken": {0: 1, 1: 0}}


def test_batches_that_wait_are_published_although_nothing_new_can_be_staged(world: World) -> None:
    pipeline = ORDERS[0]
    produce(world, "good", "g", 1)
    stage(world.open_session(pipeline), plan(world.open_session(pipeline)))
    world.broker.produce("broken", {"id": "b"}, BAD)
    assert "topic=broken partition=0 offset=1" in flush_and_fail(world, pipeline)
    assert (world.read_rows(BROKEN), world.read_rows(GOOD)) == ([{"id": "a", "name": "0"}], [{"id": "g", "name": "1"}])
    assert read_committed_offsets(world) == {"broken": {0: 1, 1: 0}, "good": {0: 1, 1: 0}}


def test_stage_of_one_batch_raises_the_reason_and_stage_of_all_tables_returns_it(world: World) -> None:
    produce(world, "good", "g", 1)
    world.broker.produce("broken", {"id": "b"}, BAD)
    session = world.open_session(ORDERS[0])
    with pytest.raises(BadRecord, match="topic=broken partition=0 offset=1"):
        stage(session, plan(session))
    staged, refusals = stage_tables(session, replace(plan(session), refusals=()))
    assert ([batch.table for batch in staged], [(refusal.table, refusal.kind) for refusal in refusals]) == (
        [GOOD],
        [(BROKEN, "BadRecord")],
    )


def test_pipeline_of_one_table_fails_as_before(world: World) -> None:
    alone = build_pipeline(APART[0])
    flush(world.open_session(alone))
    world.broker.produce("broken", {"id": "b"}, BAD)
    with pytest.raises(BadRecord):
        flush(world.open_session(alone))
    with pytest.raises(NothingToDo):
        flush(world.open_session(build_pipeline(APART[1])))
    assert isinstance(plan(world.open_session(alone)), Plan)


@pytest.mark.parametrize("published", [0, 2])
def test_runs_that_meet_the_same_bad_record_use_one_number_and_leave_nothing_staged(
    world: World, published: int
) -> None:
    alone = build_pipeline(APART[0])
    for n in range(published):
        produce(world, "broken", "a", n)
        flush(world.open_session(alone))
    world.broker.produce("broken", {"id": "b"}, BAD, 1)
    numbers = set()
    for n in range(30):
        produce(world, "broken", f"{n}", n, n % 2)
        with pytest.raises(BadRecord, match="partition=1 offset=0"):
            flush(world.open_session(alone))
        numbers.add(world.engine.stages[-1].batch)
        staged = world.destination.tables[f"{BROKEN}_shop_tmp"]
        assert (staged.read_rows(), len(staged.snapshots)) == ([], 1)
        assert [name for name in staged.properties if name.startswith(("tidegate.counted.", "tidegate.staged."))] == []
    assert max(numbers) <= published + 2
    world.broker.partitions["broken"][1].records.pop(0)
    flush(world.open_session(alone))
    assert len(world.read_rows(BROKEN)) == 31
    state = world.destination.read_state(BROKEN, "shop")
    assert state is not None
    assert state.highest_batch <= published + 2
