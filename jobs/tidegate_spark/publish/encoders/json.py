"""json: one object with the columns as fields; NULL fields are written."""

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name that every Spark user knows)

from tidegate_spark.publish.encoders.record_part import RecordPart, render_map

# Spark would cut times to milliseconds and leave NULL fields out.
TIME_OPTIONS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
JSON_OPTIONS = {"ignoreNullFields": "false", **TIME_OPTIONS}


def encode(_: SparkSession, part: RecordPart) -> Column:
    """UTF-8, without white space between fields."""
    return F.expr(f"CAST({render_json(part.render_struct())} AS BINARY)")


def render_json(row: str) -> str:
    """A struct as text that tells all of it."""
    return f"to_json({row}, {render_map(JSON_OPTIONS)})"
