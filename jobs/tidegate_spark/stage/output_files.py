"""What a job leaves behind: counts in a table property, or rows as files with the counts beside them."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructType
from tidegate.failpoints import hit_failpoint
from tidegate.jobs.stage_job import StageTable
from tidegate.sql.spark import quote, quote_name, render_literal

# Spark's own default for times is a type that others have left behind. The others are Spark's defaults: a server that
# still writes for Hive moves days before 1582 to another calendar, and lays lists out otherwise.
BIGQUERY_PARQUET_CONF = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.writeLegacyFormat": "false",
}


def write_rows(rows: DataFrame, table: StageTable) -> DataFrame:
    """Return what was written below the attempt's folder: one file, if each is uploaded by a load job of its own."""
    files = replace_map_values(rows)
    files = files.repartition(1) if table.folder.startswith("file:") else files
    files.write.mode("overwrite").parquet(f"{table.folder}/rows")
    hit_failpoint("job.rows_left")
    return files


def write_counts(spark: SparkSession, folder: str, outcome: str) -> None:
    """Write the counts, one line of JSON, last: an attempt without them did not finish."""
    counts = spark.createDataFrame([(outcome,)], "value STRING")
    counts.coalesce(1).write.mode("overwrite").text(f"{folder}/counts")
    hit_failpoint("job.counts_left")


def render_outcome(table: StageTable, outcome: str, properties: dict[str, str] | None = None) -> str:
    properties_to_set = {table.property: outcome, **(properties or {})}
    assigned = ", ".join(
        f"{render_literal(name)} = {render_literal(value)}" for name, value in properties_to_set.items()
    )
    return f"ALTER TABLE {quote_name(table.intermediate)} SET TBLPROPERTIES ({assigned})"


def replace_map_values(rows: DataFrame) -> DataFrame:
    """Replace every map by an array of its entries, at any depth: BigQuery has no maps."""
    return rows.selectExpr(
        *(f"{_render_without_maps(quote(f.name), f.dataType)} AS {quote(f.name)}" for f in rows.schema)
    )


def _render_without_maps(value: str, kind: DataType, depth: int = 0) -> str:
    if not _has_map(kind):
        return value
    each = f"e{depth}"
    match kind:
        case MapType():
            key, item = (_render_without_maps(f"{each}.{part}", t, depth + 1) for part, t in _list_entry_types(kind))
            return f"transform(map_entries({value}), {each} -> struct({key} AS key, {item} AS value))"
        case ArrayType():
            return f"transform({value}, {each} -> {_render_without_maps(each, kind.elementType, depth + 1)})"
        case StructType():
            parts = (
                f"{_render_without_maps(f'{value}.{quote(f.name)}', f.dataType, depth)} AS {quote(f.name)}"
                for f in kind
            )
            return f"CASE WHEN {value} IS NOT NULL THEN struct({', '.join(parts)}) END"
    return value


def _list_entry_types(kind: MapType) -> tuple[tuple[str, DataType], ...]:
    return (("key", kind.keyType), ("value", kind.valueType))


def _has_map(kind: DataType) -> bool:
    match kind:
        case MapType():
            return True
        case ArrayType():
            return _has_map(kind.elementType)
        case StructType():
            return any(_has_map(field.dataType) for field in kind)
    return False
