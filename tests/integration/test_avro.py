"""Avro written by confluent-kafka's own serializer: several schema ids in one range, every type at its limits."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest
from decoding import build_stage_table, decode_values, read_reasons
from schema_registry import SchemaRegistry
from tidegate.adapters.schema_registry.schema_provider import RegistrySchemas
from tidegate.errors import BadRecord, ConfigurationError, GiveUp
from tidegate.schema.data_types import Column
from tidegate.spec.source import KeyFormat, ValueFormat
from tidegate.spec.table import Table

KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}


def build_record(*fields: dict[str, Any], name: str = "Order") -> dict[str, Any]:
    return {"type": "record", "name": name, "namespace": "shop", "fields": list(fields)}


def build_field(name: str, type: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type, **more}


def build_nullable_field(name: str, type: Any) -> dict[str, Any]:
    return build_field(name, ["null", type], default=None)


def build_default_field(name: str, type: Any) -> dict[str, Any]:
    return (
        build_nullable_field(name, type)
        if not isinstance(type, list)
        else build_field(name, type if "null" in type else ["null", *type])
    )


def build_logical_type(type: str, meaning: str, **more: Any) -> dict[str, Any]:
    return {"type": type, "logicalType": meaning, **more}


class Writer:
    """Serializes with a schema as a producer does: registered under `<topic>-value`, or under `<topic>-key`."""

    def __init__(self, registry: SchemaRegistry, topic: str) -> None:
        from confluent_kafka.schema_registry import SchemaRegistryClient

        self.client, self.topic = SchemaRegistryClient({"url": registry.url}), topic

    def __call__(self, schema: Any, data: Any, part: str = "value") -> bytes:
        from confluent_kafka.schema_registry.avro import AvroSerializer
        from confluent_kafka.serialization import SerializationContext

        encoded = AvroSerializer(self.client, json.dumps(schema))(data, SerializationContext(self.topic, part))
        assert isinstance(encoded, bytes)
        return encoded

    def key(self, id: int) -> bytes:
        return self(KEY, {"id": id}, "key")


# schema, written value, type that arrives, value that arrives
UUID = "0d5ea2d8-1d9c-4c60-8c4b-3f2f5e6f7a8b"
NANO = 1_700_000_000_123_456_000
TYPES: dict[str, tuple[Any, Any, str, Any]] = {
    "flag": ("boolean", True, "boolean", True),
    "small": ("int", -(2**31), "int", -(2**31)),
    "big": ("long", 2**63 - 1, "long", 2**63 - 1),
    "single": ("float", 0.5, "float", 0.5),
    "precise": ("double", 1.7976931348623157e308, "double", 1.7976931348623157e308),
    "bytes": ("bytes", b"\x00\xff", "binary", b"\x00\xff"),
    "text": ("string", "日本 \x00 '\\ 😀", "string", "日本 \x00 '\\ 😀"),
    "amount": (
        build_logical_type("bytes", "decimal", precision=38, scale=10),
        Decimal("-1234567890123456789012345678.0123456789"),
        "decimal(38, 10)", Decimal("-1234567890123456789012345678.0123456789"),
    ),
    "fixed_amount": (
        build_logical_type("fixed", "decimal", precision=9, scale=2, size=4, name="Amount"), Decimal("-9999999.99"),
        "decimal(9, 2)", Decimal("-9999999.99"),
    ),
    "day": (build_logical_type("int", "date"), date(9999, 12, 31), "date", date(9999, 12, 31)),
    "clock": (build_logical_type("int", "time-millis"), time(23, 59, 59, 999000), "string", "23:59:59.999"),
    "fine_clock": (build_logical_type("long", "time-micros"), time(23, 59, 59, 999999), "string", "23:59:59.999999"),
    "at": (
        build_logical_type("long", "timestamp-millis"), datetime(2026, 1, 1, 1, 2, 3, 456000, tzinfo=UTC),
        "timestamptz", datetime(2026, 1, 1, 1, 2, 3, 456000, tzinfo=UTC),
    ),
    "fine_at": (
        build_logical_type("long", "timestamp-micros"), datetime(2026, 1, 1, 1, 2, 3, 456789, tzinfo=UTC),
        "timestamptz", datetime(2026, 1, 1, 1, 2, 3, 456789, tzinfo=UTC),
    ),
    "finest_at": (
        build_logical_type("long", "timestamp-nanos"), NANO,
        "timestamptz", datetime.fromtimestamp(NANO // 10**9, UTC).replace(microsecond=123456),
    ),
    "local_at": (
        build_logical_type("long", "local-timestamp-micros"), datetime(2026, 1, 1, 1, 2, 3, 456789),
        "timestamp", datetime(2026, 1, 1, 1, 2, 3, 456789),
    ),
    "uuid": (build_logical_type("string", "uuid"), UUID, "string", UUID),
    "state": ({"type": "enum", "name": "State", "symbols": ["open", "shut"]}, "shut", "string", "shut"),
    "four": ({"type": "fixed", "name": "Four", "size": 4}, b"\x00\x01\xfe\xff", "binary", b"\x00\x01\xfe\xff"),
    "days": (
        {"type": "array", "items": ["null", build_logical_type("int", "time-millis")]}, [None, time(1)],
        "list<string>", [None, "01:00:00.000"],
    ),
    "marks": ({"type": "map", "values": "long"}, {"a": 1}, "map<string, long>", [("a", 1)]),
    "place": (
        build_record(build_field("x", ["null", "int"]), build_field("y", "double"), name="Place"),
        {"x": None, "y": 1.5}, "struct<4: x: optional int, 5: y: optional double>", {"x": None, "y": 1.5},
    ),
    "number": (["null", "int", "long"], 2**40, "long", 2**40),
    "either": (["int", "string"], "x", "struct", {"member0": None, "member1": "x"}),
}  # fmt: skip


def test_every_avro_type_arrives_with_its_value_and_every_one_of_them_may_be_null(workbench, registry) -> None:
    topic = workbench.topic()
    schema = build_record(build_field("id", "long"), *(build_field(name, given[0]) for name, given in TYPES.items()))
    nullable = build_record(
        build_field("id", "long"), *(build_default_field(name, given[0]) for name, given in TYPES.items())
    )
    write = Writer(registry, topic)
    workbench.pipeline("kinds", [topic], value={"format": "avro", "avro": {"registry": registry.url}})
    full = {"id": 1, **{name: given[1] for name, given in TYPES.items()}}
    workbench.produce(
        topic,
        (None, write(schema, full)),
        (None, write(nullable, {"id": 2, **dict.fromkeys(TYPES)})),
        (None, write(nullable, {**full, "id": 3})),
    )
    workbench.flush("kinds")
    expected = {name: given[3] for name, given in TYPES.items()}
    rows = {row.pop("id"): row for row in workbench.read_rows("shop.kinds")}
    assert rows == {1: expected, 2: dict.fromkeys(TYPES), 3: expected}
    types = {f.name: str(f.field_type) for f in workbench.load_iceberg("shop.kinds").schema().fields}
    wrong_types = {
        name: types[name] for name, given in TYPES.items() if not types[name].startswith(given[2].split("<")[0])
    }
    assert wrong_types == {}


def test_three_schema_versions_in_one_range_are_each_decoded_with_their_own(workbench, registry) -> None:
    topic = workbench.topic()
    write = Writer(registry, topic)
    v1 = build_record(build_field("id", "long"), build_field("n", "int"), build_field("gone", "string"))
    v2 = build_record(build_field("id", "long"), build_field("n", "long"), build_nullable_field("added", "string"))
    v3 = build_record(
        build_nullable_field("added", "string"),
        build_field("id", "long"),
        build_field("n", "long"),
        build_field("more", "int", default=7),
    )
    workbench.pipeline(
        "versions", [topic],
        key={"format": "avro", "fields": ["id"], "avro": {"registry": registry.url}},
        value={"format": "avro", "avro": {"registry": registry.url}},
        source={"metadata": {"subject": "value.schema-subject", "v": "value.schema-version"}},
    )  # fmt: skip
    workbench.produce(
        topic,
        (write.key(1), write(v1, {"id": 1, "n": 1, "gone": "x"})),
        (write.key(2), write(v2, {"id": 2, "n": 2**40, "added": "y"})),
        (write.key(3), write(v3, {"id": 3, "n": 3, "added": None, "more": 9})),
        (write.key(4), write(v2, {"id": 4, "n": 4, "added": None})),
        (write.key(4), None),
    )
    workbench.flush("versions")
    assert sorted(workbench.read_rows("shop.versions"), key=lambda row: row["id"]) == [
        {"added": None, "id": 1, "n": 1, "more": 7, "gone": "x", "subject": f"{topic}-value", "v": "1"},
        {"added": "y", "id": 2, "n": 2**40, "more": 7, "gone": None, "subject": f"{topic}-value", "v": "2"},
        {"added": None, "id": 3, "n": 3, "more": 9, "gone": None, "subject": f"{topic}-value", "v": "3"},
    ]
    v4 = build_record(
        build_field("id", "long"),
        build_field("n", "long"),
        build_nullable_field("last", build_logical_type("long", "timestamp-micros")),
    )
    last = datetime(2026, 1, 1, tzinfo=UTC)
    workbench.produce(topic, *((write.key(id), write(v4, {"id": id, "n": 5, "last": last})) for id in (1, 5)))
    workbench.flush("versions")
    rows = {row["id"]: row for row in workbench.read_rows("shop.versions")}
    for id in (1, 5):  # the updated row does not keep what the latest version has no field for
        schema = {"subject": f"{topic}-value", "v": "4"}
        assert rows[id] == {"added": None, "id": id, "n": 5, "more": None, "gone": None, "last": last, **schema}


@pytest.mark.repeats(
    "unit/tidegate/adapters/schema_registry/test_schema_provider.py::"
    "test_schema_that_is_registered_between_two_flushes_of_one_process_is_known_to_the_second"
)
def test_records_of_a_version_that_came_while_one_process_flushed_until_the_end_are_rows(workbench, registry) -> None:
    from tidegate.flush.flush import flush

    topic = workbench.topic()
    write = Writer(registry, topic)
    fields = build_field("id", "long"), build_field("n", "long")
    workbench.pipeline(
        "until", [topic],
        value={"format": "avro", "avro": {"registry": registry.url}},
        source={"errors": {"tolerance": "all"}},
    )  # fmt: skip
    session = workbench.open_session("until")
    workbench.produce(topic, (None, write(build_record(*fields), {"id": 1, "n": 1})))
    flush(session)
    newer = build_record(*fields, build_nullable_field("city", "string"))
    workbench.produce(topic, (None, write(newer, {"id": 2, "n": 2, "city": "Ulm"})))
    flush(session)
    rows = sorted(workbench.read_rows("shop.until"), key=lambda row: row["id"])
    assert rows == [{"id": 1, "n": 1, "city": None}, {"id": 2, "n": 2, "city": "Ulm"}]


BROKEN = {
    "no magic byte": (b'{"id": 1}', "magic byte"),
    "nothing but an id": (b"\x00\x00\x00\x00\x01", "cannot be decoded"),
    "cut in the middle": (b"\x00\x00\x00\x00\x01\x02\x08ab", "cannot be decoded"),
    "another subject's schema": (b"\x00\x00\x00\x03\xe7\x02\x02a", "schema id=999, which is no version"),
    "text that is not UTF-8": (b"\x00\x00\x00\x00\x01\x02\x02\xff\x00", "text does not fit"),
    "nanoseconds that a table cannot hold": (b"\x00\x00\x00\x00\x01\x02\x02a\x02", "at does not fit"),
}


def test_bytes_that_are_not_avro_of_the_subject_are_bad_with_their_reason(stack, registry) -> None:
    from tidegate_spark.session import close, connect_session

    schema = build_record(
        build_field("id", "long"),
        build_field("text", "string"),
        build_field("at", build_logical_type("long", "timestamp-nanos")),
    )
    good = Writer(registry, "broken")(schema, {"id": 1, "text": "a", "at": 1000})
    described_table = Table(
        "lake.shop.broken",
        ("broken",),
        KeyFormat(),
        ValueFormat("avro", options={"registry": registry.url}),
        False,
        False,
    )
    value = RegistrySchemas(lambda _: None).describe_table(described_table).value
    session = connect_session(stack.spark_remote, {})
    try:
        table = build_stage_table(replace(value, columns=None), value.columns or ())
        reasons = read_reasons(session, table, [good, *(given for given, _ in BROKEN.values())])
    finally:
        close(session)
    assert reasons[0] is None
    reason_by_case = dict(zip(BROKEN, reasons[1:], strict=True))
    assert {
        name: reason_by_case[name] for name, (_, reason) in BROKEN.items() if reason not in (reason_by_case[name] or "")
    } == {}


@pytest.mark.repeats(
    "unit/tidegate/schema/test_avro.py::test_version_that_counts_something_else_is_not_read_as_the_latest"
)
def test_version_that_counts_in_another_unit_is_bad_instead_of_a_thousand_times_off(workbench, registry) -> None:
    topic = workbench.topic()
    write = Writer(registry, topic)
    old = build_record(build_field("id", "long"), build_field("at", build_logical_type("long", "timestamp-millis")))
    new = build_record(build_field("id", "long"), build_field("at", build_logical_type("long", "timestamp-micros")))
    at = datetime(2026, 1, 1, tzinfo=UTC)
    workbench.pipeline("units", [topic], value={"format": "avro", "avro": {"registry": registry.url}})
    workbench.produce(topic, (None, write(old, {"id": 1, "at": at})), (None, write(new, {"id": 2, "at": at})))
    with pytest.raises(BadRecord, match="field at was timestamp-millis and is timestamp-micros"):
        workbench.flush("units")


@pytest.mark.repeats(
    "unit/tidegate/schema/test_avro.py::test_field_whose_type_avro_does_not_read_as_the_newer_one_is_named"
)
def test_record_of_a_version_with_another_type_names_the_field(spark, registry) -> None:
    import registered

    def version(kind: str) -> dict[str, Any]:
        return registered.build_record(("id", "long"), ("n", ["null", kind]))

    given = [("string", "x"), ("string", None), ("int", 7)]
    values = [
        registered.encode_avro(registry, "t-value", version(kind), {"id": id, "n": n})
        for id, (kind, n) in enumerate(given)
    ]
    table = registered.describe(KeyFormat(), ValueFormat("avro", options={"registry": registry.url}))
    assert read_reasons(spark, table, [*values, values[2][:-1]]) == [
        "the value has schema id=1, whose field n was a string and is an int", None, None,
        "the value cannot be decoded with its Avro schema",
    ]  # fmt: skip
    alone = ValueFormat("avro", (Column("id", "BIGINT"),), options={"registry": registry.url})
    assert decode_values(spark, registered.describe(KeyFormat(), alone), values) == [
        (None, (0,)), (None, (1,)), (None, (2,)),
    ]  # fmt: skip


def test_fixed_schema_reads_bare_avro_without_a_registry(workbench) -> None:
    from io import BytesIO

    import fastavro

    topic = workbench.topic()
    schema = build_record(build_field("id", "long"), build_nullable_field("name", "string"))
    workbench.pipeline(
        "bare", [topic],
        key={"format": "avro", "fields": ["id"], "avro": {"schema": '"long"'}},
        value={"format": "avro", "avro": {"schema": json.dumps(schema)}},
    )  # fmt: skip

    def encode_bare(of: Any, data: Any) -> bytes:
        out = BytesIO()
        fastavro.schemaless_writer(out, of, data)
        return out.getvalue()

    workbench.produce(
        topic, (encode_bare("long", 1), encode_bare(schema, {"id": 1, "name": "a"})), (encode_bare("long", 2), None)
    )
    workbench.flush("bare")
    assert workbench.read_rows("shop.bare") == [{"id": 1, "name": "a"}]


def test_debezium_envelope_in_avro_upserts_and_deletes_with_microseconds(workbench, registry) -> None:
    topic = workbench.topic()
    write = Writer(registry, topic)
    moment = {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}
    row = build_record(
        build_field("id", "long"),
        build_nullable_field("at", moment),
        build_nullable_field("zoned", {"type": "string", "connect.name": "io.debezium.time.ZonedTimestamp"}),
        name="Value",
    )
    event = build_record(
        build_field("before", ["null", row], default=None), build_field("after", ["null", "shop.Value"], default=None),
        build_field("op", "string"), name="Envelope",
    )  # fmt: skip
    workbench.pipeline(
        "events", [topic],
        key={"format": "avro", "fields": ["id"], "avro": {"registry": registry.url}},
        value={"format": "debezium-avro", "avro": {"registry": registry.url}},
    )  # fmt: skip

    def build_change(op: str, before: Any, after: Any) -> bytes:
        return write(event, {"before": before, "after": after, "op": op})

    first = {"id": 1, "at": 1_767_225_600_123_456, "zoned": "2026-01-01T02:00:00.654321+02:00"}
    second = {"id": 2, "at": None, "zoned": None}
    workbench.produce(
        topic,
        (write.key(1), build_change("c", None, first)),
        (write.key(2), build_change("r", None, second)),
        (write.key(3), build_change("c", None, {**second, "id": 3})),
        (write.key(2), build_change("d", second, None)),
        (write.key(3), None),
    )
    workbench.flush("events")
    assert workbench.read_rows("shop.events") == [
        {
            "id": 1,
            "at": datetime(2026, 1, 1, 0, 0, 0, 123456),
            "zoned": datetime(2026, 1, 1, 0, 0, 0, 654321, tzinfo=UTC),
        }
    ]
    workbench.produce(topic, (write.key(1), build_change("x", None, first)))
    with pytest.raises(BadRecord, match="unknown op=x"):
        workbench.flush("events")


@pytest.mark.repeats("unit/tidegate/wiring/test_doctor.py::test_password_that_the_registry_refuses_is_found")
def test_registry_is_entered_with_a_connection_whose_password_never_shows(workbench, registry) -> None:
    topic = workbench.topic()
    Writer(registry, topic)(build_record(build_field("id", "long")), {"id": 1})
    registry.login = ("me", "geheim")
    host, port = registry.url.removeprefix("http://").split(":")
    from tidegate.connections import Connection

    def resolve(id: str) -> Connection:
        return Connection(id, "http", host, int(port), "me", {"good": "geheim", "bad": "falsch"}[id])

    workbench.pipeline("locked", [topic], value={"format": "avro", "avro": {"registry": "good"}})
    (table,) = workbench.open_session("locked").pipeline.tables
    described = RegistrySchemas(resolve).describe_table(table)
    assert [c.name for c in described.value.columns or ()] == ["id"]
    assert "geheim" not in repr(described)
    workbench.pipeline("locked", [topic], value={"format": "avro", "avro": {"registry": "bad"}})
    (table,) = workbench.open_session("locked").pipeline.tables
    with pytest.raises(GiveUp, match="access was refused") as error_info:
        RegistrySchemas(resolve).describe_table(table)
    assert "falsch" not in str(error_info.value)


@pytest.mark.repeats("unit/tidegate/wiring/test_doctor.py::test_subject_that_is_missing_is_found")
def test_subject_that_is_missing_and_column_that_the_schema_lacks_name_the_way_out(workbench, registry) -> None:
    topic = workbench.topic()
    value = {"format": "avro", "avro": {"registry": registry.url}}
    workbench.pipeline("lost", [topic], value=value)
    workbench.produce(topic, (None, b"x"))
    with pytest.raises(GiveUp, match=rf"subject={topic}-value: .* register a schema, or correct the subject"):
        workbench.flush("lost")
    Writer(registry, topic)(build_record(build_field("id", "long")), {"id": 1})
    workbench.pipeline("lost", [topic], value={**value, "schema": "id INT"})
    with pytest.raises(
        ConfigurationError, match=r"value\.schema has id INT, and the registered schema has it as BIGINT"
    ):
        workbench.flush("lost")
