"""A table that cannot be read now, or whose catalog does not answer, takes no other table of a command with it."""

from dataclasses import replace
from typing import Any

import pytest
from fakes import World, build_pipeline, build_table
from fakes.faults import RefusedTable, UnreadableTable
from tidegate.errors import GiveUp, RetryLater, SomeTablesDelayed, SomeTablesFailed
from tidegate.flush.clean_up import clean_up
from tidegate.flush.flush import flush
from tidegate.flush.heartbeat import commit_offsets, heartbeat
from tidegate.flush.maintain import list_maintained_tables, maintain
from tidegate.flush.plan import plan
from tidegate.monitoring import details
from tidegate.monitoring.overview import read_recent
from tidegate.monitoring.status import read_status
from tidegate.spec.source import Start

ORDERS, COPY = "lake.shop.orders", "lake.shop.copy"
TWO = build_pipeline(build_table(ORDERS), build_table(COPY))
ALL_NAMESPACES = ("lake.",)


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders", 2)
    for partition, key in enumerate("ab"):
        world.broker.produce("orders", {"id": key}, {"id": key, "name": "x"}, partition)
    return world


def produce_later_records(world: World) -> None:
    world.broker.produce("orders", {"id": "c"}, {"id": "c", "name": "y"}, 1)


def open_session(world: World, *unreadable: str, pipeline: Any = TWO) -> Any:
    return world.open_session(
        pipeline, destination=UnreadableTable(world.destination, *unreadable) if unreadable else world.destination
    )


def read_committed_offsets(world: World) -> dict[int, int]:
    return world.broker.groups.get("tidegate-shop", {}).get("orders", {})


@pytest.mark.guard(
    "the group waits for a table that cannot be read",
    file="plugins/tidegate/table/watermark.py",
    text=("            failures.append(failure)\n            absent.append(observed.spec)\n"),
    off="            failures.append(failure)\n",
    case="earliest",
)
@pytest.mark.parametrize("kind", ["earliest", "latest", "group"])
def test_flush_publishes_the_tables_that_can_be_read_and_the_group_waits_for_the_other(world: World, kind: Any) -> None:
    pipeline = build_pipeline(build_table(ORDERS), build_table(COPY), source={"start": Start(kind)})
    world.broker.groups["tidegate-shop"] = {"orders": {0: 0, 1: 0}}
    flush(open_session(world, pipeline=pipeline))
    assert read_committed_offsets(world) == {0: 1, 1: 1}
    produce_later_records(world)
    with pytest.raises(
        SomeTablesDelayed, match=rf"tables={COPY} cannot go on.*\n.*table={COPY}: catalog or files"
    ) as error_info:
        flush(open_session(world, COPY, pipeline=pipeline))
    assert [(batch.table, batch.inserted) for batch in error_info.value.published] == [(ORDERS, 1)]
    assert [row["id"] for row in world.read_rows(ORDERS)] == ["a", "b", "c"]
    assert [row["id"] for row in world.read_rows(COPY)] == ["a", "b"]
    assert read_committed_offsets(world) == {0: 1, 1: 1}, "what the other table has published is not known"
    flush(open_session(world, pipeline=pipeline))
    assert world.read_rows(COPY) == world.read_rows(ORDERS)
    assert read_committed_offsets(world) == {0: 1, 1: 2}


def test_command_fails_as_it_is_where_no_table_can_be_read(world: World) -> None:
    flush(open_session(world))
    produce_later_records(world)
    for step in (flush, commit_offsets, heartbeat):
        with pytest.raises(RetryLater, match="did not answer during read_state") as error_info:
            step(open_session(world, *ALL_NAMESPACES))
        assert [f"table={name}" in str(error_info.value) for name in (ORDERS, COPY)] == [True, True]
    assert read_committed_offsets(world) == {0: 1, 1: 1}


def test_clean_up_and_heartbeat_do_their_work_for_the_tables_that_can_be_read(world: World) -> None:
    flush(open_session(world))
    produce_later_records(world)
    world.broker.groups.clear()
    with pytest.raises(SomeTablesDelayed):
        flush(open_session(world, COPY))
    batch, second_cleanup = clean_up(open_session(world, COPY))
    assert (batch.table, batch.published, batch.failed) == (ORDERS, 2, None)
    assert (second_cleanup.table, second_cleanup.published) == (COPY, None)
    assert "did not answer" in str(second_cleanup.failed)
    assert not any(heartbeat(open_session(world, COPY)).committed.values())
    assert heartbeat(open_session(world)).committed == {"orders": {0: 1, 1: 1}}


