"""Reads finished tables through the Spark Connect server, all in the same kind of session: how long, and what is there.

A table that nobody measures is read first, so that no table pays for the session's or the server's first query.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from tidegate_spark.session import close

from benchmarks.sql_worker import open_session
from benchmarks.work import FIRST_MS

READS = 12  # the best counts: a young server is still compiling what the first ones need


def main(request: dict[str, Any]) -> None:
    """Read each table of the request; the answer is by table."""
    answer = {}
    for table in request["tables"]:
        spark = open_session(request["remote"])
        try:
            read(spark, request["warm_up"])
            answer[table] = {
                "reads": read(spark, table),
                **read_figures(spark, table),
                "files": count_files(spark, table),
            }
        finally:
            close(spark)
    Path(request["answer"]).write_text(json.dumps(answer))


def read(spark: SparkSession, table: str) -> list[float]:
    """Seconds of the same query, run several times."""
    seconds = []
    for _ in range(READS):
        start_seconds = time.monotonic()
        spark.sql(f"SELECT count(*), sum(amount) FROM {table}").collect()
        seconds.append(round(time.monotonic() - start_seconds, 3))
    return seconds


def read_figures(spark: SparkSession, table: str) -> dict[str, Any]:
    """The row count and sums that are compared with the truth."""
    aggregates = f"count(*) AS r, sum(amount) AS a, sum(updated_at - {FIRST_MS}) AS u"
    row = spark.sql(f"SELECT {aggregates} FROM {table}").collect()[0]
    return {"rows": row["r"], "amount": row["a"], "updated_at": row["u"]}


def count_files(spark: SparkSession, table: str) -> dict[str, int]:
    """Data files and delete files of the table, and its snapshots."""
    kinds = spark.sql(
        f"SELECT count_if(content = 0) AS data, count_if(content <> 0) AS deletes, "
        f"sum(file_size_in_bytes) AS bytes FROM {table}.files"
    ).collect()[0]
    snapshots = spark.sql(f"SELECT count(*) AS n FROM {table}.snapshots").collect()[0]["n"]
    return {"data": kinds["data"], "deletes": kinds["deletes"], "bytes": kinds["bytes"], "snapshots": snapshots}


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
