"""Records of Avro and Protobuf as producers write them by a schema registry, and how a table is told to read them."""

import json
from dataclasses import replace
from io import BytesIO
from typing import Any

import decoding
from schema_registry import SchemaRegistry
from tidegate.adapters.schema_registry.schema_provider import RegistrySchemas
from tidegate.schema.data_types import Column
from tidegate.spec.source import KeyFormat, ValueFormat
from tidegate.spec.table import Table


def build_record(*fields: tuple[str, Any], name: str = "Order", **options: Any) -> dict[str, Any]:
    """An Avro record; fields that may be null are, where the writer says nothing."""
    field_specs = [{"name": n, "type": t, **({"default": None} if isinstance(t, list) else {})} for n, t in fields]
    return {"type": "record", "name": name, "namespace": "shop", "fields": field_specs, **options}


def encode_avro(registry: SchemaRegistry, subject: str, schema: Any, row: Any) -> bytes:
    import fastavro

    number, buffer = registry.register(subject, {"schema": json.dumps(schema)}), BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(schema), row)
    return b"\x00" + number.to_bytes(4, "big") + buffer.getvalue()


def encode_message(registry: SchemaRegistry, subject: str, message: Any) -> bytes:
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
    from confluent_kafka.serialization import SerializationContext

    topic, part = subject.rsplit("-", 1)
    serializer = ProtobufSerializer(type(message), SchemaRegistryClient({"url": registry.url}))
    encoded = serializer(message, SerializationContext(topic, part))
    assert isinstance(encoded, bytes)
    return encoded


def describe(key: KeyFormat, value: ValueFormat) -> Any:
    """The table of these formats, as the stage job gets it."""
    table_spec = Table("lake.shop.t", ("t",), key, value, upsert=True, delete=True)
    described = RegistrySchemas(lambda _: None).describe_table(table_spec)
    required_names = {c.name for c in key.columns or () if not c.nullable}
    types = {c.name: c.type for c in (*(described.value.columns or ()), *(described.key.columns or ()))}
    keys = tuple(Column(name, types[name], name not in required_names) for name in key.fields)
    stage = decoding.build_stage_table(replace(described.value, columns=None), described.value.columns or (), keys)
    return replace(stage, key=replace(described.key, columns=None))


def decode_keys(spark: Any, registry: SchemaRegistry, keys: list[bytes], key: KeyFormat) -> list[Any]:
    """The fields of each key, or why it is bad."""
    table = describe(replace(key, options={"registry": registry.url}), ValueFormat("json", (Column("x", "INT"),)))
    results = decoding.decode(spark, table, [(key, b'{"x": 1}') for key in keys], "key_struct", "key_reason")
    return [reason or tuple(values) for values, reason in results]
