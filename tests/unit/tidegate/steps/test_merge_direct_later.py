"""merge_direct, later: what changes between plan, merge and its retry, and what many batches leave behind."""

from dataclasses import replace
from typing import Any

import pytest
from fakes import FailsToMerge, World, build_pipeline, build_table
from fakes.orders import INTERMEDIATE, NAME, make_orders, read_orders, send_orders
from tidegate.errors import BadRecord, PositionLost, PublishedElsewhere, RetryLater, TidegateError
from tidegate.merge.write_mode import APPEND, MERGE, choose_direct_write
from tidegate.model.batch import StagedBatch
from tidegate.reprocess.rebase import propose_moves, rebase_positions
from tidegate.schema.column import Column
from tidegate.spec.pipeline import Pipeline
from tidegate.steps.flush import flush
from tidegate.steps.merge_queue import merge_queue
from tidegate.steps.plan import plan
from tidegate.steps.stage import stage

PIPELINE = build_pipeline(direct=True)
BOTH = pytest.mark.parametrize("direct", [False, True], ids=["staged", "direct"])


world = pytest.fixture(make_orders)


def stage_next(world: World, pipeline: Pipeline = PIPELINE) -> StagedBatch:
    ports = world.build_ports(pipeline)
    (batch,) = stage(ports, plan(ports))
    return batch


def publish(world: World, batch: StagedBatch, pipeline: Pipeline = PIPELINE, **options: Any) -> None:
    _ = merge_queue(world.build_ports(pipeline, **options), [batch]).total


@BOTH
def test_table_that_is_replaced_during_the_merge_gets_no_middle_of_the_log(world: World, direct: bool) -> None:
    pipeline = build_pipeline(direct=direct)
    flush(world.build_ports(pipeline))
    send_orders(world, ("c", "odd"))
    batch, calls = stage_next(world, pipeline), list[str]()
    world.engine.unusual = lambda _: True
    name = "run_direct" if direct else "run"
    run = getattr(world.engine, name)

    def replace_table(job: Any) -> Any:
        outcome = run(job)
        if not calls:
            calls.append(name)
            world.destination.replace(NAME)
        return outcome

    setattr(world.engine, name, replace_table)
    with pytest.raises(TidegateError):
        publish(world, batch, pipeline)
    assert (calls, read_orders(world)) == ([name], {})


def test_of_two_runners_that_begin_a_table_one_publishes(world: World) -> None:
    calls: list[str] = []

    def meet(call: str, call_moment: str) -> None:
        if (call, call_moment) == ("commits.seed", "before") and not calls:
            calls.append(call)
            flush(world.build_ports(PIPELINE))

    batch = stage_next(world)
    with pytest.raises(PublishedElsewhere):
        _ = merge_queue(world.build_ports(PIPELINE, meet), [batch]).total
    assert calls == ["commits.seed"]
    assert read_orders(world) == {"a": "2", "b": "1"}
    assert set(world.destination.tables[NAME].refs) == {"main", "tidegate_shop"}


@BOTH
def test_batch_of_before_a_rebase_is_not_published_after_it(world: World, direct: bool) -> None:
    pipeline = build_pipeline(direct=direct)
    batch = stage_next(world, pipeline)
    with pytest.raises(RetryLater):
        publish(world, batch, pipeline, engine=FailsToMerge(world.engine, NAME))
    world.broker.delete("orders")
    world.broker.create("orders", 2)
    send_orders(world, *((key, "new") for key in "abcde"))
    rebase_positions(world.build_ports(pipeline), propose_moves(world.build_ports(pipeline), "earliest"))
    state = world.destination.read_state(NAME, "shop")
    with pytest.raises(TidegateError):
        publish(world, batch, pipeline)
    assert world.destination.read_state(NAME, "shop") == state
    assert read_orders(world) == {}
    flush(world.build_ports(pipeline))
    assert read_orders(world) == dict.fromkeys("abcde", "new")


def test_topic_that_is_created_again_before_the_merge_is_not_taken_for_the_old_one(world: World) -> None:
    flush(world.build_ports(PIPELINE))
    send_orders(world, ("c", "1"))
    batch = stage_next(world)
    world.broker.delete("orders")
    world.broker.create("orders", 2)
    send_orders(world, *((key, "new") for key in "abcdefgh"))
    with pytest.raises(PositionLost, match="a topic was created again"):
        publish(world, batch)
    assert read_orders(world) == {"a": "2", "b": "1"}
    assert set(world.destination.tables[NAME].refs) == {"main", "tidegate_shop"}


def test_topic_that_is_created_again_while_the_batch_is_staged_after_all_is_refused(world: World) -> None:
    flush(world.build_ports(PIPELINE))
    send_orders(world, ("c", "odd"))
    batch, calls = stage_next(world), list[str]()
    world.engine.unusual = lambda _: True

    def create_again(call: str, moment: str) -> None:
        if (call, moment) == ("engine.run", "before") and not calls:
            calls.append(call)
            world.broker.delete("orders")
            world.broker.create("orders", 2)
            send_orders(world, *((key, "new") for key in "abcdefgh"))

    with pytest.raises(PositionLost, match="a topic was created again"):
        _ = merge_queue(world.build_ports(PIPELINE, create_again), [batch]).total
    assert calls == ["engine.run"]
    assert read_orders(world) == {"a": "2", "b": "1"}
    assert set(world.destination.tables[NAME].refs) == {"main", "tidegate_shop"}