def test_status_shows_what_is_known_and_names_what_is_not(world: World) -> None:
    flush(open_session(world))
    produce_later_records(world)
    history = "lake.shop.tidegate_shop"
    status = read_status(open_session(world, COPY, history))
    entry, second_status = status["tables"]
    assert (entry["table"], entry["exists"], entry["rows"], entry["lag"], entry["problem"]) == (
        ORDERS,
        True,
        2,
        1,
        None,
    )
    assert (second_status["exists"], second_status["rows"], second_status["position"], second_status["lag"]) == (
        None,
        None,
        None,
        1,
    )
    assert "did not answer during read_state" in second_status["problem"]
    assert [part["published"] for part in status["partitions"]] == [1, 1]
    assert (status["batches"], status["dead_letters"]) == ([], None)
    silent = [warning.rpartition(" ")[2] for warning in status["warnings"]]
    assert silent == ["read_property", "read_history", "read_dead_letters"]
    assert read_recent(open_session(world, history)) == {"last_flush": None, "dead_letters": None}


def test_maintenance_and_storage_know_every_table_and_each_tells_of_itself(world: World) -> None:
    flush(open_session(world))
    session = open_session(world, COPY)
    tables = list_maintained_tables(session)
    assert {ORDERS, COPY} <= {*tables}
    with pytest.raises(RetryLater, match=f"table={COPY}"):
        maintain(session, COPY)
    storage = {row["table"]: row for row in details.read_storage(session)}
    assert storage[ORDERS]["rows"] == 2
    assert "did not answer" in storage[COPY]["error"]


def test_plan_is_tried_again_where_a_table_cannot_be_read_and_another_needs_a_person(world: World) -> None:
    """Each of the tables in turn is the first of the pipeline; with and without a third that has no work."""
    third = "lake.shop.third"
    for names in ((ORDERS, COPY), (COPY, ORDERS), (ORDERS, COPY, third)):
        world = build_world(*names)
        snapshots = world.destination.tables[ORDERS].ancestors()
        world.destination.rollback(ORDERS, snapshots[1].id)
        pipeline = build_pipeline(*(build_table(name) for name in names))
        with pytest.raises(RetryLater, match="did not answer during read_state") as error_info:
            plan(open_session(world, COPY, pipeline=pipeline))
        assert isinstance(error_info.value, SomeTablesDelayed) == (third in names)
        with pytest.raises(GiveUp, match="was rolled back") as final:
            plan(open_session(world, pipeline=pipeline))
        assert type(final.value) is SomeTablesFailed
        assert "did not answer" not in str(final.value)


def build_world(*names: str) -> World:
    """Tables that stand at the end of a topic of two partitions, after two batches."""
    world = World()
    world.broker.create("orders", 2)
    pipeline = build_pipeline(*(build_table(name) for name in names))
    for value in "xy":
        for partition, key in enumerate("ab"):
            world.broker.produce("orders", {"id": key}, {"id": key, "name": value}, partition)
        flush(world.open_session(pipeline))
    return world


def test_table_that_cannot_be_used_as_it_is_holds_up_no_other(world: World) -> None:
    """As a view of its name, or a table of a newer format: each look at it is refused."""
    world.broker.create("lines", 1)
    world.broker.produce("lines", {"id": "l"}, {"id": "l", "name": "x"})
    pipeline = build_pipeline(
        replace(build_table(ORDERS), topics=("orders",)), replace(build_table(COPY), topics=("lines",))
    )
    flush(open_session(world, pipeline=pipeline))
    produce_later_records(world)
    world.broker.produce("lines", {"id": "m"}, {"id": "m", "name": "x"})
    session = world.open_session(pipeline, destination=RefusedTable(world.destination, COPY))
    with pytest.raises(
        SomeTablesFailed, match=rf"tables={COPY} cannot go on.*\n.*table={COPY}: nobody can"
    ) as error_info:
        flush(session)
    assert [(batch.table, batch.inserted) for batch in error_info.value.published] == [(ORDERS, 1)]
    group = {"orders": {0: 1, 1: 2}, "lines": {0: 1}}
    assert world.broker.groups["tidegate-shop"] == group, "what the refused table has published is not known"
    for step in (commit_offsets, heartbeat):
        world.broker.groups["tidegate-shop"] = {"orders": {0: 0, 1: 0}, "lines": {0: 1}}
        step(session)
        assert world.broker.groups["tidegate-shop"] == group
    tables = list_maintained_tables(session)
    assert {ORDERS, COPY} <= {*tables}
    storage = {row["table"]: row for row in details.read_storage(session)}
    assert (storage[ORDERS]["rows"], "nobody can use it" in storage[COPY]["error"]) == (3, True)
    first_cleanup, second_cleanup = clean_up(session)
    assert (first_cleanup.failed, "nobody can use it" in str(second_cleanup.failed)) == (None, True)
    assert [table["problem"] is None for table in read_status(session)["tables"]] == [True, False]
