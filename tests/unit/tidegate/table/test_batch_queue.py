"""A table that fails keeps its staged batches in order while the others go on; recovered, it takes them all at once."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from examples import choose_calls
from fakes import Crash, CrashAt, FailsOneMerge, FailsToMerge, PauseAt, World, build_pipeline, build_table
from tidegate.errors import (
    AuditFailed,
    NothingToDo,
    PositionLost,
    PublishedElsewhere,
    RetryLater,
    SomeTablesDelayed,
    TidegateError,
)
from tidegate.flush.clean_up import clean_up
from tidegate.flush.flush import flush
from tidegate.flush.merge import merge
from tidegate.flush.merge_queue import MergeCheckpoint, group_by_table, merge_queue
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage, stage_tables
from tidegate.jobs.stage_job import StageJob
from tidegate.model.batch import Counts, Plan, PlanScope, StagedBatch
from tidegate.model.offsets import Ranges
from tidegate.monitoring.status import read_status
from tidegate.ports.session import Job
from tidegate.spec.pipeline import Heartbeat, RiskPolicy, Stage
from tidegate.table.observed_table import observe_tables
from tidegate.table.queue import combine_batches, select_between, take_group

ORDERS, COPY = "lake.shop.orders", "lake.shop.copy"
TWO = build_pipeline(build_table(ORDERS), build_table(COPY))


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders")
    return world


def produce(world: World, key: str, name: str | None) -> None:
    world.broker.produce("orders", {"id": key}, None if name is None else {"id": key, "name": name})


def abort_transaction(world: World) -> None:
    world.broker.transaction("orders", [({"id": "t"}, {"id": "t", "name": "z"})], ending="abort")


def fail_merges(world: World, runs: int, pipeline=TWO) -> FailsToMerge:
    """One run for each record while merges into `copy` fail; the engine that fails."""
    engine = FailsToMerge(world.engine, COPY)
    for n in range(runs):
        produce(world, "a", f"{n}")
        with pytest.raises(SomeTablesDelayed):
            flush(world.open_session(pipeline, engine=engine))
    return engine


def read_committed_offset(world: World) -> int | None:
    return world.broker.groups.get("tidegate-shop", {}).get("orders", {}).get(0)


def list_waiting_batches(world: World, pipeline=TWO) -> list[tuple[int, tuple[int, int]]]:
    queue = observe_tables(world.open_session(pipeline))[1].queue
    return [(staged.batch, staged.ranges.by_topic["orders"][0]) for staged in queue]


def test_failing_table_queues_its_batches_while_the_other_takes_each(world: World) -> None:
    fail_merges(world, 3)
    assert world.read_rows(ORDERS) == [{"id": "a", "name": "2"}]
    assert world.read_rows(COPY) == []
    assert list_waiting_batches(world) == [(1, (0, 1)), (2, (1, 2)), (3, (2, 3))]


def test_all_tables_share_one_read_of_each_batch_also_while_one_fails(world: World) -> None:
    fail_merges(world, 3)
    assert [(job.ranges.by_topic["orders"][0], len(job.tables)) for job in world.engine.stages] == [
        ((0, 1), 2),
        ((1, 2), 2),
        ((2, 3), 2),
    ]


def test_recovered_table_takes_its_queue_in_one_merge_without_reading_kafka_again(world: World) -> None:
    fail_merges(world, 3)
    stages, merges = len(world.engine.stages), len(world.engine.merges)
    (published,) = flush(world.open_session(TWO)).published
    assert (published.table, published.batch, published.batches, published.staged) == (COPY, 3, 3, 3)
    assert published.ranges.to_dict() == {"orders": {"0": [0, 3], "1": [0, 0]}}
    assert len(world.engine.merges) == merges + 1
    assert read_batches_of_history(world) == [(1, 1, 0), (2, 1, 0), (3, 1, 1)]
    assert world.read_rows(COPY) == world.read_rows(ORDERS)
    assert (len(world.engine.stages), read_committed_offset(world)) == (stages, 3)
    with pytest.raises(NothingToDo):
        flush(world.open_session(TWO))


def test_queue_that_fails_in_passing_waits_as_a_whole(world: World) -> None:
    fail_merges(world, 3)
    session = world.open_session(TWO, engine=FailsOneMerge(world.engine, 1))
    (queue,) = group_by_table(stage(session, plan(session)))
    outcome = merge_queue(session, queue)
    assert outcome.published == ()
    assert "Spark failed in one merge" in str(outcome.failure)
    assert [batch for batch, _ in list_waiting_batches(world)] == [1, 2, 3]


def test_queue_stops_at_its_first_failure_and_keeps_what_was_published_before(world: World) -> None:
    fail_merges(world, 3)
    capped = build_pipeline(build_table(ORDERS), build_table(COPY), max_records=2)
    session = world.open_session(capped, engine=FailsOneMerge(world.engine, 2))
    (queue,) = group_by_table(stage(session, plan(session)))
    outcome = merge_queue(session, queue)
    assert [(b.batch, b.batches) for b in outcome.published] == [(2, 2)]
    assert "Spark failed in one merge" in str(outcome.failure)
    assert [batch for batch, _ in list_waiting_batches(world)] == [3]


AUDITED = build_pipeline(build_table(ORDERS), build_table(COPY, audits=("name <> '1'",)))


@pytest.mark.guard(
    "a batch ahead of a bad one does not wait for it",
    file="plugins/tidegate/flush/merge_queue.py",
    text="            if takes_one or not has_rows(group[:-1]):\n",
    off="            if True:\n",
)
@pytest.mark.parametrize(("bad", "published"), [("0", []), ("1", [1]), ("2", [1, 2])])
def test_batches_ahead_of_one_that_breaks_an_audit_come_in_one_by_one(
    world: World, bad: str, published: list[int]
) -> None:
    world.engine.conditions["name <> '1'"] = lambda row: row["id"] != bad
    for n in range(3):
        produce(world, f"{n}", "x")
        with pytest.raises(SomeTablesDelayed):
            flush(world.open_session(TWO, engine=FailsToMerge(world.engine, COPY)))
    session = world.open_session(AUDITED)
    (queue,) = group_by_table(stage(session, plan(session)))
    outcome = merge_queue(session, queue)
    assert [b.batch for b in outcome.published] == published
    assert isinstance(outcome.failure, AuditFailed)
    assert f"batch={len(published) + 1}: audit=" in str(outcome.failure)
    assert [row["id"] for row in world.read_rows(COPY)] == [f"{n}" for n in range(len(published))]
    assert [batch for batch, _ in list_waiting_batches(world)] == list(range(len(published) + 1, 4))


def test_audit_is_asked_of_the_whole_queue(world: World) -> None:
    """A row that breaks it, and is written over by a later batch, is in no snapshot."""
    world.engine.conditions["name <> '1'"] = lambda row: row["name"] != "1"
    fail_merges(world, 3)
    (published,) = flush(world.open_session(AUDITED)).published
    assert (published.batch, published.batches) == (3, 3)
    assert world.read_rows(COPY) == [{"id": "a", "name": "2"}]


def test_retried_merge_of_a_queue_goes_on_where_the_first_attempt_ended(world: World) -> None:
    fail_merges(world, 3)
    session = world.open_session(TWO)
    (queue,) = group_by_table(stage(session, plan(session)))
    for batch_number in (1, 2):
        assert merge(session, queue[batch_number - 1]).outcome == "published"
    outcome = merge_queue(session, queue)
    assert [(b.batch, b.outcome) for b in outcome.published] == [(3, "published")]
    second_result = merge_queue(session, queue)
    assert [(b.batch, b.outcome) for b in second_result.published] == [(3, "already published")]
    assert world.read_rows(COPY) == [{"id": "a", "name": "2"}]


@pytest.mark.parametrize("published", [0, 2, 4])
def test_queue_of_which_a_task_got_the_ends_alone_is_merged_as_the_whole_one(world: World, published: int) -> None:
    """Another run has published some of it, and cleaned up behind them."""
    fail_merges(world, 4)
    session = world.open_session(TWO)
    (queue,) = group_by_table(stage(session, plan(session)))
    if published:
        assert merge_queue(world.open_session(TWO), queue[:published]).failure is None
        clean_up(world.open_session(TWO))
    produce(world, "b", "later")
    stage(session, plan(session))
    (told,) = merge_queue(world.open_session(TWO), [queue[0], queue[-1]]).published
    assert (told.batch, told.outcome) == (4, "already published" if published == 4 else "published")
    assert world.read_rows(COPY) == [{"id": "a", "name": "3"}]
    assert [batch for batch, _, _ in read_batches_of_history(world)] == [1, 2, 3, 4]


def test_plan_with_the_ends_of_each_queue_resumes_what_the_whole_one_does(world: World) -> None:
    fail_merges(world, 4)
    produce(world, "b", "new")
    session = world.open_session(TWO)
    whole = plan(session)
    shortened = whole.shorten()
    assert [(table.table, table.batch) for table in shortened.tables] == [(ORDERS, 5), (COPY, 1), (COPY, 4), (COPY, 5)]
    resumed = [replace(p, tables=tuple(t for t in p.tables if t.is_resumed)) for p in (whole, shortened)]
    assert stage(session, resumed[1]) == stage(session, resumed[0])
    intermediate = world.destination.tables["lake.shop.copy_shop_tmp"]
    second = next(s for s in intermediate.snapshots.values() if s.summary.get("tidegate.batch") == "2")
    del intermediate.snapshots[second.id]
    with pytest.raises(RetryLater, match=r"batch=4: the staged attempt=attempt.* is no longer there"):
        stage(session, resumed[1])


@pytest.mark.parametrize("other", [{"shape": "other"}, {"table_uuid": "another"}])
def test_batch_of_another_file_or_table_between_the_ends_of_a_queue_is_none_of_it(other: dict[str, Any]) -> None:
    first, left_over, between, last = build_staged(1), build_staged(2, **other), build_staged(2), build_staged(3)
    between, last = replace(between, batch=3), replace(last, batch=4)
    assert select_between(first, last, [first, left_over, between, last]) == (first, between, last)


def test_batch_between_the_ends_of_a_queue_is_merged_too_if_only_a_new_partition_has_its_records() -> None:
    """The offsets of the ends continue without a gap then."""
    world = World()
    world.broker.create("orders", 1)
    pipeline = replace(build_pipeline(build_table(ORDERS), on_partition_growth=RiskPolicy.ACCEPT), stage=Stage(10))
    session = world.open_session(pipeline)
    produce(world, "a", "0")
    flush(session)
    for key, partition in (("b", 0), ("c", 1), ("d", 0)):
        world.broker.grow("orders", partition + 1)
        world.broker.produce("orders", {"id": key}, {"id": key, "name": "1"}, partition)
        stage_tables(session, plan(session, scope=PlanScope.NEW))
    shortened = Plan.from_dict(plan(session, scope=PlanScope.STAGED).shorten().to_dict())
    assert [batch.batch for batch in shortened.tables] == [2, 4]
    queue = stage_tables(session, shortened).batches
    assert [batch.batch for batch in queue] == [2, 3, 4]
    assert merge_queue(session, [queue[0], queue[-1]]).failure is None
    assert [row["id"] for row in world.read_rows(ORDERS)] == ["a", "b", "c", "d"]


class Away(BaseException):
    """The caller went to wait elsewhere."""


@pytest.mark.parametrize(
    ("max_records", "calls", "expected"),
    [(1, 1, [1, 2, 3]), (1, 3, [1, 2, 3]), (2, 1, [2, 3]), (2, 2, [2, 3]), (9, 1, [3])],
)
def test_caller_that_was_called_away_counts_each_batch_once_and_has_its_history(
    world: World, max_records: int, calls: int, expected: list[int]
) -> None:
    pipeline = build_pipeline(build_table(ORDERS), build_table(COPY), max_records=max_records)
    fail_merges(world, 3)
    staged = stage(world.open_session(pipeline), plan(world.open_session(pipeline)))
    (queue,) = (batches for batches in group_by_table(staged) if batches[0].table == COPY)
    remaining_calls, checkpoint = iter(range(calls - 1, -1, -1)), MergeCheckpoint()

    def leave(call: str, moment: str) -> None:
        if call == "commits.publish" and moment == "after" and next(remaining_calls) == 0:
            raise Away

    with pytest.raises(Away):
        merge_queue(world.open_session(pipeline, leave), queue, checkpoint)
    kept = MergeCheckpoint.from_dict({**checkpoint.to_dict(), "job": "", "since": 0.0}, now_seconds=5.0)
    drained = merge_queue(world.open_session(pipeline), queue, kept)
    assert [(batch.batch, batch.outcome) for batch in drained.published] == [(n, "published") for n in expected]
    assert drained.total.batches == 3
    assert [batch for batch, _, _ in read_batches_of_history(world)] == [1, 2, 3]


def read_batches_of_history(world: World) -> list[tuple[int, int, int]]:
    """Number, staged and inserted records of each batch of `copy`."""
    rows = world.destination.read_history("lake.shop.tidegate_shop_batches", 100)
    return sorted((row["batch"], row["staged"], row["inserted"]) for row in rows if row["table"] == COPY)


def test_result_of_a_queue_is_its_total(world: World) -> None:
    fail_merges(world, 2)
    session = world.open_session(TWO)
    (queue,) = group_by_table(stage(session, plan(session)))
    total = merge_queue(session, queue).total
    assert (total.batches, total.staged, total.inserted, total.updated) == (2, 2, 1, 0)
    assert total.ranges.to_dict() == {"orders": {"0": [0, 2], "1": [0, 0]}}


def test_group_reports_the_failing_tables_position(world: World) -> None:
    flush_one(world, "x")
    fail_merges(world, 2)
    assert read_committed_offset(world) == 1


def test_clean_up_keeps_the_queue_of_the_failing_table(world: World) -> None:
    fail_merges(world, 3)
    assert world.destination.tables["lake.shop.orders_shop_tmp"].read_rows() == []
    assert len(world.destination.tables["lake.shop.copy_shop_tmp"].read_rows()) == 3


def test_full_queue_stops_the_pipeline_and_says_so(world: World) -> None:
    pipeline = build_pipeline(build_table(ORDERS), build_table(COPY, max_pending=2))
    engine = fail_merges(world, 2, pipeline)
    produce(world, "b", "later")
    stages = len(world.engine.stages)
    with pytest.raises(SomeTablesDelayed) as error_info:
        flush(world.open_session(pipeline, engine=engine))
    for words in ("Spark failed in merge", f"table={COPY}: its queue is full", "max_pending=2", "merge of batch=1"):
        assert words in str(error_info.value)
    assert len(world.engine.stages) == stages
    assert world.read_rows(ORDERS) == [{"id": "a", "name": "1"}]


def test_full_queue_that_is_taken_lets_the_next_run_read_on(world: World) -> None:
    pipeline = build_pipeline(build_table(ORDERS), build_table(COPY, max_pending=2))
    fail_merges(world, 2, pipeline)
    produce(world, "b", "later")
    flush(world.open_session(pipeline))
    assert world.read_rows(COPY) == [{"id": "a", "name": "1"}]
    flush(world.open_session(pipeline))
    assert world.read_rows(COPY) == world.read_rows(ORDERS) == [{"id": "a", "name": "1"}, {"id": "b", "name": "later"}]


def test_only_table_of_a_pipeline_finishes_what_is_staged_before_it_reads_on(world: World) -> None:
    pipeline = build_pipeline(build_table(COPY))
    produce(world, "a", "x")
    with pytest.raises(RetryLater):
        flush(world.open_session(pipeline, engine=FailsToMerge(world.engine, COPY)))
    produce(world, "b", "y")
    assert [batch.is_resumed for batch in plan(world.open_session(pipeline)).tables] == [True]


def test_empty_batches_in_the_middle_of_a_queue_travel_with_the_next_rows(world: World) -> None:
    flush_one(world, "x")
    engine = fail_merges(world, 1)
    for _ in range(2):
        abort_transaction(world)
        with pytest.raises(SomeTablesDelayed):
            flush(world.open_session(TWO, engine=engine))
    produce(world, "b", "y")
    before = len(world.destination.tables[COPY].snapshots)
    flush(world.open_session(TWO))
    assert world.read_rows(COPY) == world.read_rows(ORDERS)
    assert len(world.destination.tables[COPY].snapshots) == before + 1
    assert read_committed_offset(world) == world.broker.partitions["orders"][0].end
    rows = [
        row for row in world.destination.read_history("lake.shop.tidegate_shop_batches", 99) if row["table"] == COPY
    ]
    assert sorted((r["batch"], r["staged"], r["span"]) for r in rows) == [
        (1, 1, 1),
        (2, 1, 1),
        (3, 0, 2),
        (4, 0, 2),
        (5, 1, 1),
    ]


def flush_one(world: World, name: str, pipeline=TWO) -> None:
    produce(world, "a", name)
    flush(world.open_session(pipeline))


def test_empty_batches_never_pile_up_beyond_max_pending(world: World) -> None:
    pipeline = build_pipeline(build_table(COPY, max_pending=3), heartbeat=Heartbeat(interval_seconds=0))
    flush_one(world, "x", pipeline)
    for _ in range(7):
        abort_transaction(world)
        with suppress(NothingToDo):
            flush(world.open_session(pipeline))
        assert len(world.destination.list_staged("lake.shop.copy_shop_tmp", COPY)) < 3


def test_table_in_step_without_rows_shares_the_read_of_the_others(world: World) -> None:
    """`when` leaves nothing for one table; its next batch still starts where everyone's does."""
    world.engine.conditions["never"] = lambda row: False
    pipeline = build_pipeline(build_table(ORDERS), build_table(COPY, when="never"))
    for name in ("1", "2", "3"):
        flush_one(world, name, pipeline)
    assert [len(job.tables) for job in world.engine.stages] == [2, 2, 2]
    assert read_committed_offset(world) == 3