@BOTH
def test_audit_that_was_added_before_the_retry_is_asked(world: World, direct: bool) -> None:
    pipeline = build_pipeline(direct=direct)
    batch = stage_next(world, pipeline)
    audit = "name <> '2'"
    world.engine.conditions[audit] = lambda row: row["name"] != "2"
    changed = replace(pipeline, tables=(replace(pipeline.tables[0], audits=(audit,)),))
    with pytest.raises(TidegateError, match="name <> '2'"):
        publish(world, batch, changed)
    assert read_orders(world) == {}


def test_order_that_was_added_before_the_retry_counts(world: World) -> None:
    send_orders(world, ("a", "0"))
    batch = stage_next(world)
    changed = replace(PIPELINE, tables=(replace(PIPELINE.tables[0], sequence_by=("name",)),))
    publish(world, batch, changed)
    assert (read_orders(world), world.engine.direct) == ({"a": "2", "b": "1"}, [])


@BOTH
def test_columns_come_from_the_destination_where_the_file_names_none(world: World, direct: bool) -> None:
    table = build_table()
    table = replace(table, value=replace(table.value, columns=None))
    world.destination.create(NAME, (Column("id", "STRING"), Column("name", "STRING")))
    flush(world.build_ports(build_pipeline(table, direct=direct)))
    assert read_orders(world) == {"a": "2", "b": "1"}
    assert bool(world.engine.direct) == direct


def test_bad_record_is_read_directly_once_however_often_it_is_tried(world: World) -> None:
    flush(world.build_ports(PIPELINE))
    send_orders(world, ("c", "1"))
    world.broker.produce("orders", {"id": "d"}, "not JSON", 0)
    snapshots, jobs = len(world.destination.tables[NAME].snapshots), len(world.engine.direct)
    for _ in range(5):
        with pytest.raises(BadRecord):
            flush(world.build_ports(PIPELINE))
    assert len(world.engine.direct) == jobs + 1
    assert len(world.destination.tables[NAME].snapshots) <= snapshots + 1
    assert world.destination.tables[INTERMEDIATE].properties["tidegate.not-direct"] == "2"


@BOTH
def test_compaction_becomes_due_once_in_ten_batches(world: World, direct: bool) -> None:
    due = []
    for number in range(25):
        send_orders(world, ("c", str(number)))
        due += [
            report.needs_compaction
            for report in flush(world.build_ports(build_pipeline(direct=direct))).clean_up_reports
        ]
    assert [number for number, is_due in enumerate(due, 1) if is_due] == [10, 20]


@BOTH
def test_writer_that_never_rests_costs_an_appending_batch_no_second_read(world: World, direct: bool) -> None:
    pipeline = build_pipeline(build_table(mode="append"), direct=direct)
    flush(world.build_ports(pipeline))
    send_orders(world, ("c", "1"))
    batch, count = stage_next(world, pipeline), list[int]()
    name = "run_direct" if direct else "run"
    run = getattr(world.engine, name)

    def write_beside(job: Any) -> Any:
        count.append(1)
        world.destination.append_foreign_rows(NAME, {"id": "z", "name": str(len(count))})
        return run(job)

    setattr(world.engine, name, write_beside)
    publish(world, batch, pipeline)
    assert (len(count), read_orders(world)) == (1, {"a": "2", "b": "1", "c": "1", "z": "1"})
    table = world.destination.tables[NAME]
    summary = table.snapshots[table.refs["main"]].summary
    assert summary["tidegate.shop.timestamps"] == table.properties["tidegate.shop.timestamps"]


def test_counts_that_are_lost_are_asked_for_again_and_the_next_batches_stay_direct(world: World) -> None:
    run, lost = world.engine.run_direct, list[int]()

    def lose_once(job: Any) -> Any:
        outcome = run(job)
        lost.append(1)
        return type(outcome)(None) if len(lost) == 1 else outcome

    world.engine.run_direct = lose_once  # type: ignore[method-assign]
    for name in ("1", "2"):
        send_orders(world, ("c", name))
        flush(world.build_ports(PIPELINE))
    assert (read_orders(world), len(world.engine.direct), world.engine.stages) == (
        {"a": "2", "b": "1", "c": "2"},
        3,
        [],
    )
    assert set(world.destination.tables[NAME].refs) == {"main", "tidegate_shop"}


@pytest.mark.parametrize(("row_count", "way"), [(0, APPEND), (1, MERGE), (None, MERGE)])
def test_table_is_taken_for_empty_by_its_files_and_not_by_what_a_snapshot_tells(
    world: World, row_count: int | None, way: str
) -> None:
    world.destination.create(NAME, (Column("id", "STRING"), Column("name", "STRING")))
    ports = world.build_ports(PIPELINE)
    state = world.destination.read_state(NAME, "shop")
    assert state is not None
    assert state.total_records == 0
    world.destination.count_rows = lambda _: row_count  # type: ignore[method-assign]
    assert choose_direct_write(ports, PIPELINE.tables[0], state).written_as == way
