"""What a publication writes of a row tells all of it, on real Spark: keys of maps, blanks, bytes, NUL."""

import csv
import io
import json
import random
import re
import struct
from dataclasses import replace
from datetime import UTC, date, datetime
from types import SimpleNamespace
from typing import Any

import decoding
import pytest
from fastavro import schemaless_reader
from pyspark.sql import functions as F
from tidegate.errors import ConfigurationError
from tidegate.schema.avro_resolution import plan_decoding
from tidegate.schema.data_types import Column
from tidegate.spec.publication import KeyOut, MetadataOut, ValueOut
from tidegate.spec.source import KeyFormat, ValueFormat
from tidegate_spark.publish.encoders.avro import build_record_schema
from tidegate_spark.publish.encoders.record_part import RecordPart, WrittenColumn
from tidegate_spark.publish.record_encoding import encode_part, encode_rows
from tidegate_spark.session import close, connect_session

SEED, MADE = 5, 300
SIGNS = ["a", '"', ",", "\0", "#", " ", "\n", "\r", "\\", "'", "\t", "é", "\ufeff", "😀", "\x7f", "\u2028"]
TEXTS = [" a ", "a ", "\0x", "\t", " ", "#x", 'a"b', "\n", "x\\", '\0"', '\\"', "  \n "]


def build_part(rows: Any, word: str, options: dict[str, Any] | None = None) -> RecordPart:
    columns = tuple(WrittenColumn(f.name, f.dataType, f.name) for f in rows.schema if f.name != "n")
    return RecordPart("value", word, options or {}, ("t",), columns)


def encode_texts(spark: Any, rows: Any, word: str, options: dict[str, Any] | None = None) -> list[bytes]:
    part = build_part(rows, word, options)
    names = [F.col("n")] if "n" in rows.columns else []
    encoded_rows = rows.select(*names, encode_part(spark, part).alias("value")).collect()
    return [bytes(row["value"]) for row in sorted(encoded_rows, key=lambda row: row["n"] if names else 0)]


def list_texts() -> list[str]:
    chance = random.Random(SEED)
    return [*TEXTS, *("".join(chance.choices(SIGNS, k=chance.randint(1, 4))) for _ in range(MADE))]


# settings of a server that works for Hive, or for jobs of Spark 2: days before 1582 in another calendar, other patterns
OLD_SETTINGS = {
    "spark.sql.avro.datetimeRebaseModeInRead": "LEGACY",
    "spark.sql.avro.datetimeRebaseModeInWrite": "LEGACY",
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
}


def test_old_days_and_parts_of_a_second_are_written_and_read_on_a_server_of_other_settings(stack: Any) -> None:
    session = connect_session(stack.spark_remote, OLD_SETTINGS)
    day, at = "DATE'0001-01-01'", "TIMESTAMP'1500-03-01 00:00:00.123456'"
    rows = session.sql(f"SELECT {day} AS day, {at} AS at, map({at}, {day}) AS m")
    (text,) = encode_texts(session, rows, "json")
    time = "1500-03-01T00:00:00.123456Z"
    assert json.loads(text) == {"day": "0001-01-01", "at": time, "m": {time: "0001-01-01"}}
    schema = build_record_schema("r", [(f.name, f.dataType) for f in rows.drop("m").schema])
    (data,) = encode_texts(session, rows.drop("m"), "avro", {"schema": json.dumps(schema)})
    assert schemaless_reader(io.BytesIO(data), schema) == {
        "day": date(1, 1, 1),
        "at": datetime(1500, 3, 1, microsecond=123456, tzinfo=UTC),
    }
    options = {"reader": plan_decoding(schema, {}).reader, "writers": {}}
    stage = decoding.build_stage_table(
        ValueFormat("avro", options=options), (Column("day", "DATE"), Column("at", "TIMESTAMP"))
    )
    texts = [f"CAST(value_struct.{name} AS STRING)" for name in ("day", "at")]
    results = decoding.decode(session, stage, [(None, data)], "reason", *texts)
    close(session)
    assert results == [(None, "0001-01-01", "1500-03-01 00:00:00.123456")]


def test_csv_keeps_every_character_of_a_text_and_is_read_as_it_was(spark: Any) -> None:
    texts = list_texts()
    rows = spark.createDataFrame([(n, text, text) for n, text in enumerate(texts)], "n INT, a STRING, b STRING")
    lines = encode_texts(spark, rows, "csv", {"null_literal": "NULL"})
    cells = [list(csv.reader(io.StringIO(line.decode(), newline=""), strict=True)) for line in lines]
    assert cells == [[[text, text]] for text in texts]
    stage = decoding.build_stage_table(
        ValueFormat("csv", options={"null_literal": "NULL"}), (Column("a", "STRING"), Column("b", "STRING"))
    )
    results = decoding.decode_values(spark, stage, lines)
    assert [(reason, tuple(row)) for reason, row in results] == [(None, (text, text)) for text in texts]


