"""csv: one line without a line's end, its columns in the order of the result."""

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name that every Spark user knows)
from pyspark.sql.types import BinaryType
from tidegate.sql.spark import quote, render_literal

from tidegate_spark.formats.csv import to_spark_options
from tidegate_spark.publish.encoders.json import TIME_OPTIONS
from tidegate_spark.publish.encoders.record_part import RecordPart, WrittenColumn, check_has_text, render_map

# Spark would take blanks, and other characters that are not seen, off the ends of each text
KEEPS_BLANKS = {"ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}


def encode(_: SparkSession, part: RecordPart) -> Column:
    """UTF-8; NULL is `null_literal`, or nothing between two delimiters; bytes are base64.

    ConfigurationError for a column of parts.
    """
    check_has_text(part)
    null = part.options.get("null_literal") or ""
    words = {**TIME_OPTIONS, **KEEPS_BLANKS, **to_spark_options(part.options), "nullValue": null}
    row = f"named_struct({', '.join(map(_render_field, part.columns))})"
    return F.expr(f"CAST(to_csv({row}, {render_map(words)}) AS BINARY)")


def _render_field(column: WrittenColumn) -> str:
    value = quote(column.name)
    text = f"base64({value})" if isinstance(column.type, BinaryType) else value
    return f"{render_literal(column.name_in_record)}, {text}"
