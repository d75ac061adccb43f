"""What a publication writes of a row tells all of it, on real Spark: keys of maps, blanks, bytes, NUL."""

import csv
import io
import json
import random
import struct
from types import SimpleNamespace
from typing import Any

import decoding
import pytest
from protobuf_messages import a_file, field, message
from pyspark.sql import functions as F  # noqa: N812 (the name that every Spark user knows)
from tidegate.errors import ConfigurationError
from tidegate.schema.column import Column
from tidegate.spec.formats import ValueFormat
from tidegate.spec.publication import KeyOut, MetadataOut, ValueOut
from tidegate_spark.publish.encoders import protobuf
from tidegate_spark.publish.encoders.protobuf_presence import list_presence_problems
from tidegate_spark.publish.encoders.record_part import RecordPart, WrittenColumn, render_problem
from tidegate_spark.publish.encoders.registry import encode_part, render_part_problem
from tidegate_spark.publish.record_encoding import encode_rows

SEED, MADE = 5, 300
SIGNS = ["a", '"', ",", "\0", "#", " ", "\n", "\r", "\\", "'", "\t", "é", "\ufeff", "😀", "\x7f", "\u2028"]
TEXTS = [" a ", "a ", "\0x", "\t", " ", "#x", 'a"b', "\n", "x\\", '\0"', '\\"', "  \n "]


def a_part(rows: Any, word: str, options: dict[str, Any] | None = None) -> RecordPart:
    columns = tuple(WrittenColumn(f.name, f.dataType, f.name) for f in rows.schema if f.name != "n")
    return RecordPart("value", word, options or {}, ("t",), columns)


def written(spark: Any, rows: Any, word: str, options: dict[str, Any] | None = None) -> list[bytes]:
    part = a_part(rows, word, options)
    names = [F.col("n")] if "n" in rows.columns else []
    made = rows.select(*names, encode_part(spark, part).alias("value")).collect()
    return [bytes(row["value"]) for row in sorted(made, key=lambda row: row["n"] if names else 0)]


def list_texts() -> list[str]:
    chance = random.Random(SEED)
    return [*TEXTS, *("".join(chance.choices(SIGNS, k=chance.randint(1, 4))) for _ in range(MADE))]


def test_csv_keeps_every_character_of_a_text_and_is_read_as_it_was(spark: Any) -> None:
    texts = list_texts()
    rows = spark.createDataFrame([(n, text, text) for n, text in enumerate(texts)], "n INT, a STRING, b STRING")
    lines = written(spark, rows, "csv", {"null_literal": "NULL"})
    told = [list(csv.reader(io.StringIO(line.decode(), newline=""), strict=True)) for line in lines]
    assert told == [[[text, text]] for text in texts]
    stage = decoding.a_stage(
        ValueFormat("csv", options={"null_literal": "NULL"}), (Column("a", "STRING"), Column("b", "STRING"))
    )
    found = decoding.values(spark, stage, lines)
    assert [(reason, tuple(row)) for reason, row in found] == [(None, (text, text)) for text in texts]


@pytest.mark.parametrize("escape", [None, "\\"])
def test_csv_that_others_quote_keeps_every_character(spark: Any, escape: str | None) -> None:
    texts = [text for text in list_texts() if escape is None or "\\" not in text]
    columns, options = (Column("a", "STRING"), Column("b", "STRING")), {"null_literal": "NULL", "escape": escape}
    lines = [f'"{text.replace(chr(34), (escape or chr(34)) + chr(34))}",x'.encode() for text in texts]
    found = decoding.values(spark, decoding.a_stage(ValueFormat("csv", options=options), columns), lines)
    assert [(reason, tuple(row)) for reason, row in found] == [(None, (text, "x")) for text in texts]


def test_csv_tells_nothing_from_an_empty_text_and_is_read_so(spark: Any) -> None:
    told = [("", b"", ""), (None, None, "x"), ("", None, None)]
    rows = spark.createDataFrame([(n, *row) for n, row in enumerate(told)], "n INT, a STRING, b BINARY, c STRING")
    lines = written(spark, rows, "csv")
    assert lines == [b'"","",""', b",,x", b'"",,']
    columns = (Column("a", "STRING"), Column("b", "BINARY"), Column("c", "STRING"))
    found = decoding.values(spark, decoding.a_stage(ValueFormat("csv"), columns), lines)
    assert [(reason, tuple(row)) for reason, row in found] == [(None, row) for row in told]
    numbers = decoding.a_stage(ValueFormat("csv"), (Column("a", "INT"), Column("b", "DATE")))
    assert [(reason, tuple(row)) for reason, row in decoding.values(spark, numbers, [b'"",""', b","])] == [
        (None, (None, None)), (None, (None, None)),
    ], "where there is no such text"  # fmt: skip


