"""A table is rolled back behind a backfill that is done: that is told, with the command that applies it again."""

import json
from contextlib import suppress

import pytest
from fakes import Crash, World, build_pipeline, build_table
from fakes.orders import NAME, make_orders, read_orders, send_orders
from tidegate.diagnosis.finding import Severity
from tidegate.errors import NothingToDo
from tidegate.flush.flush import flush
from tidegate.flush.heartbeat import heartbeat
from tidegate.model.backfill import Backfill
from tidegate.monitoring.details import find_warnings
from tidegate.monitoring.status import read_status
from tidegate.reprocess.backfill import apply_backfill, apply_slice, drop_backfill
from tidegate.reprocess.backfill_plan import BackfillRequest, parse_request, propose_backfill
from tidegate.reprocess.rollback import propose_answer
from tidegate.table.history import find_undone_backfills
from tidegate.wiring.doctor import check_position

COPY = "lake.shop.copy"
PIPELINE = build_pipeline(build_table(), build_table(COPY), max_records=2)
RANGES = '{"orders": {"0": [0, 1], "1": [0, 2]}}'


@pytest.fixture
def world() -> World:
    """Two partitions and two tables, all flushed; of both tables somebody has taken a row away."""
    orders = make_orders()
    flush_all(orders)
    for table in (NAME, COPY):
        kept_rows = tuple(row for row in orders.destination.tables[table].read_rows() if row["id"] != "b")
        orders.destination.add_snapshot(table, "main", kept_rows, {})
    return orders


def flush_all(world: World) -> None:
    while True:
        try:
            flush(world.open_session(PIPELINE))
        except NothingToDo:
            return


def backfill(world: World, request: BackfillRequest | None = None) -> Backfill:
    session = world.open_session(PIPELINE)
    planned = propose_backfill(session, request or parse_request(RANGES, None, None)).backfill
    apply_backfill(session, planned, lambda _: None)
    return planned


def list_backfill_warnings(world: World) -> list[str]:
    """The warnings of status, the page, the doctor and a heartbeat about backfills."""
    session = world.open_session(PIPELINE)
    warnings = [warning for warning in read_status(session)["warnings"] if "backfill" in warning]
    assert [warning for warning in find_warnings(session) if "backfill" in warning] == warnings
    findings = check_position(session)
    assert [
        f"{finding.cause}; {finding.advice}" for finding in findings if finding.severity is Severity.WARNING
    ] == warnings
    world.clock.tick(3_600_000)
    assert [warning for warning in heartbeat(session).warnings if "backfill" in warning] == warnings
    return warnings


def message(slices: int, id: str, command: str) -> str:
    return (
        f"pipeline=shop table={NAME}: slices={slices} of backfill={id} are not in the table: they were rolled "
        "back with it, or the backfill was given up before their publish; it is over, so nothing applies them again; "
        f"if they are not meant to be gone: {command}; else this warning stays until the snapshots of the backfill "
        "expire"
    )


def head(world: World) -> int:
    return world.destination.tables[NAME].refs["main"]


def test_backfill_that_was_rolled_back_once_it_was_done_is_told_until_it_is_applied_again(world: World) -> None:
    before = head(world)
    planned = backfill(world)
    assert (read_orders(world), list_backfill_warnings(world)) == ({"a": "2", "b": "1"}, [])
    world.destination.rollback(NAME, before)
    warnings = list_backfill_warnings(world)
    assert warnings == [message(2, planned.id, f"tidegate backfill shop --range '{RANGES}'")]
    send_orders(world, ("c", "1"))
    flush_all(world)
    assert (list_backfill_warnings(world), read_orders(world)) == (warnings, {"a": "2", "c": "1"})
    ranges_text = warnings[0].partition("--range '")[2].partition("'")[0]
    assert backfill(world, parse_request(ranges_text, None, None)).id == planned.id
    assert (list_backfill_warnings(world), read_orders(world)) == ([], {"a": "2", "b": "1", "c": "1"})


