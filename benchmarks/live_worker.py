"""Sends one record at a time, waits until it is staged, and reads the live view, which has to show it."""

import json
import random
import sys
import time
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog
from pyspark.sql import SparkSession
from tidegate_spark.session import close

from benchmarks.sql_worker import open_session
from benchmarks.work import generate_changes, send_all

WARM_UP = 3
PAUSE_SECONDS = 4.0
POLL_SECONDS = 0.05
FIRST_ID = 2_000_000


def main(request: dict[str, Any]) -> None:
    """Send so many records, each at a random moment; answer with the seconds of each row, and of each query.

    A row is there once a query that begins then shows it. Between records the view has to show all earlier ones once.
    """
    spark = open_session(request["remote"])
    chance = random.Random(1)
    catalog = load_catalog(**request["catalog"])
    query = f"SELECT id FROM (\n{request['view']}\n) WHERE id >= {FIRST_ID}"
    delays = list[float]()
    queries = list[float]()
    try:
        for number in range(FIRST_ID, FIRST_ID + request["records"] + WARM_UP):
            time.sleep(chance.uniform(0, PAUSE_SECONDS))
            queries.append(_check_view(spark, query, number))
            before = _list_staged(catalog, request["intermediate"])
            send_all(request["bootstrap"], request["pipeline"], generate_changes([number], 1, number))
            sent_seconds = time.monotonic()
            while _list_staged(catalog, request["intermediate"]) <= before:
                if time.monotonic() - sent_seconds > request["deadline_seconds"]:
                    raise RuntimeError(f"the record id={number} was not staged")
                time.sleep(POLL_SECONDS)
            delays.append(time.monotonic() - sent_seconds)
            queries.append(_check_view(spark, query, number + 1))
    finally:
        close(spark)
    Path(request["answer"]).write_text(json.dumps({"delays": delays[WARM_UP:], "queries": queries[2 * WARM_UP :]}))


def _list_staged(catalog: Catalog, intermediate: str) -> set[str]:
    """The tags of complete batches."""
    return set(catalog.load_table(intermediate).metadata.refs) - {"main"}


def _check_view(spark: SparkSession, query: str, end: int) -> float:
    """The seconds of a query that shows each record before `end`, once."""
    start_seconds = time.monotonic()
    ids = sorted(row["id"] for row in spark.sql(query).collect())
    if ids != [*range(FIRST_ID, end)]:
        raise RuntimeError(f"the view shows ids={ids}, and not each one before {end}")
    return time.monotonic() - start_seconds


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
