"""The key of one row as a person writes it: a JSON object with the table's key columns, as verify shows it.

Of a key of one column the bare value will do.
"""

import base64
import json
import re
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from tidegate.errors import ConfigurationError
from tidegate.model.merge_input import KeyPath
from tidegate.ports.session import Sql
from tidegate.schema.data_types import MOMENTS, Column, DataType, Primitive, Struct, format_type, parse_type
from tidegate.schema.evolution import find_own_path
from tidegate.spec.table import Table
from tidegate.sql.spark import quote
from tidegate.table.columns import find_key_field, list_key_columns, list_key_leaves

WHOLE_NUMBERS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}  # with their bits
FRACTIONS = {"FLOAT": Decimal("3.4028235e38"), "DOUBLE": Decimal("1.7976931348623157e308")}  # with the largest number
NOT_FINITE = ("NaN", "Infinity", "-Infinity")  # fractions, as Spark writes them into JSON
DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
MOMENT = re.compile(rf"{DAY.pattern}([T ]\d\d:\d\d(:\d\d(\.\d{{1,6}})?)?(Z|[+-]\d\d:\d\d)?)?", re.ASCII)
MAX_TEXT = 200  # characters of the key in a message


def parse_row_key(table: Table, text: str) -> dict[str, Any]:
    """Return the key by column, with the values as JSON has them; `ConfigurationError` says what is wrong."""
    columns = list_key_columns(table)
    if not columns:
        raise ConfigurationError(f"table={table.name}: its rows have no key; look records up with: tidegate record")
    names = ", ".join(column.name for column in columns)
    try:
        data = json.loads(text, parse_float=Decimal, parse_constant=str, object_pairs_hook=_build_object)
    except (ValueError, ArithmeticError, RecursionError):  # Decimal takes no exponent of nineteen digits
        data = text
    if not isinstance(data, dict):
        if len(columns) > 1 or isinstance(parse_type(columns[0].type), Struct):
            raise ConfigurationError(f"KEY={_cut(text)}: the key has columns={names}; write a JSON object with them")
        data = {columns[0].name: text if columns[0].type == "STRING" else data}
    struct = Struct(tuple((column.name, parse_type(column.type)) for column in columns))
    key: dict[str, Any] = _read_value(text, (), data, struct)
    return key


def _read_value(text: str, path: KeyPath, value: Any, kind: DataType) -> Any:
    if isinstance(kind, Struct):
        return _read_struct(text, path, value, kind)
    if value is None or not isinstance(kind, Primitive):
        return value
    if kind.name in FRACTIONS and value in NOT_FINITE:
        return value
    is_number = kind.decimal is not None or kind.name in WHOLE_NUMBERS or kind.name in FRACTIONS
    read_value = _read_number(value, kind) if is_number else _read_other(value, kind.name)
    if read_value is None:
        column = ".".join(path)
        raise ConfigurationError(
            f"KEY={_cut(text)}: column={column} takes a {kind.name}; write it as JSON has it, and verify shows it"
        )
    return read_value


def _read_number(value: Any, kind: Primitive) -> int | float | str | None:
    """Return the number as Spark reads it from JSON; None for one that the type does not hold."""
    is_text = isinstance(value, str) and kind.decimal is not None
    if isinstance(value, bool) or not (isinstance(value, int | Decimal) or is_text):
        return None
    try:
        number = Decimal(value)
    except InvalidOperation:
        return None
    if not number.is_finite():
        return None
    if kind.decimal is not None:
        precision, scale = kind.decimal
        # compared by its digits: Python would write out a number with a large exponent
        _, digits, exponent = number.as_tuple()
        zeros = len(digits) - len("".join(map(str, digits)).rstrip("0"))
        is_held = number.adjusted() < precision - scale and -int(exponent) - zeros <= scale
        return f"{number:f}" if is_held else "0" if not number else None
    if kind.name in FRACTIONS:
        limit = FRACTIONS[kind.name]
        return float(number) if -limit <= number <= limit else None
    bound = 2 ** (WHOLE_NUMBERS[kind.name] - 1)
    return int(number) if -bound <= number < bound and number == int(number) else None


def _read_other(value: Any, name: str) -> Any:
    """Return a truth value, text, bytes, day or time as JSON has it; None for another one."""
    if name == "BOOLEAN":
        return value if isinstance(value, bool) else None
    if not isinstance(value, str):
        return None
    try:
        if name == "BINARY":
            base64.b64decode(value, validate=True)
        elif name == "DATE":
            return value if DAY.fullmatch(value) and date.fromisoformat(value) else None
        elif name in MOMENTS:
            match = MOMENT.fullmatch(value)
            is_moment = match and datetime.fromisoformat(value) and not (match[4] and name == "TIMESTAMP_NTZ")
            if match and match[4] and not match[2]:  # Spark reads a zone behind seconds alone
                value = f"{value.removesuffix(match[4])}:00{match[4]}"
            return value if is_moment else None
    except ValueError:
        return None
    return value


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name.casefold() for name, _ in pairs}) < len(pairs):
        names = ", ".join(_cut(name) for name, _ in pairs)
        raise ConfigurationError(f"KEY has fields={_cut(names)}, and one of them twice; write each field once")
    return dict(pairs)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"


def _read_struct(text: str, path: KeyPath, value: Any, kind: Struct) -> dict[str, Any]:
    names = {name.casefold(): name for name, _ in kind.fields}
    given = {str(name).casefold(): part for name, part in value.items()} if isinstance(value, Mapping) else {}
    if given.keys() != names.keys():
        of = f" of column={'.'.join(path)}" if path else ""
        raise ConfigurationError(
            f"KEY={_cut(text)}: the fields{of} are {', '.join(names.values())}; write each of them"
        )
    types = dict(kind.fields)
    return {name: _read_value(text, (*path, name), given[key], types[name]) for key, name in names.items()}


def render_of_staged_key(sql: Sql, table: Table, key: Mapping[str, Any]) -> str:
    """Return the condition that a staged `key` is this one."""
    paths = []
    for leaf in list_key_leaves(table):
        field = find_key_field(table, leaf[0])
        paths.append((("key", *leaf[1:]) if field is None else ("key", field, *leaf[1:]), leaf))
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
