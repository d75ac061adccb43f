"""Rows that make no record, on real Spark: an error names the column before any record is produced."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from protobuf_messages import build_field, build_file, build_message
from pyspark.sql import functions as F
from tidegate.errors import ConfigurationError
from tidegate.spec.publication import KeyOut, MetadataOut, ValueOut
from tidegate_spark.publish.encoders import protobuf
from tidegate_spark.publish.encoders.protobuf import list_presence_problems
from tidegate_spark.publish.encoders.record_part import RecordPart, WrittenColumn, render_problem
from tidegate_spark.publish.record_encoding import encode_part, encode_rows, render_part_problem


def build_part(rows: Any, word: str, options: dict[str, Any] | None = None) -> RecordPart:
    columns = tuple(WrittenColumn(f.name, f.dataType, f.name) for f in rows.schema if f.name != "n")
    return RecordPart("value", word, options or {}, ("t",), columns)


MILLIS, LOCAL_MILLIS = ({"type": "long", "logicalType": f"{word}timestamp-millis"} for word in ("", "local-"))
GIVEN = {
    "at": ["null", MILLIS],
    "seen": LOCAL_MILLIS,
    "bare": ["null", "long"],
    "kind": {"type": "enum", "name": "kind", "symbols": ["A", "B"]},
    "code": ["null", {"type": "fixed", "name": "code", "size": 2}],
    "more": {"type": "array", "items": {"type": "record", "name": "one", "fields": [{"name": "t", "type": MILLIS}]}},
}


def build_schema(**fields: Any) -> dict[str, str]:
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
    part = build_part(rows, "avro", build_schema(**GIVEN))
    encoded_rows = rows.select(
        "n", encode_part(spark, part).alias("value"), F.expr(render_part_problem(spark, part)).alias("why")
    )
    results = {row["n"]: (row["why"], row["value"] is not None) for row in encoded_rows.collect()}
    wrong = [
        (n, results[n]) for n, (_, why) in enumerate(cases)
        if results[n][1] != (why is None) or (why or "") not in (results[n][0] or "")
    ]  # fmt: skip
    assert (wrong, results[0]) == ([], (None, True))


@pytest.mark.repeats("test_given_avro_schema_cuts_no_time_and_what_it_cannot_hold_is_told_by_its_column")
@pytest.mark.parametrize(
    ("column", "field", "message"),
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
    spark: Any, column: str, field: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        encode_part(spark, build_part(spark.sql(f"SELECT {column}"), "avro", build_schema(**field)))


@pytest.mark.repeats("test_text_that_is_no_utf8_makes_no_record[json]")
def test_csv_value_that_is_the_word_for_null_makes_no_record(spark: Any) -> None:
    rows = spark.sql("SELECT 0 AS n, '-' AS a, 7 AS b UNION ALL SELECT 1, NULL, NULL UNION ALL SELECT 2, '7', 7")
    problems = {}
    for word in ("-", "7", ""):
        encoded_rows = rows.select(
            "n", F.expr(render_part_problem(spark, build_part(rows, "csv", {"null_literal": word}))).alias("why")
        )
        problems[word] = [
            row["why"] and row["why"].split(",")[0] for row in sorted(encoded_rows.collect(), key=lambda r: r["n"])
        ]
    taken = "has csv.null_literal={} as a value of {}"
    assert problems == {
        "-": [taken.format("-", "a"), None, None],
        "7": [taken.format("7", "b"), None, taken.format("7", "a")],
        "": [None, None, None],
    }


@pytest.mark.repeats("unit/tidegate_spark/publish/encoders/test_protobuf.py::test_null_in_a_list_or_a_map_is_refused")
def test_message_of_protobuf_has_no_null_in_a_list_and_no_time_that_its_reader_does_not_know(spark: Any) -> None:
    rows = spark.sql(
        "SELECT array('x') AS a, map('k', named_struct('at', TIMESTAMP'9999-12-31 23:59:59')) AS m UNION ALL "
        "SELECT array('x', NULL), NULL UNION ALL SELECT NULL, map('k', NULL) UNION ALL "
        "SELECT NULL, map('k', named_struct('at', timestamp_micros(253402300800000000L)))"
    )
    encoded_rows = rows.select(
        F.expr(render_problem(protobuf.list_value_problems(build_part(rows, "protobuf")))).alias("why")
    ).collect()
    assert sorted(str(row["why"]).split(",")[0] for row in encoded_rows) == [
        "None", "has NULL in the list a", "has NULL in the map m",
        "has a time outside of the years 1 to 9999 in m[].at",
    ]  # fmt: skip


@pytest.mark.repeats("test_two_values_of_a_oneof_make_no_record")
def test_null_in_a_field_of_a_registered_message_without_presence_makes_no_record(spark: Any) -> None:
    """Readers would take it for 0. What a publication adds itself is optional."""
    line = build_message("Line", build_field("sku", 1, "string"), build_field("note", 2, "string", optional=True))
    fields = (
        build_field("id", 1, "int64"),
        build_field("n", 2, "int32", optional=True),
        build_field("line", 3, ".shop.Line"),
    )
    lines = (build_field("lines", 4, ".shop.Line", repeated=True), build_field("tags", 5, "string", repeated=True))
    file = build_file(line, build_message("Order", *fields, *lines)).SerializeToString()
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
    part = build_part(rows.drop("n_"), "protobuf")
    columns = [*part.columns[:1], WrittenColumn("n", rows.schema["n"].dataType, "n"), *part.columns[1:]]
    problem = render_problem(list_presence_problems(file, "shop.Order", columns))
    problems = sorted((row["n_"], row["why"]) for row in rows.select("n_", F.expr(problem).alias("why")).collect())
    message = (
        "has NULL in {}, whose field in the registered message is not optional; make it optional there, or write a "
    )
    assert problems == [(n, path and f"{message.format(path)}value in sql") for n, (_, path) in enumerate(cases)]


@pytest.mark.guard(
    "publication: two values of a oneof are refused",
    file="jobs/tidegate_spark/publish/encoders/protobuf.py",
    text="        if len(members) > 1:\n",
    off="        if False:\n",
)
def test_two_values_of_a_oneof_make_no_record(spark: Any) -> None:
    """The second would take the first away, without a word."""
    choice = (build_field("a", 1, "int32", oneof="kind"), build_field("b", 2, "string", oneof="kind"))
    inside = build_message("Inside", *choice, build_field("c", 3, "int32", optional=True))
    own = (build_field("a", 1, "int32", oneof="kind"), build_field("n", 3, "int32", optional=True))
    file = build_file(
        inside, build_message("Row", *own, build_field("b", 2, ".shop.Inside", oneof="kind"))
    ).SerializeToString()
    cases = [
        ("CAST(NULL AS INT)", "named_struct('a', 1, 'b', CAST(NULL AS STRING), 'c', 1)", None),
        ("1", "CAST(NULL AS STRUCT<a: INT, b: STRING, c: INT>)", None),
        (
            "0",
            "named_struct('a', CAST(NULL AS INT), 'b', CAST(NULL AS STRING), 'c', 1)",
            "has more than one value in a, b",
        ),
        ("CAST(NULL AS INT)", "named_struct('a', 0, 'b', '', 'c', 1)", "has more than one value in b.a, b.b"),
    ]
    selects = (f"SELECT {n} AS at, {a} AS a, {b} AS b, 5 AS n" for n, (a, b, _) in enumerate(cases))
    rows = spark.sql(" UNION ALL ".join(selects))
    columns = [WrittenColumn(f.name, f.dataType, f.name) for f in rows.schema if f.name != "at"]
    problem = render_problem(list_presence_problems(file, "shop.Row", columns))
    problems = sorted((row["at"], row["why"]) for row in rows.select("at", F.expr(problem).alias("why")).collect())
    remedy = ", which are oneof kind in the registered message, and it holds one; write NULL for the others in sql"
    assert problems == [(n, message and f"{message}{remedy}") for n, (_, _, message) in enumerate(cases)]


BROKEN = "CAST(X'61ff' AS STRING)"
TEXTS = {
    "a": ("'é'", BROKEN, "a"),
    "l": ("array('', NULL)", f"array(NULL, {BROKEN})", "l[]"),
    "s": ("named_struct('x', 1, 'y', CAST(NULL AS STRING))", f"named_struct('x', 1, 'y', {BROKEN})", "s.y"),
    "k": ("map('a', named_struct('z', ''))", f"map({BROKEN}, named_struct('z', ''))", "k[]"),
    "v": ("map('a', named_struct('z', ''))", f"map('a', named_struct('z', {BROKEN}))", "v[].z"),
}


@pytest.mark.repeats("test_text_that_is_no_utf8_makes_no_record[json]", "avro", "csv", "string", "raw")
@pytest.mark.parametrize("word", ["json", "avro", "csv", "string", "raw"])
def test_text_that_is_no_utf8_makes_no_record(spark: Any, word: str) -> None:
    """Two keys that differ in such bytes would be one, and readers would have another text."""
    names = [*TEXTS] if word in ("json", "avro") else ["a"]
    cases = [None, *names]
    selects = (
        f"SELECT {n} AS n, {', '.join(f'{TEXTS[name][name == wrong]} AS {name}' for name in names)}"
        for n, wrong in enumerate(cases)
    )
    rows = spark.sql(" UNION ALL ".join(selects))
    part = build_part(rows, word)
    results = {
        row["n"]: row["why"]
        for row in rows.select("n", F.expr(render_part_problem(spark, part)).alias("why")).collect()
    }
    remedy = "which readers take for other text; correct it, or write it as bytes in sql"
    expected = {n: name and f"has text that is no UTF-8 in {TEXTS[name][2]}, {remedy}" for n, name in enumerate(cases)}
    assert results == (expected if word != "raw" else {0: None, 1: None}), "raw writes the bytes as they are"


@pytest.mark.repeats("test_header_without_a_key_makes_no_record_and_its_column_is_found_in_other_letters")
@pytest.mark.parametrize(
    ("sql", "message"),
    [("1767225601000L", "is bigint"), ("'2026-01-01'", "is string"), ("1.5D", "is double"), ("array(1)", "is array")],
)
def test_time_of_a_record_comes_from_a_time(spark: Any, sql: str, message: str) -> None:
    """A count of milliseconds would be taken for one of seconds."""
    parts = {"key": KeyOut(("id",)), "value": ValueOut(), "metadata": MetadataOut(timestamp="AT")}
    job: Any = SimpleNamespace(publication="p", is_append=False, topics=("t",), **parts)
    with pytest.raises(
        ConfigurationError, match=f"metadata.timestamp=AT {message}.*no TIMESTAMP or DATE; make one of it"
    ):
        encode_rows(spark, spark.sql(f"SELECT 1 AS id, {sql} AS at"), job)


def test_header_without_a_key_makes_no_record_and_its_column_is_found_in_other_letters(spark: Any) -> None:
    rows = spark.sql(
        "SELECT 1 AS id, array(named_struct('key', 'k', 'value', 'v')) AS more UNION ALL "
        "SELECT 2, array(named_struct('key', CAST(NULL AS STRING), 'value', 'v')) UNION ALL SELECT 3, NULL UNION ALL "
        f"SELECT 4, array(named_struct('key', {BROKEN}, 'value', {BROKEN}))"
    )
    parts = {"key": KeyOut(("id",)), "value": ValueOut(), "metadata": MetadataOut(headers="MORE")}
    job: Any = SimpleNamespace(publication="p", is_append=False, topics=("t",), **parts)  # what is read of it
    problems = {json.loads(bytes(row["key"]))["id"]: row["problem"] for row in encode_rows(spark, rows, job).collect()}
    unreadable = "has a header whose key is no UTF-8 in MORE; correct it in sql"
    assert problems == {1: None, 2: "has a header without a key in MORE; leave it out in sql", 3: None, 4: unreadable}
    for numbers in ("map('a', 1)", "array(named_struct('key', 'a', 'value', 1.5))"):
        with pytest.raises(ConfigurationError, match=r"metadata.headers=MORE: its values are .*; cast them to STRING"):
            encode_rows(spark, spark.sql(f"SELECT 1 AS id, {numbers} AS more"), job)
