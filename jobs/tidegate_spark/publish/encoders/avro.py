"""avro: the schema that the columns have, and the bytes with or without the id of a registered schema."""

import json
import re
import struct
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name that every Spark user knows)
from pyspark.sql import types as T  # noqa: N812 (as Spark's own examples call it)
from tidegate.errors import ConfigurationError
from tidegate.sql.spark import render_literal

from tidegate_spark.publish.encoders import avro_schema_fit
from tidegate_spark.publish.encoders.record_part import Problem, RecordPart, render_good
from tidegate_spark.publish.encoders.schema_registration import read_registry_settings, register_schema

SIMPLE_TYPES: dict[str, Any] = {
    "boolean": "boolean", "tinyint": "int", "smallint": "int", "int": "int", "bigint": "long", "float": "float",
    "double": "double", "string": "string", "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "timestamp_ntz": {"type": "long", "logicalType": "local-timestamp-micros"},
}  # fmt: skip


NAME_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def encode(spark: SparkSession, part: RecordPart) -> Column:
    """Confluent's form: a zero byte, the schema's id in four, then Avro; with a schema in the options Avro alone."""
    configured_schema = part.options.get("schema")
    plain = f"to_avro({part.render_struct()}, {render_literal(configured_schema or _render_schema(part))})"
    if configured_schema:
        return F.expr(render_good(list_problems(spark, part), plain))
    return F.expr(f"concat(X'{build_header(spark, part).hex()}', {plain})")


def build_header(spark: SparkSession, part: RecordPart) -> bytes:
    """Register the schema; return the zero byte and its id, or nothing if the options have the schema."""
    if part.options.get("schema"):
        return b""
    number = register_schema(read_registry_settings(spark, part), part.subjects, _render_schema(part))
    return struct.pack(">bI", 0, number)


def _render_schema(part: RecordPart) -> str:
    return json.dumps(build_record_schema(part.build_record_name(), part.typed_fields))


def list_problems(_: SparkSession, part: RecordPart) -> list[Problem]:
    """Return the rows that a given schema cannot hold. `ConfigurationError` names a column for which it has no room."""
    configured_schema = part.options.get("schema")
    return avro_schema_fit.list_problems(part, configured_schema) if configured_schema else []


def build_record_schema(
    name: str, fields: list[tuple[str, T.DataType]], taken_names: set[str] | None = None
) -> dict[str, Any]:
    """Return a record of nullable fields with default null, so that columns may come and go (full compatibility).

    A record inside is named by its path. `ConfigurationError` for a name or a type that Avro does not have.
    """
    taken_names = set() if taken_names is None else taken_names
    while name in taken_names:
        name += "_"
    taken_names.add(name)
    for field, _ in fields:
        if not NAME_PATTERN.fullmatch(field):
            raise ConfigurationError(
                f"column={field}: Avro's names are letters, digits and underscores; rename it in sql"
            )
    avro_fields = [
        {"name": field, "type": ["null", _build_schema(kind, f"{name}_{field}", taken_names)], "default": None}
        for field, kind in fields
    ]
    return {"type": "record", "name": name, "fields": avro_fields}


def _build_schema(kind: T.DataType, name: str, taken_names: set[str]) -> Any:
    if isinstance(kind, T.StructType):
        return build_record_schema(name, [(field.name, field.dataType) for field in kind], taken_names)
    if isinstance(kind, T.ArrayType):
        return {"type": "array", "items": ["null", _build_schema(kind.elementType, name, taken_names)]}
    if isinstance(kind, T.MapType):
        if not isinstance(kind.keyType, T.StringType):
            raise ConfigurationError(f"column={name}: Avro's maps have text for keys; turn it into text, or use json")
        return {"type": "map", "values": ["null", _build_schema(kind.valueType, name, taken_names)]}
    if isinstance(kind, T.DecimalType):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if kind.simpleString() not in SIMPLE_TYPES:
        raise ConfigurationError(f"column={name} type={kind.simpleString()}: Avro has no such type; cast it in sql")
    return SIMPLE_TYPES[kind.simpleString()]