def test_csv_has_bytes_in_base64_as_a_pipeline_reads_them(spark: Any) -> None:
    rows = spark.createDataFrame([(0, b"\xff\xe0\x00", "x"), (1, None, "y")], "n INT, a BINARY, b STRING")
    assert written(spark, rows, "csv") == [b"/+AA,x", b",y"]


@pytest.mark.parametrize("word", ["csv", "string", "raw"])
@pytest.mark.parametrize("type", ["ARRAY<STRING>", "MAP<STRING, STRING>", "STRUCT<a: STRING>"])
def test_column_of_parts_has_no_text_that_is_its_alone(spark: Any, word: str, type: str) -> None:
    rows = spark.sql(f"SELECT CAST(NULL AS {type}) AS a")
    with pytest.raises(ConfigurationError, match=rf"value.format={word}: column=a is .*; write to_json of it in sql"):
        written(spark, rows, word)


def test_json_has_keys_of_maps_as_values_of_their_type_are_written(spark: Any) -> None:
    maps = """map(DATE'0001-01-01', 1) AS d, map(TIMESTAMP'2026-01-02 03:04:05.000007', 1) AS t,
        map(TIMESTAMP_NTZ'2026-01-02 03:04:05.000007', 1) AS l, map(X'FFE000', map(X'00', X'01')) AS b,
        array(named_struct('m', map(DATE'2026-01-02', CAST(NULL AS INT))), NULL) AS s,
        map(1.50BD, true) AS e, CAST(NULL AS MAP<DATE, INT>) AS x, map('a', DATE'2026-01-02') AS k"""
    assert [json.loads(value) for value in written(spark, spark.sql(f"SELECT {maps}"), "json")] == [
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


@pytest.mark.parametrize("key", ["ARRAY<INT>", "STRUCT<a: INT>"])
def test_json_has_no_keys_of_parts(spark: Any, key: str) -> None:
    rows = spark.sql(f"SELECT named_struct('m', CAST(NULL AS MAP<{key}, INT>)) AS a")
    with pytest.raises(ConfigurationError, match=r"column=a.m is map<.*; turn its keys into texts in sql"):
        written(spark, rows, "json")


@pytest.mark.parametrize("type", ["TIMESTAMP", "DATE"])
def test_time_of_1970_is_not_taken_for_now_by_the_client(spark: Any, type: str) -> None:
    days = ["1970-01-01", "1970-01-02", "1969-12-31", None]
    rows = spark.createDataFrame([(n, day) for n, day in enumerate(days)], "id INT, day STRING")
    rows = rows.selectExpr("id", f"CAST(day AS {type}) AS at")
    parts = {"key": KeyOut(("id",)), "value": ValueOut(), "metadata": MetadataOut(timestamp="at")}
    job: Any = SimpleNamespace(publication="p", topics=("t",), **parts)  # what is read of it
    told = {json.loads(bytes(row["key"]))["id"]: row["timestamp"] for row in encode_rows(spark, rows, job).collect()}
    assert told == {0: 1, 1: 86_400_000, 2: -86_400_000, 3: None}


MILLIS, LOCAL_MILLIS = ({"type": "long", "logicalType": f"{word}timestamp-millis"} for word in ("", "local-"))
GIVEN = {
    "at": ["null", MILLIS],
    "seen": LOCAL_MILLIS,
    "bare": ["null", "long"],
    "kind": {"type": "enum", "name": "kind", "symbols": ["A", "B"]},
    "code": ["null", {"type": "fixed", "name": "code", "size": 2}],
    "more": {"type": "array", "items": {"type": "record", "name": "one", "fields": [{"name": "t", "type": MILLIS}]}},
}


def a_schema(**fields: Any) -> dict[str, str]:
    described = [{"name": name, "type": kind} for name, kind in fields.items()]
    return {"schema": json.dumps({"type": "record", "name": "r", "fields": described})}


def test_given_avro_schema_cuts_no_time_and_what_it_cannot_hold_is_told_by_its_column(spark: Any) -> None:
    good = {"at": "TIMESTAMP'1969-12-31 23:59:59.999'", "seen": "TIMESTAMP_NTZ'2026-01-01 00:00:00.001'"}
    good |= {"bare": "CAST(NULL AS TIMESTAMP)", "kind": "'A'", "code": "X'0001'"}
    good |= {"more": "array(named_struct('t', TIMESTAMP'2026-01-01 00:00:00.5'))"}
    cases = [
        ({}, None),
        ({"at": "TIMESTAMP'1969-12-31 23:59:59.999999'"}, "has parts of a millisecond in at, which value.avro.schema"),
        ({"seen": "TIMESTAMP_NTZ'2026-01-01 00:00:00.000001'"}, "use local-timestamp-micros there, or cut them in sql"),
        ({"bare": "TIMESTAMP'2026-01-01 00:00:00.123456'"}, "parts of a millisecond in bare"),
        ({"seen": "CAST(NULL AS TIMESTAMP_NTZ)"}, "has NULL in seen, where value.avro.schema has no null"),
        ({"kind": "'C'"}, "has in kind what is no symbol of the enum"),
        ({"code": "X'000102'"}, "has not 2 bytes in code"),
        ({"more": "array(named_struct('t', TIMESTAMP'2026-01-01 00:00:00.0001'))"}, "a millisecond in more[].t"),
        ({"more": "array(NULL, named_struct('t', TIMESTAMP'2026-01-01'))"}, "has NULL in more[]"),
    ]
    selects = (
        f"SELECT {n} AS n, {', '.join(f'{sql} AS {name}' for name, sql in {**good, **changed}.items())}"
        for n, (changed, _) in enumerate(cases)
    )
    rows = spark.sql(" UNION ALL ".join(selects))
    part = a_part(rows, "avro", a_schema(**GIVEN))
    shown = rows.select(
        "n", encode_part(spark, part).alias("value"), F.expr(render_part_problem(spark, part)).alias("why")
    )
    found = {row["n"]: (row["why"], row["value"] is not None) for row in shown.collect()}
    wrong = [
        (n, found[n]) for n, (_, why) in enumerate(cases)
        if found[n][1] != (why is None) or (why or "") not in (found[n][0] or "")
    ]  # fmt: skip
    assert (wrong, found[0]) == ([], (None, True))


@pytest.mark.parametrize(
    ("column", "field", "told"),
    [
        ("1 AS a", {"a": "long"}, 'column=a is int, and its field is "long"'),
        ("1.25BD AS a", {"a": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 3}}, "decimal.3,2"),
        ("TIMESTAMP'2026-01-01' AS a", {"a": LOCAL_MILLIS}, "a is timestamp, and"),
        ("map('x', array(1L)) AS a", {"a": {"type": "map", "values": {"type": "array", "items": "int"}}}, r"a\[\]\[\]"),
        ("1 AS a, 2 AS b", {"a": "int"}, "value.avro.schema has no field b; add it"),
        ("1 AS a", {"a": "int", "b": "int"}, "no column fills its field b"),
        ("named_struct('x', 1) AS a", {"a": {"type": "record", "name": "i", "fields": []}}, "has no field a.x"),
    ],
)  # fmt: skip
def test_given_avro_schema_without_room_for_a_column_is_told_before_a_row_is_written(
    spark: Any, column: str, field: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigurationError, match=told):
        written(spark, spark.sql(f"SELECT {column}"), "avro", a_schema(**field))


