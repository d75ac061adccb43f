"""A table added later catches up as a group of its own, outside the watermark until it has."""

from dataclasses import replace

import pytest
from examples import choose_calls
from fakes import Crash, CrashAt, FailsToMerge, World, build_pipeline, build_table
from fakes.draining import drain
from tidegate.errors import NothingToDo, RetryLater, SomeTablesDelayed
from tidegate.flush.flush import flush
from tidegate.flush.plan import plan
from tidegate.jobs.statements_job import StatementsJob
from tidegate.ports.session import Job
from tidegate.reprocess.rebase import propose_rebase
from tidegate.schema.data_types import Column
from tidegate.spec.source import Start

ORDERS, LATE = "lake.shop.orders", "lake.shop.late"


def build_named_pipeline(*names: str, cap: int = 3, **source):
    return build_pipeline(*(build_table(name) for name in names), max_records=cap, source=source)


ONE, BOTH = build_named_pipeline(ORDERS), build_named_pipeline(ORDERS, LATE)


@pytest.fixture
def world() -> World:
    """Ten records are published into the first table."""
    return build_published_world()


def build_published_world() -> World:
    world = World()
    world.broker.create("orders")
    for n in range(10):
        produce(world, f"k{n}")
    drain(world, ONE)
    assert read_committed_offset(world) == 10
    return world


def produce(world: World, key: str) -> None:
    world.broker.produce("orders", {"id": key}, {"id": key, "name": "x"})


def read_committed_offset(world: World) -> int | None:
    return world.broker.groups.get("tidegate-shop", {}).get("orders", {}).get(0)


def is_outside(world: World) -> bool:
    state = world.destination.read_state(LATE, "shop")
    assert state is not None
    assert state.position is not None
    return state.position.outside


def test_table_added_later_leaves_the_groups_offsets_where_they_are(world: World) -> None:
    positions = []
    for _ in range(3):
        flush(world.open_session(BOTH))
        positions.append((read_committed_offset(world), is_outside(world), len(world.read_rows(LATE))))
    assert positions == [(10, True, 3), (10, True, 6), (10, True, 9)]
    flush(world.open_session(BOTH))
    assert (read_committed_offset(world), is_outside(world)) == (10, False)
    assert world.read_rows(LATE) == world.read_rows(ORDERS)


def test_others_go_on_while_a_late_table_catches_up(world: World) -> None:
    for n in range(3):
        produce(world, f"new{n}")
        flush(world.open_session(BOTH))
        assert read_committed_offset(world) == 11 + n
    drain(world, BOTH)
    assert (world.read_rows(LATE), read_committed_offset(world)) == (world.read_rows(ORDERS), 13)


def test_table_that_has_caught_up_shares_the_read_of_the_others(world: World) -> None:
    drain(world, BOTH)
    produce(world, "next")
    flush(world.open_session(BOTH))
    assert len(world.engine.stages[-1].tables) == 2


def test_table_that_has_caught_up_holds_the_group_when_it_fails(world: World) -> None:
    drain(world, BOTH)
    produce(world, "next")
    with pytest.raises(SomeTablesDelayed):
        flush(world.open_session(BOTH, engine=FailsToMerge(world.engine, LATE)))
    assert read_committed_offset(world) == 10


def test_late_table_that_fails_does_not_hold_the_group(world: World) -> None:
    for n in range(2):
        produce(world, f"new{n}")
        with pytest.raises(SomeTablesDelayed):
            flush(world.open_session(BOTH, engine=FailsToMerge(world.engine, LATE)))
        assert read_committed_offset(world) == 11 + n
    drain(world, BOTH)
    assert (world.read_rows(LATE), read_committed_offset(world)) == (world.read_rows(ORDERS), 12)


def test_late_table_that_is_moved_stays_outside_until_it_has_caught_up(world: World) -> None:
    flush(world.open_session(BOTH))
    world.broker.retain_from("orders", 5)
    session = world.open_session(BOTH)
    propose_rebase(session, '{"orders": {"0": 5}}', LATE).perform("ann")
    assert is_outside(world)
    flush(session)
    assert (read_committed_offset(world), is_outside(world)) == (10, True)
    flush(session)
    assert (read_committed_offset(world), is_outside(world)) == (10, False)
    assert [row["id"] for row in world.read_rows(LATE)] == ["k0", "k1", "k2", *(f"k{n}" for n in range(5, 10))]


def test_late_table_starts_where_start_says(world: World) -> None:
    later = build_named_pipeline(ORDERS, LATE, start=Start("offsets", offsets={"orders": {0: 8}}))
    drain(world, later)
    assert [row["id"] for row in world.read_rows(LATE)] == ["k8", "k9"]


def test_late_table_that_starts_at_the_end_joins_with_its_first_batch(world: World) -> None:
    later = build_named_pipeline(ORDERS, LATE, start=Start("latest"))
    with pytest.raises(NothingToDo):
        flush(world.open_session(later))
    world.broker.produce("orders", {"id": "new"}, {"id": "new", "name": "x"})
    named_pipeline = build_named_pipeline(ORDERS, LATE, start=Start("offsets", offsets={"orders": {0: 10}}))
    flush(world.open_session(named_pipeline))
    assert (is_outside(world), read_committed_offset(world)) == (False, 11)


