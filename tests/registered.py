"""Records of Avro and Protobuf as producers write them by a schema registry, and how a table is told to read them."""

import json
from dataclasses import replace
from io import BytesIO
from typing import Any

import decoding
from schema_registry import SchemaRegistry
from tidegate.adapters.schema_registry.schema_provider import RegistrySchemas
from tidegate.schema.column import Column
from tidegate.spec.formats import KeyFormat, ValueFormat
from tidegate.spec.table import Table


def build_record(*fields: tuple[str, Any], name: str = "Order", **more: Any) -> dict[str, Any]:
    """An Avro record; fields that may be null are, where the writer says nothing."""
    made = [{"name": n, "type": t, **({"default": None} if isinstance(t, list) else {})} for n, t in fields]
    return {"type": "record", "name": name, "namespace": "shop", "fields": made, **more}


def encode_avro(registry: SchemaRegistry, subject: str, schema: Any, row: Any) -> bytes:
    import fastavro

    number, out = registry.register(subject, {"schema": json.dumps(schema)}), BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row)
    return b"\x00" + number.to_bytes(4, "big") + out.getvalue()


def encode_message(registry: SchemaRegistry, subject: str, made: Any) -> bytes:
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
    from confluent_kafka.serialization import SerializationContext

    topic, part = subject.rsplit("-", 1)
    written = ProtobufSerializer(type(made), SchemaRegistryClient({"url": registry.url}))
    found = written(made, SerializationContext(topic, part))
    assert isinstance(found, bytes)
    return found


def describe(key: KeyFormat, value: ValueFormat) -> Any:
    """The table of these formats, as the stage job gets it."""
    asked = Table("lake.shop.t", ("t",), key, value, upsert=True, delete=True)
    made = RegistrySchemas(lambda _: None).describe_table(asked)
    required = {c.name for c in key.columns or () if not c.nullable}
    types = {c.name: c.type for c in (*(made.value.columns or ()), *(made.key.columns or ()))}
    keys = tuple(Column(name, types[name], name not in required) for name in key.fields)
    stage = decoding.build_stage_table(replace(made.value, columns=None), made.value.columns or (), keys)
    return replace(stage, key=replace(made.key, columns=None))


def decode_keys(spark: Any, registry: SchemaRegistry, keys: list[bytes], key: KeyFormat) -> list[Any]:
    """The fields of each key, or why it is bad."""
    table = describe(replace(key, options={"registry": registry.url}), ValueFormat("json", (Column("x", "INT"),)))
    found = decoding.decode(spark, table, [(one, b'{"x": 1}') for one in keys], "key_struct", "key_reason")
    return [reason or tuple(values) for values, reason in found]
