"""Tables in which an update changes some columns only; the others keep the value of the key's first record."""

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from fakes import BAD, World, build_pipeline, build_table
from tidegate.errors import ConfigurationError, GiveUp, NothingToDo
from tidegate.flush.flush import flush
from tidegate.reprocess.backfill import apply_backfill
from tidegate.reprocess.backfill_plan import parse_request, propose_backfill
from tidegate.reprocess.replay import replay_dead_letters
from tidegate.schema.data_types import Column
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.source import Errors
from tidegate.table.columns import compute_shape

NAME = "lake.shop.Orders"
COLUMNS = (Column("Id", "INT"), Column("V", "STRING"), Column("w", "STRING"), Column("Extra", "STRING"))
METADATA = {"first_offset": "offset", "Last_Offset": "offset"}
UPDATED = ("v", "last_offset")


def build_update_pipeline(
    mode: str = "upsert_delete", settings: dict[str, Any] | None = None, **options: Any
) -> Pipeline:
    options = {"columns": COLUMNS, "keys": ("Id",), "update_columns": UPDATED, "metadata": METADATA, **options}
    other = {**options, "update_columns": ()}
    tables = (build_table(NAME, mode, **options), build_table("lake.shop.plain", mode, **other))
    return build_pipeline(*tables, **(settings or {}))


def put(world: World, key: int, *values: str | None) -> None:
    """A record of the key in its partition; a delete without values."""
    row = {"Id": key, **dict(zip(("V", "w", "Extra"), values, strict=True))} if values else None
    world.broker.produce("orders", {"Id": key}, row, key % 2)


def flush_all(world: World, pipeline: Pipeline) -> None:
    with suppress(NothingToDo):
        for _ in range(20):
            flush(world.open_session(pipeline))


def read(world: World, table: str = NAME) -> list[tuple[Any, ...]]:
    names = ("Id", "V", "w", "Extra", "first_offset", "Last_Offset")
    return sorted(tuple(row[name] for name in names) for row in world.read_rows(table))


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders", 2)
    return world


@pytest.mark.parametrize("deletes", ["hard", "soft"])
@pytest.mark.parametrize("in_one_batch", [True, False])
def test_row_keeps_what_its_first_record_said_beside_the_columns_of_updates(
    world: World, deletes: str, in_one_batch: bool
) -> None:
    pipeline = build_update_pipeline(deletes=deletes)
    for key, *values in ((1, "a", "b", "c"), (2, "x", "y", "z"), (1, "d", "e", "f"), (2, "x2", None, None)):
        put(world, key, *values)
        if not in_one_batch:
            flush_all(world, pipeline)
    flush_all(world, pipeline)
    assert read(world) == [(1, "d", "b", "c", 0, 1), (2, "x2", "y", "z", 0, 1)]
    assert read(world, "lake.shop.plain") == [(1, "d", "e", "f", 1, 1), (2, "x2", None, None, 1, 1)]
    put(world, 1, None, "g", "h")
    put(world, 2, "x3", "y3", "z3")
    flush_all(world, pipeline)
    assert read(world) == [(1, None, "b", "c", 0, 2), (2, "x3", "y", "z", 0, 2)]


@pytest.mark.parametrize("in_one_batch", [True, False])
def test_row_that_comes_back_after_a_delete_starts_anew_and_a_soft_one_stays(world: World, in_one_batch: bool) -> None:
    hard, soft = build_update_pipeline(), build_update_pipeline(deletes="soft")
    soft = replace(soft, name="other")
    for key, *values in ((1, "a", "b", "c"), (1,), (1, "d", "e", "f"), (1, "g", "h", "i"), (2, "x", "y", "z"), (2,)):
        put(world, key, *values)
        if not in_one_batch:
            flush_all(world, hard)
    flush_all(world, hard)
    assert read(world) == [(1, "g", "e", "f", 2, 3)]
    world.destination.tables.clear()
    flush_all(world, soft)
    assert read(world) == [(1, "g", "b", "c", 0, 3), (2, "x", "y", "z", 0, 0)]
    assert [row["_deleted"] for row in world.read_rows(NAME)] == [False, True]


def test_upsert_without_deletes_keeps_the_first_values_beyond_a_tombstone(world: World) -> None:
    for values in (("a", "b", "c"), (), ("d", "e", "f")):
        put(world, 1, *values)
    flush_all(world, build_update_pipeline("upsert"))
    assert read(world) == [(1, "d", "b", "c", 0, 2)]


def test_column_that_was_renamed_in_the_table_is_updated_under_its_new_name(world: World) -> None:
    put(world, 1, "a", "b", "c")
    flush_all(world, build_update_pipeline())
    world.destination.rename_column(NAME, "V", "Value")
    world.destination.tables.pop("lake.shop.plain")
    put(world, 1, "d", "e", "f")
    flush_all(world, replace(build_update_pipeline(), tables=build_update_pipeline().tables[:1]))
    (row,) = world.read_rows(NAME)
    assert (row["Value"], row["w"], row["first_offset"], row["Last_Offset"]) == ("d", "b", 0, 1)


def test_column_that_the_table_lacks_is_told_with_those_that_it_has(world: World) -> None:
    put(world, 1, "a", "b", "c")
    pipeline = build_update_pipeline(update_columns=("v", "gone"))
    with pytest.raises(ConfigurationError, match=r"gone of update_columns is no column of the table.*there are V, w"):
        flush(world.open_session(replace(pipeline, tables=pipeline.tables[:1])))


def test_rows_staged_without_first_records_are_staged_anew() -> None:
    updated, plain = build_update_pipeline().tables
    assert compute_shape(updated) != compute_shape(plain)
    assert compute_shape(updated) != compute_shape(replace(plain, partial_updates=True))


def test_backfill_is_refused_as_it_cannot_tell_what_came_first(world: World) -> None:
    pipeline = build_update_pipeline()
    put(world, 1, "a", "b", "c")
    put(world, 1, "d", "e", "f")
    flush_all(world, pipeline)
    session = world.open_session(replace(pipeline, tables=pipeline.tables[:1]))
    request = parse_request(json.dumps({"orders": {"1": [0, 2]}}), None, None)
    with pytest.raises(GiveUp, match="read the range again in order: tidegate rebase"):
        apply_backfill(session, propose_backfill(session, request).backfill, lambda _: None)
    assert read(world) == [(1, "d", "b", "c", 0, 1)]


def test_replayed_letter_updates_a_row_and_gives_the_first_values_of_a_new_one(world: World) -> None:
    errors = Errors("all", 9)
    table = replace(build_update_pipeline().tables[0], errors=errors)
    pipeline = build_pipeline(table, source={"errors": errors})
    put(world, 1, "a", "b", "c")
    for key in (1, 3):
        world.broker.produce("orders", {"Id": key}, BAD, 1)
    flush_all(world, pipeline)
    assert read(world) == [(1, "a", "b", "c", 0, 0)]
    world.engine.fixed_values |= {n: {"Id": key, "V": "d", "w": "e", "Extra": "f"} for n, key in ((1, 1), (2, 3))}
    replay_dead_letters(world.open_session(pipeline))
    assert read(world) == [(1, "d", "b", "c", 0, 1), (3, "d", "e", "f", 2, 2)]
