"""Where schema ids lie, and several record types in one topic: real serializers, registries, Kafka, Spark, Iceberg."""

import json
import re
from dataclasses import replace
from io import BytesIO
from typing import Any

import decoding
import pytest
from apicurio_registry import ApicurioServer
from protobuf_messages import build_classes, build_field, build_file, build_message
from schema_registry import SchemaRegistry
from tidegate.adapters.schema_registry.schema_provider import RegistrySchemas
from tidegate.errors import ConfigurationError
from tidegate.flush.key_deduplication import can_keep_last_per_key
from tidegate.spec.source import KeyFormat, ValueFormat
from tidegate.spec.table import Table

OLD = {"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "id", "type": "long"}]}
NEW = {**OLD, "fields": [*OLD["fields"], {"name": "note", "type": ["null", "string"], "default": None}]}
REFUND = {"type": "record", "name": "Refund", "namespace": "shop", "fields": [
    {"name": "id", "type": "long"}, {"name": "cents", "type": "long"}]}  # fmt: skip
AUDIT = {"type": "record", "name": "Audit", "namespace": "shop", "fields": [{"name": "who", "type": "string"}]}
UNKNOWN = "which is no version of its subject"
WIDTHS = ((8, "apicurio"), (4, "confluent"))  # bytes of an id, and the wire format that has so many


class Writer:
    """Serializes as a producer does with these settings; headers are collected as a producer sends them."""

    def __init__(self, registry: SchemaRegistry, topic: str, **settings: Any) -> None:
        from confluent_kafka.schema_registry import SchemaRegistryClient

        self.client, self.topic, self.settings = SchemaRegistryClient({"url": registry.url}), topic, settings

    def avro(self, schema: Any, data: Any, part: str = "value") -> tuple[bytes, list[tuple[str, bytes]]]:
        from confluent_kafka.schema_registry.avro import AvroSerializer

        return self._serialize(AvroSerializer(self.client, json.dumps(schema), conf=self._build_conf()), data, part)

    def message(self, message_value: Any, part: str = "value") -> tuple[bytes, list[tuple[str, bytes]]]:
        from confluent_kafka.schema_registry.protobuf import ProtobufSerializer

        return self._serialize(
            ProtobufSerializer(type(message_value), self.client, self._build_conf()), message_value, part
        )

    def object(self, schema: Any, data: Any, part: str = "value") -> tuple[bytes, list[tuple[str, bytes]]]:
        from confluent_kafka.schema_registry.json_schema import JSONSerializer

        return self._serialize(JSONSerializer(json.dumps(schema), self.client, conf=self._build_conf()), data, part)

    def _build_conf(self) -> dict[str, Any]:
        return {name.replace("_", "."): value for name, value in self.settings.items()}

    def _serialize(self, serializer: Any, data: Any, part: str) -> tuple[bytes, list[tuple[str, bytes]]]:
        from confluent_kafka.serialization import SerializationContext

        headers: list[tuple[str, bytes]] = []
        encoded = serializer(data, SerializationContext(self.topic, part, headers))
        return encoded, headers


def build_table(options: dict[str, Any], format: str = "avro", topics: tuple[str, ...] = ("t",)) -> Table:
    value = ValueFormat(format, options=options)
    table = Table("lake.shop.t", topics, KeyFormat(), value, upsert=False, delete=False)
    return RegistrySchemas(lambda _: None).describe_table(table)


def decode_values(spark: Any, table: Table, values: list[bytes | None], headers: Any = None) -> list[Any]:
    """The row of each value as a tuple, or why it is bad; what became of it if it is neither."""
    stage = decoding.build_stage_table(table.value, table.value.columns or ())
    results = decoding.decode(
        spark, stage, [(None, v) for v in values], "reason", "value_struct", "fate", "value", headers=headers
    )
    assert [None if sent is None else bytes(sent) for *_, sent in results] == values  # dead letters hold what was sent
    return [fate if fate == "ignored" else reason or (row and tuple(row)) for reason, row, fate, _ in results]


def encode_avro(schema: Any, data: Any) -> bytes:
    import fastavro

    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), data)
    return out.getvalue()


