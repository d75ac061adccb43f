"""How engines are judged: values in one form whoever read them, limits that explain a difference, and the page."""

import uuid
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from engines import report
from engines.journey import State
from engines.readers import Engine, Reading
from engines.shop import CASES, Case, Change, compute_rows
from engines.values import (
    EMPTY_COLLECTIONS,
    EMPTY_OF_STRUCTS,
    HOLLOW_STRUCTS,
    build_row,
    convert,
    describe_difference,
    find_limits,
    leave_out,
    parse_text,
)
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

AT = datetime(2026, 1, 1, 10, 0, 0, 1, tzinfo=UTC)
PART = StructType(NestedField(11, "City", StringType()), NestedField(12, "at", TimestamptzType()))
PARTS = ListType(13, PART)
PRICES = MapType(14, StringType(), 15, DecimalType(5, 2))
FIELDS = StructType(
    NestedField(1, "id", LongType()), NestedField(2, "parts", PARTS), NestedField(3, "tags", ListType(16, StringType()))
)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (LongType(), 2**62, str(2**62)),
        (FloatType(), 0.10000000149011612, "0.1"),
        (DoubleType(), -0.0, "-0.0"),
        (DoubleType(), float("nan"), "NaN"),
        (DecimalType(38, 10), Decimal("-12345678901234567890123456.5"), "-12345678901234567890123456.5000000000"),
        (TimestampType(), datetime(1, 1, 1), "0001-01-01T00:00"),
        (TimestamptzType(), AT, "2026-01-01T10:00:00.000001Z"),
        (StringType(), "ß", "ß"),
        (BinaryType(), b"\x00\xff", "00ff"),
        (UUIDType(), uuid.UUID(int=7).bytes, str(uuid.UUID(int=7))),
        (PART, {"at": AT, "City": "x"}, '["x","2026-01-01T10:00:00.000001Z"]'),
        (PARTS, [{"City": None, "at": None}, None], "[[null,null],null]"),
        (PRICES, [("b", None), ("a", Decimal("1.5"))], '[["a","1.50"],["b",null]]'),
    ],
)
def test_value_of_a_client_and_text_of_flink_are_one(kind: Any, value: Any, text: str) -> None:
    assert convert(value, kind) == parse_text(text, kind) is not None
    assert convert(None, kind) is parse_text(None, kind) is None


def test_fewest_limits_explain_a_difference_and_none_explains_another() -> None:
    rows = [build_row(row, FIELDS) for row in (
        {"id": 1, "parts": None, "tags": None}, {"id": 2, "parts": [None], "tags": []},
    )]  # fmt: skip
    limits = (EMPTY_OF_STRUCTS, EMPTY_COLLECTIONS, HOLLOW_STRUCTS)
    empty = [rows[0] | {"parts": []}, rows[1]]
    assert find_limits(rows, [*reversed(rows)], FIELDS, limits) == ()
    assert find_limits(rows, empty, FIELDS, limits) == (EMPTY_OF_STRUCTS,)
    assert find_limits(rows, [empty[0] | {"tags": []}, rows[1]], FIELDS, limits) == (EMPTY_COLLECTIONS,)
    hollow = [empty[0], rows[1] | {"parts": [[None, None]]}]
    assert find_limits(rows, hollow, FIELDS, limits) == (EMPTY_OF_STRUCTS, HOLLOW_STRUCTS)
    assert find_limits(rows, [empty[0] | {"id": 3}, rows[1]], FIELDS, (*limits, leave_out("tags", "tags"))) is None
    assert find_limits(rows, [rows[0], rows[0]], FIELDS, limits) is None
    assert describe_difference(rows, [empty[0], rows[1]]) == "`parts`: [] instead of null"
    assert describe_difference(rows, rows[:1]) == "1 rows instead of 2"
    assert describe_difference(rows[:1], [{"id": 1, "tags": None}]) == "without `parts`"


