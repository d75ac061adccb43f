"""A table as of one snapshot, with the columns of a newer one: what was added since is NULL."""

from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StructType
from tidegate.sql.spark import literal, quoted, quoted_name

WIDER = {("int", "bigint"), ("float", "double")}  # what Iceberg lets a column's type become


def table_as_of(spark: SparkSession, table: str, snapshot: int, newest: int) -> str:
    """A SELECT of the table's rows as of `snapshot`, in the columns and types that it has as of `newest`.

    A column or field of the same name whose type cannot have become the newer one was another: NULL too.
    """
    wanted = spark.sql(f"SELECT * FROM {_at(table, newest)}").schema
    there = {f.name.casefold(): f.dataType for f in spark.sql(f"SELECT * FROM {_at(table, snapshot)}").schema}
    columns = []
    for field in wanted:
        known, column = there.get(field.name.casefold()), quoted(field.name)
        made = _nothing(field.dataType) if known is None else as_type(column, known, field.dataType)
        columns.append(column if made == column else f"{made} AS {column}")
    return f"SELECT {', '.join(columns)} FROM {_at(table, snapshot)}"


def as_type(value: str, known: DataType, wanted: DataType, depth: int = 0) -> str:
    """A value of one type as one of another, field by field."""
    if type_text(known) == type_text(wanted):
        return value
    if isinstance(known, StructType) and isinstance(wanted, StructType):
        fields = {field.name.casefold(): field for field in known.fields}
        parts = []
        for field in wanted.fields:
            old = fields.get(field.name.casefold())
            part = f"{value}.{quoted(old.name)}" if old is not None else ""
            part = _nothing(field.dataType) if old is None else as_type(part, old.dataType, field.dataType, depth)
            parts.append(f"{literal(field.name)}, {part}")
        return f"IF({value} IS NULL, NULL, named_struct({', '.join(parts)}))"
    one = f"_tidegate_{depth}"
    if isinstance(known, ArrayType) and isinstance(wanted, ArrayType):
        return f"transform({value}, {one} -> {as_type(one, known.elementType, wanted.elementType, depth + 1)})"
    if isinstance(known, MapType) and isinstance(wanted, MapType):
        keys = as_type(one, known.keyType, wanted.keyType, depth + 1)
        values = as_type(one, known.valueType, wanted.valueType, depth + 1)
        made = f"transform(map_keys({value}), {one} -> {keys}), transform(map_values({value}), {one} -> {values})"
        return f"map_from_arrays({made})"
    return f"CAST({value} AS {type_text(wanted)})" if _is_wider(known, wanted) else _nothing(wanted)


def type_text(kind: DataType) -> str:
    """A type as SQL writes it, whatever its fields are called."""
    if isinstance(kind, StructType):
        return f"STRUCT<{', '.join(f'{quoted(field.name)}: {type_text(field.dataType)}' for field in kind.fields)}>"
    if isinstance(kind, ArrayType):
        return f"ARRAY<{type_text(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"MAP<{type_text(kind.keyType)}, {type_text(kind.valueType)}>"
    return str(kind.simpleString())


def _is_wider(known: DataType, wanted: DataType) -> bool:
    if isinstance(known, DecimalType) and isinstance(wanted, DecimalType):
        return bool(known.scale == wanted.scale and known.precision <= wanted.precision)
    return (type_text(known), type_text(wanted)) in WIDER


def _nothing(kind: DataType) -> str:
    return f"CAST(NULL AS {type_text(kind)})"


def _at(table: str, snapshot: int) -> str:
    return f"{quoted_name(table)} VERSION AS OF {snapshot}"
