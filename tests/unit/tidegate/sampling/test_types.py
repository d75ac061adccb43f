"""Which type a column gets for what was seen, at the ends of types and where a sample cannot tell."""

import json

import msgpack
import pytest
from tidegate.config.parsing.ddl import parse_columns
from tidegate.sampling.column_types import Observed, guess_type, propose_columns, render_ddl_type
from tidegate.sampling.encoded_values import parse_json, parse_packed
from tidegate.sampling.recognition import read_cell
from tidegate.sql.spark import RESERVED, quote_if_needed

# what was written in one column -> its type, and a part of what has to be checked; None for nothing to check
CASES = [
    (["1", "-2147483648"], "BIGINT", None),
    (["2147483648"], "BIGINT", None),
    (["9223372036854775807", "-9223372036854775808"], "BIGINT", None),
    (["9223372036854775808"], "DECIMAL(38,0)", None),
    (["-9223372036854775809"], "DECIMAL(38,0)", None),
    (["9" * 38], "DECIMAL(38,0)", None),
    (["9" * 39], "STRING", "more than 38 digits"),
    (["1.5", "2"], "DOUBLE", "if these are amounts"),
    (
        ["19.90", "7.25"],
        "DECIMAL(18,2)",
        "so it is a DECIMAL; a record with more would be bad",
    ),
    (["1.0", "2.5"], "DOUBLE", "if these are amounts"),
    (["1e300"], "DOUBLE", "if these are amounts"),
    (["0.12345678901234567"], "DECIMAL(38,17)", "DOUBLE would round"),
    (["9007199254740993", "0.5"], "DECIMAL(38,6)", "DOUBLE would round"),
    (["1e400", "1.5", "-1e309"], "DOUBLE", "2 of 3 are beyond DOUBLE, which are bad"),
    (["NaN", "1e999999999999", "2"], "DOUBLE", "1 of 3 are beyond DOUBLE, which are bad"),
    (["NaN", "1.5"], "DOUBLE", None),
    (["Infinity"], "DOUBLE", None),
    (["NaN", "9007199254740993"], "DOUBLE", "1 of 2 are whole numbers that DOUBLE does not hold"),
    (["true", "false", "null"], "BOOLEAN", None),
    (["null", "null"], "STRING", "only null was seen"),
    (["true", "1"], "STRING", "booleans and integers were seen"),
    (["1", '"x"'], "STRING", "integers and texts were seen"),
    (["NaN", '"x"'], "STRING", "STRING keeps the text of each, but for NaN and infinite numbers, which are bad"),
    (['"2026-02-28"'], "DATE", None),
    (['"2026-02-30"'], "STRING", None),
    (['"2026-02-28T10:00:00Z"', '"2026-02-28 10:00:00.123456+01:00"'], "TIMESTAMP", None),
    (['"2026-02-28T10:00"', '"2026-02-28 10:00:00.5"'], "TIMESTAMP_NTZ", None),
    (['"2026-02-28T10:00:00Z"', '"2026-02-28T10:00:00"'], "TIMESTAMP", "1 of 2 have no offset"),
    (['"2026-02-28T10:00:00.123456789Z"'], "STRING", "parts of a microsecond"),
    (['"2026-02-28T10:00:00.123456000Z"'], "TIMESTAMP", None),
    (['"2026-02-28T25:00:00Z"'], "STRING", None),
    (['"2026-02-28T10:00:00+18:00"', '"0001-01-01T00:00:00-18:00"'], "TIMESTAMP", None),
    (['"2026-02-28T10:00:00+18:01"', '"2026-02-28T10:00:00Z"'], "STRING", None),
    (['"9999-12-31T23:59:59-00:01"'], "STRING", None),
    (['"0001-01-01T00:00:00+00:01"'], "STRING", None),
    (['"0000-01-01"'], "STRING", None),
    (['"2026-02-28"', '""'], "STRING", "1 empty texts"),
    (['"2026-02-28"', '"n/a"'], "STRING", None),
    (['"12.50"'], "STRING", None),
    (['"JxA="', '"AQ=="', '"AYag"'], "STRING", "always base64 of few bytes, as Debezium writes a DECIMAL"),
    (['"JxA="', '"open"', '"not it"'], "STRING", None),
    (['"open"', '"paid"'], "STRING", None),
    (['"aGVsbG8gd29ybGQsIGhlbGxvIHdvcmxk"', '"aGVsbG8gd29ybGQsIGhlbGw="'], "STRING", None),
    (["[]", "[]"], "ARRAY<STRING>", "only empty lists"),
    (["[1, null]", "[]"], "ARRAY<BIGINT>", None),
    (['[1, "x"]'], "ARRAY<STRING>", "elements: integers and texts"),
    (["[[1], []]"], "ARRAY<ARRAY<BIGINT>>", None),
    (["{}"], "MAP<STRING, STRING>", "only empty objects"),
    (['{"a.b": 1, "Order": {"x": null}}'], "STRUCT<`a.b`: BIGINT, `Order`: STRUCT<x: STRING>>", "Order: x: only null"),
    (['{"a": 1, "A": 2}'], "STRING", "differ only in case"),
    (['{"a\\nb": 1}'], "STRING", "no STRUCT holds"),
    (['{" ": 1}'], "STRING", "no STRUCT holds"),
    ([json.dumps({f"k{n}": 1}) for n in range(30)], "MAP<STRING, BIGINT>", "taken for a map"),
]


