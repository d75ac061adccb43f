"""Columns that say of a row that it is deleted, or from when to when it holds: rows keep what was written into them, so
the pipeline file may not change their meaning without a word.
"""

from typing import Any

import pytest
from fakes import World, build_pipeline, build_table
from tidegate.errors import GiveUp, IncompatibleSchema, SomeTablesFailed
from tidegate.flush.flush import flush
from tidegate.reprocess.backfill import apply_backfill
from tidegate.reprocess.backfill_plan import parse_request, propose_backfill
from tidegate.schema.data_types import Column
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.table import DeleteMode, History

ORDERS, COPY = "lake.shop.orders", "lake.shop.copy"
PLAIN, SOFT = build_pipeline(), build_pipeline(build_table(deletes=DeleteMode.SOFT))
VERSIONED = build_pipeline(build_table(history=History()))


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders", 2)
    return world


def change(world: World, pipeline: Pipeline, *changes: tuple[str, str | None]) -> None:
    for key, name in changes:
        partition = int(key > "a")
        world.broker.produce("orders", {"id": key}, None if name is None else {"id": key, "name": name}, partition)
    flush(world.open_session(pipeline))


def drop_column(world: World, name: str) -> None:
    """DELETE of the rows that it marks, and ALTER TABLE DROP COLUMN."""
    table = world.destination.tables[ORDERS]
    rows = [{k: v for k, v in row.items() if k != name} for row in table.read_rows() if row.get(name) is not True]
    world.destination.add_snapshot(ORDERS, "main", tuple(rows), {"operation": "delete"})
    table.columns, table.schema_id = tuple(c for c in table.columns if c.name != name), table.schema_id + 1


def refuse(world: World, pipeline: Pipeline, message: str) -> None:
    before = world.read_rows(ORDERS)
    world.broker.produce("orders", {"id": "a"}, {"id": "a", "name": "later"}, 0)
    with pytest.raises(IncompatibleSchema, match=message):
        flush(world.open_session(pipeline))
    assert world.read_rows(ORDERS) == before


def test_row_that_is_marked_as_deleted_does_not_come_back_with_its_mark(world: World) -> None:
    change(world, SOFT, ("a", "1"), ("b", "1"))
    change(world, SOFT, ("a", None))
    refuse(world, PLAIN, "column=_deleted: existing rows were written with it, and this file sets it no more")
    drop_column(world, "_deleted")
    change(world, PLAIN, ("b", "2"))
    assert world.read_rows(ORDERS) == [{"id": "a", "name": "later"}, {"id": "b", "name": "2"}]


def test_row_that_is_marked_as_deleted_does_not_lose_its_mark_by_another_name_of_the_column(world: World) -> None:
    change(world, SOFT, ("a", "1"), ("b", "1"))
    change(world, SOFT, ("b", None))
    pipeline = build_pipeline(build_table(deletes=DeleteMode.SOFT, deleted_column="is_deleted"))
    refuse(world, pipeline, "column=_deleted: .*rename it in the table")
    world.destination.rename_column(ORDERS, "_deleted", "is_deleted")
    change(world, pipeline, ("c", "1"))
    assert {row["id"]: row["is_deleted"] for row in world.read_rows(ORDERS)} == {"a": False, "b": True, "c": False}


def test_versions_of_a_key_are_not_overwritten_where_history_is_taken_out_of_the_file(world: World) -> None:
    change(world, VERSIONED, ("a", "1"), ("b", "1"))
    change(world, VERSIONED, ("a", "2"))
    assert len(world.read_rows(ORDERS)) == 3
    refuse(world, PLAIN, "column=valid_from: existing rows were written with it")
    change(world, VERSIONED, ("b", "2"))
    assert len(world.read_rows(ORDERS)) == 5


@pytest.mark.parametrize("is_emptied", [False, True])
def test_history_is_not_begun_over_rows_that_do_not_say_since_when_they_hold(world: World, is_emptied: bool) -> None:
    change(world, PLAIN, ("a", "1"), ("b", "1"))
    if is_emptied:
        world.destination.add_snapshot(ORDERS, "main", (), {"operation": "delete"})
        change(world, VERSIONED, ("a", "2"))
        assert [(row["id"], row["name"], row["is_current"]) for row in world.read_rows(ORDERS)] == [("a", "2", True)]
    else:
        refuse(world, VERSIONED, "column=valid_from: the table has rows, and none says since when it holds")


def test_marks_that_nobody_has_set_keep_nobody_from_anything(world: World) -> None:
    """The first batch with them comes after rows without: these are not deleted."""
    change(world, PLAIN, ("a", "1"), ("b", "1"))
    change(world, SOFT, ("a", "2"))
    assert [(row["id"], row.get("_deleted")) for row in world.read_rows(ORDERS)] == [("a", False), ("b", None)]


@pytest.mark.parametrize("damage", ["key", "mark"])
def test_backfill_into_one_of_several_tables_is_refused_as_its_flush_is(world: World, damage: str) -> None:
    """Of several tables a flush looks at each in its merge alone."""
    columns = tuple(Column(name, "STRING") for name in ("id", "line", "name"))
    table_options: dict[str, Any] = {"columns": columns, "deletes": DeleteMode.SOFT}
    before = build_pipeline(build_table(ORDERS, **table_options), build_table(COPY, **table_options))
    for key in ("a", "b"):
        world.broker.produce("orders", {"id": key, "line": "1"}, {"id": key, "line": "1", "name": "x"}, 0)
    flush(world.open_session(before))
    rows = world.read_rows(ORDERS)
    changed = {"keys": ("line",)} if damage == "key" else {"deletes": DeleteMode.HARD}
    after = build_pipeline(build_table(ORDERS, **{**table_options, **changed}), build_table(COPY, **table_options))
    session = world.open_session(after)
    request = parse_request({"orders": {"0": [0, 2]}}, None, None, (ORDERS,))
    with pytest.raises(IncompatibleSchema, match=f"table={ORDERS}"):
        apply_backfill(session, propose_backfill(session, request).backfill, lambda _: None)
    assert world.read_rows(ORDERS) == rows
    world.broker.produce("orders", {"id": "a", "line": "1"}, None, 0)
    with pytest.raises((GiveUp, SomeTablesFailed), match=f"table={ORDERS}"):
        flush(session)
    assert world.read_rows(ORDERS) == rows