def test_batch_behind_an_unpublished_one_is_refused_by_a_table_without_a_position(world: World) -> None:
    """The queue was staged before the table existed; the table came, took the first batch, and was dropped by hand."""
    fail_merges(world, 2)
    session = world.open_session(TWO)
    (queue,) = group_by_table(stage(session, plan(session)))
    merge(session, queue[0])
    del world.destination.tables[COPY]
    with pytest.raises(PositionLost, match=r"table=lake.shop.copy .*was dropped|has no position"):
        merge(session, queue[1])
    flush(world.open_session(TWO))
    flush_rest(world)
    assert world.read_rows(COPY) == world.read_rows(ORDERS)


def test_queue_starts_at_the_position_and_has_no_hole(world: World) -> None:
    fail_merges(world, 3)
    intermediate = world.destination.tables["lake.shop.copy_shop_tmp"]
    second = next(s for s in intermediate.snapshots.values() if s.summary.get("tidegate.batch") == "2")
    del intermediate.snapshots[second.id]
    assert [batch for batch, _ in list_waiting_batches(world)] == [1]
    flush_rest(world)
    assert world.read_rows(COPY) == world.read_rows(ORDERS)


def test_status_shows_the_queue(world: World) -> None:
    fail_merges(world, 2)
    table = next(t for t in read_status(world.open_session(TWO))["tables"] if t["table"] == COPY)
    assert table["open_batches"] == [1, 2]


