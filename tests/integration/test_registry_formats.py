"""Protobuf and JSON Schema as confluent-kafka's serializers write them, through real Kafka, Spark and Iceberg."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from protobuf_messages import build_classes, build_field, build_file, build_map_entry, build_message
from schema_registry import SchemaRegistry
from tidegate.errors import BadRecord

AT = datetime(2026, 1, 1, 1, 2, 3, 456789, tzinfo=UTC)
MONEY = build_message("Money", build_field("cents", 1, "int64"))
OLD = build_message("Order", build_field("id", 1, "uint64"), build_field("name", 2, "string"))
NEW = build_message(
    "Order",
    build_field("id", 1, "uint64"),
    build_field("title", 2, "string"),
    build_field("at", 3, ".google.protobuf.Timestamp"),
    build_field("lines", 4, ".shop.Money", repeated=True),
    build_field("marks", 5, ".shop.Order.MarksEntry", repeated=True),
    build_field("note", 6, "string", optional=True),
    nested=(build_map_entry("MarksEntry", "string", "int32"),),
)
KEY = build_classes(build_file(build_message("Key", build_field("id", 1, "uint64")), name="key.proto"))["shop.Key"]


class Writer:
    """Serializes as a producer does: registered under `<topic>-value`, or under `<topic>-key`."""

    def __init__(self, registry: SchemaRegistry, topic: str) -> None:
        from confluent_kafka.schema_registry import SchemaRegistryClient

        self.client, self.topic = SchemaRegistryClient({"url": registry.url}), topic

    def message(self, message_value: Any, part: str = "value") -> bytes:
        from confluent_kafka.schema_registry.protobuf import ProtobufSerializer

        return self._serialize(ProtobufSerializer(type(message_value), self.client), message_value, part)

    def object(self, schema: Any, data: Any, part: str = "value") -> bytes:
        from confluent_kafka.schema_registry.json_schema import JSONSerializer

        return self._serialize(JSONSerializer(json.dumps(schema), self.client), data, part)

    def _serialize(self, serializer: Any, data: Any, part: str) -> bytes:
        from confluent_kafka.serialization import SerializationContext

        encoded = serializer(data, SerializationContext(self.topic, part))
        assert isinstance(encoded, bytes)
        return encoded


def test_messages_of_two_versions_upsert_and_delete_and_bad_ones_are_set_aside(workbench, registry) -> None:
    topic = workbench.topic(1)
    written = Writer(registry, topic)
    before, after = (build_classes(build_file(order, MONEY))["shop.Order"] for order in (OLD, NEW))

    def build_record(id: int, message_value: Any) -> tuple[bytes, Any]:
        return written.message(KEY(id=id), "key"), None if message_value is None else written.message(message_value)

    large = 2**64 - 1
    full = {"id": large, "title": "full", "at": AT, "lines": [{"cents": -5}, {}], "marks": {"a": 1}, "note": ""}
    records = [
        build_record(1, before(id=1, name="gone")),
        build_record(2, before(id=2, name="old")),
        build_record(large, after(**full)),
        build_record(3, after(id=3)),
        build_record(1, None),
        (None, written.message(after(id=4, title="keyless"))),
    ]
    workbench.produce(topic, *records)
    given = {"format": "protobuf", "protobuf": {"registry": registry.url}}
    workbench.pipeline("messages", [topic], key={**given, "fields": ["id"]}, value=given)
    workbench.flush("messages")
    nothing = {"at": None, "lines": [], "marks": None, "note": None}  # PyIceberg shows a NULL list of structs as empty
    unset = {"at": None, "lines": [], "marks": [], "note": None}
    rows = {int(row["id"]): row for row in workbench.read_rows("shop.messages")}
    assert rows == {
        2: {"id": 2, "title": "old", **nothing},
        3: {"id": 3, "title": "", **unset},
        4: {"id": 4, "title": "keyless", **unset},
        large: {**full, "id": Decimal(large), "marks": [("a", 1)], "lines": [{"cents": -5}, {"cents": 0}]},
    }
    assert [row.id for row in workbench.run_spark_sql("SELECT id FROM lake.shop.messages WHERE lines IS NULL")] == [2]
    good = build_record(5, after(id=5, title="good"))
    key = build_record(6, None)[0]
    workbench.produce(topic, (key, good[1][:6] + b"\x12\x02\xff\xfe"), (b"\x00\x00", good[1]), good)
    with pytest.raises(BadRecord, match=r"offset=6 reason=the value is not a Protobuf message of its schema"):
        workbench.flush("messages")
    tolerant = {"errors": {"tolerance": "all"}}
    workbench.pipeline("messages", [topic], key={**given, "fields": ["id"]}, value=given, source=tolerant)
    workbench.drain("messages")
    letters = workbench.read_rows("shop.tidegate_messages_dead_letters")
    assert [(row["offset"], row["stage"]) for row in sorted(letters, key=lambda r: r["offset"])] == [
        (6, "value"), (7, "key")]  # fmt: skip
    assert {int(row["id"]) for row in workbench.read_rows("shop.messages")} == {2, 3, 4, 5, large}


@pytest.mark.repeats(
    "integration/test_wire_formats.py::test_confluents_header_names_the_schema_and_what_has_none_is_read_by_its_bytes"
)
def test_json_behind_a_schema_id_takes_its_columns_from_the_registry(workbench, registry) -> None:
    topic = workbench.topic(1)
    written = Writer(registry, topic)
    key = {"title": "Key", "type": "object", "properties": {"id": {"type": "integer"}}}
    properties = {
        **key["properties"],
        "at": {"oneOf": [{"type": "null"}, {"type": "string", "format": "date-time"}]},
        "tags": {"type": "array", "items": {"type": "string"}},
    }
    old = {"title": "Order", "type": "object", "properties": {**key["properties"], "tags": properties["tags"]}}
    new = {"title": "Order", "type": "object", "properties": properties}

    def build_record(id: int, schema: Any, **more: Any) -> tuple[bytes, Any]:
        value = None if schema is None else written.object(schema, {"id": id, **more})
        return written.object(key, {"id": id}, "key"), value

    first, second = build_record(1, old, tags=["a"]), build_record(2, new, at="2026-01-01T01:02:03.456789Z", tags=[])
    workbench.produce(topic, first, second, build_record(3, new, at=None, tags=[]), build_record(3, None))
    given = {"format": "json", "json": {"registry": registry.url}}
    workbench.pipeline("objects", [topic], key={**given, "fields": ["id"]}, value=given)
    workbench.flush("objects")
    assert workbench.read_rows("shop.objects") == [
        {"id": 1, "at": None, "tags": ["a"]},
        {"id": 2, "at": AT, "tags": []},
    ]
    bad = {
        b'{"id": 1}': "the value does not begin with the magic byte and a schema id",
        b"\x00\x00\x00\x00\x63{}": "the value has schema id=99, which is no version of its subject",
        second[1][:5] + b'{"id": "x"}': "the value does not fit value.schema, fields: id",
    }
    tolerant = {"errors": {"tolerance": "all"}}
    workbench.pipeline("objects", [topic], key={**given, "fields": ["id"]}, value=given, source=tolerant)
    workbench.produce(topic, *((first[0], value) for value in bad), (b'{"id": 7}', first[1]))
    workbench.flush("objects")
    letters = {row["value"]: row["message"] for row in workbench.read_rows("shop.tidegate_objects_dead_letters")}
    assert letters == {**bad, first[1]: "the key does not begin with the magic byte and a schema id"}