@pytest.mark.repeats("test_csv_keeps_every_character_of_a_text_and_is_read_as_it_was")
@pytest.mark.parametrize("escape", [None, "\\"])
def test_csv_that_others_quote_keeps_every_character(spark: Any, escape: str | None) -> None:
    texts = [text for text in list_texts() if escape is None or "\\" not in text]
    columns, options = (Column("a", "STRING"), Column("b", "STRING")), {"null_literal": "NULL", "escape": escape}
    lines = [f'"{text.replace(chr(34), (escape or chr(34)) + chr(34))}",x'.encode() for text in texts]
    results = decoding.decode_values(
        spark, decoding.build_stage_table(ValueFormat("csv", options=options), columns), lines
    )
    assert [(reason, tuple(row)) for reason, row in results] == [(None, (text, "x")) for text in texts]


@pytest.mark.repeats("test_row_of_every_type_is_read_back_as_it_was_written[csv-value]")
def test_csv_tells_nothing_from_an_empty_text_and_is_read_so(spark: Any) -> None:
    expected = [("", b"", ""), (None, None, "x"), ("", None, None)]
    rows = spark.createDataFrame([(n, *row) for n, row in enumerate(expected)], "n INT, a STRING, b BINARY, c STRING")
    lines = encode_texts(spark, rows, "csv")
    assert lines == [b'"","",""', b",,x", b'"",,']
    columns = (Column("a", "STRING"), Column("b", "BINARY"), Column("c", "STRING"))
    results = decoding.decode_values(spark, decoding.build_stage_table(ValueFormat("csv"), columns), lines)
    assert [(reason, tuple(row)) for reason, row in results] == [(None, row) for row in expected]
    numbers = decoding.build_stage_table(ValueFormat("csv"), (Column("a", "INT"), Column("b", "DATE")))
    assert [(reason, tuple(row)) for reason, row in decoding.decode_values(spark, numbers, [b'"",""', b","])] == [
        (None, (None, None)), (None, (None, None)),
    ], "where there is no such text"  # fmt: skip


@pytest.mark.repeats("test_csv_keeps_every_character_of_a_text_and_is_read_as_it_was")
@pytest.mark.parametrize("delimiter", ["\\", "\0", " ", "\t", "\ufeff"])
def test_csv_has_any_delimiter_that_a_file_may_name(spark: Any, delimiter: str) -> None:
    """A backslash begins the name of another character in Spark's options."""
    texts = [(f"a{delimiter}b", "x"), ('"', "\\t"), ("", delimiter)]
    rows = spark.createDataFrame([(n, *row) for n, row in enumerate(texts)], "n INT, a STRING, b STRING")
    options = {"delimiter": delimiter}
    stage = decoding.build_stage_table(
        ValueFormat("csv", options=options), (Column("a", "STRING"), Column("b", "STRING"))
    )
    results = decoding.decode_values(spark, stage, encode_texts(spark, rows, "csv", options))
    assert [(reason, tuple(row)) for reason, row in results] == [(None, row) for row in texts]


@pytest.mark.repeats("test_row_of_every_type_is_read_back_as_it_was_written[csv-value]")
def test_csv_has_bytes_in_base64_as_a_pipeline_reads_them(spark: Any) -> None:
    rows = spark.createDataFrame([(0, b"\xff\xe0\x00", "x"), (1, None, "y")], "n INT, a BINARY, b STRING")
    assert encode_texts(spark, rows, "csv") == [b"/+AA,x", b",y"]


@pytest.mark.repeats("test_column_of_parts_has_no_text_that_is_its_alone[MAP<STRING, STRING>-csv]")
def test_bytes_in_string_are_refused_where_a_pipeline_would_read_others(spark: Any) -> None:
    """`cafe` is the text of four bytes, and base64 of three others."""
    rows = spark.createDataFrame([(0, b"cafe"), (1, b"\x00\xff")], "n INT, a BINARY")
    with pytest.raises(ConfigurationError, match=r"value.format=string: column=a is binary.*use raw .*base64\(`a`\)"):
        encode_texts(spark, rows, "string")
    stage = decoding.build_stage_table(ValueFormat("string"), (Column("a", "BINARY"),))
    texts = rows.selectExpr("n", "base64(a) AS a")
    ways = ((ValueFormat("raw"), rows), (ValueFormat("string"), texts))
    for value, frame in ways:
        results = decoding.decode_values(spark, replace(stage, value=value), encode_texts(spark, frame, value.format))
        assert [(reason, bytes(row["a"])) for reason, row in results] == [(None, b"cafe"), (None, b"\x00\xff")]