def test_rows_of_each_mode_are_those_that_its_records_make() -> None:
    def write(number: int, **row: Any) -> Change:
        return Change(number, {"id": number, "seq": 0, "a": None, "b": None} | row)

    batches = [[write(1, a=1), write(2, a=2)], [write(1, b=5, seq=-1), Change(2, None)], [write(2, a=3)]]
    rows = {case.name: [(r["id"], r.get("a"), r.get("b")) for r in compute_rows(case, batches)] for case in CASES}
    assert rows["upserts"] == rows["copied"] == rows["parted"] == rows["foreign"] == [(1, None, 5), (2, 3, None)]
    assert rows["appended"] == [(1, 1, None), (2, 2, None), (1, None, 5), (2, 3, None)]
    assert rows["deleted"] == [(1, 1, None), (1, None, 5), (2, 3, None)]
    assert rows["partial"] == [(1, 1, 5), (2, 3, None)]
    assert rows["ordered"] == [(1, 1, None), (2, 3, None)]
    assert rows["versions"] == [(1, 1, None), (2, 2, None), (1, None, 5), (2, 3, None)]
    by_name = {case.name: case for case in CASES}
    soft = compute_rows(by_name["soft"], batches[:2])
    assert [(row["id"], row["is_deleted"]) for row in soft] == [(1, False), (2, True)]
    history = compute_rows(by_name["versions"], batches)
    assert [(row["is_current"], row["valid_to"] and row["valid_to"].minute) for row in history] == [
        (False, 1), (False, 1), (True, None), (True, None),
    ]  # fmt: skip


@pytest.fixture
def document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "engines.md"
    marks = [report.BEGIN.format(engine=name) + "\n" + report.END.format(engine=name) for name in ("one", "two")]
    path.write_text("\n".join(["# Engines", *marks, "Behind."]))
    monkeypatch.setattr(report, "DOCUMENT", path)
    return path


def test_section_of_an_engine_says_what_each_state_of_a_table_was_read_as_and_leaves_the_others(document: Path) -> None:
    def make(case: Case, step: str, version: str = "2") -> State:
        return State(case, version, step, Path("x.json"), StructType(NestedField(1, "n", IntegerType())), [])

    engine = Engine(
        "One", read=lambda *_: ("", []), limits=(leave_out("numbers | are others", "n"),), refusals=("no 3",)
    )
    spark, upserts, copied = Reading([{"n": 1}]), CASES[0], CASES[1]
    results = [
        report.judge(engine, make(upserts, "flushes"), spark, spark),
        report.judge(engine, make(upserts, "rollback"), spark, Reading([{"n": 2}])),
        report.judge(engine, make(copied, "flushes"), spark, Reading(refused="Error: no 3 | `x`\n" + "word " * 80)),
        report.judge(engine, make(copied, "rollback"), spark, Reading(refused="Error: other")),
        report.judge(engine, make(upserts, "flushes", "3"), spark, Reading([])),
    ]
    assert [result.is_known for result in results] == [True, True, True, False, False]
    report.write_section("two", "Two 1.0", results[:1], "2026-12-01")
    report.write_section("one", "One 0.9", results[:1], "2026-11-30")
    report.write_section("one", "One 1.0", results, "2026-12-01")
    text = document.read_text()
    assert (text.count("## One 1.0"), text.count("## One 0.9"), text.count("## Two 1.0")) == (1, 0, 1)
    assert text.startswith("# Engines\n")
    assert text.endswith("\nBehind.")
    rows = [line for line in text.splitlines() if line.startswith("| upserts and deletes, ")]
    assert rows[0] == f"| {upserts.title} | flushes: equal; rollback: equal (a) | **WRONG** (d) |"
    assert rows[1] == f"| {copied.title} | flushes: refused (b); rollback: refused (c) |  |"
    notes = [line for line in text.splitlines() if line.startswith("- (")]
    assert notes[0] == "- (a) but numbers | are others"
    assert notes[1].startswith("- (b) `Error: no 3 | 'x' word word")
    assert notes[1].endswith(" word …`")
    assert notes[2:] == ["- (c) `Error: other`", "- (d) 0 rows instead of 1"]
    assert "States read on 2026-12-01: 2 equal, 2 refused, 1 **WRONG**." in text
