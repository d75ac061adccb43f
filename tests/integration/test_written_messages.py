"""A real deserializer and a pipeline read the same values that a publication wrote as Protobuf, on real Spark."""

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import decoding
import pytest
from protobuf_messages import build_classes, build_field, build_file, build_map_entry, build_message
from pyspark.sql import functions as F
from schema_registry import SchemaRegistry
from tidegate.adapters.schema_registry.client import Version
from tidegate.adapters.schema_registry.protobuf_descriptors import from_registry
from tidegate.jobs.publish_job import REGISTRY_CONF
from tidegate.schema.data_types import Column
from tidegate.schema.protobuf import to_column_type
from tidegate.spec.source import KeyFormat, ValueFormat
from tidegate_spark.publish.encoders.record_part import RecordPart, WrittenColumn
from tidegate_spark.publish.record_encoding import encode_part, render_part_problem

CONF = REGISTRY_CONF.removeprefix("spark.")
FIRST, LAST, BEFORE = {"seconds": -62135596800}, {"seconds": 253402300799, "nanos": 999999000}, {"seconds": -1}
BEFORE = {**BEFORE, "nanos": 999999000}
LONG = "é" * 100_000
# of each type what SQL writes and what a reader of the message has; NULL is tried of each, too
SIMPLE: dict[str, list[tuple[str, Any]]] = {
    "BOOLEAN": [("true", True), ("false", False)],
    "TINYINT": [("-128Y", -128), ("127Y", 127)],
    "SMALLINT": [("-32768S", -32768), ("0S", 0)],
    "INT": [("-2147483648", -(2**31)), ("2147483647", 2**31 - 1), ("0", 0)],
    "BIGINT": [("-9223372036854775808L", -(2**63)), ("9223372036854775807L", 2**63 - 1)],
    "FLOAT": [("1.4E-45F", 1.4e-45), ("'NaN'", float("nan")), ("'-Infinity'", float("-inf")), ("-0.0F", -0.0)],
    "DOUBLE": [("4.9E-324D", 5e-324), ("1.7976931348623157E308D", 1.7976931348623157e308), ("'NaN'", float("nan"))],
    "STRING": [("''", ""), ("'a\\u0000é😀'", "a\0é😀"), ("repeat('é', 100000)", LONG)],
    "BINARY": [("X''", b""), ("X'00ff'", b"\0\xff")],
    "TIMESTAMP": [
        ("TIMESTAMP'0001-01-01 00:00:00Z'", FIRST), ("TIMESTAMP'9999-12-31 23:59:59.999999Z'", LAST),
        ("TIMESTAMP'1969-12-31 23:59:59.999999Z'", BEFORE), ("TIMESTAMP'1970-01-01 00:00:00Z'", {}),
    ],
    "STRUCT<a: INT, b: STRUCT<c: STRING, d: TIMESTAMP>>": [
        ("named_struct('a', 0, 'b', named_struct('c', '', 'd', NULL))", {"a": 0, "b": {"c": ""}}),
        ("named_struct('a', NULL, 'b', NULL)", {}),
        ("named_struct('a', 1, 'b', named_struct('c', NULL, 'd', TIMESTAMP'0001-01-01 00:00:00Z'))",
         {"a": 1, "b": {"d": FIRST}}),
    ],
}  # fmt: skip
PARTS: dict[str, list[tuple[str, Any]]] = {
    "ARRAY<INT>": [("array()", []), ("array(0, -1)", [0, -1])],
    "ARRAY<STRING>": [("array('', 'é')", ["", "é"])],
    "ARRAY<BINARY>": [("array(X'', X'ff')", [b"", b"\xff"])],
    "ARRAY<TIMESTAMP>": [("array(TIMESTAMP'0001-01-01 00:00:00Z')", [FIRST])],
    "ARRAY<STRUCT<x: INT, y: ARRAY<BOOLEAN>>>": [
        ("array(named_struct('x', NULL, 'y', array(false)), named_struct('x', 0, 'y', array()))",
         [{"y": [False]}, {"x": 0}]),
    ],
    "MAP<STRING, INT>": [("map()", {}), ("map('', 0, 'b', -1)", {"": 0, "b": -1})],
    "MAP<INT, STRING>": [("map(-2147483648, '', 0, 'x')", {-(2**31): "", 0: "x"})],
    "MAP<BIGINT, DOUBLE>": [("map(9223372036854775807L, 0.5D)", {2**63 - 1: 0.5})],
    "MAP<BOOLEAN, BINARY>": [("map(false, X'00')", {False: b"\0"})],
    "MAP<STRING, TIMESTAMP>": [("map('a', TIMESTAMP'9999-12-31 23:59:59.999999Z')", {"a": LAST})],
    "MAP<STRING, STRUCT<x: INT>>": [("map('a', named_struct('x', NULL))", {"a": {}})],
}  # fmt: skip