class StopsInStage(FailsToMerge):
    """Spark that stops in every stage job, too."""

    def run(self, job: Job) -> None:
        if isinstance(job, StageJob):
            raise RetryLater("Spark stopped in stage")
        super().run(job)


def test_stage_that_stops_behind_a_queue_is_a_passing_fault_and_no_lost_race(world: World) -> None:
    """The new batch starts where the queue ends, and the table's position is still where it begins."""
    produce(world, "a", "0")
    flush(world.open_session(TWO))
    fail_merges(world, 1)
    produce(world, "a", "2")
    with pytest.raises(RetryLater, match="Spark stopped in stage"):
        flush(world.open_session(TWO, engine=StopsInStage(world.engine, COPY)))
    assert list_waiting_batches(world) == [(2, (1, 2))]
    flush(world.open_session(TWO))
    assert world.read_rows(COPY) == world.read_rows(ORDERS) == [{"id": "a", "name": "2"}]


def test_batches_that_stand_for_one_keep_the_latest_time_of_each_partition() -> None:
    first, second, last = (
        StagedBatch(
            COPY, number, f"a{number}", number, Ranges({"orders": {0: (number, number + 1), 1: (0, 0)}}), Counts(1, 1),
            timestamps={"orders": times},
        )
        for number, times in enumerate(({0: 900, 1: 100}, {1: 700}, {0: 300, 1: 200}))
    )  # fmt: skip
    assert combine_batches((first, second, last)).timestamps == {"orders": {0: 900, 1: 700}}


