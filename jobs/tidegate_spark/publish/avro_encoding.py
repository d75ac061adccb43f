"""A publication's rows as Avro: the schema that their columns have, and the bytes with or without a schema's id."""

import re
from typing import Any

from pyspark.sql import types as T  # noqa: N812 (as Spark's own examples call it)
from tidegate.errors import ConfigurationError

SIMPLE: dict[str, Any] = {
    "boolean": "boolean", "tinyint": "int", "smallint": "int", "int": "int", "bigint": "long", "float": "float",
    "double": "double", "string": "string", "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "timestamp_ntz": {"type": "long", "logicalType": "local-timestamp-micros"},
}  # fmt: skip


NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def record_name(topic: str, what: str) -> str:
    """What the record of a topic's keys or values is called: letters, digits and underscores, as Avro has it."""
    return "_" * (not topic[0].isalpha()) + re.sub(r"[^A-Za-z0-9_]", "_", f"{topic}_{what}")


def record_schema(name: str, fields: list[tuple[str, T.DataType]]) -> dict[str, Any]:
    """A record of nullable fields, whose default is null, so that a column may come and go (backward and forward)."""
    for field, _ in fields:
        if not NAME.fullmatch(field):
            raise ConfigurationError(
                f"column={field}: Avro's names are letters, digits and underscores; rename it in sql"
            )
    told = [
        {"name": field, "type": ["null", _node(kind, f"{name}_{field}")], "default": None} for field, kind in fields
    ]
    return {"type": "record", "name": name, "fields": told}


def _node(kind: T.DataType, name: str) -> Any:
    """The schema of a value; `name` is what a record in it is called, by the way to it."""
    if isinstance(kind, T.StructType):
        return record_schema(name, [(field.name, field.dataType) for field in kind])
    if isinstance(kind, T.ArrayType):
        return {"type": "array", "items": ["null", _node(kind.elementType, name)]}
    if isinstance(kind, T.MapType):
        if not isinstance(kind.keyType, T.StringType):
            raise ConfigurationError(f"column={name}: Avro's maps have text for keys; turn it into text, or use json")
        return {"type": "map", "values": ["null", _node(kind.valueType, name)]}
    if isinstance(kind, T.DecimalType):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if kind.simpleString() not in SIMPLE:
        raise ConfigurationError(f"column={name} type={kind.simpleString()}: Avro has no such type; cast it in sql")
    return SIMPLE[kind.simpleString()]