def test_confluents_header_names_the_schema_and_what_has_none_is_read_by_its_bytes(spark, registry) -> None:
    from confluent_kafka.schema_registry import header_schema_id_serializer

    headed = Writer(registry, "t", schema_id_serializer=header_schema_id_serializer)
    old, new = headed.avro(OLD, {"id": 1}), headed.avro(NEW, {"id": 2, "note": "a"})
    plain = Writer(registry, "t").avro(NEW, {"id": 3, "note": "b"})
    other = Writer(registry, "else", schema_id_serializer=header_schema_id_serializer).avro(AUDIT, {"who": "x"})
    assert old[0] == encode_avro(OLD, {"id": 1})
    assert [name for name, _ in old[1]] == ["__value_schema_id"]
    table = build_table({"registry": registry.url, "wire_format": "confluent-header"})
    twice = [*old[1], *new[1]]  # the last one counts, as for Kafka's clients
    records = [old, new, plain, other, (new[0], twice), (new[0], []), (None, old[1]), (old[0], [("x", b"")])]
    results = decode_values(spark, table, [value for value, _ in records], [headers for _, headers in records])
    guid = other[1][0][1].hex()
    assert results == [
        (1, None), (2, "a"), (3, "b"),
        f"the value has the header __value_schema_id={guid}, which names no version of its subject",
        (2, "a"),
        "the value does not begin with the magic byte and a schema id", None,
        "the value does not begin with the magic byte and a schema id",
    ]  # fmt: skip


