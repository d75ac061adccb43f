"""protobuf with a registered message: fields that cannot say that they are not set, so that NULL would be a value."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from pyspark.sql import types as T  # noqa: N812 (as Spark's own examples call it)
from tidegate.sql.spark import quote

from tidegate_spark.publish.encoders.protobuf_messages import FileMessages, describe_messages
from tidegate_spark.publish.encoders.record_part import Problem, WrittenColumn, put_inside

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
    return _list_problems(values, file_messages.by_name[f".{message}"], file_messages, 0)


def _list_problems(values: Sequence[_Value], message: Any, file: FileMessages, depth: int) -> list[Problem]:
    fields = {field.name: field for field in message.field}
    problems = _list_choice_problems(values, message)
    for value in values:
        field = fields[value.name]
        if not _has_presence(field, file.is_proto3):
            reason = f"has NULL in {value.path}, whose field in the registered message is not optional; {WAY_OUT}"
            problems.append(Problem(f"{value.sql} IS NULL", reason))
        below = file.by_name.get(field.type_name)
        if isinstance(value.kind, T.MapType) and below is not None:
            below = file.by_name.get(next(inner.type_name for inner in below.field if inner.name == "value"))
        if below is not None:
            problems += _list_inner_problems(value, below, file, depth)
    return problems


def _list_choice_problems(values: Sequence[_Value], message: Any) -> list[Problem]:
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
    return problems


def _list_inner_problems(value: _Value, message: Any, file: FileMessages, depth: int) -> list[Problem]:
    element = f"_tidegate_{depth}"
    kind = value.kind
    if isinstance(kind, T.ArrayType | T.MapType):
        is_map = isinstance(kind, T.MapType)
        inner, elements = (kind.valueType, f"map_values({value.sql})") if is_map else (kind.elementType, value.sql)
        element_value = _Value(value.name, inner, element, f"{value.path}[]")
        return put_inside(elements, element, _list_inner_problems(element_value, message, file, depth + 1))
    if not isinstance(kind, T.StructType):
        return []
    parts = [_Value(f.name, f.dataType, f"{value.sql}.{quote(f.name)}", f"{value.path}.{f.name}") for f in kind]
    problems = _list_problems(parts, message, file, depth)
    return [Problem(f"{value.sql} IS NOT NULL AND {problem.condition}", problem.reason) for problem in problems]


def _has_presence(field: Any, is_proto3: bool) -> bool:
    if field.label == field.LABEL_REPEATED:
        return True
    if field.label == field.LABEL_REQUIRED:
        return False
    return not is_proto3 or field.type == field.TYPE_MESSAGE or field.proto3_optional or field.HasField("oneof_index")
