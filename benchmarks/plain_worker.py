"""Decodes a topic as Spark's guide does it and appends the rows to a table: what a format costs without the product."""

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from tidegate_spark.session import close

from benchmarks.measure import count_cpu_seconds
from benchmarks.sql_worker import open_session


def main(request: dict[str, Any]) -> None:
    """Append the decoded topic; the answer has the server's CPU seconds and the rows."""
    spark = open_session(request["remote"])
    try:
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {request['table'].rpartition('.')[0]}")
        rows = decode_topic(spark, request)
        before = count_cpu_seconds(request["server"])
        rows.writeTo(request["table"]).create()
        cpu_seconds = count_cpu_seconds(request["server"]) - before
        answer = {"cpu": round(cpu_seconds, 2), "rows": spark.table(request["table"]).count()}
    finally:
        close(spark)
    Path(request["answer"]).write_text(json.dumps(answer))


def decode_topic(spark: SparkSession, request: dict[str, Any]) -> DataFrame:
    """The topic's rows, as the format's own function of Spark makes them."""
    options = {"kafka.bootstrap.servers": request["bootstrap"], "subscribe": request["topic"]}
    raw = spark.read.format("kafka").options(**options).load()
    text = F.col("value").cast("string")
    if request["format"] == "json":
        row = F.from_json(text, request["columns"])
    elif request["format"] == "debezium-json":
        envelope = f"before STRUCT<{request['columns']}>, after STRUCT<{request['columns']}>, op STRING"
        row = F.from_json(text, envelope)["after"]
    else:
        row = from_avro(F.col("value"), request["avro"])
    return raw.select(row.alias("row")).select("row.*")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