@pytest.fixture
def registry(spark: Any) -> Iterator[SchemaRegistry]:
    """A registry that the session knows."""
    registry = SchemaRegistry()
    spark.conf.set(CONF, json.dumps({part: {"url": registry.url} for part in ("key", "value")}))
    yield registry
    spark.conf.unset(CONF)
    registry.close()


def build_part(rows: Any, name: str = "value", **options: Any) -> RecordPart:
    columns = tuple(WrittenColumn(f.name, f.dataType, f.name) for f in rows.schema if f.name != "n")
    return RecordPart(name, "protobuf", options, ("t",), columns)


def make_rows(spark: Any, kinds: dict[str, list[tuple[str, Any]]]) -> tuple[Any, list[dict[str, Any]]]:
    """A table of a column for each type, and what a reader has of each row."""
    height = 1 + max(map(len, kinds.values()))
    columns = {f"c{i}": (kind, [sql for sql, _ in cases]) for i, (kind, cases) in enumerate(kinds.items())}
    expected = [
        {f"c{i}": cases[n][1] for i, cases in enumerate(kinds.values()) if n < len(cases)} for n in range(height)
    ]
    cells = {
        name: " ".join(f"WHEN {n} THEN CAST({sql} AS {kind})" for n, sql in enumerate(texts))
        for name, (kind, texts) in columns.items()
    }
    return build_rows(spark, height, {name: f"CASE n {cases} END" for name, cases in cells.items()}), expected


def build_rows(spark: Any, height: int, columns: dict[str, str]) -> Any:
    """A table of `n`, from 0 on, and of columns that are computed from it."""
    rows = spark.range(height).selectExpr("CAST(id AS INT) AS n")
    return rows.selectExpr("n", *(f"{sql} AS {name}" for name, sql in columns.items()))


def write(spark: Any, rows: Any, part: RecordPart) -> list[bytes]:
    why = F.expr(render_part_problem(spark, part)).alias("why")
    encoded_rows = sorted(
        rows.select("n", why, encode_part(spark, part).alias("data")).collect(), key=lambda row: row["n"]
    )
    assert [row["why"] for row in encoded_rows] == [None] * len(encoded_rows)
    return [bytes(row["data"]) for row in encoded_rows]


def deserialize(registry: SchemaRegistry, part: RecordPart, data: list[bytes], name: str = "") -> tuple[Any, list[Any]]:
    """By Confluent's deserializer with the newest schema's class: the class, and the messages."""
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
    from confluent_kafka.serialization import SerializationContext
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    number = registry.subjects[part.subjects[0]][-1]
    message_classes = build_classes(
        FileDescriptorProto.FromString(base64.b64decode(registry.schemas[number]["schema"]))
    )
    of_message = message_classes[name] if name else next(iter(message_classes.values()))
    read = ProtobufDeserializer(of_message, {"use.deprecated.format": False})
    return of_message, [read(payload, SerializationContext("t", part.part)) for payload in data]


def read_in_pipeline(spark: Any, registry: SchemaRegistry, rows: Any, part: RecordPart, data: list[bytes]) -> None:
    """Each column equals that of the table. A NULL list or map comes back empty: Protobuf has no NULL there."""
    versions = [Version(n, "PROTOBUF", registry.schemas[n]["schema"], {}) for n in registry.subjects[part.subjects[0]]]
    names = tuple(column.name for column in part.columns)
    options = from_registry(versions, part.options.get("message"), names, part.part)
    columns = tuple(Column(f["name"], to_column_type(f["shape"])) for f in options["shape"]["fields"])
    kinds = {c.name: c.type for c in columns if c.name in names}
    template = "hex(CAST(CAST(struct({}) AS STRING) AS BINARY))"
    cells = [_render_cell(f"CAST({name} AS {kinds[name]})", kinds[name]) for name in names]  # a TINYINT is an INT
    expected = [(None, row[0]) for row in rows.orderBy("n").selectExpr(template.format(", ".join(cells))).collect()]
    if part.part == "value":
        stage, records = (
            decoding.build_stage_table(ValueFormat("protobuf", options=options), columns),
            [(None, d) for d in data],
        )
    else:
        stage = decoding.build_stage_table(ValueFormat("json"), (Column("q", "INT"),), columns)
        stage = replace(stage, key=KeyFormat("protobuf", fields=names, options=options))
        records = [(d, b'{"q": 1}') for d in data]
    row = ", ".join(_render_cell(f"{part.part}_struct.{name}", kinds[name]) for name in names)
    assert decoding.decode(spark, stage, records, "reason", template.format(row)) == expected


