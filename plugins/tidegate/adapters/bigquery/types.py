"""Maps Spark's types to BigQuery's and back, and renders a staged value as the type of its column."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tidegate.errors import ConfigurationError
from tidegate.schema.data_types import (
    ANY_SCALE_FORM,
    Array,
    Column,
    DataType,
    Map,
    MaxLength,
    Primitive,
    Struct,
    format_type,
    parse_type,
)
from tidegate.schema.evolution import list_sources, replace_map, to_struct
from tidegate.sql.googlesql import quote

_BIGQUERY_TYPES = {
    "BOOLEAN": "BOOL", "TINYINT": "INT64", "SMALLINT": "INT64", "INT": "INT64", "BIGINT": "INT64",
    "FLOAT": "FLOAT64", "DOUBLE": "FLOAT64", "STRING": "STRING", "BINARY": "BYTES", "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMP", "TIMESTAMP_NTZ": "DATETIME",
}  # fmt: skip
_SPARK_TYPES = {
    "BOOL": "BOOLEAN", "BOOLEAN": "BOOLEAN", "INT64": "BIGINT", "INTEGER": "BIGINT", "FLOAT64": "DOUBLE",
    "FLOAT": "DOUBLE", "STRING": "STRING", "BYTES": "BINARY", "DATE": "DATE", "TIMESTAMP": "TIMESTAMP",
    "DATETIME": "TIMESTAMP_NTZ",
}  # fmt: skip
_NUMERIC_TYPES = ((29, 9, "NUMERIC"), (38, 38, "BIGNUMERIC"))  # digits before the point, behind it
# BigQuery's flexible column names have none of these characters, and begin with none of these prefixes
_FORBIDDEN_CHARACTERS = re.compile(r"""[!"$()*,./;?@\[\\\]^`{}~\x00-\x1f]""")
_RESERVED_PREFIXES = ("_TABLE_", "_FILE_", "_PARTITION", "_ROW_TIMESTAMP", "__ROOT__", "_COLIDENTIFIER", "_CHANGE_")
_MAX_NAME_LENGTH = 300


def to_bigquery_type(data_type: DataType | str) -> str:
    """The GoogleSQL type that holds every value of a Spark type; `ConfigurationError` where there is none."""
    match to_stored_type(parse_type(data_type) if isinstance(data_type, str) else data_type):
        case Array(element):
            return f"ARRAY<{to_bigquery_type(element)}>"
        case Struct(fields, required_names):
            ends = (_render_not_null(inner) if name in required_names else "" for name, inner in fields)
            parts = (f"{quote(n)} {to_bigquery_type(t)}{end}" for (n, t), end in zip(fields, ends, strict=True))
            return f"STRUCT<{', '.join(parts)}>"
        case Primitive() as primitive if primitive.decimal:
            return _choose_numeric(*primitive.decimal)
        case Primitive(name) if name in _BIGQUERY_TYPES:
            return _BIGQUERY_TYPES[name]
    raise ConfigurationError(f"type={data_type} has no counterpart in BigQuery; choose another in the schema")


def to_column_type(column: Column) -> str:
    """For CREATE TABLE, with NOT NULL where the column is required."""
    return f"{to_bigquery_type(column.type)}{'' if column.nullable else _render_not_null(parse_type(column.type))}"


def _render_not_null(data_type: DataType) -> str:
    # BigQuery stores a NULL array, which a map is too, as an empty one
    return "" if isinstance(data_type, Array | Map) else " NOT NULL"


def _choose_numeric(precision: int, scale: int) -> str:
    for before, behind, name in _NUMERIC_TYPES:
        if precision - scale <= before and scale <= behind:
            return f"{name}({precision}, {scale})"
    raise ConfigurationError(f"DECIMAL({precision},{scale}) has no counterpart in BigQuery; choose a smaller one")


