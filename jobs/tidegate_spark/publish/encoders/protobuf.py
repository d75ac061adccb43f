"""protobuf: the message that the columns have, registered or found, and the bytes."""

import base64
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from pyspark import cloudpickle
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from tidegate.errors import ConfigurationError
from tidegate.sql.spark import quote

from tidegate_spark.fields.protobuf import encode_zigzag
from tidegate_spark.fields.written_values import render_year_range
from tidegate_spark.publish.encoders import protobuf_messages, protobuf_rows
from tidegate_spark.publish.encoders.protobuf_messages import FileMessages, describe_messages
from tidegate_spark.publish.encoders.record_part import (
    Problem,
    RecordPart,
    WrittenColumn,
    list_column_problems,
    list_text_problems,
    put_inside,
    render_good,
)
from tidegate_spark.publish.encoders.schema_registration import (
    read_newest_schema,
    read_registry_settings,
    register_schema,
)

# the server's workers do not have the product's code: this module goes with the function
cloudpickle.register_pickle_by_value(protobuf_rows)

SIMPLE_TYPES = {
    "boolean": "bool", "tinyint": "int32", "smallint": "int32", "int": "int32", "bigint": "int64", "float": "float",
    "double": "double", "string": "string", "binary": "bytes", "timestamp": "timestamp",
}  # fmt: skip
NAME_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
MAP_KEY_TYPES = ("int32", "int64", "bool", "string")
TypedFields = list[tuple[str, T.DataType]]


def encode(spark: SparkSession, part: RecordPart) -> Column:
    """Confluent's form: a zero byte, the schema's id in four, the message's index, then the message.

    The newest schema of the first subject is used if it has every column; else it is extended, and registered.
    `ConfigurationError` for a name or type that Protobuf lacks, or a column that the known message cannot hold.
    """
    descriptor, known_id = _describe_message(spark, part)
    header = _register_message(spark, part, descriptor, known_id)
    problems = [*list_text_problems(part), *_list_all_problems(part, descriptor)]
    rows = F.expr(render_good(problems, part.render_struct()))
    return F.arrow_udf(protobuf_rows.build_encoder(descriptor.file, descriptor.name, header), T.BinaryType())(rows)


def build_header(spark: SparkSession, part: RecordPart) -> bytes:
    return _register_message(spark, part, *_describe_message(spark, part))


def _register_message(
    spark: SparkSession, part: RecordPart, descriptor: protobuf_messages.BuiltDescriptor, known_id: int | None
) -> bytes:
    settings = read_registry_settings(spark, part)
    text = base64.b64encode(descriptor.file).decode()
    missing = part.subjects if known_id is None else part.subjects[1:]
    registered = register_schema(settings, missing, text, "PROTOBUF") if missing else None
    number = registered if known_id is None else known_id
    assert number is not None
    index = descriptor.message_index
    return b"\x00" + number.to_bytes(4, "big") + (b"\x00" if index == 0 else b"\x02" + encode_zigzag(index))


def _describe_message(spark: SparkSession, part: RecordPart) -> tuple[protobuf_messages.BuiltDescriptor, int | None]:
    """Return the message that is written, and the id of the newest schema if that has it."""
    subject = part.subjects[0]
    newest_schema = read_newest_schema(read_registry_settings(spark, part), subject)
    number, registered_file = newest_schema or (None, None)
    fields = _describe_fields(part.typed_fields, "")
    message = part.options.get("message")
    try:
        descriptor = protobuf_messages.build_descriptor(part.build_record_name(), fields, registered_file, message)
    except protobuf_messages.IncompatibleColumn as reason:
        raise ConfigurationError(f"subject={subject}: {reason}") from reason
    return descriptor, number if descriptor.is_known else None


def list_problems(spark: SparkSession, part: RecordPart) -> list[Problem]:
    return _list_all_problems(part, _describe_message(spark, part)[0])


def _list_all_problems(part: RecordPart, descriptor: protobuf_messages.BuiltDescriptor) -> list[Problem]:
    return [*list_value_problems(part), *list_presence_problems(descriptor.file, descriptor.name, part.columns)]


def list_value_problems(part: RecordPart) -> list[Problem]:
    """Return the rows with a NULL in a list or a map, or a time outside of the years 1 to 9999."""
    return list_column_problems(part, _judge_value)


def _judge_value(at: str, kind: T.DataType, path: str, element: str) -> list[Problem]:
    way_out = "which no message holds; correct it, or leave it out in sql"
    if isinstance(kind, T.ArrayType | T.MapType):
        word, elements = ("map", f"map_values({at})") if isinstance(kind, T.MapType) else ("list", at)
        missing = Problem(f"{element} IS NULL", f"has NULL in the {word} {path}, {way_out}")
        return put_inside(elements, element, [missing])
    if isinstance(kind, T.TimestampType):
        reason = f"has a time outside of the years 1 to 9999 in {path}, {way_out}"
        return [Problem(f"NOT {at} BETWEEN {render_year_range('TIMESTAMP')}", reason)]
    return []