def _render_cell(value: str, kind: str) -> str:
    """A map in the order of its keys, as Protobuf has none."""
    if kind.startswith("MAP"):
        return f"array_sort(map_entries(coalesce({value}, map())))"
    return f"coalesce({value}, array())" if kind.startswith("ARRAY") else value


@pytest.mark.repeats("test_row_of_every_type_is_what_readers_have[value]", "key")
@pytest.mark.parametrize("name", ["value", "key"])
def test_row_of_every_type_is_what_readers_have(spark: Any, registry: SchemaRegistry, name: str) -> None:
    """The earliest and the last of each type, nothing, and NULL; a key has no lists and maps."""
    rows, expected = make_rows(spark, SIMPLE if name == "key" else {**SIMPLE, **PARTS})
    part = build_part(rows, name)
    data = write(spark, rows, part)
    of_message, messages = deserialize(registry, part, data)
    assert [message.SerializeToString(deterministic=True) for message in messages] == [
        of_message(**row).SerializeToString(deterministic=True) for row in expected
    ]
    at = next(n for n, row in enumerate(expected) if "c3" not in row)
    assert (messages[2].c3, messages[2].HasField("c3"), messages[at].HasField("c3")) == (0, True, False), (
        "0 is told from NULL"
    )
    read_in_pipeline(spark, registry, rows, part, data)


@pytest.mark.repeats("test_row_of_every_type_is_what_readers_have[value]")
def test_row_that_no_message_holds_does_not_end_the_worker(spark: Any, registry: SchemaRegistry) -> None:
    rows = spark.sql("SELECT 0 AS n, map('a', 'é') AS a UNION ALL SELECT 1, map('a', CAST(X'ff' AS STRING))")
    part = build_part(rows)
    encoded_rows = rows.select(
        "n", F.expr(render_part_problem(spark, part)).alias("why"), encode_part(spark, part).alias("data")
    )
    good, bad = sorted(encoded_rows.collect(), key=lambda row: row["n"])
    assert (good["why"], good["data"] is None, bad["data"]) == (None, False, None)
    assert bad["why"].startswith("has text that is no UTF-8 in a[], which readers take")


INT, BIGINT = ("-2147483648", "INT", -(2**31)), ("9223372036854775807L", "BIGINT", 2**63 - 1)
FIELDS: dict[
    str, tuple[str, str, Any]
] = {  # of a registered message: the column's SQL and type, and the reader's value
    **dict.fromkeys(("int32", "sint32", "sfixed32", ".google.protobuf.Int32Value"), INT),
    **dict.fromkeys(("int64", "sint64", "sfixed64", ".google.protobuf.Int64Value"), BIGINT),
    **dict.fromkeys(("float", ".google.protobuf.FloatValue"), ("1.5F", "FLOAT", 1.5)),
    **dict.fromkeys(("double", ".google.protobuf.DoubleValue"), ("4.9E-324D", "DOUBLE", 5e-324)),
    **dict.fromkeys(("bool", ".google.protobuf.BoolValue"), ("false", "BOOLEAN", False)),
    **dict.fromkeys(("string", ".google.protobuf.StringValue"), ("''", "STRING", "")),
    **dict.fromkeys(("bytes", ".google.protobuf.BytesValue"), ("X'ff'", "BINARY", b"\xff")),
    ".google.protobuf.Timestamp": ("TIMESTAMP'0001-01-01 00:00:00Z'", "TIMESTAMP", FIRST),
    ".shop.Inside": ("named_struct('x', 0)", "STRUCT<x: INT>", {"x": 0}),
    ".shop.Row.Nested": ("named_struct('x', NULL)", "STRUCT<x: INT>", {}),
    "map": ("map('a', named_struct('x', 5))", "MAP<STRING, STRUCT<x: INT>>", {"a": {"x": 5}}),
}


