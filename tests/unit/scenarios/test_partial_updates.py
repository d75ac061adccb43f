"""Partial updates, unchanged values and columns of updates: folded column by column, wherever batches are cut."""

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from examples import choose_number
from fakes import CrashAt, World, build_pipeline, build_table
from fakes.clock import Crash
from fakes.queueing import stage_behind
from hypothesis import given, settings
from hypothesis import strategies as st
from tidegate.errors import BadRecord, NothingToDo, RetryLater
from tidegate.flush.flush import flush
from tidegate.flush.key_deduplication import can_keep_last_per_key
from tidegate.schema.data_types import Column
from tidegate.spec.pipeline import Pipeline
from tidegate.table.columns import list_unavailable_columns, stages_kept_columns

NAME, UNCHANGED_MARK = "lake.shop.orders", "__debezium_unavailable_value"
COLUMNS = tuple(Column(name, "STRING") for name in ("id", "a", "b"))
KINDS: dict[str, dict[str, Any]] = {
    "partial": {"partial_updates": True},
    "unchanged": {"unavailable": UNCHANGED_MARK},
    "update": {"unavailable": UNCHANGED_MARK, "update_columns": ("B",)},
}


def build_partial_pipeline(kind: str, mode: str = "upsert_delete", cap: int = 100, **options: Any) -> Pipeline:
    return build_pipeline(build_table(NAME, mode, columns=COLUMNS, **KINDS[kind], **options), max_records=cap)


def compute_rows(kind: str, soft: bool, changes: list[tuple[str, tuple | None]]) -> list[dict[str, Any]]:
    """The model, one record at a time."""
    rows: dict[str, dict[str, Any]] = {}
    for key, value in changes:
        row = rows.get(key)
        is_there = row is not None
        if value is None:
            if soft and row:
                row["_deleted"] = True
            else:
                rows.pop(key, None)
            continue
        if row is None:
            row = rows[key] = {"id": key, "a": None, "b": None}
        for name, new in zip("ab", value, strict=True):
            keeps = new is None if kind == "partial" else new == UNCHANGED_MARK
            keeps = keeps or (kind == "update" and is_there and name == "a")
            row[name] = row[name] if keeps else new
        row |= {"_deleted": False} if soft else {}
    return list(rows.values())