def _describe_fields(fields: TypedFields, path: str) -> list[dict[str, Any]]:
    return [_describe_field(name, kind, f"{path}.{name}") for name, kind in fields]


def _describe_field(name: str, kind: T.DataType, path: str) -> dict[str, Any]:
    if not NAME_PATTERN.fullmatch(name):
        raise ConfigurationError(f"column={path[1:]}: Protobuf's names are letters, digits and underscores; rename it")
    if isinstance(kind, T.ArrayType) and not isinstance(kind.elementType, (T.ArrayType, T.MapType)):
        return {**_describe_field(name, kind.elementType, path), "repeated": True}
    field: dict[str, Any] = {"name": name, "repeated": False, "fields": []}
    if isinstance(kind, T.StructType):
        return {**field, "kind": "message", "fields": _describe_fields([(f.name, f.dataType) for f in kind], path)}
    if isinstance(kind, T.MapType) and not isinstance(kind.valueType, (T.ArrayType, T.MapType)):
        entry = [_describe_field("key", kind.keyType, path), _describe_field("value", kind.valueType, path)]
        if entry[0]["kind"] in MAP_KEY_TYPES:
            return {**field, "kind": "map", "fields": entry}
    if kind.simpleString() not in SIMPLE_TYPES:
        raise ConfigurationError(
            f"column={path[1:]} type={kind.simpleString()}: Protobuf has no such type; cast it in sql, e.g. to STRING"
        )
    return {**field, "kind": SIMPLE_TYPES[kind.simpleString()]}


WAY_OUT = "make it optional there, or write a value in sql"


class _Value(NamedTuple):
    """A value of a message's field `name`: where it is in SQL, and for people."""

    name: str
    kind: T.DataType
    sql: str
    path: str


def list_presence_problems(file: bytes, message: str, columns: Sequence[WrittenColumn]) -> list[Problem]:
    """Return the rows with NULL in a field that cannot hold it, and those with two values of a `oneof`."""
    file_messages = describe_messages(file)
    values = [_Value(c.name_in_record, c.type, quote(c.name), c.name) for c in columns]
    return _list_field_problems(values, file_messages.by_name[f".{message}"], file_messages, 0)


def _list_field_problems(values: Sequence[_Value], message: Any, file: FileMessages, depth: int) -> list[Problem]:
    fields = {field.name: field for field in message.field}
    # the last of several values would take the others away
    indexes = {
        field.name: field.oneof_index
        for field in message.field
        if field.HasField("oneof_index") and not field.proto3_optional
    }
    problems = []
    for index, oneof in enumerate(message.oneof_decl):
        members = [value for value in values if indexes.get(value.name) == index]
        if len(members) > 1:
            value_count = " + ".join(f"IF({member.sql} IS NOT NULL, 1, 0)" for member in members)
            reason = (
                f"has more than one value in {', '.join(member.path for member in members)}, which are oneof "
                f"{oneof.name} in the registered message, and it holds one; write NULL for the others in sql"
            )
            problems.append(Problem(f"{value_count} > 1", reason))
    for value in values:
        field = fields[value.name]
        if not _has_presence(field, file.is_proto3):
            reason = f"has NULL in {value.path}, whose field in the registered message is not optional; {WAY_OUT}"
            problems.append(Problem(f"{value.sql} IS NULL", reason))
        below = file.by_name.get(field.type_name)
        if isinstance(value.kind, T.MapType) and below is not None:
            below = file.by_name.get(next(inner.type_name for inner in below.field if inner.name == "value"))
        if below is not None:
            problems += _list_column_problems(value, below, file, depth)
    return problems


def _list_column_problems(value: _Value, message: Any, file: FileMessages, depth: int) -> list[Problem]:
    element = f"_tidegate_{depth}"
    kind = value.kind
    if isinstance(kind, T.ArrayType | T.MapType):
        is_map = isinstance(kind, T.MapType)
        inner, elements = (kind.valueType, f"map_values({value.sql})") if is_map else (kind.elementType, value.sql)
        element_value = _Value(value.name, inner, element, f"{value.path}[]")
        return put_inside(elements, element, _list_column_problems(element_value, message, file, depth + 1))
    if not isinstance(kind, T.StructType):
        return []
    parts = [_Value(f.name, f.dataType, f"{value.sql}.{quote(f.name)}", f"{value.path}.{f.name}") for f in kind]
    problems = _list_field_problems(parts, message, file, depth)
    return [Problem(f"{value.sql} IS NOT NULL AND {problem.condition}", problem.reason) for problem in problems]


def _has_presence(field: Any, is_proto3: bool) -> bool:
    if field.label == field.LABEL_REPEATED:
        return True
    if field.label == field.LABEL_REQUIRED:
        return False
    return not is_proto3 or field.type == field.TYPE_MESSAGE or field.proto3_optional or field.HasField("oneof_index")