def test_csv_value_that_is_the_word_for_null_makes_no_record(spark: Any) -> None:
    rows = spark.sql("SELECT 0 AS n, '-' AS a, 7 AS b UNION ALL SELECT 1, NULL, NULL UNION ALL SELECT 2, '7', 7")
    found = {}
    for word in ("-", "7", ""):
        shown = rows.select(
            "n", F.expr(render_part_problem(spark, a_part(rows, "csv", {"null_literal": word}))).alias("why")
        )
        found[word] = [row["why"] and row["why"].split(",")[0] for row in sorted(shown.collect(), key=lambda r: r["n"])]
    taken = "has csv.null_literal={} as a value of {}"
    assert found == {
        "-": [taken.format("-", "a"), None, None],
        "7": [taken.format("7", "b"), None, taken.format("7", "a")],
        "": [None, None, None],
    }


def test_message_of_protobuf_has_no_null_in_a_list_and_no_time_that_its_reader_does_not_know(spark: Any) -> None:
    rows = spark.sql(
        "SELECT array('x') AS a, map('k', named_struct('at', TIMESTAMP'9999-12-31 23:59:59')) AS m UNION ALL "
        "SELECT array('x', NULL), NULL UNION ALL SELECT NULL, map('k', NULL) UNION ALL "
        "SELECT NULL, map('k', named_struct('at', timestamp_micros(253402300800000000L)))"
    )
    shown = rows.select(
        F.expr(render_problem(protobuf.list_value_problems(a_part(rows, "protobuf")))).alias("why")
    ).collect()
    assert sorted(str(row["why"]).split(",")[0] for row in shown) == [
        "None", "has NULL in the list a", "has NULL in the map m",
        "has a time outside of the years 1 to 9999 in m[].at",
    ]  # fmt: skip


