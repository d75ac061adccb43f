"""Good records of every format, and of every way in which a format is read: what `fuzzing` bends."""

import json
from dataclasses import replace
from io import BytesIO
from typing import Any

from tidegate.schema.avro import to_columns
from tidegate.schema.avro_resolution import plan_decoding
from tidegate.schema.data_types import Column
from tidegate.schema.protobuf import to_column_type
from tidegate.spec.source import KeyFormat, ValueFormat

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


def encode_objects(*objects: Any) -> list[bytes]:
    return [json.dumps(document).encode() for document in objects]


def build_avro_rows() -> list[Any]:
    low = {
        "id": -(2**63), "name": None, "amount": b"\x00", "at": 0, "day": -719162, "clock": 0, "list": [], "marks": {},
        "either": None,
    }  # fmt: skip
    high = {
        "id": 2**63 - 1, "name": "Zoë 😀", "amount": b"\x7f\xff", "at": 1_700_000_000_123_456_000, "day": 20_000,
        "clock": 86_399_999, "list": [["a", "b"], []], "marks": {"k": b"\x00\xff", "n": None}, "either": 1.5,
    }  # fmt: skip
    return [low, high]


def encode_avro(schema: Any, *rows: Any) -> list[bytes]:
    import fastavro

    messages = []
    for row in rows:
        fastavro.schemaless_writer(buffer := BytesIO(), schema, row)
        messages.append(buffer.getvalue())
    return messages


def encode_msgpack() -> list[bytes]:
    import msgpack

    at = msgpack.Timestamp(1_700_000_000, 123_456_000)
    full = {**ROW, "at": at, "amount": 0.5, "raw": b"\x00\xff", "more": [at, {"a": {1: [None]}}]}
    return [msgpack.packb(row) for row in (full, {"id": -(2**63), "marks": {}, "part": {"b": []}}, {})]


def build_protobuf_seeds() -> tuple[ValueFormat, tuple[Column, ...], list[bytes]]:
    import base64

    from protobuf_messages import build_classes, build_field, build_file, build_map_entry, build_message
    from tidegate.adapters.schema_registry.client import Version
    from tidegate.adapters.schema_registry.protobuf_descriptors import from_registry

    inner = build_message("Place", build_field("x", 1, "int32"), build_field("tags", 2, "string", repeated=True))
    order = build_message(
        "Order",
        build_field("id", 1, "int64"),
        build_field("name", 2, "string", optional=True),
        build_field("big", 3, "uint64"),
        build_field("at", 4, ".google.protobuf.Timestamp"),
        build_field("span", 5, ".google.protobuf.Duration"),
        build_field("state", 6, "enum:.shop.State"),
        build_field("places", 7, ".shop.Place", repeated=True),
        build_field("marks", 8, ".shop.Order.MarksEntry", repeated=True),
        build_field("doc", 9, ".google.protobuf.Struct"),
        nested=(build_map_entry("MarksEntry", "string", "double"),),
    )
    file = build_file(order, inner, enums={"State": {"NONE": 0, "OPEN": 1}})
    message_class = build_classes(file)["shop.Order"]
    full = message_class(id=7, name="Zoë", big=2**64 - 1, at={"seconds": 1}, span={"seconds": -1}, state=1,
                places=[{"x": 1, "tags": ["a", "b"]}], marks={"k": 0.5})  # fmt: skip
    full.doc.update({"a": [1, None, {"b": "c"}]})
    options = from_registry([Version(1, "PROTOBUF", base64.b64encode(file.SerializeToString()).decode(), {})], None)
    columns = tuple(Column(f["name"], to_column_type(f["shape"])) for f in options["shape"]["fields"])
    header = b"\x00\x00\x00\x00\x01\x00"
    return (
        ValueFormat("protobuf", columns, options=options),
        columns,
        [header + m.SerializeToString() for m in (full, message_class())],
    )