def to_cast_type(data_type: DataType | str) -> str:
    """For CAST: without parameters and NOT NULL."""
    match to_stored_type(parse_type(data_type) if isinstance(data_type, str) else data_type):
        case Array(element):
            return f"ARRAY<{to_cast_type(element)}>"
        case Struct(fields):
            return f"STRUCT<{', '.join(f'{quote(name)} {to_cast_type(inner)}' for name, inner in fields)}>"
        case stored_type:
            return to_bigquery_type(stored_type).partition("(")[0]


def render_time_as(time: str, kind: str) -> str:
    """SQL text: a TIMESTAMP as a Spark type, in UTC whatever the project's default zone."""
    function = {"DATE": "DATE", "TIMESTAMP_NTZ": "DATETIME"}.get(kind)
    return f"{function}({time}, 'UTC')" if function else time


def to_stored_type(data_type: DataType) -> DataType:
    """The type that BigQuery returns for a Spark type: small numbers are wide, a map is an array of its entries.

    `ConfigurationError` for arrays of arrays.
    """
    match data_type:
        case Array(Array() | Map()):
            raise ConfigurationError(
                f"type={format_type(data_type)}: BigQuery has no arrays of arrays; put a struct around the inner one"
            )
        case Array(element):
            return Array(to_stored_type(element))
        case Map():
            return to_stored_type(replace_map(data_type))
        case Struct(fields, required_names):
            return Struct(tuple((name, to_stored_type(inner)) for name, inner in fields), required_names)
        case Primitive(name) if name in _BIGQUERY_TYPES:
            return Primitive(_SPARK_TYPES[_BIGQUERY_TYPES[name]])
    return data_type


def to_stored_columns(columns: Iterable[Column]) -> tuple[Column, ...]:
    """Columns as BigQuery returns them, for a comparison with the table."""
    return tuple(Column(c.name, format_type(to_stored_type(parse_type(c.type))), c.nullable) for c in columns)


def to_bigquery_schema(columns: Iterable[Column]) -> list[dict[str, Any]]:
    """Fields of the REST API. `ConfigurationError` names a type or name that BigQuery refuses."""
    struct = to_struct(columns)
    return [_to_schema_field(name, inner, name in struct.required) for name, inner in struct.fields]


def _to_schema_field(name: str, data_type: DataType, is_required: bool) -> dict[str, Any]:
    check_column_name(name)
    stored_type = to_stored_type(data_type)
    mode = "REQUIRED" if is_required else "NULLABLE"
    if isinstance(stored_type, Array):
        mode = "REPEATED"
        stored_type = stored_type.element
    field: dict[str, Any] = {"name": name, "mode": mode}
    if isinstance(stored_type, Struct):
        fields = [_to_schema_field(inner, kind, inner in stored_type.required) for inner, kind in stored_type.fields]
        return {**field, "type": "RECORD", "fields": fields}
    text = to_bigquery_type(stored_type)
    kind, _, arguments = text.partition("(")
    if arguments:
        precision, scale = arguments.rstrip(")").split(", ")
        field |= {"precision": precision, **({"scale": scale} if scale != "0" else {})}
    return {**field, "type": kind}


def check_column_name(name: str) -> None:
    """`ConfigurationError` unless BigQuery takes `name` for a column or a field."""
    if not name or len(name) > _MAX_NAME_LENGTH or _FORBIDDEN_CHARACTERS.search(name):
        raise ConfigurationError(
            f"column={name}: BigQuery takes up to {_MAX_NAME_LENGTH} letters, digits, spaces and marks, and none of "
            '!"$()*,./;?@[\\]^`{}~; rename the field'
        )
    if name.upper().startswith(_RESERVED_PREFIXES):
        raise ConfigurationError(f"column={name}: BigQuery reserves names that begin so; give the column another name")


def to_columns(schema: Iterable[Mapping[str, Any]]) -> tuple[Column, ...]:
    """Columns in Spark's words, from the fields of the REST API."""
    return tuple(
        Column(field["name"], format_type(_convert_to_spark(field)), str(field.get("mode", "")).upper() != "REQUIRED")
        for field in schema
    )