@pytest.mark.repeats("test_row_of_every_type_is_read_back_as_it_was_written[json-value]", "json-key")
@pytest.mark.repeats("test_row_of_every_type_is_read_back_as_it_was_written[csv-value]", "csv-key")
@pytest.mark.parametrize("part", ["value", "key"])
@pytest.mark.parametrize("word", ["json", "csv"])
def test_row_of_every_type_is_read_back_as_it_was_written(spark: Any, word: str, part: str) -> None:
    """The earliest and the last of each type, nothing, and NULL."""
    kinds = SIMPLE if word == "csv" else {**SIMPLE, **PARTS}
    names = {kind: f"c{number}" for number, kind in enumerate(kinds)}
    height = 1 + max(map(len, kinds.values()))
    cells = (
        f"CASE id {' '.join(f'WHEN {n} THEN CAST({text} AS {kind})' for n, text in enumerate(texts))} END"
        for kind, texts in kinds.items()
    )
    columns_sql = (f"{cell} AS {name}" for cell, name in zip(cells, names.values(), strict=True))
    rows = spark.range(height).selectExpr("CAST(id AS INT) AS n", *columns_sql)
    # in hexadecimal, as bytes in a text are no UTF-8
    templates = [f"hex(CAST(CAST(struct({{}}.{name}) AS STRING) AS BINARY))" for name in names.values()]
    expected = [
        tuple(row)
        for row in rows.orderBy("n").selectExpr(*(template.replace("{}.", "") for template in templates)).collect()
    ]
    columns, data = tuple(Column(name, kind) for kind, name in names.items()), encode_texts(spark, rows, word)
    if part == "value":
        stage, records = decoding.build_stage_table(ValueFormat(word), columns), [(None, each) for each in data]
    else:
        stage = decoding.build_stage_table(ValueFormat("json"), (Column("q", "INT"),), columns)
        stage = replace(stage, key=KeyFormat(word, fields=tuple(names.values())))
        records = [(each, b'{"q": 1}') for each in data]
    decoded = decoding.decode(
        spark, stage, records, "reason", *(template.replace("{}", f"{part}_struct") for template in templates)
    )
    assert decoded == [(None, *row) for row in expected]


SIMPLE = {
    "BOOLEAN": ["true"], "BIGINT": ["-9223372036854775808L", "0"],
    "FLOAT": ["CAST('1.4E-45' AS FLOAT)", "'NaN'", "'-Infinity'", "CAST('-0.0' AS FLOAT)"],
    "DOUBLE": ["4.9E-324D", "1.7976931348623157E308D", "9007199254740993D", "0.1D"],
    "DECIMAL(38,10)": ["1234567890123456789012345678.0123456789BD", "-0.0000000001BD"],
    "DECIMAL(38,38)": ["0.00000000000000000000000000000000000001BD"],
    "DATE": ["DATE'0001-01-01'", "DATE'1582-10-04'", "DATE'9999-12-31'"],
    "TIMESTAMP": ["TIMESTAMP'0001-01-01 00:00:00Z'", "TIMESTAMP'9999-12-31 23:59:59.999999Z'",
                  "TIMESTAMP'1969-12-31 23:59:59.999999Z'"],
    "TIMESTAMP_NTZ": ["TIMESTAMP_NTZ'0001-01-01 00:00:00'", "TIMESTAMP_NTZ'2026-03-29 02:30:00.000007'"],
    "STRING": ["''", "'null'", "' a,\"b'", "'12'", "'é😀'"],
    "BINARY": ["X''", "X'00ff'", "CAST('cafe' AS BINARY)"],
}  # fmt: skip
PARTS = {
    "STRUCT<a: BINARY, b: STRUCT<c: DECIMAL(12,2), d: TIMESTAMP>>": [
        "named_struct('a', X'00ff', 'b', named_struct('c', 1.50BD, 'd', TIMESTAMP'2026-01-02 03:04:05.000007Z'))",
        "named_struct('a', X'', 'b', NULL)",
    ],
    "ARRAY<BINARY>": ["array(X'00', NULL, X'')", "array()"],
    "ARRAY<STRUCT<x: TIMESTAMP_NTZ, y: DATE>>": [
        "array(named_struct('x', TIMESTAMP_NTZ'2026-01-02 03:04:05.000007', 'y', DATE'0001-01-01'), NULL)",
    ],
    "ARRAY<DOUBLE>": ["array(0.1D, CAST('Infinity' AS DOUBLE))"],
    "MAP<STRING, DECIMAL(12,2)>": ["map('a', 1.50BD, '', NULL)", "map()"],
    "MAP<STRING, BINARY>": ["map('a', X'00')"],
}  # fmt: skip


