"""Verifies a table as `bin/tidegate verify` does, or reads its topic and the table once, with plain Spark."""

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F
from tidegate.connections import read_connection_from_env
from tidegate.reprocess.verify import verify_table
from tidegate.settings import find_include_folder
from tidegate.wiring.pipeline import assemble_pipeline
from tidegate_spark.session import close

from benchmarks.plain_worker import decode_topic
from benchmarks.sql_worker import open_session


def main(request: dict[str, Any]) -> None:
    """Answer with the counts of keys, or with those of records and rows that were read."""
    answer = read_once(request) if request["plain"] else verify(request)
    Path(request["answer"]).write_text(json.dumps(answer))


def verify(request: dict[str, Any]) -> dict[str, Any]:
    """The counts of the verification."""
    session = assemble_pipeline(find_include_folder(), request["pipeline"], read_connection_from_env)
    return verify_table(session, request["table"]).counts


def read_once(request: dict[str, Any]) -> dict[str, Any]:
    """Decode each record, and read each row: every column of both goes into a checksum."""
    spark = open_session(request["remote"])
    try:
        counts = {}
        for name, rows in (("records", decode_topic(spark, request)), ("rows", spark.table(request["table"]))):
            total, _ = rows.select(F.count("*"), F.bit_xor(F.xxhash64("*"))).collect()[0]
            counts[name] = total
    finally:
        close(spark)
    return counts


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
