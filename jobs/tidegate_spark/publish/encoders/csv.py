"""csv: one line without a line's end, its columns in the order of the result."""

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from tidegate.sql.spark import quote, render_literal

from tidegate_spark.formats.csv import to_spark_options
from tidegate_spark.publish.encoders.json import TIME_OPTIONS
from tidegate_spark.publish.encoders.record_part import Problem, RecordPart, WrittenColumn, check_has_text, render_map

# Spark would take blanks, and other characters that are not seen, off the ends of each text
KEEPS_BLANKS = {"ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}


def encode(_: SparkSession, part: RecordPart) -> Column:
    """UTF-8; NULL is `null_literal`, or nothing between two delimiters; bytes are base64.

    `ConfigurationError` for a column of parts.
    """
    check_has_text(part)
    row = f"named_struct({', '.join(map(_render_field, part.columns))})"
    return F.expr(f"CAST({_render_line(part, row)} AS BINARY)")


def list_problems(_: SparkSession, part: RecordPart) -> list[Problem]:
    """Return the rows with a value whose text is the word for NULL: readers would take it for NULL."""
    null = part.options.get("null_literal")
    if not null:  # an empty text stands in quotes
        return []
    check_has_text(part)
    way_out = "which readers take for NULL; choose another null_literal"
    texts = ((column.name, _render_text(part, column)) for column in part.columns)
    return [
        Problem(f"{text} = {render_literal(null)}", f"has csv.null_literal={null} as a value of {name}, {way_out}")
        for name, text in texts
    ]


def _render_line(part: RecordPart, row: str) -> str:
    null = part.options.get("null_literal") or ""
    words = {**TIME_OPTIONS, **KEEPS_BLANKS, **to_spark_options(part.options), "nullValue": null}
    return f"to_csv({row}, {render_map(words)})"


def _render_text(part: RecordPart, column: WrittenColumn) -> str:
    value = quote(column.name)
    if isinstance(column.type, T.StringType):
        return value
    return f"CASE WHEN {value} IS NOT NULL THEN {_render_line(part, f'named_struct({_render_field(column)})')} END"


def _render_field(column: WrittenColumn) -> str:
    value = quote(column.name)
    text = f"base64({value})" if isinstance(column.type, T.BinaryType) else value
    return f"{render_literal(column.name_in_record)}, {text}"
