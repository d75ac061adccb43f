"""string, raw and csv, keys and values, through real Kafka, Spark and Iceberg: awkward text at each type's limits."""

import csv
import io
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import decoding
import pytest
from tidegate.errors import BadRecord
from tidegate.schema.data_types import Column
from tidegate.spec.source import ValueFormat

# column type, text, expected
FITS: list[tuple[str, str, Any]] = [
    ("BOOLEAN", "true", True),
    ("BOOLEAN", "FALSE", False),
    ("TINYINT", "-128", -128),
    ("INT", "2147483647", 2147483647),
    ("BIGINT", "-9223372036854775808", -(2**63)),
    ("FLOAT", "1.5", 1.5),
    ("DOUBLE", "-1e308", -1e308),
    ("DOUBLE", "Infinity", float("inf")),
    ("DECIMAL(38,10)", "1234567890123456789012345678.0123456789", Decimal("1234567890123456789012345678.0123456789")),
    ("DATE", "0001-01-01", date(1, 1, 1)),
    ("TIMESTAMP", "9999-12-31T23:59:59.999999Z", datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
    ("TIMESTAMP_NTZ", "2026-02-28 10:00:00.123456", datetime(2026, 2, 28, 10, 0, 0, 123456)),
    ("STRING", "日本 'x' \\ 😀", "日本 'x' \\ 😀"),
    ("BINARY", "AP8=", b"\x00\xff"),
]
MISFITS: list[tuple[str, str]] = [
    ("BOOLEAN", "yes"),
    ("TINYINT", "128"),
    ("INT", "1.0"),
    ("BIGINT", "9223372036854775808"),
    ("DOUBLE", "1e309"),
    ("DOUBLE", "1.5x"),
    ("DECIMAL(5,2)", "1.005"),
    ("DECIMAL(5,2)", "NaN"),
    ("DATE", "2026-02-30"),
    ("TIMESTAMP", "2026-02-28T10:00:00.1234567Z"),
    ("BINARY", "***"),
]


def format_csv_line(*cells: str, delimiter: str = ",") -> str:
    line = io.StringIO()
    csv.writer(line, delimiter=delimiter).writerow(cells)
    return line.getvalue().removesuffix("\r\n")


def render_schema(kinds: list[str]) -> str:
    return ", ".join(f"c{number} {kind}" for number, kind in enumerate(kinds))


def test_every_type_comes_out_of_csv_as_it_went_in(workbench) -> None:
    topic = workbench.topic()
    kinds, texts, expected = zip(*FITS, strict=True)
    workbench.pipeline("cells", [topic], value={"format": "csv", "schema": render_schema(list(kinds))})
    workbench.produce(topic, (None, format_csv_line(*texts)), (None, "," * (len(texts) - 1)))
    workbench.flush("cells")
    rows = sorted(workbench.read_rows("shop.cells"), key=lambda row: row["c0"] is None)
    assert [tuple(row.values()) for row in rows] == [expected, (None,) * len(texts)]


def test_text_that_a_type_cannot_hold_is_bad_in_csv_and_in_string(spark) -> None:
    from tidegate_spark.fields.text import render_is_lossy

    cases = [*MISFITS, *((kind, text) for kind, text, _ in FITS)]
    columns = ", ".join(f"t{number} STRING" for number in range(len(cases)))
    frame = spark.createDataFrame([tuple(text for _, text in cases)], columns)
    (row,) = frame.selectExpr(
        *(f"{render_is_lossy(f't{n}', kind)} AS b{n}" for n, (kind, _) in enumerate(cases))
    ).collect()
    assert [case for case, bad in zip(cases, row, strict=True) if bad != (case in MISFITS)] == []


@pytest.mark.repeats("test_every_type_comes_out_of_csv_as_it_went_in")
def test_csv_key_of_two_columns_with_other_options_upserts_and_deletes(workbench) -> None:
    topic = workbench.topic()
    key = {"format": "csv", "fields": ["id", "at"], "schema": "id BIGINT, at DATE", "csv": {"delimiter": ";"}}
    value = {"format": "csv", "schema": "id BIGINT, at DATE, name STRING, n INT"}
    value["csv"] = {"delimiter": "|", "quote": "'", "null_literal": "-"}
    workbench.pipeline("lines", [topic], key=key, value=value)
    workbench.produce(
        topic,
        ("1;2026-01-01", "1|2026-01-01|'a|b'|-"),
        ("1;2026-01-02", "1|2026-01-02||7"),
        ("2;2026-01-01", "2|2026-01-01|-|7"),
        ("2;2026-01-01", None),
    )
    workbench.flush("lines")
    assert workbench.read_rows("shop.lines") == [
        {"id": 1, "at": date(2026, 1, 1), "name": "a|b", "n": None},
        {"id": 1, "at": date(2026, 1, 2), "name": "", "n": 7},
    ]


CELLS = [
    "",
    " ",
    "a",
    '"',
    '""',
    'a"b',
    '"a"',
    "a,b",
    ",",
    "a\nb",
    "a\r\nb",
    "\\",
    '\\"',
    "a\\,b",
    "'",
    "é😀",
    '","',
    "\x00",
]


def test_whatever_stands_in_a_cell_is_read_as_it_was_written(spark) -> None:
    rows = [(cell, other) for cell in CELLS for other in CELLS]
    results = decode_lines(spark, [format_csv_line("1", *cells).encode() for cells in rows])
    expected = [(None, (1, cell or None, other or None)) for cell, other in rows]
    assert [(result, right) for result, right in zip(results, expected, strict=True) if result != right] == []


@pytest.mark.repeats("test_whatever_stands_in_a_cell_is_read_as_it_was_written")
def test_own_escape_keeps_a_quote_inside(spark) -> None:
    lines = [b"1,'a\\'b',c", b"1,'a\\\\',c", b"1,'a,\nb',c\r\n", b"1,'a''b',c", b"1,a'b,c"]
    results = decode_lines(spark, lines, {"quote": "'", "escape": "\\"})
    assert [row and row["b"] for reason, row in results if reason is None] == ["a'b", "a\\", "a,\nb", "a'b"]
    assert results[3][0] == "the value is not one line of 3 columns"


@pytest.mark.repeats("test_whatever_stands_in_a_cell_is_read_as_it_was_written")
def test_text_that_is_no_line_is_bad(spark) -> None:
    texts = [
        '1,"a"x,c',
        '1,"a,c',
        '1,a,"c',
        '1,a,"c"d"',
        '1,"a\\"b",c',
        "1,a\nb,c",
        "1,a,c\n1,a,c",
        "1,a,c\n\n",
        "\n1,a,c",
    ]
    texts += ["", "1,a", "1,a,b,c", '1,"a,b', "\n", "\n\n", '"1,a,c"', '""']
    results = dict(zip(texts, decode_lines(spark, [text.encode() for text in texts]), strict=True))
    assert {
        text: row for text, (reason, row) in results.items() if reason != "the value is not one line of 3 columns"
    } == {}
    assert decode_lines(spark, [b"1,a,c\n", b"1,a,c\r\n", b"1, a ,"]) == [
        (None, (1, "a", "c")), (None, (1, "a", "c")), (None, (1, " a ", None)),
    ]  # fmt: skip


def decode_lines(spark, lines: list[bytes], options: dict[str, str] | None = None) -> list[tuple[str | None, Any]]:
    columns = (Column("a", "INT"), Column("b", "STRING"), Column("c", "STRING"))
    stage = decoding.build_stage_table(ValueFormat("csv", options=options or {}), columns)
    return decoding.decode_values(spark, stage, lines)


def test_raw_bytes_and_text_land_as_they_are(workbench) -> None:
    topic, other = workbench.topic(), workbench.topic()
    tables = [
        {
            "name": f"lake.shop.{name}", "topics": [own_topic],
            "key": {"format": word, "fields": ["id"]}, "value": {"format": word},
        }
        for name, word, own_topic in (("bytes", "raw", topic), ("words", "string", other))
    ]  # fmt: skip
    workbench.pipeline("unread", [topic, other], tables=tables)
    workbench.produce(topic, (b"\x00\xff", b"\xfe\x00"), (b"", b""), (b"gone", b"x"), (b"gone", None))
    workbench.produce(other, ("é'\\", "text"), ("", ""), ("gone", "x"), ("gone", None))
    workbench.flush("unread")
    assert sorted(map(tuple, (r.values() for r in workbench.read_rows("shop.bytes")))) == [
        (b"", b""),
        (b"\x00\xff", b"\xfe\x00"),
    ]
    assert sorted(map(tuple, (r.values() for r in workbench.read_rows("shop.words")))) == [("", ""), ("é'\\", "text")]


@pytest.mark.repeats("test_text_that_a_type_cannot_hold_is_bad_in_csv_and_in_string")
def test_text_of_one_typed_column_is_read_without_loss(workbench) -> None:
    topic = workbench.topic()
    workbench.pipeline("numbers", [topic], value={"format": "string", "schema": "n DECIMAL(5,2)"})
    workbench.produce(topic, (None, "123.450"))
    workbench.flush("numbers")
    assert workbench.read_rows("shop.numbers") == [{"n": Decimal("123.45")}]
    workbench.produce(topic, (None, "123.456"))
    with pytest.raises(BadRecord, match="the value is not a DECIMAL"):
        workbench.flush("numbers")
