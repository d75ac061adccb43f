"""A table as of one snapshot, with the columns of a newer one: what was added since is NULL."""

from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StructType
from tidegate.sql.spark import quote, quote_name, render_literal

WIDENED_TYPES = {("int", "bigint"), ("float", "double")}  # what Iceberg lets a column's type become


def render_table_as_of(spark: SparkSession, table: str, snapshot: int, newest: int) -> str:
    """A SELECT of the table's rows as of `snapshot`, in the columns and types that it has as of `newest`.

    A column or field of the same name whose type cannot have become the newer one was another: NULL too.
    """
    wanted = spark.sql(f"SELECT * FROM {_render_table_at(table, newest)}").schema
    there = {
        f.name.casefold(): f.dataType for f in spark.sql(f"SELECT * FROM {_render_table_at(table, snapshot)}").schema
    }
    columns = []
    for field in wanted:
        known, column = there.get(field.name.casefold()), quote(field.name)
        made = _render_null(field.dataType) if known is None else render_conversion(column, known, field.dataType)
        columns.append(column if made == column else f"{made} AS {column}")
    return f"SELECT {', '.join(columns)} FROM {_render_table_at(table, snapshot)}"


def render_conversion(value: str, known: DataType, wanted: DataType, depth: int = 0) -> str:
    """A value of one type as one of another, field by field."""
    if format_type(known) == format_type(wanted):
        return value
    if isinstance(known, StructType) and isinstance(wanted, StructType):
        fields = {field.name.casefold(): field for field in known.fields}
        parts = []
        for field in wanted.fields:
            old = fields.get(field.name.casefold())
            part = f"{value}.{quote(old.name)}" if old is not None else ""
            part = (
                _render_null(field.dataType)
                if old is None
                else render_conversion(part, old.dataType, field.dataType, depth)
            )
            parts.append(f"{render_literal(field.name)}, {part}")
        return f"IF({value} IS NULL, NULL, named_struct({', '.join(parts)}))"
    one = f"_tidegate_{depth}"
    if isinstance(known, ArrayType) and isinstance(wanted, ArrayType):
        return (
            f"transform({value}, {one} -> {render_conversion(one, known.elementType, wanted.elementType, depth + 1)})"
        )
    if isinstance(known, MapType) and isinstance(wanted, MapType):
        keys = render_conversion(one, known.keyType, wanted.keyType, depth + 1)
        values = render_conversion(one, known.valueType, wanted.valueType, depth + 1)
        made = f"transform(map_keys({value}), {one} -> {keys}), transform(map_values({value}), {one} -> {values})"
        return f"map_from_arrays({made})"
    return f"CAST({value} AS {format_type(wanted)})" if _is_wider(known, wanted) else _render_null(wanted)


def format_type(kind: DataType) -> str:
    """A type as SQL writes it, whatever its fields are called."""
    if isinstance(kind, StructType):
        return f"STRUCT<{', '.join(f'{quote(field.name)}: {format_type(field.dataType)}' for field in kind.fields)}>"
    if isinstance(kind, ArrayType):
        return f"ARRAY<{format_type(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"MAP<{format_type(kind.keyType)}, {format_type(kind.valueType)}>"
    return str(kind.simpleString())


def _is_wider(known: DataType, wanted: DataType) -> bool:
    if isinstance(known, DecimalType) and isinstance(wanted, DecimalType):
        return bool(known.scale == wanted.scale and known.precision <= wanted.precision)
    return (format_type(known), format_type(wanted)) in WIDENED_TYPES


def _render_null(kind: DataType) -> str:
    return f"CAST(NULL AS {format_type(kind)})"


def _render_table_at(table: str, snapshot: int) -> str:
    return f"{quote_name(table)} VERSION AS OF {snapshot}"