def build_value_seeds(name: str) -> tuple[ValueFormat, tuple[Column, ...], list[bytes]]:  # noqa: PLR0911, PLR0912 (one for each format)
    """A value format as a pipeline has it, its columns, and good values of it."""
    event = {"before": None, "after": ROW, "op": "c", "ts_ms": 1_700_000_000_000, "source": {"table": "t", "ts_ms": 1}}
    flat = {name: str(value) for name, value in ROW.items() if not isinstance(value, dict)}
    canal = {"data": [flat, flat], "old": None, "type": "INSERT", "isDdl": False, "ts": 1, "es": 1, "table": "t"}
    maxwell = {"database": "d", "table": "t", "type": "update", "ts": 1_700_000_000, "data": ROW, "old": {"id": 3}}
    match name:
        case "json":
            own_scale = {**ROW, "amount": {"scale": 2, "value": "MDk="}}
            return ValueFormat("json", COLUMNS), COLUMNS, encode_objects(ROW, own_scale, {"id": 1})
        case "json-schema":
            framed = [b"\x00\x00\x00\x00\x01" + text for text in encode_objects(ROW, {"id": 1})]
            return ValueFormat("json", COLUMNS, options={"ids": [1]}), COLUMNS, framed
        case "debezium-json":
            events = ({**event, "op": "u", "before": ROW}, {**event, "op": "d", "before": ROW, "after": None})
            return ValueFormat(name, COLUMNS), COLUMNS, encode_objects(event, {"schema": {}, "payload": event}, *events)
        case "mongodb":
            document = {**ROW, "id": {"$numberLong": "7"}, "amount": {"$numberDecimal": "12.50"}, "at": {"$date": 1000},
                        "raw": {"$binary": "AAH/", "$type": "00"}}  # fmt: skip
            document_text = json.dumps(document)
            events = (
                {**event, "after": document_text},
                {"payload": {**event, "after": document_text, "before": document_text, "op": "u"}},
            )
            return ValueFormat("debezium-json", COLUMNS), COLUMNS, encode_objects(*events)
        case "canal-json":
            old = [{"id": "1"}, {"name": "x"}]
            return ValueFormat(name, FLAT), FLAT, encode_objects(canal, {**canal, "type": "UPDATE", "old": old})
        case "maxwell-json":
            return ValueFormat(name, COLUMNS), COLUMNS, encode_objects(maxwell, {**maxwell, "type": "delete"})
        case "ogg-json":
            event_fields = {"table": "S.T", "op_ts": "2026-01-02 03:04:05.678901", "pos": "00000000000000000143"}
            ogg = {**event_fields, "op_type": "U", "before": ROW, "after": {**ROW, "id": 8}}
            return (
                ValueFormat(name, COLUMNS),
                COLUMNS,
                encode_objects(ogg, {**event_fields, "op_type": "D", "before": {"id": 7}}),
            )
        case "csv":
            return ValueFormat("csv", FLAT), FLAT, [b'7,"Zo""e",12.50,2026-01-02 03:04:05,2026-01-02', b"1,,,,"]
        case "string":
            return ValueFormat("string", FLAT[1:2]), FLAT[1:2], ["Zoë".encode(), b""]
        case "avro":
            decoding_plan = plan_decoding(AVRO, {1: AVRO})
            framed = [b"\x00\x00\x00\x00\x01" + row for row in encode_avro(AVRO, *build_avro_rows())]
            options = {
                "reader": decoding_plan.reader,
                "writers": decoding_plan.writers,
                "refused": decoding_plan.refused,
            }
            return ValueFormat(name, options=options), to_columns(AVRO), framed
        case "debezium-avro":
            low, high = build_avro_rows()
            rows = [{"before": low, "after": high, "op": "u", "ts_ms": 1}, {"before": high, "after": None, "op": "d"}]
            options = {"reader": plan_decoding(EVENT, {}).reader, "writers": {}}
            return ValueFormat(name, options=options), to_columns(AVRO), encode_avro(EVENT, *rows)
        case "protobuf":
            return build_protobuf_seeds()
        case "msgpack":
            return ValueFormat(name, COLUMNS), COLUMNS, encode_msgpack()
    raise ValueError(name)


CONNECT_DATA, DEBEZIUM = "org.apache.kafka.connect.data.", "io.debezium.time."
# what Kafka Connect says of the fields of `CONNECT_ROW`
KINDS = (
    {"field": "id", "type": "int64"}, {"field": "name", "type": "string"},
    {"field": "amount", "type": "bytes", "name": CONNECT_DATA + "Decimal", "parameters": {"scale": "2"}},
    {"field": "at", "type": "int64", "name": DEBEZIUM + "MicroTimestamp"},
    {"field": "day", "type": "int32", "name": DEBEZIUM + "Date"},
    {"field": "marks", "type": "map", "keys": {"type": "string"}, "values": {"type": "int64"}},
)  # fmt: skip
CONNECT_ROW = {**ROW, "amount": "BOI=", "at": 1_700_000_000_123_456, "day": 20_000}
LENIENT = {"numbers": "lenient"}
NUMBERS = {"a": "7", "b": "-0.5", "c": "1e3", "d": ["1", 2, None], "e": {"x": "9"}}
NUMBER_COLUMNS = (
    Column("a", "BIGINT"), Column("b", "DOUBLE"), Column("c", "FLOAT"), Column("d", "ARRAY<INT>"),
    Column("e", "MAP<STRING, SMALLINT>"),
)  # fmt: skip


