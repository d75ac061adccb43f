"""What is staged to be looked at leaves nothing, also where its process was killed."""

import pytest
from fakes import World, build_pipeline, build_table
from tidegate.flush.clean_up import SCRATCH_EVERY, CleanUpReport, clean_up
from tidegate.flush.flush import flush
from tidegate.reprocess.record import explain_record, parse_address
from tidegate.table.scratch import UNUSED_SECONDS, ScratchKind, drop_unused_scratch_tables, name_scratch_table

ORDERS = "lake.shop.Orders"
PIPELINE = build_pipeline(build_table(ORDERS))


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders", 2)
    produce(world, 0)
    flush(world.open_session(PIPELINE))
    return world


def produce(world: World, number: int) -> None:
    world.broker.produce("orders", {"id": str(number)}, {"id": str(number), "name": "x"}, number % 2)


def leave_behind(world: World, monkeypatch: pytest.MonkeyPatch) -> str:
    """The table of a look at a record that was killed."""
    with monkeypatch.context() as killed:
        killed.setattr(type(world.destination), "drop", lambda *_: None)
        explain_record(world.open_session(PIPELINE), parse_address("orders:0:0"))
    name = name_scratch_table(world.open_session(PIPELINE), PIPELINE.tables[0], ScratchKind.RECORD)
    assert name in world.destination.tables
    return name


def test_what_is_in_use_stays_and_what_a_killed_process_has_left_goes_after_a_day(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = leave_behind(world, monkeypatch)
    (table,) = PIPELINE.tables
    assert drop_unused_scratch_tables(world.open_session(PIPELINE), table) == 0
    assert name in world.destination.tables
    world.clock.pause(UNUSED_SECONDS + 60)
    assert drop_unused_scratch_tables(world.open_session(PIPELINE), table) == 1
    assert name not in world.destination.tables
    assert drop_unused_scratch_tables(world.open_session(PIPELINE), table) == 0


def test_next_one_of_the_kind_takes_the_table_over(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    name = leave_behind(world, monkeypatch)
    explain_record(world.open_session(PIPELINE), parse_address("orders:0:0"))
    assert name not in world.destination.tables


def test_clean_up_looks_for_them_now_and_then(
    world: World, monkeypatch: pytest.MonkeyPatch, clean_up_reports: list[CleanUpReport]
) -> None:
    name = leave_behind(world, monkeypatch)
    world.clock.pause(UNUSED_SECONDS + 60)
    clean_up(world.open_session(PIPELINE))
    assert name in world.destination.tables, "to list tables costs a call"
    for number in range(1, SCRATCH_EVERY):
        produce(world, number)
        flush(world.open_session(PIPELINE))
    assert [report.scratch_tables for report in clean_up_reports] == [None] * (SCRATCH_EVERY - 2) + [1]
    assert name not in world.destination.tables
