"""protobuf: the message that the columns have, registered or found, and the bytes."""

import base64
import re
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name that every Spark user knows)
from pyspark.sql import types as T  # noqa: N812 (as Spark's own examples call it)
from tidegate.errors import ConfigurationError
from tidegate.sql.spark import quote

from tidegate_spark.publish.encoders import protobuf_messages
from tidegate_spark.publish.encoders.record_part import Problem, RecordPart, put_inside, render_good
from tidegate_spark.publish.encoders.schema_registration import (
    read_newest_schema,
    read_registry_settings,
    register_schema,
)

# the server's workers do not have the product's code: this module goes with the function
cloudpickle.register_pickle_by_value(protobuf_messages)

SIMPLE_TYPES = {
    "boolean": "bool", "tinyint": "int32", "smallint": "int32", "int": "int32", "bigint": "int64", "float": "float",
    "double": "double", "string": "string", "binary": "bytes", "timestamp": "timestamp",
}  # fmt: skip
NAME_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
MAP_KEY_TYPES = ("int32", "int64", "bool", "string")
FIRST_TIME, LAST_TIME = "TIMESTAMP'0001-01-01'", "TIMESTAMP'9999-12-31 23:59:59.999999'"
TypedFields = list[tuple[str, T.DataType]]


def encode(spark: SparkSession, part: RecordPart) -> Column:
    """Confluent's form: a zero byte, the schema's id in four, the message's index, then the message.

    The newest schema of the first subject is used where it has every column; else it is extended, and registered.
    ConfigurationError for a name or type that Protobuf lacks, or a column that the known message cannot hold.
    """
    settings, (first, *others) = read_registry_settings(spark, part), part.subjects
    newest_schema = read_newest_schema(settings, first)
    try:
        file, message, index, is_known = protobuf_messages.build_descriptor(
            part.build_record_name(),
            _describe_fields(part.typed_fields, ""),
            newest_schema and newest_schema[1],
            part.options.get("message"),
        )
    except protobuf_messages.IncompatibleColumn as reason:
        raise ConfigurationError(f"subject={first}: {reason}; cast it in sql, or publish to a new topic") from reason
    text = base64.b64encode(file).decode()
    number = (
        newest_schema[0] if is_known and newest_schema else register_schema(settings, part.subjects, text, "PROTOBUF")
    )
    if is_known and others:
        register_schema(settings, others, text, "PROTOBUF")
    header = b"\x00" + number.to_bytes(4, "big") + (b"\x00" if index == 0 else b"\x02" + _encode_zigzag(index))
    return F.arrow_udf(protobuf_messages.build_encoder(file, message, header), T.BinaryType())(
        F.expr(render_good(list_problems(part), part.render_struct()))
    )


def list_problems(part: RecordPart) -> list[Problem]:
    """The rows with a NULL in a list or a map, or a time outside of the years 1 to 9999: no message holds those."""
    return [one for c in part.columns for one in _list_problems(quote(c.name), c.type, c.name, 0)]


def _list_problems(at: str, kind: T.DataType, path: str, depth: int) -> list[Problem]:
    element, way_out = f"_tidegate_{depth}", "which no message holds; correct it, or leave it out in sql"
    if isinstance(kind, T.ArrayType | T.MapType):
        is_map = isinstance(kind, T.MapType)
        inner, elements = (kind.valueType, f"map_values({at})") if is_map else (kind.elementType, at)
        missing = Problem(f"{element} IS NULL", f"has NULL in the {'map' if is_map else 'list'} {path}, {way_out}")
        return put_inside(elements, element, [missing, *_list_problems(element, inner, f"{path}[]", depth + 1)])
    if isinstance(kind, T.StructType):
        return [p for f in kind for p in _list_problems(f"{at}.{quote(f.name)}", f.dataType, f"{path}.{f.name}", depth)]
    if isinstance(kind, T.TimestampType):
        reason = f"has a time outside of the years 1 to 9999 in {path}, {way_out}"
        return [Problem(f"NOT {at} BETWEEN {FIRST_TIME} AND {LAST_TIME}", reason)]
    return []


def _encode_zigzag(number: int) -> bytes:
    rest, made = number << 1, bytearray()
    while rest > 0x7F:
        made.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*made, rest])


def _describe_fields(fields: TypedFields, path: str) -> list[dict[str, Any]]:
    return [_describe_field(name, kind, f"{path}.{name}") for name, kind in fields]


def _describe_field(name: str, kind: T.DataType, path: str) -> dict[str, Any]:
    if not NAME_PATTERN.fullmatch(name):
        raise ConfigurationError(f"column={path[1:]}: Protobuf's names are letters, digits and underscores; rename it")
    if isinstance(kind, T.ArrayType) and not isinstance(kind.elementType, (T.ArrayType, T.MapType)):
        return {**_describe_field(name, kind.elementType, path), "repeated": True}
    made: dict[str, Any] = {"name": name, "repeated": False, "fields": []}
    if isinstance(kind, T.StructType):
        return {**made, "kind": "message", "fields": _describe_fields([(f.name, f.dataType) for f in kind], path)}
    if isinstance(kind, T.MapType) and not isinstance(kind.valueType, (T.ArrayType, T.MapType)):
        entry = [_describe_field("key", kind.keyType, path), _describe_field("value", kind.valueType, path)]
        if entry[0]["kind"] in MAP_KEY_TYPES:
            return {**made, "kind": "map", "fields": entry}
    if kind.simpleString() not in SIMPLE_TYPES:
        raise ConfigurationError(
            f"column={path[1:]} type={kind.simpleString()}: Protobuf has no such type; cast it in sql, e.g. to STRING"
        )
    return {**made, "kind": SIMPLE_TYPES[kind.simpleString()]}
