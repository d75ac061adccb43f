"""Sends one record at a time, and reads the live view over and over until its row is there."""

import json
import random
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from tidegate_spark.session import close

from benchmarks.sql_worker import open_session
from benchmarks.work import generate_changes, send_all

WARM_UP = 3
PAUSE_SECONDS = 4.0
FIRST_ID = 2_000_000


def main(request: dict[str, Any]) -> None:
    """Send so many records, each at a random moment; answer with the seconds of each row, and of each query."""
    spark, chance = open_session(request["remote"]), random.Random(1)
    query = f"SELECT id FROM (\n{request['view']}\n) WHERE id >= {FIRST_ID}"
    delays, queries = [], list[float]()
    try:
        for number in range(FIRST_ID, FIRST_ID + request["records"] + WARM_UP):
            time.sleep(chance.uniform(0, PAUSE_SECONDS))
            send_all(request["bootstrap"], request["pipeline"], generate_changes([number], 1, number))
            sent_seconds = time.monotonic()
            delays.append(
                _wait_for_row(spark, query, number, sent_seconds + request["deadline_seconds"], queries) - sent_seconds
            )
    finally:
        close(spark)
    Path(request["answer"]).write_text(json.dumps({"delays": delays[WARM_UP:], "queries": queries}))


def _wait_for_row(spark: SparkSession, query: str, number: int, deadline_seconds: float, queries: list[float]) -> float:
    """When the first query that shows the row began. Each one before it shows all earlier rows, once."""
    while True:
        start_seconds = time.monotonic()
        ids = sorted(row["id"] for row in spark.sql(query).collect())
        queries.append(time.monotonic() - start_seconds)
        if ids == [*range(FIRST_ID, number + 1)]:
            return start_seconds
        if ids != [*range(FIRST_ID, number)] or start_seconds > deadline_seconds:
            raise RuntimeError(f"the view shows ids={ids}, and id={number} was sent")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