@pytest.mark.parametrize(
    ("watermarks", "together"),
    [
        (("inside", "inside"), "inside"),
        (("outside", "joins"), "joins"),
        (("joins", "inside"), "joins"),
        (("outside", "inside"), "joins"),
        (("outside", "outside"), "outside"),
    ],
)
def test_batches_that_stand_for_one_begin_where_the_first_does_and_bring_the_table_inside_if_one_of_them_does(
    watermarks: tuple[str, str], together: str
) -> None:
    first, last = (
        StagedBatch(
            COPY, number, f"a{number}", number, Ranges({"orders": {0: (number, number + 1), 1: (0, 0)}}), Counts(1, 1),
            follows=f"before a{number}", watermark=watermark,
        )
        for number, watermark in enumerate(watermarks)
    )  # fmt: skip
    combined_batch = combine_batches((first, last))
    assert (combined_batch.follows, combined_batch.watermark, combined_batch.attempt) == ("before a0", together, "a1")


def test_batches_without_rows_belong_to_the_group_ahead_of_them_or_to_that_behind_them(world: World) -> None:
    engine = FailsToMerge(world.engine, COPY)
    for kind in "raar":
        abort_transaction(world) if kind == "a" else produce(world, "a", "x")
        with pytest.raises(SomeTablesDelayed):
            flush(world.open_session(TWO, engine=engine))
    abort_transaction(world)
    session = world.open_session(TWO)
    queue = group_by_table(stage(session, plan(session)))[1]
    assert [staged.batch for staged in take_group(queue, TWO.merge)] == [1, 2, 3, 4, 5]
    assert [staged.batch for staged in take_group(queue, TWO.merge, takes_one=True)] == [1]
    one_record = replace(TWO.merge, max_records=1)
    assert [staged.batch for staged in take_group(queue, one_record)] == [1, 2, 3]
    group = take_group(queue[1:], one_record)
    assert [staged.batch for staged in group] == [2, 3, 4, 5]
    combined_batch = combine_batches(group)
    assert combined_batch.parts == tuple((staged.batch, staged.attempt) for staged in group)
    assert (combined_batch.batch, combined_batch.counts.span, combined_batch.counts.staged) == (5, 7, 1)
    assert combined_batch.ranges.to_dict() == {"orders": {"0": [1, 8], "1": [0, 0]}}


