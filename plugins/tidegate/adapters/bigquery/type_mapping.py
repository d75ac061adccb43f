"""Spark's type texts and BigQuery's types, each from the other, and a staged value as the type that a table holds."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tidegate.errors import ConfigurationError
from tidegate.schema.column import Column
from tidegate.schema.data_types import Array, DataType, Map, Primitive, Struct, ddl, parse
from tidegate.schema.evolution import map_as_entries, struct_of
from tidegate.sql.googlesql import quoted

_SIMPLE = {
    "BOOLEAN": "BOOL", "TINYINT": "INT64", "SMALLINT": "INT64", "INT": "INT64", "BIGINT": "INT64",
    "FLOAT": "FLOAT64", "DOUBLE": "FLOAT64", "STRING": "STRING", "BINARY": "BYTES", "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMP", "TIMESTAMP_NTZ": "DATETIME",
}  # fmt: skip
_SPARK = {
    "BOOL": "BOOLEAN", "BOOLEAN": "BOOLEAN", "INT64": "BIGINT", "INTEGER": "BIGINT", "FLOAT64": "DOUBLE",
    "FLOAT": "DOUBLE", "STRING": "STRING", "BYTES": "BINARY", "DATE": "DATE", "TIMESTAMP": "TIMESTAMP",
    "DATETIME": "TIMESTAMP_NTZ",
}  # fmt: skip
_NUMERIC = ((29, 9, "NUMERIC"), (38, 38, "BIGNUMERIC"))  # digits before the point, behind it
# letters, digits and what BigQuery calls flexible names; not these, and not these beginnings
_FORBIDDEN = re.compile(r"""[!"$()*,./;?@\[\\\]^`{}~\x00-\x1f]""")
_RESERVED = ("_TABLE_", "_FILE_", "_PARTITION", "_ROW_TIMESTAMP", "__ROOT__", "_COLIDENTIFIER", "_CHANGE_")
_LONGEST = 300


def bigquery_type(data_type: DataType | str) -> str:
    """The GoogleSQL type that holds every value of a Spark type; `ConfigurationError` where there is none."""
    match stored_as(parse(data_type) if isinstance(data_type, str) else data_type):
        case Array(element):
            return f"ARRAY<{bigquery_type(element)}>"
        case Struct(fields, required):
            return f"STRUCT<{', '.join(_field(name, inner, name in required) for name, inner in fields)}>"
        case Primitive() as primitive if primitive.decimal:
            return _numeric(*primitive.decimal)
        case Primitive(name) if name in _SIMPLE:
            return _SIMPLE[name]
    raise ConfigurationError(f"type={data_type} has no counterpart in BigQuery; choose another in the schema")


def _field(name: str, data_type: DataType, is_required: bool) -> str:
    return f"{quoted(name)} {bigquery_type(data_type)}{' NOT NULL' if is_required else ''}"


def _numeric(precision: int, scale: int) -> str:
    for before, behind, name in _NUMERIC:
        if precision - scale <= before and scale <= behind:
            return f"{name}({precision}, {scale})"
    raise ConfigurationError(f"DECIMAL({precision},{scale}) has no counterpart in BigQuery; choose a smaller one")


def stored_as(data_type: DataType) -> DataType:
    """The type that a BigQuery table gives back for a Spark type: what was small is wide, a map is its entries.

    `ConfigurationError` for what BigQuery has no room for: arrays of arrays.
    """
    match data_type:
        case Array(Array() | Map()):
            raise ConfigurationError(
                f"type={ddl(data_type)}: BigQuery has no arrays of arrays; put a struct around the inner one"
            )
        case Array(element):
            return Array(stored_as(element))
        case Map():
            return stored_as(map_as_entries(data_type))
        case Struct(fields, required):
            return Struct(tuple((name, stored_as(inner)) for name, inner in fields), required)
        case Primitive(name) if name in _SIMPLE:
            return Primitive(_SPARK[_SIMPLE[name]])
    return data_type


def stored_columns(columns: Iterable[Column]) -> tuple[Column, ...]:
    """Columns as a BigQuery table gives them back: what an evolution compares with the table."""
    return tuple(Column(c.name, ddl(stored_as(parse(c.type))), c.nullable) for c in columns)


def bigquery_schema(columns: Iterable[Column]) -> list[dict[str, Any]]:
    """The same columns as the fields of the REST API; `ConfigurationError` names a type or a name that cannot be."""
    struct = struct_of(columns)
    return [_schema_field(name, inner, name in struct.required) for name, inner in struct.fields]