@pytest.mark.repeats(
    "test_column_of_parts_has_no_text_that_is_its_alone[MAP<STRING, STRING>-csv]",
    "ARRAY<STRING>-csv",
    "ARRAY<STRING>-string",
    "ARRAY<STRING>-raw",
    "MAP<STRING, STRING>-string",
    "MAP<STRING, STRING>-raw",
    "STRUCT<a: STRING>-csv",
    "STRUCT<a: STRING>-string",
    "STRUCT<a: STRING>-raw",
)
@pytest.mark.parametrize("word", ["csv", "string", "raw"])
@pytest.mark.parametrize("type", ["ARRAY<STRING>", "MAP<STRING, STRING>", "STRUCT<a: STRING>"])
def test_column_of_parts_has_no_text_that_is_its_alone(spark: Any, word: str, type: str) -> None:
    rows = spark.sql(f"SELECT CAST(NULL AS {type}) AS a")
    with pytest.raises(ConfigurationError, match=rf"value.format={word}: column=a is .*; write to_json of it in sql"):
        encode_texts(spark, rows, word)


@pytest.mark.repeats("test_row_of_every_type_is_read_back_as_it_was_written[json-value]")
def test_json_has_keys_of_maps_as_values_of_their_type_are_written(spark: Any) -> None:
    maps = """map(DATE'0001-01-01', 1) AS d, map(TIMESTAMP'2026-01-02 03:04:05.000007', 1) AS t,
        map(TIMESTAMP_NTZ'2026-01-02 03:04:05.000007', 1) AS l, map(X'FFE000', map(X'00', X'01')) AS b,
        array(named_struct('m', map(DATE'2026-01-02', CAST(NULL AS INT))), NULL) AS s,
        map(1.50BD, true) AS e, CAST(NULL AS MAP<DATE, INT>) AS x, map('a', DATE'2026-01-02') AS k"""
    assert [json.loads(value) for value in encode_texts(spark, spark.sql(f"SELECT {maps}"), "json")] == [
        {
            "d": {"0001-01-01": 1},
            "t": {"2026-01-02T03:04:05.000007Z": 1},
            "l": {"2026-01-02T03:04:05.000007": 1},
            "b": {"/+AA": {"AA==": "AQ=="}},
            "s": [{"m": {"2026-01-02": None}}, None],
            "e": {"1.50": True},
            "x": None,
            "k": {"a": "2026-01-02"},
        }
    ]


@pytest.mark.repeats("test_column_of_parts_has_no_text_that_is_its_alone[MAP<STRING, STRING>-csv]")
@pytest.mark.parametrize("key", ["ARRAY<INT>", "STRUCT<a: INT>"])
def test_json_has_no_keys_of_parts(spark: Any, key: str) -> None:
    rows = spark.sql(f"SELECT named_struct('m', CAST(NULL AS MAP<{key}, INT>)) AS a")
    with pytest.raises(ConfigurationError, match=r"column=a.m is map<.*; turn its keys into texts in sql"):
        encode_texts(spark, rows, "json")


@pytest.mark.repeats(
    "integration/test_unwritable_rows.py::test_header_without_a_key_makes_no_record_and_its_column_is_found_in_other_letters"
)
def test_columns_whose_names_differ_in_more_than_case_are_two(spark: Any) -> None:
    """`straße` folds to `strasse`: the value lost a column, or one was written by the other one's type."""
    rows = spark.sql(
        "SELECT 7 AS strasse, map(DATE'2026-01-02', 1) AS `straße`, DATE'2026-01-01' AS `ort`, 1 AS `ORT2`"
    )
    key, value = KeyOut(("strasse",)), ValueOut(fields_include="EXCEPT_KEY")
    job: Any = SimpleNamespace(
        publication="p", is_append=False, topics=("t",), key=key, value=value, metadata=MetadataOut()
    )
    (encoded_row,) = encode_rows(spark, rows, job).collect()
    record = json.loads(bytes(encoded_row["key"])), json.loads(bytes(encoded_row["value"]))
    assert record == ({"strasse": 7}, {"straße": {"2026-01-02": 1}, "ort": "2026-01-01", "ORT2": 1})


