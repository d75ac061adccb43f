"""A small batch's keys are named one by one where that saves moving a large table: all of them, and no others."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table
from pyiceberg.types import DecimalType, LongType, StringType
from tidegate.adapters.iceberg.pruning import MAX_KEYS, KeyRange, are_keys_worth_naming, name_keys
from tidegate.model.batch import StagedPart
from tidegate.sql.pruning import Overlap
from tidegate.sql.spark import render_literal

KEY = pa.struct([("id", pa.int64()), ("line", pa.string()), ("price", pa.decimal128(6, 2))])
STAGED = pa.schema([("key", KEY), ("batch_number", pa.int64()), ("attempt", pa.string())])
LEAVES: dict[str, Any] = {"leaves": [("id",), ("line",), ("price",)], "keys": [(n, n) for n in ("id", "line", "price")]}


@pytest.fixture
def staged(tmp_path: Path) -> Table:
    catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    catalog.create_namespace("shop")
    return catalog.create_table("shop.tmp", STAGED)


def stage(table: Table, *keys: tuple[Any, ...], batch: int = 1, attempt: str = "a1") -> None:
    rows = [
        {"key": dict(zip(("id", "line", "price"), key, strict=True)), "batch_number": batch, "attempt": attempt}
        for key in keys
    ]
    table.append(pa.Table.from_pylist(rows, schema=STAGED))


def read_key_values(
    table: Table, *with_nulls: str, parts: Sequence[StagedPart] = (StagedPart(1, "a1"),)
) -> dict[tuple[str, ...], tuple[str, ...]]:
    current = table.current_snapshot()
    assert current is not None
    values = {**LEAVES, "snapshot_id": current.snapshot_id, "parts": parts}
    ends = (("id", LongType(), -9, 9), ("line", StringType(), "a", "z"), ("price", DecimalType(6, 2), 1, 9))
    ranges = [KeyRange((name,), kind, low, high, name in with_nulls) for name, kind, low, high in ends]
    keys = name_keys(table, values, ranges)
    assert [replace(key_bound, values=()) for key_bound in keys] == [known.bound for known in ranges]
    return {key_bound.path: key_bound.values for key_bound in keys}


def test_every_key_of_the_attempt_is_named_once_and_no_other(staged: Table) -> None:
    stage(staged, (3, "it's", 1), (-(2**63), "a\\b", 2), (3, "é", 3))
    stage(staged, (8, "late", 1), attempt="a0")
    stage(staged, (9, "other", 1), batch=2, attempt="a2")
    key_values = read_key_values(staged)
    assert key_values["id",] == ("-9223372036854775808L", "3L")
    assert key_values["line",] == (r"'a\\b'", r"'it\'s'", "'é'")
    assert key_values["price",] == ()
    of_several = read_key_values(staged, parts=(StagedPart(1, "a0"), StagedPart(2, "a2")))
    assert (of_several["id",], of_several["line",]) == (("8L", "9L"), ("'late'", "'other'"))


def test_part_of_the_key_that_may_be_null_is_not_named(staged: Table) -> None:
    stage(staged, (1, None, 1), (2, "x", 1))
    key_values = read_key_values(staged, "line")
    assert (key_values["id",], key_values["line",]) == (("1L", "2L"), ())


def test_texts_that_are_too_long_together_are_not_named_and_the_other_parts_are(
    staged: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage(staged, (7, "é" * 40, 1), (8, "'" * 40, 2))  # 82 bytes each, with quotes and escapes
    monkeypatch.setattr("tidegate.adapters.iceberg.pruning.MAX_LITERAL_BYTES", 2 * 4 + 2 * (82 + 2))
    key_values = read_key_values(staged)
    assert (key_values["id",], key_values["line",]) == (
        ("7L", "8L"),
        (render_literal("'" * 40), render_literal("é" * 40)),
    )
    monkeypatch.setattr("tidegate.adapters.iceberg.pruning.MAX_LITERAL_BYTES", 2 * 4 + 2 * (82 + 2) - 1)
    key_values = read_key_values(staged)
    assert (key_values["id",], key_values["line",]) == (("7L", "8L"), ())
    monkeypatch.setattr("tidegate.adapters.iceberg.pruning.MAX_LITERAL_BYTES", 7)
    assert read_key_values(staged)["id",] == ()


def test_twenty_thousand_uuids_are_named_and_as_many_long_texts_are_not(staged: Table) -> None:
    stage(staged, *((number, str(UUID(int=number)), 1) for number in range(MAX_KEYS)))
    key_values = read_key_values(staged, "id")
    assert key_values["line",] == tuple(render_literal(str(UUID(int=number))) for number in range(MAX_KEYS))
    stage(staged, (1, "x" * 500_000, 1), (2, "y" * 500_000, 1))
    assert read_key_values(staged, "id")["line",] == ()


@pytest.mark.parametrize(
    ("rows", "overlap", "worth"),
    [
        (10_000, Overlap(4, 10_000_000), True),
        (10_000, Overlap(4, 250_000), False),  # nothing much to leave out
        (10, Overlap(1, 50_000), False),
        (30_000, Overlap(90, 1_000_000_000), False),  # too much text
        (0, Overlap(4, 10_000_000), False),
        (10, None, False),
    ],
)
def test_keys_are_named_where_few_of_them_meet_many_rows(rows: int, overlap: Overlap | None, worth: bool) -> None:
    assert are_keys_worth_naming(rows, overlap) is worth
