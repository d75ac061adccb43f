"""Formats whose key or value is one column: bytes as they are, anything else as its text."""

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name that every Spark user knows)
from pyspark.sql.types import BinaryType
from tidegate.errors import ConfigurationError
from tidegate.sql.spark import quote

from tidegate_spark.publish.encoders.record_part import RecordPart, check_has_text


def encode(_: SparkSession, part: RecordPart) -> Column:
    """The column's bytes, those of text in UTF-8; NULL stays NULL. ConfigurationError for several columns, or parts."""
    if len(part.columns) != 1:
        raise ConfigurationError(
            f"{part.part}.format={part.format}: it takes one column, and there are {len(part.columns)}; use json"
        )
    check_has_text(part)
    column, is_binary = quote(part.columns[0].name), isinstance(part.columns[0].type, BinaryType)
    return F.expr(column if is_binary else f"CAST(CAST({column} AS STRING) AS BINARY)")
