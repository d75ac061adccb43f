"""Owns the question whether a Spark Connect server really works: it runs a few small queries, which also warm it."""

import os
import sys

from pyspark.sql.connect.session import SparkSession

from local.server import PROBE_VARIABLE


def main(remote: str) -> int:
    """0 when the server answered a query with rows; an exception, and so 1, when it did not."""
    session = SparkSession.builder.remote(remote).create()
    try:
        number = session.sql("SELECT 1").collect()[0][0]
        groups = session.sql("SELECT id % 7 AS k, max(struct(id)) FROM range(1000) GROUP BY 1").collect()
    finally:
        session.stop()
    return 0 if number == 1 and len(groups) == 7 else 1


if __name__ == "__main__":
    sys.exit(main(os.environ[PROBE_VARIABLE]))