def build_staged(number: int, records: int = 1, **more: Any) -> StagedBatch:
    ranges = Ranges({"orders": {0: (number, number + 1)}})
    known = {"shape": "s", "cluster_id": "c", "topic_ids": {"orders": "t"}, "table_uuid": "u", "bytes": 10}
    return StagedBatch(COPY, number, f"a{number}", number, ranges, Counts(1, records, records), **{**known, **more})


@pytest.mark.guard(
    "batches of two logs are not merged as one",
    file="plugins/tidegate/table/queue.py",
    text="(batch.shape, batch.cluster_id) == (last.shape, last.cluster_id)",
    off="True",
)
@pytest.mark.parametrize(
    "other",
    [
        {"shape": "s.file"},
        {"cluster_id": "another"},
        {"topic_ids": {"orders": "another"}},
        {"table_uuid": "another"},
        {"bytes": 81},
        {"records": 9},
    ],
)
def test_group_ends_ahead_of_a_batch_that_cannot_be_merged_with_it(other: dict[str, Any]) -> None:
    limits = replace(TWO.merge, max_records=10, max_bytes=100)
    queue = [build_staged(1), build_staged(2), build_staged(3, **other), build_staged(4, **{**other, "records": 0})]
    assert [batch.batch for batch in take_group(queue, limits)] == [1, 2]
    assert [batch.batch for batch in take_group(queue[2:], limits)] == [3, 4]
    assert [batch.batch for batch in take_group([build_staged(1, 0), *queue[2:]], limits)] == [1, 3, 4], "no rows yet"