def _schema_field(name: str, data_type: DataType, is_required: bool) -> dict[str, Any]:
    check_name(name)
    stored = stored_as(data_type)
    mode = "REQUIRED" if is_required else "NULLABLE"
    if isinstance(stored, Array):
        mode, stored = "REPEATED", stored.element
    field: dict[str, Any] = {"name": name, "mode": mode}
    if isinstance(stored, Struct):
        fields = [_schema_field(inner, kind, inner in stored.required) for inner, kind in stored.fields]
        return {**field, "type": "RECORD", "fields": fields}
    text = bigquery_type(stored)
    kind, _, arguments = text.partition("(")
    if arguments:
        precision, scale = arguments.rstrip(")").split(", ")
        field |= {"precision": precision, **({"scale": scale} if scale != "0" else {})}
    return {**field, "type": kind}


def check_name(name: str) -> None:
    """`ConfigurationError` unless BigQuery takes `name` for a column or a field."""
    if not name or len(name) > _LONGEST or _FORBIDDEN.search(name):
        raise ConfigurationError(
            f"column={name}: BigQuery takes up to {_LONGEST} letters, digits, spaces and marks, and none of "
            '!"$()*,./;?@[\\]^`{}~; name the field otherwise'
        )
    if name.upper().startswith(_RESERVED):
        raise ConfigurationError(f"column={name}: BigQuery keeps names that begin so for itself; name it otherwise")


def columns_of(schema: Iterable[Mapping[str, Any]]) -> tuple[Column, ...]:
    """A table's columns in Spark's words, from the fields of the REST API."""
    return tuple(
        Column(field["name"], ddl(_data_type(field)), str(field.get("mode", "")).upper() != "REQUIRED")
        for field in schema
    )


def held_by(schema: Iterable[Mapping[str, Any]]) -> Struct:
    """What a table holds, from the fields of the REST API, with what is required in it."""
    fields = list(schema)
    required = frozenset(f["name"] for f in fields if str(f.get("mode", "")).upper() == "REQUIRED")
    return Struct(tuple((f["name"], _data_type(f)) for f in fields), required)


def _data_type(field: Mapping[str, Any]) -> DataType:
    kind = str(field["type"]).upper()
    if kind in ("RECORD", "STRUCT"):
        inner: DataType = held_by(field.get("fields", ()))
    elif kind in ("NUMERIC", "BIGNUMERIC"):
        precision, scale = (38, 9) if kind == "NUMERIC" else (76, 38)
        if field.get("precision"):
            precision, scale = int(field["precision"]), int(field.get("scale") or 0)
        inner = Primitive(f"DECIMAL({precision},{scale})")
    else:
        inner = Primitive(_SPARK.get(kind, kind))
    return Array(inner) if str(field.get("mode", "")).upper() == "REPEATED" else inner


def comparable(column: tuple[str, DataType | None], of: str) -> str:
    """SQL text: a column of `of` by which it is compared. Arrays and structs have no equality in which NULL is equal to
    NULL, nor is NaN equal to itself: those are compared as text."""
    name, kind = column
    text = f"{of}.{quoted(name)}"
    is_plain = isinstance(kind, Primitive) and kind.name not in ("FLOAT", "DOUBLE")
    return text if is_plain else f"TO_JSON_STRING({text})"


def from_value(column: str, as_held: tuple[Struct, Struct]) -> str:
    """SQL text: a table's column out of the staged `value`; `as_held` tells what is staged and what the table holds."""
    staged, held = as_held
    return _field_of("value", staged, held, column) or f"value.{quoted(column)}"


def _field_of(expr: str, staged: Struct, held: Struct, name: str, depth: int = 0) -> str | None:
    types = dict(held.fields)
    sources = [(n, t) for n, t in staged.fields if held.named(n) == name]
    sources.sort(key=lambda source: source[0].casefold() != name.casefold())
    found = [_aligned(f"{expr}.{quoted(n)}", t, types[name], depth) for n, t in sources]
    return f"COALESCE({', '.join(found)})" if len(found) > 1 else next(iter(found), None)


def _aligned(expr: str, staged: DataType, held: DataType, depth: int = 0) -> str:
    """A staged value as the table's type: by its names and order, what is missing as NULL."""
    stored = stored_as(staged)
    if ddl(stored).casefold() == ddl(held).casefold():
        return expr
    match stored, held:
        case Struct(), Struct():
            parts = [
                f"{_field_of(expr, stored, held, n, depth) or f'CAST(NULL AS {bigquery_type(t)})'} AS {quoted(n)}"
                for n, t in held.fields
            ]
            return f"IF({expr} IS NULL, NULL, STRUCT({', '.join(parts)}))"
        case Array(), Array():
            element, place = f"e{depth}", f"at{depth}"
            inner = _aligned(element, stored.element, held.element, depth + 1)
            return f"ARRAY(SELECT {inner} FROM UNNEST({expr}) AS {element} WITH OFFSET AS {place} ORDER BY {place})"
    return f"CAST({expr} AS {bigquery_type(held)})"