def test_null_in_a_field_of_a_registered_message_without_presence_makes_no_record(spark: Any) -> None:
    """Readers would take it for 0. What a publication adds itself is optional."""
    line = message("Line", field("sku", 1, "string"), field("note", 2, "string", optional=True))
    fields = (field("id", 1, "int64"), field("n", 2, "int32", optional=True), field("line", 3, ".shop.Line"))
    lines = (field("lines", 4, ".shop.Line", repeated=True), field("tags", 5, "string", repeated=True))
    file = a_file(line, message("Order", *fields, *lines)).SerializeToString()
    good = {"id": "1L", "n": "CAST(NULL AS INT)", "line": "named_struct('sku', 's', 'note', CAST(NULL AS STRING))"}
    good |= {"lines": "array(named_struct('sku', 's', 'note', 'x'))", "tags": "CAST(NULL AS ARRAY<STRING>)"}
    null_sku = "named_struct('sku', CAST(NULL AS STRING), 'note', 'x')"
    cases = [({}, None), ({"id": "CAST(NULL AS BIGINT)"}, "id"), ({"line": null_sku}, "line.sku")]
    cases += [({"line": f"nullif({null_sku}, {null_sku})"}, None), ({"lines": f"array({null_sku})"}, "lines[].sku")]
    selects = (
        f"SELECT {n} AS n_, {', '.join(f'{sql} AS {name}' for name, sql in {**good, **changed}.items())}"
        for n, (changed, _) in enumerate(cases)
    )
    rows = spark.sql(" UNION ALL ".join(selects))
    part = a_part(rows.drop("n_"), "protobuf")
    columns = [*part.columns[:1], WrittenColumn("n", rows.schema["n"].dataType, "n"), *part.columns[1:]]
    problem = render_problem(list_presence_problems(file, "shop.Order", columns))
    found = sorted((row["n_"], row["why"]) for row in rows.select("n_", F.expr(problem).alias("why")).collect())
    told = "has NULL in {}, whose field in the registered message is not optional; make it optional there, or write a "
    assert found == [(n, path and f"{told.format(path)}value in sql") for n, (_, path) in enumerate(cases)]


def test_header_without_a_key_makes_no_record_and_its_column_is_found_in_other_letters(spark: Any) -> None:
    rows = spark.sql(
        "SELECT 1 AS id, array(named_struct('key', 'k', 'value', 'v')) AS more UNION ALL "
        "SELECT 2, array(named_struct('key', CAST(NULL AS STRING), 'value', 'v')) UNION ALL SELECT 3, NULL"
    )
    parts = {"key": KeyOut(("id",)), "value": ValueOut(), "metadata": MetadataOut(headers="MORE")}
    job: Any = SimpleNamespace(publication="p", topics=("t",), **parts)  # what is read of it
    told = {json.loads(bytes(row["key"]))["id"]: row["problem"] for row in encode_rows(spark, rows, job).collect()}
    assert told == {1: None, 2: "has a header without a key in MORE; leave it out in sql", 3: None}


NUMBERS = {
    "BOOLEAN": ["true", "false"], "TINYINT": ["-128", "127"], "SMALLINT": ["-32768", "1"], "INT": ["-2147483648", "7"],
    "BIGINT": ["-9223372036854775808", "12345678"], "FLOAT": ["-1.5", "'NaN'"],
    "DOUBLE": ["1.7976931348623157E308", "-0.0D"],
}  # fmt: skip


FORMS = dict(zip(NUMBERS, (">?", ">b", ">h", ">i", ">q", ">f", ">d"), strict=True))


@pytest.mark.parametrize("kind", NUMBERS)
def test_raw_number_is_what_kafkas_serializers_write_and_a_pipeline_reads_it(spark: Any, kind: str) -> None:
    numbers = " UNION ALL ".join(
        f"SELECT {n} AS n, CAST({text} AS {kind}) AS a" for n, text in enumerate([*NUMBERS[kind], "NULL"])
    )
    rows = spark.sql(numbers)
    part = a_part(rows, "raw")
    shown = rows.select("n", "a", encode_part(spark, part).alias("value")).collect()
    *good, nothing = sorted(shown, key=lambda row: row["n"])
    assert nothing["value"] is None
    found = decoding.values(
        spark, decoding.a_stage(ValueFormat("raw"), (Column("a", kind),)), [bytes(row["value"]) for row in good]
    )
    assert [(reason, str(row["a"])) for reason, row in found] == [(None, str(row["a"])) for row in good]
    form = {"BOOLEAN": ">?", "TINYINT": ">b", "SMALLINT": ">h", "INT": ">i", "BIGINT": ">q", "FLOAT": ">f"}.get(
        kind, ">d"
    )
    assert [bytes(row["value"]) for row in good] == [struct.pack(form, row["a"]) for row in good]