def test_batches_that_were_staged_before_the_table_existed_join_those_behind_them() -> None:
    queue = [build_staged(1, table_uuid=None), build_staged(2, table_uuid=None), build_staged(3)]
    group = take_group(queue, TWO.merge)
    assert combine_batches(group).table_uuid == "u"
    assert [batch.batch for batch in group] == [1, 2, 3]


def test_batches_that_stand_for_one_add_up_what_the_merge_decides_by() -> None:
    counted = {"deletes": 2, "unsequenced_deletes": 1, "kept": 3, "keys_differ": True}
    queue = [build_staged(1, truncated_at=1, **counted), build_staged(2, truncated_at=2, **counted), build_staged(3)]
    one = combine_batches(queue)
    assert (one.deletes, one.unsequenced_deletes, one.kept, one.bytes, one.truncated_at) == (4, 2, 6, 30, 2)
    assert (one.keys_differ, one.counts.staged, one.label) == (False, 3, "batches=1-3")
    assert combine_batches(queue[:1]) == queue[0]
    only_rows = (build_staged(1, 0), build_staged(2, keys_differ=True), build_staged(3, 0))
    assert combine_batches(only_rows).keys_differ, "batches without rows have no key"


@pytest.mark.guard(
    "batches are merged as one only if the last one's snapshot holds the rows of all",
    file="plugins/tidegate/flush/merge_queue.py",
    text="    while has_rows(group[:-1]) and not session.staging.holds_rows(intermediate, group):\n",
    off="    while False:\n",
)
def test_attempt_that_wrote_over_a_waiting_batch_cuts_the_queue_behind_it(world: World) -> None:
    """What the snapshot of the third holds of the second is the rows of an attempt that never counted."""
    fail_merges(world, 2)
    intermediate = world.destination.tables["lake.shop.copy_shop_tmp"]
    rows = [{**row, "attempt": "zombie"} if row["batch_number"] == 2 else row for row in intermediate.read_rows()]
    world.destination.add_snapshot("lake.shop.copy_shop_tmp", "main", tuple(rows), {"tidegate.attempt": "zombie"})
    fail_merges(world, 1)
    flushed = flush(world.open_session(TWO))
    assert [(batch.batch, batch.batches) for batch in flushed.published] == [(2, 2), (3, 1)]
    assert world.read_rows(COPY) == [{"id": "a", "name": "0"}]