def read_table_struct(schema: Iterable[Mapping[str, Any]]) -> Struct:
    """From the fields of the REST API, with required fields and defaults."""
    fields = list(schema)
    required_names = frozenset(f["name"] for f in fields if str(f.get("mode", "")).upper() == "REQUIRED")
    defaulted = frozenset(f["name"] for f in fields if f.get("defaultValueExpression"))
    return Struct(tuple((f["name"], _convert_to_spark(f)) for f in fields), required_names, defaulted_fields=defaulted)


def _convert_to_spark(field: Mapping[str, Any]) -> DataType:
    kind = str(field["type"]).upper()
    if kind in ("RECORD", "STRUCT"):
        inner: DataType = read_table_struct(field.get("fields", ()))
    elif kind in ("NUMERIC", "BIGNUMERIC"):
        precision, scale = (38, 9) if kind == "NUMERIC" else (76, 38)
        if field.get("precision"):
            precision = int(field["precision"])
            scale = int(field.get("scale") or 0)
        inner = Primitive(f"DECIMAL({precision},{scale})", form=ANY_SCALE_FORM)
    else:
        form = MaxLength(int(field["maxLength"])) if field.get("maxLength") else None
        inner = Primitive(_SPARK_TYPES.get(kind, kind), form=form)
    return Array(inner) if str(field.get("mode", "")).upper() == "REPEATED" else inner


def render_comparable(column: tuple[str, DataType | None], of: str) -> str:
    """SQL text: a column of `of` in a form that can be compared."""
    name, kind = column
    text = f"{of}.{quote(name)}"
    # in arrays and structs NULL is not equal to NULL, nor NaN to itself: they are compared as text
    is_float = isinstance(kind, Primitive) and kind.name in ("FLOAT", "DOUBLE")
    if isinstance(kind, Primitive) and not is_float:
        return text
    # 0.0 and -0.0 are one value, and two texts; -0.0 + 0 is 0.0
    return f"TO_JSON_STRING({text}{' + 0' if is_float else ''})"


def render_from_value(column: str, schemas: tuple[Struct, Struct]) -> str:
    """SQL text: a table's column from the staged `value`; `schemas`: of the staged value and of the table."""
    staged_schema, destination_schema = schemas
    return _get_field("value", staged_schema, destination_schema, column) or f"value.{quote(column)}"


def render_from_key(column: str, field: str | None, schemas: tuple[Struct, Struct] | None) -> str:
    """SQL text: a table's key column from the staged `key`; `schemas`: of the pipeline's key and of the table."""
    expr = "key" if field is None else f"key.{quote(field)}"
    staged_schema, target = schemas or (Struct(()), Struct(()))
    kind = next((kind for name, kind in staged_schema.fields if target.find_name(name) == column), None)
    return _render_aligned(expr, kind, dict(target.fields)[column]) if isinstance(kind, Struct) else expr


def _get_field(expr: str, staged_schema: Struct, target: Struct, name: str, depth: int = 0) -> str | None:
    types = dict(target.fields)
    sources = list_sources(staged_schema, target, name)
    values = [_render_aligned(f"{expr}.{quote(n)}", t, types[name], depth) for n, t in sources]
    return f"COALESCE({', '.join(values)})" if len(values) > 1 else next(iter(values), None)


def _render_aligned(expr: str, staged_type: DataType, target: DataType, depth: int = 0) -> str:
    stored_type = to_stored_type(staged_type)
    if format_type(stored_type).casefold() == format_type(target).casefold():
        return expr
    match stored_type, target:
        case Struct(), Struct():
            parts = [
                f"{_get_field(expr, stored_type, target, n, depth) or f'CAST(NULL AS {to_cast_type(t)})'} AS {quote(n)}"
                for n, t in target.fields
            ]
            return f"IF({expr} IS NULL, NULL, STRUCT({', '.join(parts)}))"
        case Array(), Array():
            element = f"e{depth}"
            place = f"at{depth}"
            inner = _render_aligned(element, stored_type.element, target.element, depth + 1)
            return f"ARRAY(SELECT {inner} FROM UNNEST({expr}) AS {element} WITH OFFSET AS {place} ORDER BY {place})"
    return f"CAST({expr} AS {to_cast_type(target)})"