@pytest.mark.repeats(
    "integration/test_unwritable_rows.py::test_header_without_a_key_makes_no_record_and_its_column_is_found_in_other_letters"
)
@pytest.mark.parametrize("type", ["TIMESTAMP", "DATE"])
def test_time_of_1970_is_not_taken_for_now_by_the_client(spark: Any, type: str) -> None:
    days = ["1970-01-01", "1970-01-02", "1969-12-31", None]
    rows = spark.createDataFrame([(n, day) for n, day in enumerate(days)], "id INT, day STRING")
    rows = rows.selectExpr("id", f"CAST(day AS {type}) AS at")
    parts = {"key": KeyOut(("id",)), "value": ValueOut(), "metadata": MetadataOut(timestamp="at")}
    job: Any = SimpleNamespace(publication="p", is_append=False, topics=("t",), **parts)  # what is read of it
    timestamps = {
        json.loads(bytes(row["key"]))["id"]: row["timestamp"] for row in encode_rows(spark, rows, job).collect()
    }
    assert timestamps == {0: 1, 1: 86_400_000, 2: -86_400_000, 3: None}


@pytest.mark.repeats("test_old_days_and_parts_of_a_second_are_written_and_read_on_a_server_of_other_settings")
def test_records_whose_ways_read_alike_have_names_of_their_own_in_avro(spark: Any) -> None:
    """`a_b.c` and `a.b_c`: a schema names no two records alike."""
    rows = spark.sql(
        "SELECT named_struct('c', named_struct('x', 1)) AS a_b, named_struct('b_c', named_struct('y', 'z')) AS a"
    )
    schema = json.dumps(build_record_schema("t_value", build_part(rows, "avro").typed_fields))
    inner = ["t_value_a_b", "t_value_a_b_c", "t_value_a", "t_value_a_b_c_"]
    assert re.findall(r'"record", "name": "(\w+)"', schema) == ["t_value", *inner]
    columns = (Column("a_b", "STRUCT<c: STRUCT<x: INT>>"), Column("a", "STRUCT<b_c: STRUCT<y: STRING>>"))
    plan = plan_decoding(json.loads(schema), {})
    stage = decoding.build_stage_table(ValueFormat("avro", options={"reader": plan.reader, "writers": {}}), columns)
    (result,) = decoding.decode_values(spark, stage, encode_texts(spark, rows, "avro", {"schema": schema}))
    assert (result[0], result[1]["a_b"]["c"]["x"], result[1]["a"]["b_c"]["y"]) == (None, 1, "z")


NUMBERS = {
    "BOOLEAN": ["true", "false"], "TINYINT": ["-128", "127"], "SMALLINT": ["-32768", "1"], "INT": ["-2147483648", "7"],
    "BIGINT": ["-9223372036854775808", "12345678"], "FLOAT": ["-1.5", "'NaN'"],
    "DOUBLE": ["1.7976931348623157E308", "-0.0D"],
}  # fmt: skip


FORMS = dict(zip(NUMBERS, (">?", ">b", ">h", ">i", ">q", ">f", ">d"), strict=True))


@pytest.mark.repeats(
    "test_raw_number_is_what_kafkas_serializers_write_and_a_pipeline_reads_it[DOUBLE]",
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
)
@pytest.mark.parametrize("kind", NUMBERS)
def test_raw_number_is_what_kafkas_serializers_write_and_a_pipeline_reads_it(spark: Any, kind: str) -> None:
    numbers = " UNION ALL ".join(
        f"SELECT {n} AS n, CAST({text} AS {kind}) AS a" for n, text in enumerate([*NUMBERS[kind], "NULL"])
    )
    rows = spark.sql(numbers)
    part = build_part(rows, "raw")
    encoded_rows = rows.select("n", "a", encode_part(spark, part).alias("value")).collect()
    *good, nothing = sorted(encoded_rows, key=lambda row: row["n"])
    assert nothing["value"] is None
    results = decoding.decode_values(
        spark,
        decoding.build_stage_table(ValueFormat("raw"), (Column("a", kind),)),
        [bytes(row["value"]) for row in good],
    )
    assert [(reason, str(row["a"])) for reason, row in results] == [(None, str(row["a"])) for row in good]
    form = {"BOOLEAN": ">?", "TINYINT": ">b", "SMALLINT": ">h", "INT": ">i", "BIGINT": ">q", "FLOAT": ">f"}.get(
        kind, ">d"
    )
    assert [bytes(row["value"]) for row in good] == [struct.pack(form, row["a"]) for row in good]
