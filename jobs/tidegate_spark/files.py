"""Staged rows as files, for a destination whose tables Spark does not write: Parquet, then the counts beside it."""

import json
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from tidegate.jobs import StageTable

# Spark's own default for times is a type that others have left behind.
AS_BIGQUERY_READS = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}


def leave_rows(rows: DataFrame, table: StageTable) -> None:
    """Write the rows below the attempt's folder: one file where each is uploaded by a load job of its own."""
    files = rows.repartition(1) if table.folder.startswith("file:") else rows
    files.write.mode("overwrite").parquet(f"{table.folder}/rows")


def leave_counts(spark: SparkSession, folder: str, outcome: dict[str, Any]) -> None:
    """Write the counts as one line of JSON, last: an attempt without them did not finish."""
    told = spark.createDataFrame([(json.dumps(outcome),)], "value STRING")
    told.coalesce(1).write.mode("overwrite").text(f"{folder}/counts")