@pytest.mark.repeats(
    "unit/tidegate_spark/publish/encoders/test_protobuf.py::test_schema_of_somebody_else_is_used_as_it_is"
)
@pytest.mark.parametrize("syntax", ["proto2", "proto3"])
def test_registered_message_is_used_as_it_is_with_each_type_that_it_may_have(
    spark: Any, registry: SchemaRegistry, syntax: str
) -> None:
    """Alone, `optional`, in a `oneof` and `repeated`; of the columns that it lacks it gets a field."""
    is_old, fields, columns = syntax == "proto2", [], {}
    ways: list[dict[str, Any]] = [{}, {"optional": True}, {"oneof": "one"}, {"repeated": True}]
    for number, (word, (sql, kind, value)) in enumerate(FIELDS.items()):
        for way, more in enumerate(ways if word != "map" else ways[3:]):
            if is_old and "optional" in more:
                continue
            name = f"f{number}_{way}"
            shape = ".shop.Row.MapEntry" if word == "map" else word
            fields.append(build_field(name, 10 * number + way + 1, shape, **more))
            is_list = "repeated" in more and word != "map"
            columns[name] = (
                (f"array({sql}, {sql})", f"ARRAY<{kind}>", [value, value]) if is_list else (sql, kind, value)
            )
    inside = [build_message(name, build_field("x", 1, "sint32", optional=not is_old)) for name in ("Inside", "Nested")]
    pair = build_map_entry("MapEntry", "string", ".shop.Inside")
    file = build_file(inside[0], build_message("Row", *fields, nested=(inside[1], pair)), syntax=syntax)
    row = file.message_type[1]
    for field in row.field:  # a map's entry is called as its field is
        if field.type_name == ".shop.Row.MapEntry":
            field.name = "map"
    columns["map"] = columns.pop(next(name for name, (_, kind, _) in columns.items() if kind.startswith("MAP")))
    if is_old:
        row.field.add(name="must", number=900, type="TYPE_STRING", label="LABEL_REQUIRED")
        columns["must"] = ("'m'", "STRING", "m")
    columns["added"] = ("7L", "BIGINT", 7)
    registry.register(
        "t-value", {"schema": base64.b64encode(file.SerializeToString()).decode(), "schemaType": "PROTOBUF"}
    )
    check_registered(spark, registry, row, columns)


def check_registered(spark: Any, registry: SchemaRegistry, row: Any, columns: dict[str, tuple[str, str, Any]]) -> None:
    """A row for each member of the oneof, and one of NULLs where that is allowed."""
    members = [field.name for field in row.field if field.HasField("oneof_index") and not field.proto3_optional]
    required_names = {field.name for field in row.field if field.label == field.LABEL_REQUIRED or not (
        field.HasField("oneof_index") or field.type_name or field.label == field.LABEL_REPEATED)}  # fmt: skip
    height, numbers, expected = len(members) + 1, {c: list[str]() for c in columns}, []
    for n, member in enumerate([*members, None]):
        names = {
            c for c in columns if c == member or (c not in members and (member is not None or c in required_names))
        }
        expected.append({c: columns[c][2] for c in names})
        for c in names:
            numbers[c].append(str(n))
    cells = {
        c: f"CASE WHEN n IN ({', '.join(numbers[c])}) THEN CAST({sql} AS {kind}) END"
        for c, (sql, kind, _) in columns.items()
    }
    rows = build_rows(spark, height, cells)
    part = build_part(rows, message="shop.Row")
    data = write(spark, rows, part)
    of_message, messages = deserialize(registry, part, data, "shop.Row")
    assert registry.subjects["t-value"] == [1, 2], "extended by the column that it lacked"
    for message, wanted in zip(messages, expected, strict=True):
        wrapped = {
            name: [{"value": v} for v in value] if isinstance(value, list) else {"value": value}
            for name, value in wanted.items()
            if (kind := of_message.DESCRIPTOR.fields_by_name[name].message_type) is not None
            and kind.full_name.endswith("Value")
        }
        assert message.SerializeToString(deterministic=True) == of_message(**{**wanted, **wrapped}).SerializeToString(
            deterministic=True
        )
    read_in_pipeline(spark, registry, rows, part, data)
