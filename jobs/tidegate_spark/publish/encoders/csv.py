"""csv: one line without a line's end, its columns in the order of the result."""

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name that every Spark user knows)

from tidegate_spark.formats.csv import to_spark_options
from tidegate_spark.publish.encoders.json import TIME_OPTIONS
from tidegate_spark.publish.encoders.record_part import RecordPart, render_map


def encode(_: SparkSession, part: RecordPart) -> Column:
    """UTF-8; NULL is `null_literal`, or nothing between two delimiters."""
    null = part.options.get("null_literal") or ""
    words = {**TIME_OPTIONS, **to_spark_options(part.options), "nullValue": null}
    return F.expr(f"CAST(to_csv({part.render_struct()}, {render_map(words)}) AS BINARY)")