@pytest.mark.parametrize("ahead", [1, 2])
def test_group_that_another_run_has_published_in_part_goes_on_behind_that(world: World, ahead: int) -> None:
    appending = build_pipeline(build_table(ORDERS), build_table(COPY, mode="append"))
    fail_merges(world, 3, appending)
    session = world.open_session(appending)
    (queue,) = group_by_table(stage(session, plan(session)))

    def publish_part(call: str, moment: str) -> None:
        if (call, moment, pending) == ("commits.publish", "before", [1]):
            pending.clear()
            assert merge_queue(world.open_session(appending), queue[:ahead]).failure is None

    pending = [1]
    outcome = merge_queue(world.open_session(appending, publish_part), queue)
    assert [(batch.batch, batch.batches) for batch in outcome.published] == [(3, 3 - ahead)]
    assert [row["name"] for row in world.read_rows(COPY)] == ["0", "1", "2"]
    assert [batch for batch, _, _ in read_batches_of_history(world)] == [1, 2, 3]


def test_group_that_another_run_has_published_with_one_more_batch_changes_nothing(world: World) -> None:
    appending = build_pipeline(build_table(ORDERS), build_table(COPY, mode="append"))
    fail_merges(world, 3, appending)
    session = world.open_session(appending)
    (queue,) = group_by_table(stage(session, plan(session)))

    def publish_all(call: str, moment: str) -> None:
        if (call, moment, pending) == ("commits.publish", "before", [1]):
            pending.clear()
            assert merge_queue(world.open_session(appending), queue).failure is None

    pending = [1]
    outcome = merge_queue(world.open_session(appending, publish_all), queue[:2])
    assert isinstance(outcome.failure, PublishedElsewhere)
    assert [row["name"] for row in world.read_rows(COPY)] == ["0", "1", "2"]