def build_option_seeds() -> dict[str, tuple[ValueFormat, tuple[Column, ...], list[bytes]]]:
    """Values of a format that is read in another way than its own."""
    schema = {"schema": {"type": "struct", "fields": [*KINDS]}, "payload": CONNECT_ROW}
    event = {"op": "u", "before": CONNECT_ROW, "after": CONNECT_ROW, "source": {}, "ts_ms": 1}
    event_fields = [{"field": part, "type": "struct", "fields": [*KINDS]} for part in ("before", "after")]
    kinds = {str(n): {kind["field"]: kind for kind in KINDS if "name" in kind} for n in (1,)}
    framed = [b"\x00\x00\x00\x00\x01" + text for text in encode_objects(CONNECT_ROW, {"id": 1})]
    hexadecimal = [{"raw": "00ff", "part": ["cafe", None]}, {"raw": "", "part": []}]
    formats = {
        "json envelope": (
            ValueFormat("json", options={"envelope": True}),
            COLUMNS,
            encode_objects(schema, {"schema": None, "payload": ROW}, {"payload": None}),
        ),
        "debezium-json schema": (
            ValueFormat("debezium-json"),
            COLUMNS,
            encode_objects({"schema": {"type": "struct", "fields": event_fields}, "payload": event}),
        ),
        "json-schema logical": (ValueFormat("json", options={"ids": [1], "kinds": kinds}), COLUMNS, framed),
        "json lenient": (ValueFormat("json", options=LENIENT), NUMBER_COLUMNS, encode_objects(NUMBERS, {"a": 7})),
        "json hex": (
            ValueFormat("json", options={"binary": "hex"}),
            (Column("raw", "BINARY"), Column("part", "ARRAY<BINARY>")),
            encode_objects(*hexadecimal),
        ),
        "json extended": (
            ValueFormat("json", options={"extended": True}),
            COLUMNS,
            encode_objects(
                {**ROW, "id": {"$numberLong": "7"}, "at": {"$date": 1000}, "raw": {"$binary": "AAH/", "$type": "00"}}
            ),
        ),
        "msgpack as json": (ValueFormat("msgpack", unknown_fields="add"), COLUMNS, encode_msgpack()),
        "raw": (ValueFormat("raw"), (Column("v", "BIGINT"),), [bytes(8), b"\xff" * 8, b"\x00" * 7 + b"\x07"]),
        "raw double": (ValueFormat("raw", options={"endianness": "little"}), (Column("v", "DOUBLE"),), [bytes(8)]),
        "string number": (ValueFormat("string"), (Column("v", "DECIMAL(12,2)"),), [b"12.50", b"-7", b"1e3"]),
        "csv hex": (
            ValueFormat("csv", options={"binary": "hex"}),
            (Column("a", "INT"), Column("raw", "BINARY")),
            [b"7,00ff", b",", b"1,"],
        ),
    }
    return {
        name: (replace(fmt, columns=columns), columns, good_value)
        for name, (fmt, columns, good_value) in formats.items()
    }


ID, TEXT, TEXT_ID = (
    Column(*column, nullable=False) for column in (("id", "BIGINT"), ("code", "STRING"), ("id", "STRING"))
)
KEY_AVRO = {"type": "record", "name": "Key", "fields": [
    {"name": "id", "type": "long"}, {"name": "code", "type": ["null", "string"]}]}  # fmt: skip


def build_key_seeds() -> dict[str, tuple[KeyFormat, tuple[Column, ...], list[bytes]]]:
    """Keys of each format, their columns, which are all NOT NULL, and good ones."""
    import msgpack

    key_fields, row = ("id", "code"), {"id": 7, "code": "Zoë"}
    fields = [{"field": "id", "type": "int64"}, {"field": "code", "type": "string"}]
    enveloped = {"schema": {"type": "struct", "fields": fields}, "payload": row}
    plan = plan_decoding(KEY_AVRO, {1: KEY_AVRO}, key_fields)
    options = {"reader": plan.reader, "writers": plan.writers, "refused": plan.refused}
    framed = [b"\x00\x00\x00\x00\x01" + body for body in encode_avro(KEY_AVRO, row)]
    message, _, messages = build_protobuf_seeds()
    return {
        "key json": (KeyFormat("json", key_fields), (ID, TEXT), encode_objects(row, enveloped, {"payload": row})),
        "key json bare": (KeyFormat("json", ("id",)), (ID,), encode_objects(7, {"id": 7}, {"payload": 7}, -(2**63))),
        "key json text": (
            KeyFormat("json", ("code",)),
            (TEXT,),
            encode_objects("a", {"code": "ë"}, {"payload": "1.50"}),
        ),
        "key json lenient": (KeyFormat("json", ("id",), options=LENIENT), (ID,), encode_objects("7", {"id": "8"})),
        "key json-schema": (
            KeyFormat("json", key_fields, options={"ids": [1]}),
            (ID, TEXT),
            [b"\x00\x00\x00\x00\x01" + text for text in encode_objects(row)],
        ),
        "key extended": (
            KeyFormat("json", ("id",), options={"extended": True}),
            (TEXT_ID,),
            encode_objects({"id": '{"$oid": "0123456789abcdef01234567"}'}, {"payload": {"id": '"a"'}}),
        ),
        "key avro": (KeyFormat("avro", key_fields, options=options), (ID, TEXT), framed),
        "key protobuf": (KeyFormat("protobuf", ("id",), options=message.options), (ID,), messages),
        "key csv": (KeyFormat("csv", key_fields), (ID, TEXT), [b"7,a", b'8,"b ""c"""']),
        "key string": (KeyFormat("string", ("id",)), (ID,), [b"7", b"-9223372036854775808"]),
        "key raw": (KeyFormat("raw", ("id",)), (ID,), [bytes(8), b"\xff" * 8]),
        "key msgpack": (KeyFormat("msgpack", key_fields), (ID, TEXT), [msgpack.packb(row)]),
    }
