"""Column types of a table that Spark has not: UUIDs, which it reads as text, bytes of one length, and texts of a most.

One value that does not fit would fail the merge of its whole batch. So each value is checked while it is staged, and
one that does not fit makes its record bad, with the column's name.
"""

from collections.abc import Iterable, Iterator

from tidegate.errors import ConfigurationError
from tidegate.schema.data_types import (
    MAX_PRECISION,
    PRIMITIVE_NAMES,
    UUID_FORM,
    Array,
    DataType,
    Map,
    MaxLength,
    Primitive,
    Struct,
    has_leaf,
    parse_type,
)
from tidegate.schema.evolution import to_struct
from tidegate.spec.table import Table
from tidegate.sql.spark import quote, render_literal
from tidegate.tables.columns import find_key_field, list_key_columns, list_staged_columns

UUID_PATTERN = r"\A[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\z"
Limit = tuple[str, str]  # a reason that begins with the column's name, and SQL that is true where it holds


def check_adopted_types(declared_table: Table, table: Table) -> None:
    """`ConfigurationError` where the columns are the destination's, and Spark cannot hold the values of one of them.

    `table` is `declared_table` with its columns resolved.
    """
    adopted = table.value.columns if declared_table.value.columns is None else None
    for column in adopted or ():
        if has_leaf(parse_type(column.type), _is_unknown):
            raise ConfigurationError(
                f"table={table.name} column={column.name}: records cannot be read as its type={column.type}, and "
                "value.schema is left out; nothing was read; write value.schema, with the columns that records fill, "
                "and give this one a type that goes into the table's, or leave it out"
            )


def _is_unknown(leaf: Primitive) -> bool:
    precision, _ = leaf.decimal or (0, 0)
    return precision > MAX_PRECISION or (leaf.decimal is None and leaf.name not in PRIMITIVE_NAMES)


def list_key_limits(table: Table) -> tuple[Limit, ...]:
    """The limits of the staged `key_struct`. `table` has its columns resolved."""
    target, limits = table.target_schema, list[Limit]()
    if target is None or not table.key.fields:
        return ()
    for column in list_key_columns(table):
        field, own_name = find_key_field(table, column.name), target.find_name(column.name)
        expr = "key_struct" if field is None else f"key_struct.{quote(field)}"
        if own_name is not None:
            limits += _list_limits(expr, parse_type(column.type), dict(target.fields)[own_name], column.name)
    return tuple(limits)


def list_value_limits(table: Table, metadata: dict[str, str]) -> tuple[Limit, ...]:
    """The limits of the staged `value_struct`."""
    if table.target_schema is None:
        return ()
    staged_schema = to_struct(list_staged_columns(table, metadata))
    return tuple(_list_field_limits("value_struct", staged_schema, table.target_schema, ""))


def _list_field_limits(expr: str, staged_struct: Struct, target: Struct, above: str, depth: int = 0) -> Iterator[Limit]:
    types = dict(target.fields)
    for name, kind in staged_struct.fields:
        own_name = target.find_name(name)
        if own_name is not None:
            yield from _list_limits(f"{expr}.{quote(name)}", kind, types[own_name], f"{above}{name}", depth)


def _list_limits(expr: str, staged_type: DataType, target: DataType, name: str, depth: int = 0) -> Iterator[Limit]:
    each = f"e{depth}"
    match staged_type, target:
        case Struct(), Struct():
            yield from _list_field_limits(expr, staged_type, target, f"{name}.", depth)
        case Array(), Array():
            yield from _list_each(expr, each, _list_limits(each, staged_type.element, target.element, name, depth + 1))
        case Map(), Map():
            inner = _list_limits(each, staged_type.value, target.value, name, depth + 1)
            yield from _list_each(f"map_values({expr})", each, inner)
        case Map(), Array(Struct() as entry):
            types = dict(entry.fields)
            for part, item in (("key", staged_type.key), ("value", staged_type.value)):
                if (own_name := entry.find_name(part)) is not None:
                    inner = _list_limits(each, item, types[own_name], name, depth + 1)
                    yield from _list_each(f"map_{part}s({expr})", each, inner)
        case Primitive("STRING" | "BINARY" as kind), Primitive(form=MaxLength(limit)):
            function, unit = ("char_length", "characters") if kind == "STRING" else ("octet_length", "bytes")
            yield (
                f"{name}: longer than {limit} {unit}, which the table's column allows",
                f"{function}({expr}) > {limit}",
            )
        case Primitive("STRING"), Primitive() if target.form == UUID_FORM:
            yield (
                f"{name}: not a UUID, which the table's column holds",
                f"NOT {expr} RLIKE {render_literal(UUID_PATTERN)}",
            )
        case Primitive("BINARY"), Primitive() if isinstance(target.form, int):
            reason = f"{name}: not {target.form} bytes, which the table's column holds"
            yield reason, f"octet_length({expr}) <> {target.form}"


def _list_each(values: str, each: str, limits: Iterable[Limit]) -> Iterator[Limit]:
    return ((reason, f"exists({values}, {each} -> coalesce({sql}, false))") for reason, sql in limits)