def test_times_and_tables_of_then_stand_in_the_command(world: World) -> None:
    before, times = head(world), ("1970-01-01T00:00:00.000Z", "2100-01-01T00:00:00.000Z")
    planned = backfill(world, parse_request(None, *times, (NAME,)))
    world.destination.rollback(NAME, before)
    command = f"tidegate backfill shop --from {times[0]} --to {times[1]} --table {NAME}"
    assert list_backfill_warnings(world) == [message(2, planned.id, command)]
    backfill(world, parse_request(None, *times, (NAME,)))
    assert (list_backfill_warnings(world), read_orders(world)) == ([], {"a": "2", "b": "1"})


def test_of_several_slices_those_that_stand_are_not_told(world: World) -> None:
    session = world.open_session(PIPELINE)
    planned = propose_backfill(session, parse_request(RANGES, None, None)).backfill
    assert planned.numbers == [2, 1]
    apply_slice(session, planned, 2)
    between = head(world)
    apply_backfill(session, planned, lambda _: None)
    world.destination.rollback(NAME, between)
    assert list_backfill_warnings(world) == [message(1, planned.id, f"tidegate backfill shop --range '{RANGES}'")]


def test_open_backfill_goes_on_by_itself_and_is_not_told(world: World) -> None:
    before, session = head(world), world.open_session(PIPELINE)
    planned = propose_backfill(session, parse_request(RANGES, None, None)).backfill
    apply_slice(session, planned, 2)
    world.destination.rollback(NAME, before)
    assert [text for text in list_backfill_warnings(world) if "are not in the table" in text] == []


def test_records_that_the_flush_reads_again_are_not_told(world: World) -> None:
    begin = world.destination.tables[NAME].ancestors()[-1].id
    backfill(world)
    world.destination.rollback(NAME, begin)
    session = world.open_session(PIPELINE)
    propose_answer(session, "rewind", NAME).perform("ann")
    assert list_backfill_warnings(world) == []
    flush_all(world)
    assert read_orders(world) == {"a": "2", "b": "1"}


def test_backfill_of_another_pipeline_is_not_told_as_its_own(world: World) -> None:
    before = head(world)
    backfill(world)
    for snapshot in world.destination.tables[NAME].snapshots.values():
        if note := snapshot.summary.get("tidegate.backfill"):
            snapshot.summary["tidegate.backfill"] = json.dumps({**json.loads(note), "pipeline": "other"})
    world.destination.rollback(NAME, before)
    assert list_backfill_warnings(world) == []


def test_backfill_that_ends_while_its_marks_are_read_is_not_told(world: World) -> None:
    """Its last slices lie on branches when the snapshots are read, and nothing of it is open when its tables are."""
    planned = propose_backfill(world.open_session(PIPELINE), parse_request(RANGES, None, None)).backfill

    def die(call: str, moment: str) -> None:
        if (call, moment) == ("commits.publish", "before"):
            raise Crash

    for number in planned.numbers:
        with suppress(Crash):
            apply_slice(world.open_session(PIPELINE, die), planned, number)

    def end(call: str, moment: str) -> None:
        if (call, moment) == ("history.list_backfills", "before") and not calls:
            calls.append(call)
            drop_backfill(world.open_session(PIPELINE), planned.id)  # so that it is staged again, by other attempts
            apply_backfill(world.open_session(PIPELINE), planned, lambda _: None)

    calls: list[str] = []
    assert world.destination.list_rolled_back(NAME, "tidegate.backfill-slice")
    assert find_undone_backfills(world.open_session(PIPELINE, end), NAME) == []
    assert (calls, read_orders(world)) == (["history.list_backfills"], {"a": "2", "b": "1"})


def test_backfill_that_is_given_up_behind_a_slice_that_died_is_not_said_to_be_rolled_back(world: World) -> None:
    """Its snapshot is still there, on no branch: nobody can tell it from one that was published."""

    def die(call: str, moment: str) -> None:
        if (call, moment) == ("commits.publish", "before"):
            raise Crash

    planned = propose_backfill(world.open_session(PIPELINE), parse_request(RANGES, None, None)).backfill
    with pytest.raises(Crash):
        apply_slice(world.open_session(PIPELINE, die), planned, 2)
    drop_backfill(world.open_session(PIPELINE), planned.id)
    assert list_backfill_warnings(world) == [message(1, planned.id, f"tidegate backfill shop --range '{RANGES}'")]
