"""A table that cannot go on holds up no other: it is told in every run, and takes its records when it is fixed."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest
from examples import choose_calls
from fakes import BAD, Crash, CrashAt, FailsToMerge, PauseAt, World, build_pipeline, build_table
from fakes.draining import drain
from tidegate.errors import (
    BadRecord,
    ConfigurationError,
    GiveUp,
    NothingToDo,
    PositionLost,
    RetryLater,
    SomeTablesDelayed,
    SomeTablesFailed,
    TidegateError,
    TopicsUnavailable,
)
from tidegate.flush.flush import flush, stage_new_batches
from tidegate.flush.heartbeat import commit_offsets, heartbeat
from tidegate.flush.plan import plan
from tidegate.monitoring.status import read_status
from tidegate.ports.session import Session
from tidegate.reprocess.rebase import propose_rebase
from tidegate.spec.pipeline import Heartbeat, Pipeline
from tidegate.spec.source import Start

ORDERS, COPY = "lake.shop.orders", "lake.shop.copy"
MISSING = "topic=orders does not exist on brokers=memory: create it, or correct source.topics"
TWO = build_pipeline(build_table(ORDERS), build_table(COPY))
OTHER = "payments"
APART = build_pipeline(build_table(ORDERS), build_table(COPY, topics=(OTHER,)))


def build_world() -> World:
    """Two tables that hold two batches."""
    world = World()
    world.broker.create("orders")
    world.broker.create(OTHER)
    for name in ("1", "2"):
        produce(world, "a", name)
        flush(world.open_session(TWO))
    return world


@pytest.fixture
def world() -> World:
    return build_world()


def produce(world: World, key: str, name: str | None, topic: str = "orders") -> None:
    world.broker.produce(topic, {"id": key}, None if name is None else {"id": key, "name": name})


def roll_back(world: World, table: str = COPY) -> int:
    """Take the last batch out of a table; the snapshot that held it."""
    ancestors = world.destination.tables[table].ancestors()
    world.destination.rollback(table, ancestors[1].id)
    return ancestors[0].id


def flush_and_fail(world: World, pipeline: Pipeline = TWO, **options: object) -> str:
    with pytest.raises(SomeTablesFailed) as failed:
        flush(world.open_session(pipeline, **options))
    return str(failed.value)


def read_committed_offset(world: World, topic: str = "orders") -> int | None:
    return world.broker.groups.get("tidegate-shop", {}).get(topic, {}).get(0)


def read_problem(world: World, table: str = COPY, pipeline: Pipeline = TWO, **options: object) -> str | None:
    tables = read_status(world.open_session(pipeline, **options))["tables"]
    return next(table_row["problem"] for table_row in tables if table_row["table"] == table)


def test_others_go_on_while_a_table_that_was_rolled_back_is_told_in_every_run(world: World) -> None:
    roll_back(world)
    for name in ("3", "4"):
        produce(world, "a", name)
        message = flush_and_fail(world)
        for words in (f"table={COPY} was rolled back", "on_rollback: rewind", f"tables={COPY}", "pipeline=shop"):
            assert words in message
        assert world.read_rows(ORDERS) == [{"id": "a", "name": name}]
    assert world.read_rows(COPY) == [{"id": "a", "name": "1"}]


def test_plan_tells_the_refused_table_with_the_kind_of_its_error(world: World) -> None:
    roll_back(world)
    produce(world, "a", "3")
    planned = plan(world.open_session(TWO))
    assert [batch.table for batch in planned.tables] == [ORDERS]
    ((table, kind, message),) = [(r.table, r.kind, r.message) for r in planned.refusals]
    assert (table, kind) == (COPY, "PositionLost")
    assert message == read_problem(world)


def test_error_of_a_run_carries_what_was_published_all_the_same(world: World) -> None:
    roll_back(world)
    produce(world, "a", "3")
    with pytest.raises(SomeTablesFailed) as failed:
        flush(world.open_session(TWO))
    assert [batch.table for batch in failed.value.published] == [ORDERS]


def test_run_in_which_the_others_have_no_work_is_told_too_and_keeps_the_offsets(world: World) -> None:
    roll_back(world)
    world.broker.groups.clear()
    assert "was rolled back" in flush_and_fail(world)
    assert read_committed_offset(world) == 2


def test_group_stays_at_what_was_recorded_for_the_refused_table(world: World) -> None:
    roll_back(world)
    produce(world, "a", "3")
    flush_and_fail(world)
    assert read_committed_offset(world) == 2
    assert (
        commit_offsets(world.open_session(TWO))
        == heartbeat(world.open_session(TWO)).committed
        == {"orders": {0: 2, 1: 0}}
    )


@pytest.mark.parametrize("answer", ["forward", "rewind", "keep", "rebase"])
def test_table_that_is_fixed_catches_up_alone_and_then_shares_the_read_again(world: World, answer: str) -> None:
    before = roll_back(world)
    for key in ("b", "c"):
        produce(world, key, "x")
        flush_and_fail(world)
    pipeline = TWO if answer in ("forward", "rebase") else replace(TWO, on_rollback=answer)
    if answer == "forward":
        world.destination.rollback(COPY, before)
    if answer == "rebase":
        propose_rebase(world.open_session(TWO), "earliest").perform("ann")
    flush(world.open_session(pipeline))
    kept_rows = [{"id": "a", "name": "1"}, *world.read_rows(ORDERS)[1:]]
    assert world.read_rows(COPY) == (kept_rows if answer == "keep" else world.read_rows(ORDERS))
    assert read_committed_offset(world) == 4
    produce(world, "d", "x")
    flush(world.open_session(pipeline))
    assert len(world.engine.stages[-1].tables) == 2
    assert read_committed_offset(world) == 5


def remove_old_records(world: World) -> None:
    world.broker.retain_from(OTHER, 3)


def recreate_topic(world: World) -> None:
    world.broker.create(OTHER)


def delete_topic(world: World) -> None:
    world.broker.delete(OTHER)


def add_partition(world: World) -> None:
    world.broker.grow(OTHER, 3)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (remove_old_records, "2 offsets are gone"),
        (recreate_topic, "deleted and created again"),
        (delete_topic, f"topic={OTHER} does not exist"),
        (add_partition, "new partition=2"),
    ],
)
def test_damage_to_one_topic_stops_the_tables_that_read_it_alone(damage: Callable[[World], None], message: str) -> None:
    world = World()
    world.broker.create("orders")
    world.broker.create(OTHER)
    produce(world, "a", "1")
    produce(world, "a", "1", OTHER)
    flush(world.open_session(APART))
    for _ in range(3):
        produce(world, "b", "2", OTHER)
    damage(world)
    produce(world, "b", "2")
    assert message in flush_and_fail(world, APART)
    assert world.read_rows(ORDERS) == [{"id": "a", "name": "1"}, {"id": "b", "name": "2"}]
    assert world.read_rows(COPY) == [{"id": "a", "name": "1"}]
    assert message in str(read_problem(world, COPY, APART))
    assert read_problem(world, ORDERS, APART) is None
    assert read_committed_offset(world) == 2
    if damage is not delete_topic:
        reached = {0: 0 if damage is recreate_topic else 1, 1: 0}  # of the new topic nothing is published
        assert world.broker.groups["tidegate-shop"].get(OTHER, reached) == reached
        propose_rebase(world.open_session(APART), "earliest").perform("ann")
        drain(world, APART)
        assert read_committed_offset(world, OTHER) == world.broker.partitions[OTHER][0].end


def test_topic_that_is_gone_does_not_stop_the_heartbeat_of_the_others() -> None:
    world = World()
    for topic in ("orders", OTHER):
        world.broker.create(topic)
        produce(world, "a", "1", topic)
    drain(world, APART)
    world.broker.delete(OTHER)
    assert heartbeat(world.open_session(APART)).committed == {"orders": {0: 1, 1: 0}}


class NoSchema:
    """A registry that does not know the schemas of one table while it is `missing`."""

    error: type[TidegateError] = ConfigurationError

    def __init__(self) -> None:
        self.missing = COPY

    def describe_table(self, table):
        if table.name == self.missing:
            raise self.error(f"table={table.name}: subject={OTHER}-value has no version; register a schema")
        return table

    def forget(self):
        pass


def replace_schemas(world: World, schemas: NoSchema, pipeline: Pipeline):
    return replace(world.open_session(pipeline), schemas=schemas)


@pytest.mark.parametrize("start", ["earliest", "latest", "group"])
def test_table_without_a_schema_never_begins_and_loses_nothing_when_it_has_one(start: str) -> None:
    """A start that the group tells must still be there when the table begins at last."""
    world, schemas = World(), NoSchema()
    world.broker.create("orders")
    produce(world, "old", "x")
    pipeline = build_pipeline(build_table(ORDERS), build_table(COPY), source={"start": Start(start)}, max_records=1)
    with suppress(NothingToDo, SomeTablesFailed):
        flush(replace_schemas(world, schemas, pipeline))
    for key in ("a", "b"):
        produce(world, key, "x")
        with pytest.raises(SomeTablesFailed, match="has no version"):
            flush(replace_schemas(world, schemas, pipeline))
    session = replace_schemas(world, schemas, pipeline)
    assert "has no version" in next(t["problem"] for t in read_status(session)["tables"] if t["table"] == COPY)
    assert world.read_rows(COPY) == []
    schemas.missing = ""
    drain(world, pipeline)
    expected_ids = ["a", "b"] if start == "latest" else ["a", "b", "old"]
    assert (
        [row["id"] for row in world.read_rows(COPY)] == [row["id"] for row in world.read_rows(ORDERS)] == expected_ids
    )
    assert read_committed_offset(world) == 3


class RegistryAway(NoSchema):
    """A registry that does not answer for one table."""

    error = RetryLater


def test_table_whose_registry_does_not_answer_holds_up_no_other(world: World) -> None:
    produce(world, "b", "x")
    with pytest.raises(SomeTablesDelayed, match=f"tables={COPY} cannot go on"):
        flush(replace_schemas(world, RegistryAway(), TWO))
    assert "b" in [row["id"] for row in world.read_rows(ORDERS)]
    assert "b" not in [row["id"] for row in world.read_rows(COPY)]
    drain(world, TWO)
    assert world.read_rows(COPY) == world.read_rows(ORDERS)


def test_staged_batch_whose_schema_is_gone_holds_the_group_where_it_starts(world: World) -> None:
    schemas = NoSchema()
    schemas.missing = ""
    pipeline = build_pipeline(build_table(ORDERS), build_table(COPY, columns=TWO.tables[0].value.columns), name="new")
    with pytest.raises(SomeTablesDelayed):
        flush(replace(world.open_session(pipeline, engine=FailsToMerge(world.engine, COPY)), schemas=schemas))
    schemas.missing = COPY
    produce(world, "b", "x")
    with pytest.raises(SomeTablesFailed, match="has no version"):
        flush(replace_schemas(world, schemas, pipeline))
    assert world.broker.groups["tidegate-new"] == {"orders": {0: 0, 1: 0}}
    schemas.missing = ""
    drain(world, pipeline)
    assert world.read_rows(COPY) == world.read_rows(ORDERS)
    assert world.broker.groups["tidegate-new"] == {"orders": {0: 3, 1: 0}}


def test_table_added_later_stays_outside_while_all_that_are_inside_are_refused(world: World) -> None:
    late = "lake.shop.late"
    three = build_pipeline(build_table(ORDERS), build_table(COPY), build_table(late), max_records=1)
    roll_back(world, ORDERS)
    roll_back(world, COPY)
    assert f"table={ORDERS}" in flush_and_fail(world, three)
    assert world.read_rows(late) == [{"id": "a", "name": "1"}]
    assert read_committed_offset(world) == 2


def test_all_tables_refused_raise_the_reason_of_each_once(world: World) -> None:
    for table in (ORDERS, COPY):
        roll_back(world, table)
    for run in (flush, stage_new_batches):
        with pytest.raises(PositionLost) as error_info:
            run(world.open_session(TWO))
        lines = str(error_info.value).splitlines()
        assert [line.partition(" was rolled back:")[0] for line in lines] == [f"table={ORDERS}", f"table={COPY}"]
    world.broker.delete("orders")  # one reason for both
    with pytest.raises(PositionLost) as error_info:
        flush(world.open_session(replace(TWO, on_rollback="keep")))
    assert str(error_info.value).splitlines() == [MISSING]


def test_all_tables_refused_are_tried_again_where_one_of_the_reasons_may_pass(world: World) -> None:
    roll_back(world, ORDERS)
    world.broker.leaderless_topics.add(OTHER)
    with pytest.raises(TopicsUnavailable) as error_info:
        flush(world.open_session(APART))
    rolled_back, unavailable = str(error_info.value).splitlines()
    assert f"table={ORDERS} was rolled back" in rolled_back
    assert f"topics=['{OTHER}']" in unavailable


@pytest.mark.parametrize("run", [flush, stage_new_batches])
def test_table_that_the_plan_refuses_is_told_beside_one_that_cannot_be_staged(
    world: World, run: Callable[[Session], object]
) -> None:
    roll_back(world, ORDERS)
    world.broker.produce("orders", {"id": "b"}, BAD)
    for _ in range(2):
        with pytest.raises(BadRecord) as error_info:
            run(world.open_session(TWO))
        unreadable, rolled_back = str(error_info.value).splitlines()
        assert f"table={COPY} batch=3: 1 record cannot be decoded" in unreadable
        assert f"table={ORDERS} was rolled back" in rolled_back


def test_only_table_of_a_pipeline_raises_the_reason_itself(world: World) -> None:
    roll_back(world, ORDERS)
    with pytest.raises(PositionLost, match="was rolled back"):
        plan(world.open_session(build_pipeline(build_table(ORDERS))))


def test_brokers_of_another_cluster_refuse_every_table(world: World) -> None:
    world.broker.cluster_id = "elsewhere"
    with pytest.raises(PositionLost, match="another cluster"):
        flush(world.open_session(TWO))


def test_queue_of_a_refused_table_neither_grows_nor_holds_up_the_others(world: World) -> None:
    roll_back(world)
    pipeline = build_pipeline(
        build_table(ORDERS), build_table(COPY, max_pending=1), heartbeat=Heartbeat(interval_seconds=0)
    )
    for name in "345":
        produce(world, "a", name)
        flush_and_fail(world, pipeline)
    assert world.read_rows(ORDERS) == [{"id": "a", "name": "5"}]
    assert world.destination.list_staged("lake.shop.copy_shop_tmp", COPY) == []


def build_damaged_world() -> World:
    """`copy` was rolled back, and there are new records."""
    world = build_world()
    roll_back(world)
    produce(world, "b", "new")
    return world


def undo_rollback(world: World) -> None:
    world.destination.rollback(
        COPY, max(s for s in world.destination.tables[COPY].snapshots if _is_published(world, s))
    )
    drain(world, TWO)


def _is_published(world: World, snapshot: int) -> bool:
    table = world.destination.tables[COPY]
    return any(ancestor.id == snapshot for ancestor in table.ancestors("tidegate_shop"))


def test_killed_at_any_call_of_a_run_with_a_refused_table_nothing_is_lost_and_nothing_touched() -> None:
    for number in choose_calls(500):
        world = build_damaged_world()
        crash = CrashAt(number)
        with suppress(Crash, SomeTablesFailed):
            flush(world.open_session(TWO, crash))
        assert world.read_rows(COPY) == [{"id": "a", "name": "1"}], crash.at
        assert (read_committed_offset(world) or 0) <= 2, crash.at
        with suppress(GiveUp):
            flush(world.open_session(TWO))
        assert world.read_rows(ORDERS) == [{"id": "a", "name": "2"}, {"id": "b", "name": "new"}], crash.at
        undo_rollback(world)
        assert world.read_rows(COPY) == world.read_rows(ORDERS), crash.at
        assert read_committed_offset(world) == 3, crash.at
        if crash.calls < number:
            break
    assert number > 40


def test_table_rolled_back_or_fixed_between_any_two_calls_of_a_run_ends_equal() -> None:
    for begins in ("sound", "damaged"):
        for number in choose_calls(500, 2 if begins == "damaged" else 1):
            world = build_damaged_world() if begins == "damaged" else build_world()
            produce(world, "c", "new")

            pause = PauseAt(number, partial(switch_rollback, world))
            with suppress(TidegateError):
                flush(world.open_session(TWO, pause))
            undo_rollback(world)
            assert world.read_rows(COPY) == world.read_rows(ORDERS), f"{begins}, at call {number}"
            assert read_committed_offset(world) == world.broker.partitions["orders"][0].end, (
                f"{begins}, at call {number}"
            )
            if pause.calls < number:
                break
        assert number > 40


def switch_rollback(world: World) -> None:
    state = world.destination.read_state(COPY, "shop")
    if state is not None and state.is_rolled_back:
        world.destination.rollback(COPY, world.destination.tables[COPY].ancestors("tidegate_shop")[0].id)
    else:
        roll_back(world)