def test_late_table_with_a_topic_of_its_own_starts_at_its_end_where_start_is_latest(world: World) -> None:
    """The group has offsets of the other topic already; those of this one have yet to be committed."""
    world.broker.create("Old.Topic", 2)
    tables = (build_table(ORDERS, topics=("orders",)), build_table(LATE, topics=("Old.Topic",)))
    later = build_pipeline(*tables, source={"topics": ("orders", "Old.Topic"), "start": Start("latest")})
    for key in ("old0", "old1", "new0", "new1"):
        world.broker.produce("Old.Topic", {"id": key}, {"id": key, "name": "x"}, int(key[-1]))
        if key == "old1":
            drain(world, later)
            assert world.broker.groups["tidegate-shop"]["Old.Topic"] == {0: 1, 1: 1}
    drain(world, later)
    assert [row["id"] for row in world.read_rows(LATE)] == ["new0", "new1"]
    assert world.broker.groups["tidegate-shop"]["Old.Topic"] == {0: 2, 1: 2}


class RefusesTable:
    """Spark that makes nothing of one table, so that it gets no position."""

    def __init__(self, world: World) -> None:
        self.world = world

    def run(self, job: Job) -> None:
        if isinstance(job, StatementsJob) and job.table == LATE:
            raise RetryLater("Spark failed")
        self.world.engine.run(job)


@pytest.mark.parametrize("start", ["latest", "group"])
def test_late_table_whose_staged_rows_are_given_up_begins_where_it_began(world: World, start: str) -> None:
    """Its first batch waits while the others are published; then a corrected file makes the staged rows useless."""
    world.broker.grow("orders", 2)
    later = build_named_pipeline(ORDERS, LATE, cap=50, start=Start(start))
    later = replace(later, on_partition_growth="accept")
    with pytest.raises(NothingToDo):
        flush(world.open_session(later))
    for number in range(2):
        for partition in (0, 1):
            key = f"new{number}{partition}"
            world.broker.produce("orders", {"id": key}, {"id": key, "name": "x"}, partition)
        with pytest.raises(SomeTablesDelayed):
            flush(world.open_session(later, engine=RefusesTable(world)))
    assert len(world.read_rows(ORDERS)) == 14
    columns = (Column("id", "STRING"), Column("name", "STRING"), Column("more", "STRING"))
    corrected = replace(later, tables=(later.tables[0], build_table(LATE, columns=columns)))
    drain(world, corrected)
    assert [row["id"] for row in world.read_rows(LATE)] == ["new00", "new01", "new10", "new11"]
    assert world.broker.groups["tidegate-shop"]["orders"] == {0: 12, 1: 2}


class ProducesMeanwhile:
    """Spark whose first job takes long: a record comes while it runs."""

    def __init__(self, world: World) -> None:
        self.world, self.jobs = world, 0

    def run(self, job: Job) -> None:
        self.jobs += 1
        if self.jobs == 1:
            self.world.broker.produce("Old.Topic", {"id": "new"}, {"id": "new", "name": "x"}, 1)
        self.world.engine.run(job)


def test_late_table_starts_at_the_end_that_the_plan_saw_however_long_the_others_take(world: World) -> None:
    world.broker.create("Old.Topic", 2)
    world.broker.produce("Old.Topic", {"id": "old"}, {"id": "old", "name": "x"}, 1)
    tables = (build_table(ORDERS, topics=("orders",)), build_table(LATE, topics=("Old.Topic",)))
    later = build_pipeline(*tables, source={"topics": ("orders", "Old.Topic"), "start": Start("latest")})
    produce(world, "k10")
    flush(world.open_session(later, engine=ProducesMeanwhile(world)))
    drain(world, later)
    assert [row["id"] for row in world.read_rows(LATE)] == ["new"]


def test_table_that_is_left_alone_comes_inside(world: World) -> None:
    """The others were taken out of the file before it had caught up."""
    flush(world.open_session(BOTH))
    assert is_outside(world)
    flush(world.open_session(build_named_pipeline(LATE)))
    assert not is_outside(world)


def test_tables_of_a_new_pipeline_are_inside_from_the_start() -> None:
    world = World()
    world.broker.create("orders")
    produce(world, "a")
    assert [batch.watermark for batch in plan(world.open_session(BOTH)).tables] == ["inside", "inside"]


def test_killed_at_any_call_while_a_late_table_catches_up_nothing_is_lost_and_the_group_never_falls_back() -> None:
    for number in choose_calls(500):
        world = build_published_world()
        produce(world, "new")
        crash = CrashAt(number)
        try:
            flush(world.open_session(BOTH, crash))
        except Crash:
            pass
        else:
            break
        assert read_committed_offset(world) >= 10, crash.at
        while True:
            try:
                flush(world.open_session(BOTH))
            except NothingToDo:
                break
            assert read_committed_offset(world) >= 10, crash.at
        assert (world.read_rows(LATE), read_committed_offset(world)) == (world.read_rows(ORDERS), 11), crash.at
    assert number > 60
