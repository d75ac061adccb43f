"""Staged rows as files, for a destination whose tables Spark does not write: Parquet, then the counts beside it."""

import json
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructType
from tidegate.failpoints import reached
from tidegate.jobs.stage_job import StageTable
from tidegate.sql.spark import quoted

# Spark's own default for times is a type that others have left behind.
AS_BIGQUERY_READS = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}


def leave_rows(rows: DataFrame, table: StageTable) -> None:
    """Write the rows below the attempt's folder: one file where each is uploaded by a load job of its own."""
    files = without_maps(rows)
    files = files.repartition(1) if table.folder.startswith("file:") else files
    files.write.mode("overwrite").parquet(f"{table.folder}/rows")
    reached("job.rows_left")


def leave_counts(spark: SparkSession, folder: str, outcome: dict[str, Any]) -> None:
    """Write the counts as one line of JSON, last: an attempt without them did not finish."""
    told = spark.createDataFrame([(json.dumps(outcome),)], "value STRING")
    told.coalesce(1).write.mode("overwrite").text(f"{folder}/counts")
    reached("job.counts_left")


def without_maps(rows: DataFrame) -> DataFrame:
    """The rows with every map as an array of its entries, wherever it lies: BigQuery has no maps."""
    return rows.selectExpr(*(f"{_plain(quoted(f.name), f.dataType)} AS {quoted(f.name)}" for f in rows.schema))


def _plain(value: str, kind: DataType, depth: int = 0) -> str:
    """SQL for a value without maps; what holds none is taken as it is."""
    if not _holds_map(kind):
        return value
    each = f"e{depth}"
    match kind:
        case MapType():
            key, item = (_plain(f"{each}.{part}", t, depth + 1) for part, t in _entry(kind))
            return f"transform(map_entries({value}), {each} -> struct({key} AS key, {item} AS value))"
        case ArrayType():
            return f"transform({value}, {each} -> {_plain(each, kind.elementType, depth + 1)})"
        case StructType():
            parts = (f"{_plain(f'{value}.{quoted(f.name)}', f.dataType, depth)} AS {quoted(f.name)}" for f in kind)
            return f"CASE WHEN {value} IS NOT NULL THEN struct({', '.join(parts)}) END"
    return value


def _entry(kind: MapType) -> tuple[tuple[str, DataType], ...]:
    return (("key", kind.keyType), ("value", kind.valueType))


def _holds_map(kind: DataType) -> bool:
    match kind:
        case MapType():
            return True
        case ArrayType():
            return _holds_map(kind.elementType)
        case StructType():
            return any(_holds_map(field.dataType) for field in kind)
    return False