@pytest.mark.parametrize(("written", "expected", "check"), CASES, ids=lambda case: str(case)[:40])
def test_type_of_a_column_by_what_was_seen(written, expected, check) -> None:
    field = Observed([{"c": parse_json(text)} for text in written]).fields["c"]
    guess = guess_type(field, "c")
    assert (render_ddl_type(guess.type), bool(guess.checks)) == (expected, check is not None), guess
    assert check is None or check in " ".join(guess.checks)
    parse_columns(f"c {render_ddl_type(guess.type)}")


PACKED_CASES = [
    ([{1: 2}, {-7: 3}], "MAP<BIGINT, BIGINT>", None),
    ([{2**64 - 1: "x"}], "MAP<DECIMAL(38,0), STRING>", None),
    ([{msgpack.Timestamp(1, 0): True}], "MAP<TIMESTAMP, BOOLEAN>", None),
    ([{b"\x00": {"a": 1}}], "MAP<BINARY, STRUCT<a: BIGINT>>", None),
    ([{"a": 1}, {1: 2}], "MAP<STRING, BIGINT>", "keys: integers and texts were seen, and no type holds both"),
    ([0.5, 2**53 + 1, 2**60], "DOUBLE", "1 of 3 are whole numbers that DOUBLE does not hold"),
    ([0.5, 2**53], "DOUBLE", None),
    ([msgpack.Timestamp(-62_135_596_800, 0), msgpack.Timestamp(253_402_300_799, 0)], "TIMESTAMP", None),
    (
        [msgpack.Timestamp(-62_135_596_801, 0), msgpack.Timestamp(253_402_300_800, 1)],
        "TIMESTAMP",
        "2 lie outside of the years 1 to 9999 and are bad",
    ),
]


@pytest.mark.parametrize(("values", "expected", "check"), PACKED_CASES, ids=lambda case: str(case)[:40])
def test_type_of_what_messagepack_holds(values, expected, check) -> None:
    field = Observed([parse_packed(msgpack.packb({"c": value})) for value in values]).fields["c"]
    guess = guess_type(field, "c", keeps_text=False)
    assert (render_ddl_type(guess.type), check in " ".join(guess.checks) if check else guess.checks) == (
        expected,
        bool(check) or (),
    )


@pytest.mark.parametrize(
    ("name", "number", "unit"),
    [
        ("created_at", 1767225600, "seconds"), ("amount", 1767225600, None), ("n", 1767225600000, "millis"),
        ("n", 1767225600000000, "micros"), ("n", 1767225600000000000, "nanos"), ("createdAt", 1767225600, "seconds"),
        ("n", 999, None),
    ],
)  # fmt: skip
def test_number_that_may_be_a_time_stays_a_number_and_is_said(name, number, unit) -> None:
    guess = guess_type(Observed([{name: number}]).fields[name], name)
    assert render_ddl_type(guess.type) == "BIGINT"
    assert bool(guess.checks) == (unit is not None)
    assert unit is None or f"{{{name}: {unit}}}" in guess.checks[0]


def test_columns_that_no_table_can_have_are_left_out_and_said() -> None:
    rows = [{"Id": 1, "id": 2, "": 1, "a\nb": 1, "order": 1, "c": None}, {"id": 3}]
    columns, problems = propose_columns(Observed(rows), {}, keeps_text=True)
    assert [column.ddl for column in columns] == ["id BIGINT", "`order` BIGINT", "c STRING"]
    assert [problem.split(" is left out")[0] for problem in problems] == ["field 'Id'", "field ''", "field 'a\\nb'"]
    assert "1 of 2 rows lack it" in columns[1].remarks


def test_every_name_is_read_back_as_it_was() -> None:
    names = [*sorted(RESERVED), "a.b", "Upper", "with blank", "tick`ed", "ë", "1st", "_x", "order-id"]
    for name in names:
        (column,) = parse_columns(f"{quote_if_needed(name)} INT  -- it's a `remark`, of {name}")
        assert column.name == name


@pytest.mark.parametrize(
    ("cell", "value"),
    [("", None), ("007", "007"), ("-7", -7), ("-0", "-0"), ("true", True), ("1.50", "1.50"), ("x", "x")],
)
def test_cell_of_a_line_is_what_it_stands_for(cell, value) -> None:
    assert read_cell(cell) == value


@pytest.mark.parametrize(
    "value",
    [
        {"a": 1, "b": [None, True, -1, 2**64 - 1, -(2**63)], "c": {"d": b"\x00" * 300}, "e": "ë" * 40, "f": 0.5},
        {str(n): n for n in range(20)},
        {"x": ["a"] * 70_000},
        {"x": "y" * 70_000, "z": b"\x01" * 70_000},
    ],
)
def test_messagepack_is_read_as_its_library_reads_it(value) -> None:
    packed = msgpack.packb(value)
    assert parse_packed(packed) == value
    for cut in (packed[:-1], packed + b"\x00", b""):
        with pytest.raises(ValueError, match=r"extra data|incomplete"):
            parse_packed(cut)


@pytest.mark.parametrize(("seconds", "nanoseconds"), [(0, 0), (2**32, 5), (2**34, 999_999_999), (-1, 1)])
def test_messagepack_times_in_each_of_their_forms(seconds, nanoseconds) -> None:
    (moment,) = parse_packed(msgpack.packb({"at": msgpack.Timestamp(seconds, nanoseconds)})).values()
    assert moment.nanoseconds == seconds * 10**9 + nanoseconds


def test_messagepack_that_claims_billions_takes_no_memory() -> None:
    for corrupt in (b"\xdf\xff\xff\xff\xff", b"\xdd\x7f\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\x91" * 3000, b"\xc1"):
        with pytest.raises(ValueError):  # noqa: PT011 - several of the library's own
            parse_packed(corrupt)