def flush_rest(world: World, pipeline=TWO) -> None:
    for _ in range(6):
        with suppress(TidegateError):
            flush(world.open_session(pipeline))


def build_queued_world() -> World:
    """`copy` has three batches waiting, one of them without rows, and there are new records."""
    world = World()
    world.broker.create("orders")
    flush_one(world, "x")
    engine = fail_merges(world, 1)
    abort_transaction(world)
    with suppress(SomeTablesDelayed):
        flush(world.open_session(TWO, engine=engine))
    fail_merges(world, 1)
    produce(world, "b", "new")
    return world


@pytest.mark.parametrize("still_fails", [False, True])
def test_killed_at_any_call_while_a_queue_drains_or_grows_the_next_runs_give_the_same_tables(still_fails: bool) -> None:
    for number in choose_calls(500, 2 if still_fails else 1):
        world = build_queued_world()
        crash = CrashAt(number)
        engine = FailsToMerge(world.engine, COPY)
        engine.is_broken = still_fails
        with suppress(Crash, SomeTablesDelayed):
            flush(world.open_session(TWO, crash, engine=engine))
        if crash.calls < number:
            break
        flush_rest(world)
        assert (
            world.read_rows(COPY) == world.read_rows(ORDERS) == [{"id": "a", "name": "0"}, {"id": "b", "name": "new"}]
        ), crash.at
        assert read_committed_offset(world) == world.broker.partitions["orders"][0].end, crash.at
    assert number > 60


def test_two_runners_that_drain_one_queue_at_any_interleaving_publish_each_batch_once() -> None:
    appending = build_pipeline(build_table(ORDERS), build_table(COPY, mode="append"))
    for number in choose_calls(500):
        world = World()
        world.broker.create("orders")
        fail_merges(world, 3, appending)
        pause = PauseAt(number, lambda world=world: flush_rest(world, appending))
        with suppress(TidegateError):
            flush(world.open_session(appending, pause))
        flush_rest(world, appending)
        assert [row["name"] for row in world.read_rows(COPY)] == ["0", "1", "2"], f"paused at call {number}"
        if pause.calls < number:
            break
    assert number > 40
