"""The key of one row as a person writes it: a JSON object with the table's key columns, as verify shows it.

Of a key of one column the bare value will do.
"""

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from tidegate.errors import ConfigurationError
from tidegate.model.merge_input import KeyPath
from tidegate.ports.session import Sql
from tidegate.schema.data_types import Column, DataType, Primitive, Struct, format_type, parse_type
from tidegate.schema.evolution import find_own_path
from tidegate.spec.table import Table
from tidegate.sql.spark import quote
from tidegate.table.columns import find_key_field, list_key_columns, list_key_leaves

WHOLE_NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
FRACTIONS = ("FLOAT", "DOUBLE")


def parse_row_key(table: Table, text: str) -> dict[str, Any]:
    """Return the key by column, with the values as JSON has them; `ConfigurationError` says what is wrong."""
    columns = list_key_columns(table)
    if not columns:
        raise ConfigurationError(f"table={table.name}: its rows have no key; look records up with: tidegate record")
    names = ", ".join(column.name for column in columns)
    try:
        data = json.loads(text, parse_float=Decimal)
    except ValueError:
        data = text
    if not isinstance(data, dict):
        if len(columns) > 1 or isinstance(parse_type(columns[0].type), Struct):
            raise ConfigurationError(f"KEY={text}: the key has columns={names}; write a JSON object with them")
        data = {columns[0].name: text if columns[0].type == "STRING" else data}
    struct = Struct(tuple((column.name, parse_type(column.type)) for column in columns))
    key: dict[str, Any] = _read_value(text, (), data, struct)
    return key


def _read_value(text: str, path: KeyPath, value: Any, kind: DataType) -> Any:
    if isinstance(kind, Struct):
        return _read_struct(text, path, value, kind)
    if value is None or not isinstance(kind, Primitive):
        return value
    name = kind.name
    is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    is_decimal = kind.decimal is not None and (is_number or isinstance(value, str))
    is_other = kind.decimal is None and name not in (*WHOLE_NUMBERS, *FRACTIONS, "BOOLEAN")
    if name in WHOLE_NUMBERS and is_number and value == int(value):
        value = int(value)
    elif name in FRACTIONS and is_number:
        value = float(value)
    elif is_decimal:
        value = str(value)
    elif not (name == "BOOLEAN" and isinstance(value, bool)) and not (is_other and isinstance(value, str)):
        column = ".".join(path)
        raise ConfigurationError(f"KEY={text}: column={column} takes a {name}; write the value as JSON has it")
    return value


def _read_struct(text: str, path: KeyPath, value: Any, kind: Struct) -> dict[str, Any]:
    names = {name.casefold(): name for name, _ in kind.fields}
    given = {str(name).casefold(): part for name, part in value.items()} if isinstance(value, Mapping) else {}
    if given.keys() != names.keys():
        of = f" of column={'.'.join(path)}" if path else ""
        raise ConfigurationError(f"KEY={text}: the fields{of} are {', '.join(names.values())}; write each of them")
    types = dict(kind.fields)
    return {name: _read_value(text, (*path, name), given[key], types[name]) for key, name in names.items()}


def render_of_staged_key(sql: Sql, table: Table, key: Mapping[str, Any]) -> str:
    """Return the condition that a staged `key` is this one."""
    paths = [(_find_staged_path(table, leaf), leaf) for leaf in list_key_leaves(table)]
    return sql.render("explain_of_key", paths=paths, **_list_key_values(table, key))


def render_of_row(sql: Sql, table: Table, key: Mapping[str, Any]) -> str:
    """Return the condition that a row of the table has this key."""
    target = table.target_schema
    paths = [(find_own_path(target, leaf) if target else leaf, leaf) for leaf in list_key_leaves(table)]
    return sql.render("explain_of_key", paths=paths, **_list_key_values(table, key))


def _list_key_values(table: Table, key: Mapping[str, Any]) -> dict[str, str]:
    columns: tuple[Column, ...] = list_key_columns(table)
    return {
        "key_text": json.dumps(key),
        "key_type": ", ".join(f"{quote(c.name)} {format_type(parse_type(c.type))}" for c in columns),
    }


def _find_staged_path(table: Table, leaf: KeyPath) -> KeyPath:
    field = find_key_field(table, leaf[0])
    return ("key", *leaf[1:]) if field is None else ("key", field, *leaf[1:])