def sort_rows(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


VALUES = st.sampled_from([None, UNCHANGED_MARK, "x", "y"])
STEPS = st.one_of(
    st.tuples(st.sampled_from("kl"), st.one_of(st.none(), st.tuples(VALUES, VALUES))),
    st.tuples(st.just("stage"), st.none()),
    st.tuples(st.just("flush"), st.integers(1, 60)),
)


@settings(max_examples=choose_number(500))
@given(st.sampled_from(sorted(KINDS)), st.booleans(), st.lists(STEPS, min_size=3, max_size=20))
def test_table_equals_the_model_wherever_batches_are_cut(kind: str, soft: bool, steps: list) -> None:
    world, changes = World(), []
    world.broker.create("orders", 2)
    pipeline = build_partial_pipeline(kind, deletes="soft" if soft else "hard")
    for step, argument in steps:
        if step == "flush":
            with suppress(NothingToDo, Crash, RetryLater):
                flush(world.open_session(pipeline, CrashAt(argument)))
            continue
        if step == "stage":
            stage_behind(world, pipeline)
            continue
        value = argument if kind != "partial" or argument is None else tuple(v and v.strip("_") for v in argument)
        value_row = value and {"id": step, "a": value[0], "b": value[1]}
        world.broker.produce("orders", {"id": step}, value_row, "kl".index(step))
        changes.append((step, value))
    with suppress(NothingToDo):
        flush(world.open_session(pipeline))
        flush(world.open_session(pipeline))
    assert sort_rows(world.read_rows(NAME)) == sort_rows(compute_rows(kind, soft, changes))


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders")
    return world


def test_batch_without_a_placeholder_takes_the_cheaper_statement(world: World) -> None:
    for a, b in (("w", "y"), ("x", "y"), ("z", UNCHANGED_MARK)):
        world.broker.produce("orders", {"id": "k"}, {"id": "k", "a": a, "b": b})
        flush(world.open_session(build_partial_pipeline("unchanged")))
    statements = [json.loads(job.statements[-1])["statement"] for job in world.engine.merges]
    assert statements == ["merge_new", "merge_upsert_delete", "merge_folded"]
    assert world.read_rows(NAME) == [{"id": "k", "a": "z", "b": "y"}]


def test_earlier_records_of_a_key_are_read_only_where_a_later_one_holds_a_place(world: World) -> None:
    for a, b in (("1", "y"), ("2", "y"), ("3", UNCHANGED_MARK)):
        world.broker.produce("orders", {"id": "k"}, {"id": "k", "a": a, "b": b})
    flush(world.open_session(build_partial_pipeline("unchanged")))
    assert world.read_rows(NAME) == [{"id": "k", "a": "3", "b": "y"}]
    (row,) = world.destination.read_history("lake.shop.tidegate_shop_batches", 1)
    assert (row["staged"], row["superseded"]) == (2, 1)


def test_placeholder_without_a_row_is_null(world: World) -> None:
    world.broker.produce("orders", {"id": "k"}, {"id": "k", "a": "x", "b": UNCHANGED_MARK})
    flush(world.open_session(build_partial_pipeline("unchanged")))
    assert world.read_rows(NAME) == [{"id": "k", "a": "x", "b": None}]


def test_tables_that_keep_no_row_take_the_placeholder_as_it_comes(world: World) -> None:
    pipeline = build_partial_pipeline("unchanged", "append")
    world.broker.produce("orders", {"id": "k"}, {"id": "k", "a": "x", "b": UNCHANGED_MARK})
    flush(world.open_session(pipeline))
    assert world.read_rows(NAME) == [{"id": "k", "a": "x", "b": UNCHANGED_MARK}]


def test_placeholder_that_a_late_record_may_have_to_fill_is_a_bad_record(world: World) -> None:
    pipeline = build_partial_pipeline("unchanged", sequence_by=("a",))
    world.broker.produce("orders", {"id": "k"}, {"id": "k", "a": "1", "b": UNCHANGED_MARK})
    with pytest.raises(BadRecord, match="the value of b is not in the event"):
        flush(world.open_session(pipeline))


def test_only_columns_that_can_hold_a_placeholder_are_looked_at() -> None:
    columns = (Column("id", "STRING"), Column("n", "INT"), Column("t", "ARRAY<STRING>"), Column("b", "BINARY"))
    table = build_table(NAME, columns=columns, unavailable=UNCHANGED_MARK)
    assert list_unavailable_columns(table) == ("t", "b")
    left_out = replace(table, value=replace(table.value, format="ogg-json", unavailable=None))
    assert list_unavailable_columns(left_out) == tuple(c.name for c in table.value.columns or () if c.name != "id")
    assert stages_kept_columns(left_out)
    assert list_unavailable_columns(replace(left_out, upsert=False)) == ()
    assert stages_kept_columns(table)
    assert not stages_kept_columns(build_table(NAME, columns=columns[:2], unavailable=UNCHANGED_MARK))
    assert not stages_kept_columns(build_table(NAME, columns=columns, unavailable=UNCHANGED_MARK, partial_updates=True))


@pytest.mark.guard(
    "records that count beside a key's last one are staged",
    file="plugins/tidegate/flush/key_deduplication.py",
    text="        and not table.folds_records\n",
    off="",
)
def test_every_record_counts_in_partial_updates_and_where_updates_change_some_columns() -> None:
    for kind in ("partial", "update"):
        assert not can_keep_last_per_key(build_partial_pipeline(kind), build_partial_pipeline(kind).tables[0])
    assert can_keep_last_per_key(build_partial_pipeline("unchanged"), build_partial_pipeline("unchanged").tables[0])
    escaped = build_pipeline(build_table(NAME, columns=COLUMNS, unavailable='not "here"'))
    assert not can_keep_last_per_key(escaped, escaped.tables[0])
