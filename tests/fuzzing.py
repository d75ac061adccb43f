"""Corrupt records made by Spark itself: each is a seed that was cut, bent, doubled or spliced, the same ones each time.

`python -m fuzzing FORMAT NUMBER` (tests on the path) decodes so many on a running stack and tells what became of them;
a third word, a number, is where to begin: other records than those of another run.
"""

import json
import sys
from io import BytesIO
from typing import Any

from tidegate.jobs.stage_job import StageTable
from tidegate.schema.avro import to_columns
from tidegate.schema.avro_resolution import plan_decoding
from tidegate.schema.column import Column
from tidegate.schema.protobuf import to_column_type
from tidegate.spec.formats import KeyFormat, ValueFormat

ROUNDS = 2  # what one change makes of a record, the next one changes again
# What decoders stumble over: lengths that no record has, endless nesting, numbers at and beyond every end, half texts.
TOKENS = [
    b"\x80\xbe\xc7\x94\x0e", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\xff" * 9, b"\x00" * 40, b"\x80",
    b"[" * 3000, b'{"a":' * 1500, b"{" * 10, b'"', b"\\", b"\\ud800", b"\xed\xa0\x80", b"\xf0\x9f", b"\x00", b"1e400",
    b"-1e-400", b"9" * 400, b"NaN", b"Infinity", b"null", b"true", b"-0.0", b"99999999999999999999", b"0.1" * 9,
    b'"99999-01-01T00:00:00Z"', b'"-0001-01-01"', b'"2026-02-30"', b'"24:00:00"', b",", b"\r\n", b"}", b"]", b":",
    b"\xdf\xff\xff\xff\xff", b"\xdd\x7f\xff\xff\xff", b"\xc9\xff\xff\xff\xff\xff", b"\xdb\xff", b"\x91" * 3000, b"\xc1",
    b'"id"', b'"op":"x"', b'"after":null', b'"data":[null]', b'"data":{}', b'"ts":9223372036854775807', b"\t",
    b" " * 300, b'"2026-03-29T02:30:00 Europe/Berlin"', b"-INF", b'{"a": NaN}', b"\x0b\x0c", b"\xff\xff\xff\xff\x1f",
]  # fmt: skip
COLUMNS = (
    Column("id", "BIGINT"), Column("name", "STRING"), Column("amount", "DECIMAL(12,2)"), Column("at", "TIMESTAMP"),
    Column("day", "DATE"), Column("part", "STRUCT<a: INT, b: ARRAY<DOUBLE>>"), Column("marks", "MAP<STRING, BIGINT>"),
    Column("raw", "BINARY"),
)  # fmt: skip
FLAT = COLUMNS[:5]
ROW = {
    "id": 7, "name": "Zoë", "amount": "12.50", "at": "2026-01-02T03:04:05.678Z", "day": "2026-01-02",
    "part": {"a": 1, "b": [0.5, None]}, "marks": {"x": 1}, "raw": "AAH/",
}  # fmt: skip
AVRO = {"type": "record", "name": "R", "fields": [
    {"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]},
    {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-nanos"}},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    {"name": "clock", "type": {"type": "int", "logicalType": "time-millis"}},
    {"name": "list", "type": {"type": "array", "items": {"type": "array", "items": "string"}}},
    {"name": "marks", "type": {"type": "map", "values": ["null", "bytes"]}},
    {"name": "either", "type": ["null", "string", {"type": "enum", "name": "E", "symbols": ["a", "b"]}, "double"]},
]}  # fmt: skip
EVENT = {"type": "record", "name": "Event", "fields": [
    {"name": "before", "type": ["null", AVRO]}, {"name": "after", "type": ["null", "R"]},
    {"name": "op", "type": "string"}, {"name": "ts_ms", "type": ["null", "long"]},
]}  # fmt: skip


def texts(*objects: Any) -> list[bytes]:
    return [json.dumps(given).encode() for given in objects]


def avro_rows() -> list[Any]:
    low = {
        "id": -(2**63), "name": None, "amount": b"\x00", "at": 0, "day": -719162, "clock": 0, "list": [], "marks": {},
        "either": None,
    }  # fmt: skip
    high = {
        "id": 2**63 - 1, "name": "Zoë 😀", "amount": b"\x7f\xff", "at": 1_700_000_000_123_456_000, "day": 20_000,
        "clock": 86_399_999, "list": [["a", "b"], []], "marks": {"k": b"\x00\xff", "n": None}, "either": 1.5,
    }  # fmt: skip
    return [low, high]


def avro(schema: Any, *rows: Any) -> list[bytes]:
    import fastavro

    made = []
    for row in rows:
        fastavro.schemaless_writer(out := BytesIO(), schema, row)
        made.append(out.getvalue())
    return made


def packed() -> list[bytes]:
    import msgpack

    at = msgpack.Timestamp(1_700_000_000, 123_456_000)
    full = {**ROW, "at": at, "amount": 0.5, "raw": b"\x00\xff", "more": [at, {"a": {1: [None]}}]}
    return [msgpack.packb(row) for row in (full, {"id": -(2**63), "marks": {}, "part": {"b": []}}, {})]


def protobuf() -> tuple[ValueFormat, tuple[Column, ...], list[bytes]]:
    import base64

    from protobuf_messages import a_file, classes, entry, field, message
    from tidegate.adapters.schema_registry.client import Version
    from tidegate.adapters.schema_registry.protobuf_descriptors import from_registry

    inner = message("Place", field("x", 1, "int32"), field("tags", 2, "string", repeated=True))
    order = message(
        "Order", field("id", 1, "int64"), field("name", 2, "string", optional=True), field("big", 3, "uint64"),
        field("at", 4, ".google.protobuf.Timestamp"), field("span", 5, ".google.protobuf.Duration"),
        field("state", 6, "enum:.shop.State"), field("places", 7, ".shop.Place", repeated=True),
        field("marks", 8, ".shop.Order.MarksEntry", repeated=True), field("doc", 9, ".google.protobuf.Struct"),
        nested=(entry("MarksEntry", "string", "double"),),
    )  # fmt: skip
    file = a_file(order, inner, enums={"State": {"NONE": 0, "OPEN": 1}})
    made = classes(file)["shop.Order"]
    full = made(id=7, name="Zoë", big=2**64 - 1, at={"seconds": 1}, span={"seconds": -1}, state=1,
                places=[{"x": 1, "tags": ["a", "b"]}], marks={"k": 0.5})  # fmt: skip
    full.doc.update({"a": [1, None, {"b": "c"}]})
    options = from_registry([Version(1, "PROTOBUF", base64.b64encode(file.SerializeToString()).decode(), {})], None)
    columns = tuple(Column(f["name"], to_column_type(f["shape"])) for f in options["shape"]["fields"])
    header = b"\x00\x00\x00\x00\x01\x00"
    return (
        ValueFormat("protobuf", columns, options=options),
        columns,
        [header + m.SerializeToString() for m in (full, made())],
    )


def seeds(name: str) -> tuple[ValueFormat, tuple[Column, ...], list[bytes]]:  # noqa: PLR0911, PLR0912 (one for each format)
    """A value format as a pipeline has it, its columns, and good values of it."""
    event = {"before": None, "after": ROW, "op": "c", "ts_ms": 1_700_000_000_000, "source": {"table": "t", "ts_ms": 1}}
    flat = {name: str(value) for name, value in ROW.items() if not isinstance(value, dict)}
    canal = {"data": [flat, flat], "old": None, "type": "INSERT", "isDdl": False, "ts": 1, "es": 1, "table": "t"}
    maxwell = {"database": "d", "table": "t", "type": "update", "ts": 1_700_000_000, "data": ROW, "old": {"id": 3}}
    match name:
        case "json":
            own_scale = {**ROW, "amount": {"scale": 2, "value": "MDk="}}
            return ValueFormat("json", COLUMNS), COLUMNS, texts(ROW, own_scale, {"id": 1})
        case "json-schema":
            framed = [b"\x00\x00\x00\x00\x01" + text for text in texts(ROW, {"id": 1})]
            return ValueFormat("json", COLUMNS, options={"ids": [1]}), COLUMNS, framed
        case "debezium-json":
            events = ({**event, "op": "u", "before": ROW}, {**event, "op": "d", "before": ROW, "after": None})
            return ValueFormat(name, COLUMNS), COLUMNS, texts(event, {"schema": {}, "payload": event}, *events)
        case "mongodb":
            document = {**ROW, "id": {"$numberLong": "7"}, "amount": {"$numberDecimal": "12.50"}, "at": {"$date": 1000},
                        "raw": {"$binary": "AAH/", "$type": "00"}}  # fmt: skip
            held = json.dumps(document)
            events = ({**event, "after": held}, {"payload": {**event, "after": held, "before": held, "op": "u"}})
            return ValueFormat("debezium-json", COLUMNS), COLUMNS, texts(*events)
        case "canal-json":
            old = [{"id": "1"}, {"name": "x"}]
            return ValueFormat(name, FLAT), FLAT, texts(canal, {**canal, "type": "UPDATE", "old": old})
        case "maxwell-json":
            return ValueFormat(name, COLUMNS), COLUMNS, texts(maxwell, {**maxwell, "type": "delete"})
        case "ogg-json":
            told = {"table": "S.T", "op_ts": "2026-01-02 03:04:05.678901", "pos": "00000000000000000143"}
            ogg = {**told, "op_type": "U", "before": ROW, "after": {**ROW, "id": 8}}
            return ValueFormat(name, COLUMNS), COLUMNS, texts(ogg, {**told, "op_type": "D", "before": {"id": 7}})
        case "csv":
            return ValueFormat("csv", FLAT), FLAT, [b'7,"Zo""e",12.50,2026-01-02 03:04:05,2026-01-02', b"1,,,,"]
        case "string":
            return ValueFormat("string", FLAT[1:2]), FLAT[1:2], ["Zoë".encode(), b""]
        case "avro":
            made = plan_decoding(AVRO, {1: AVRO})
            framed = [b"\x00\x00\x00\x00\x01" + row for row in avro(AVRO, *avro_rows())]
            options = {"reader": made.reader, "writers": made.writers, "refused": made.refused}
            return ValueFormat(name, options=options), to_columns(AVRO), framed
        case "debezium-avro":
            low, high = avro_rows()
            rows = [{"before": low, "after": high, "op": "u", "ts_ms": 1}, {"before": high, "after": None, "op": "d"}]
            options = {"reader": plan_decoding(EVENT, {}).reader, "writers": {}}
            return ValueFormat(name, options=options), to_columns(AVRO), avro(EVENT, *rows)
        case "protobuf":
            return protobuf()
        case "msgpack":
            return ValueFormat(name, COLUMNS), COLUMNS, packed()
    raise ValueError(name)


FORMATS = (
    "json", "json-schema", "debezium-json", "mongodb", "canal-json", "maxwell-json", "ogg-json", "csv", "string",
    "avro", "debezium-avro", "protobuf", "msgpack",
)  # fmt: skip


def a_table(name: str) -> tuple[StageTable, list[bytes]]:
    value, columns, good = seeds(name)
    table = StageTable(
        intermediate="i", attempt="a", key=KeyFormat(), key_columns=(), value=value, value_columns=columns,
        metadata={}, ignore_deletes=False, when=None, route=None, delete_when=None, summary={}, property="p",
    )  # fmt: skip
    return table, good


def corrupted(spark: Any, good: list[bytes], number: int, begin: int = 0) -> Any:
    """So many values, by their number alone, from `begin` on: every eighth is a seed as it is."""

    def listed(name: str, given: list[bytes]) -> str:
        parts = ", ".join(f"X'{part.hex()}'" for part in given)
        return f"array({parts}) AS {name}"

    frame = spark.range(begin, begin + number).selectExpr("id", listed("seeds", good), listed("tokens", TOKENS))
    frame = frame.selectExpr("*", f"element_at(seeds, int(pmod(xxhash64(id, 's'), {len(good)})) + 1) AS v")
    for turn in range(ROUNDS):

        def chance(what: str, below: str, turn: int = turn) -> str:
            return f"int(pmod(xxhash64(id, '{what}', {turn}), greatest({below}, 1)))"

        frame = frame.selectExpr(
            "id", "seeds", "tokens", "v", f"{chance('p', 'length(v) + 1')} + 1 AS p", f"{chance('n', '12')} AS n",
            f"element_at(tokens, {chance('t', str(len(TOKENS)))} + 1) AS t",
            f"element_at(seeds, {chance('o', str(len(good)))} + 1) AS o", f"{chance('c', '8')} AS c",
            f"unhex(lpad(hex({chance('b', '256')}), 2, '0')) AS b",
        ).selectExpr("id", "seeds", "tokens", """CASE c
            WHEN 0 THEN v
            WHEN 1 THEN substring(v, 1, p - 1)
            WHEN 2 THEN concat(substring(v, 1, p - 1), b, substring(v, p + 1))
            WHEN 3 THEN concat(substring(v, 1, p - 1), t, substring(v, p))
            WHEN 4 THEN concat(substring(v, 1, p - 1), t, substring(v, p + n))
            WHEN 5 THEN concat(substring(v, 1, p - 1), substring(v, p), substring(v, p))
            WHEN 6 THEN concat(substring(v, 1, p - 1), substring(o, p))
            ELSE concat(substring(v, 1, p - 1), substring(v, p + n)) END AS v""")  # fmt: skip
    return frame.selectExpr(
        "CAST(NULL AS BINARY) AS key", "v AS value", "'t' AS topic", "0 AS partition", "id AS offset",
        "current_timestamp() AS timestamp", "0 AS timestampType", "CAST(NULL AS STRING) AS key_text",
        "CAST(v AS STRING) AS value_text",
    )  # fmt: skip


def outcome(spark: Any, name: str, number: int, begin: int = 0) -> dict[str, int]:
    """What became of so many records of a format, each decoded to its last value."""
    from tidegate_spark.stage.job import decode

    table, good = a_table(name)
    decoded = decode(corrupted(spark, good, number, begin), table)
    (row,) = decoded.selectExpr(
        "count(DISTINCT offset) AS records",
        "count_if(reason IS NOT NULL) AS bad",
        "count_if(reason IS NULL AND value_struct IS NOT NULL) AS rows",
        "count_if(reason IS NULL AND value_struct IS NULL AND change = 'u') AS lost",
        "count_if(reason = '') AS unsaid",
        "count(hash(to_json(struct(value_struct, key_struct, op)))) AS read",
    ).collect()
    return dict(row.asDict())


if __name__ == "__main__":
    import os

    from tidegate_spark.session import close, connect_session

    session = connect_session(os.environ["SPARK_REMOTE"], {})
    chosen = FORMATS if sys.argv[1] == "all" else sys.argv[1].split(",")
    for each in chosen:
        print(each, outcome(session, each, *map(int, sys.argv[2:])), flush=True)
    close(session)
