"""A table's rows as of a snapshot, in the columns of a newer one."""

from pyspark.sql import SparkSession
from pyspark.sql import types as T
from tidegate.sql.spark import quote, quote_name, render_literal

WIDENED_TYPES = {("int", "bigint"), ("float", "double")}  # what Iceberg lets a column's type become


def render_table_as_of(spark: SparkSession, table: str, snapshot: int, newest: int) -> str:
    """Select the table's rows as of `snapshot`, in the columns and types that it has as of `newest`."""
    columns = list_columns_as_of(spark, table, snapshot, newest).values()
    return f"SELECT {', '.join(columns)} FROM {render_table_at(table, snapshot)}"


def list_columns_as_of(spark: SparkSession, table: str, snapshot: int, newest: int) -> dict[str, str]:
    """Return SQL over the table as of `snapshot` for each column that it has as of `newest`, by its quoted name.

    A field whose type cannot have become the newer one was another field: it is NULL too.
    """
    target_schema = spark.sql(f"SELECT * FROM {render_table_at(table, newest)}").schema
    snapshot_types = {
        f.name.lower(): f.dataType for f in spark.sql(f"SELECT * FROM {render_table_at(table, snapshot)}").schema
    }
    columns = {}
    for field in target_schema:
        source = snapshot_types.get(field.name.lower())
        column = quote(field.name)
        column_sql = _render_null(field.dataType) if source is None else render_widening(column, source, field.dataType)
        columns[column] = column if column_sql == column else f"{column_sql} AS {column}"
    return columns


def render_widening(value: str, source: T.DataType, target: T.DataType, depth: int = 0) -> str:
    if render_spark_type(source) == render_spark_type(target):
        return value
    if isinstance(source, T.StructType) and isinstance(target, T.StructType):
        fields = {field.name.lower(): field for field in source.fields}
        parts = []
        for field in target.fields:
            source_field = fields.get(field.name.lower())
            part = f"{value}.{quote(source_field.name)}" if source_field is not None else ""
            part = (
                _render_null(field.dataType)
                if source_field is None
                else render_widening(part, source_field.dataType, field.dataType, depth)
            )
            parts.append(f"{render_literal(field.name)}, {part}")
        return f"IF({value} IS NULL, NULL, named_struct({', '.join(parts)}))"
    element = f"_tidegate_{depth}"
    if isinstance(source, T.ArrayType) and isinstance(target, T.ArrayType):
        widened = render_widening(element, source.elementType, target.elementType, depth + 1)
        return f"transform({value}, {element} -> {widened})"
    if isinstance(source, T.MapType) and isinstance(target, T.MapType):
        keys = render_widening(element, source.keyType, target.keyType, depth + 1)
        values = render_widening(element, source.valueType, target.valueType, depth + 1)
        arrays = (
            f"transform(map_keys({value}), {element} -> {keys}), transform(map_values({value}), {element} -> {values})"
        )
        return f"map_from_arrays({arrays})"
    return f"CAST({value} AS {render_spark_type(target)})" if _is_wider(source, target) else _render_null(target)


def render_spark_type(kind: T.DataType) -> str:
    if isinstance(kind, T.StructType):
        return (
            f"STRUCT<{', '.join(f'{quote(field.name)}: {render_spark_type(field.dataType)}' for field in kind.fields)}>"
        )
    if isinstance(kind, T.ArrayType):
        return f"ARRAY<{render_spark_type(kind.elementType)}>"
    if isinstance(kind, T.MapType):
        return f"MAP<{render_spark_type(kind.keyType)}, {render_spark_type(kind.valueType)}>"
    return str(kind.simpleString())


def _is_wider(source: T.DataType, target: T.DataType) -> bool:
    if isinstance(source, T.DecimalType) and isinstance(target, T.DecimalType):
        return bool(source.scale == target.scale and source.precision <= target.precision)
    return (render_spark_type(source), render_spark_type(target)) in WIDENED_TYPES


def _render_null(kind: T.DataType) -> str:
    return f"CAST(NULL AS {render_spark_type(kind)})"


def render_table_at(table: str, snapshot: int) -> str:
    return f"{quote_name(table)} VERSION AS OF {snapshot}"
