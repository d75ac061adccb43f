"""The peer: what a Spark user writes by hand for this work, as a program with a JVM of its own.

Structured Streaming (availableNow), in one batch or several, foreachBatch: the last value of each key, decoded, one
MERGE. It keeps no position beside the rows and no branch, and it checks nothing: a record that cannot be decoded
becomes a row of NULLs, and a crash between MERGE and checkpoint runs the batch again.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.measure import count_cpu_seconds

PROPERTIES = ", ".join(
    [
        "'format-version' = '2'",
        *(f"'write.{verb}.mode' = 'merge-on-read'" for verb in ("merge", "update", "delete")),
    ]
)


def main(request: dict[str, Any]) -> None:
    """Start Spark, warm up, do the work; the answer tells when and at which CPU time each was done."""
    marks: dict[str, dict[str, float]] = {}

    def mark(name: str) -> None:
        wall = round(time.monotonic() - request["started"], 3)
        marks[name] = {"wall": wall, "cpu": round(count_cpu_seconds(os.getpid()), 3)}

    spark = open_session(request["conf"])
    mark("ready")
    follow(spark, request, request["warm_up"], f"{request['catalog']}.warm.orders")
    mark("warm")
    follow(spark, request, request["topic"], f"{request['catalog']}.shop.orders")
    mark("done")
    Path(request["answer"]).write_text(json.dumps(marks))
    spark.stop()


def open_session(conf: dict[str, str]) -> SparkSession:
    """A local driver with this configuration, ready to answer."""
    builder = SparkSession.builder.master("local[*]").appName("peer")
    for name, value in conf.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.range(1).collect()
    return spark


def follow(spark: SparkSession, request: dict[str, Any], topic: str, table: str) -> None:
    """Bring everything that the topic holds into a new table."""
    columns = request["columns"]
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {table.rpartition('.')[0]}")
    spark.sql(f"CREATE TABLE {table} ({columns}) USING iceberg TBLPROPERTIES ({PROPERTIES})")
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", request["bootstrap"])
    if request["per_batch"]:
        source = source.option("maxOffsetsPerTrigger", request["per_batch"])
    stream = source.option("subscribe", topic).option("startingOffsets", "earliest").load().writeStream
    checkpoint = f"{request['folder']}/checkpoint-{topic}"
    staged = f"{table}_staged"
    if request["merges_once"]:
        spark.sql(
            f"CREATE TABLE {staged} (k BIGINT, v STRUCT<{columns}>, gone BOOLEAN, at BIGINT) USING iceberg "
            "TBLPROPERTIES ('format-version' = '2')"
        )

    def write(batch: DataFrame) -> None:
        last = keep_last(batch, columns)
        if request["merges_once"]:
            last.writeTo(staged).append()
        else:
            merge(batch.sparkSession, last, table, columns)

    query = (
        stream.foreachBatch(lambda batch, _: write(batch))
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    if request["merges_once"]:
        spark.catalog.refreshTable(staged)  # this session has seen it empty
        row = F.max_by(F.struct("v", "gone"), "at").alias("row")
        newest = spark.table(staged).groupBy("k").agg(row).select("k", "row.v", "row.gone")
        merge(spark, newest, table, columns)


def keep_last(batch: DataFrame, columns: str) -> DataFrame:
    """The last value of each key, decoded; a key lives in one partition, so the largest offset is the last."""
    keyed = batch.select(F.from_json(F.col("key").cast("string"), "id BIGINT")["id"].alias("k"), "value", "offset")
    last = keyed.groupBy("k").agg(F.max_by("value", "offset").alias("v"), F.max("offset").alias("at"))
    value = F.from_json(F.col("v").cast("string"), columns).alias("v")
    return last.select("k", value, F.col("v").isNull().alias("gone"), "at")


def merge(spark: SparkSession, changes: DataFrame, table: str, columns: str) -> None:
    """Merge one row for each key."""
    changes.createOrReplaceTempView("changes")
    names = [column.split()[0] for column in columns.split(", ")]
    spark.sql(
        f"""
        MERGE INTO {table} t USING changes s ON t.id = s.k
        WHEN MATCHED AND s.gone THEN DELETE
        WHEN MATCHED THEN UPDATE SET {", ".join(f"t.{name} = s.v.{name}" for name in names)}
        WHEN NOT MATCHED AND NOT s.gone THEN
            INSERT ({", ".join(names)}) VALUES ({", ".join(f"s.v.{name}" for name in names)})
        """
    )


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