@pytest.mark.repeats("test_confluents_header_names_the_schema_and_what_has_none_is_read_by_its_bytes")
def test_messages_and_objects_may_have_their_schema_in_a_header(spark, registry) -> None:
    from confluent_kafka.schema_registry import header_schema_id_serializer

    settings = {"schema_id_serializer": header_schema_id_serializer}
    message_classes = build_classes(
        build_file(
            build_message("Else", build_field("x", 1, "string")), build_message("Order", build_field("id", 1, "int64"))
        )
    )
    sent = Writer(registry, "m", **settings).message(message_classes["shop.Order"](id=7))
    options = {"registry": registry.url, "wire_format": "confluent-header"}
    messages = build_table({**options, "message": "shop.Order"}, "protobuf", ("m",))
    assert decode_values(spark, messages, [sent[0]], [sent[1]]) == [(7,)]
    schema = {"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}}
    record = Writer(registry, "o", **settings).object(schema, {"id": 7})
    assert json.loads(record[0]) == {"id": 7}
    assert decode_values(spark, build_table(options, "json", ("o",)), [record[0]], [record[1]]) == [(7,)]


def write_of_kind(kind: str, writer: Writer, number: int) -> tuple[bytes, Any]:
    """A record of one of two schemas of that kind."""
    if kind == "avro":
        return writer.avro((OLD, NEW)[number], ({"id": 1}, {"id": 2, "note": "a"})[number])
    if kind == "json":
        properties = {name: {"type": "integer"} for name in ("id", "n")[: number + 1]}
        return writer.object({"title": "Order", "type": "object", "properties": properties}, {"id": 1})
    fields = [build_field("id", 1, "int64"), build_field("n", 2, "int64")][: number + 1]
    return writer.message(build_classes(build_file(build_message("Order", *fields)))["shop.Order"](id=1))


@pytest.mark.repeats("test_subject_and_version_of_the_writers_schema_are_columns[avro]", "protobuf", "json")
@pytest.mark.parametrize("kind", ["avro", "protobuf", "json"])
def test_subject_and_version_of_the_writers_schema_are_columns(spark, registry, kind: str) -> None:
    """A schema is one id in all subjects that have it: the record's own topic says which of these counts."""
    first = [write_of_kind(kind, Writer(registry, "a"), number) for number in (1, 0)]
    second = [write_of_kind(kind, Writer(registry, "t"), number) for number in (0, 1)]
    values = [value for value, _ in (*first, *second)]
    assert [value[:5] for value in values[:2]] == [value[:5] for value in values[:1:-1]]
    words = ("value.schema-id", "value.schema-subject", "value.schema-version", "key.schema-subject")
    for topics, subjects, versions in (
        (("a", "t"), ["t-value"] * 4, ["2", "1", "1", "2"]),
        # of another topic than these the subject counts whose newest schema is the oldest
        (("a", "b"), ["b-value", "a-value", "a-value", "b-value"], ["1", "2", "2", "1"]),
    ):
        write_of_kind(kind, Writer(registry, topics[1]), 1)
        table = build_table({"registry": registry.url}, kind, topics)
        columns = table.value.columns or ()
        stage = replace(
            decoding.build_stage_table(table.value, columns), metadata={f"m{n}": word for n, word in enumerate(words)}
        )
        records = [(None, value) for value in (*values, None, b"\x00\x00\x00\x03\xe7")]
        found = decoding.decode(spark, stage, records, *(f"value_struct.m{n}" for n in range(len(words))), "reason")
        known = [
            (int.from_bytes(value[1:5], "big"), subject, version, None, None)
            for value, subject, version in zip(values, subjects, versions, strict=True)
        ]
        assert found[:4] == known
        assert found[4] == (None,) * 5
        assert found[5][1:3] == (None, None)
        assert found[5][-1], "an unknown id is bad"


@pytest.mark.repeats("test_confluents_header_names_the_schema_and_what_has_none_is_read_by_its_bytes")
def test_keys_and_values_with_headers_upsert_and_delete_and_dead_letters_keep_both(workbench, registry) -> None:
    from confluent_kafka.schema_registry import header_schema_id_serializer

    topic = workbench.topic()
    written = Writer(registry, topic, schema_id_serializer=header_schema_id_serializer)
    keyed = {**OLD, "name": "Key"}

    def encode_record(id: int, note: str | None) -> tuple[bytes, bytes | None, dict[str, Any]]:
        key, headers = written.avro(keyed, {"id": id}, "key")
        value, more = written.avro(NEW, {"id": id, "note": note}) if note else (None, [])
        return key, value, {"headers": [*headers, *more]}

    key, value, options = encode_record(4, "bad")
    strange = {"headers": [(name, b"\x01" + bytes(16)) for name, _ in options["headers"]]}
    workbench.produce(
        topic,
        encode_record(1, "a"),
        encode_record(2, "b"),
        encode_record(1, "c"),
        encode_record(2, None),
        (key, value, strange),
        encode_record(3, "d"),
    )
    given = {"format": "avro", "avro": {"registry": registry.url, "wire_format": "confluent-header"}}
    tolerant = {"errors": {"tolerance": "all"}}
    workbench.pipeline("headed", [topic], key={**given, "fields": ["id"]}, value=given, source=tolerant)
    workbench.flush("headed")
    assert workbench.read_rows("shop.headed") == [{"id": 1, "note": "c"}, {"id": 3, "note": "d"}]
    (letter,) = workbench.read_rows("shop.tidegate_headed_dead_letters")
    assert (letter["key"], letter["value"], letter["stage"]) == (key, value, "key")
    assert letter["message"] == (
        f"the key has the header __key_schema_id=01{bytes(16).hex()}, which names no version of its subject"
    )


def test_header_that_the_registry_cannot_resolve_is_refused_before_the_first_record() -> None:
    older_registry = SchemaRegistry(has_guids=False)
    try:
        older_registry.register("t-value", {"schema": json.dumps(OLD)})
        with pytest.raises(ConfigurationError, match="has no GUIDs"):
            build_table({"registry": older_registry.url, "wire_format": "confluent-header"})
        with pytest.raises(ConfigurationError, match="apis/registry/v3"):
            build_table({"registry": older_registry.url, "wire_format": "apicurio-header"})
    finally:
        older_registry.close()


@pytest.mark.repeats("test_apicurios_ids_of_eight_bytes_of_four_and_in_headers[3-None]", "2-None", "3-globalId")
@pytest.mark.parametrize(("api", "use_id"), [(2, None), (3, None), (3, "globalId")])
def test_apicurios_ids_of_eight_bytes_of_four_and_in_headers(spark, api: int, use_id: str | None) -> None:
    server = ApicurioServer(api)
    line = {"type": "record", "name": "Line", "namespace": "shop", "fields": [{"name": "n", "type": "int"}]}
    lined = {**OLD, "fields": [*OLD["fields"], {"name": "line", "type": ["null", "shop.Line"], "default": None}]}
    nested_schema = {**OLD, "fields": [*OLD["fields"], {"name": "line", "type": ["null", line], "default": None}]}
    try:
        server.register("line", line, group="g")
        refers = [{"groupId": "g", "artifactId": "line", "version": "1", "name": "shop.Line"}]
        first, second, third = (
            server.register("t-value", schema, **more)
            for schema, more in ((OLD, {}), (NEW, {"state": "DISABLED"}), (lined, {"references": refers}))
        )
        id = use_id or ("globalId" if api == 2 else "contentId")
        options = {"registry": server.url} | ({"use_id": use_id} if use_id else {})
        rows = [
            (first, OLD, {"id": 1}),
            (second, NEW, {"id": 2, "note": "a"}),
            (third, nested_schema, {"id": 3, "line": {"n": 9}}),
        ]
        bodies = [encode_avro(schema, row) for _, schema, row in rows]
        expected = [(1, None, None), (2, None, "a"), (3, (9,), None)]
        for width, word in WIDTHS if (api, use_id) == (3, None) else WIDTHS[:1]:
            heads = [b"\x00" + version[id].to_bytes(width, "big") for version, *_ in rows]
            table = build_table({**options, "wire_format": word})
            values = [head + body for head, body in zip(heads, bodies, strict=True)]
            strange = [b"\x00" + (99).to_bytes(width, "big") + bodies[0], b"\x01" + values[0][1:]]
            results = decode_values(spark, table, [*values, *strange, None])
            assert results[:3] == expected
            assert results[3] == f"the value has schema id=99, {UNKNOWN}"
            assert results[4].startswith("the value does not begin with the magic byte and a schema id")
            assert results[5] is None
        table, ids = build_table({**options, "wire_format": "apicurio-header"}), ("globalId", "contentId")
        headers = [
            [(f"apicurio.value.{name}", number.to_bytes(8, "big"))] for name in ids for number in (third[name], 99)
        ]
        reasons = [
            f"the value has the header apicurio.value.{name}={99:016x}, which names no version of its subject"
            for name in ids
        ]
        results = decode_values(spark, table, [bodies[2]] * len(headers), headers)
        assert results == [expected[2], reasons[0], expected[2], reasons[1]]
    finally:
        server.close()


@pytest.mark.repeats(
    "test_record_types_of_one_topic_are_read_each_into_its_table[RecordNameStrategy]", "TopicRecordNameStrategy"
)
@pytest.mark.parametrize("strategy", ["RecordNameStrategy", "TopicRecordNameStrategy"])
def test_record_types_of_one_topic_are_read_each_into_its_table(workbench, spark, registry, strategy: str) -> None:
    import confluent_kafka.schema_registry as names

    topic = workbench.topic()
    is_topic = strategy.startswith("Topic")
    named = names.topic_record_subject_name_strategy if is_topic else names.record_subject_name_strategy
    written = Writer(registry, topic, subject_name_strategy=named)

    def encode_record(id: int, schema: Any, **more: Any) -> tuple[str, bytes]:
        return json.dumps({"id": id}), written.avro(schema, {"id": id, **more} if schema is not AUDIT else more)[0]

    def build_value(*records: str, ignored: tuple[str, ...] = ()) -> dict[str, Any]:
        avro = {"registry": registry.url, "subject_name_strategy": strategy, "records": list(records)}
        return {"format": "avro", "avro": {**avro, **({"ignored_records": list(ignored)} if ignored else {})}}

    workbench.produce(
        topic, encode_record(1, OLD), encode_record(2, REFUND, cents=5), encode_record(3, NEW, note="c"),
        encode_record(1, REFUND, cents=7), encode_record(9, AUDIT, who="x"),
    )  # fmt: skip
    key = {"fields": ["id"], "schema": "id BIGINT"}
    tables = [
        {
            "name": "lake.shop.orders",
            "key": key,
            "value": build_value("shop.Order", ignored=("shop.Refund", "shop.Audit")),
        },
        {
            "name": "lake.shop.both",
            "key": key,
            "value": build_value("shop.Order", "shop.Refund", ignored=("shop.Audit",)),
        },
    ]
    workbench.pipeline("types", [topic], key=key, value=build_value("shop.Order"), tables=tables)
    assert not any(
        can_keep_last_per_key(p, table) for p in [workbench.open_session("types").pipeline] for table in p.tables
    )
    workbench.flush("types")
    assert workbench.read_rows("shop.orders") == [{"id": 1, "note": None}, {"id": 3, "note": "c"}]
    rows = [
        {"id": 1, "note": None, "cents": 7},
        {"id": 2, "note": None, "cents": 5},
        {"id": 3, "note": "c", "cents": None},
    ]
    assert sorted(workbench.read_rows("shop.both"), key=lambda row: row["id"]) == rows
    strict = build_value("shop.Order", ignored=("shop.Refund",))["avro"]
    audit, _ = written.avro(AUDIT, {"who": "x"})
    (reason,) = decode_values(spark, build_table(strict, topics=(topic,)), [audit])
    assert re.fullmatch(rf"the value has schema id=\d+, {UNKNOWN}", reason)


def test_field_of_two_types_keeps_record_types_out_of_one_table(registry) -> None:
    other = {**REFUND, "fields": [{"name": "id", "type": "string"}]}
    for schema in (OLD, other):
        registry.register(f"shop.{schema['name']}", {"schema": json.dumps(schema)})
    options = {"registry": registry.url, "subject_name_strategy": "RecordNameStrategy"}
    with pytest.raises(
        ConfigurationError, match=r"field=id is BIGINT in record=shop\.Order and STRING in record=shop\.Refund"
    ):
        build_table({**options, "records": ["shop.Order", "shop.Refund"]})
