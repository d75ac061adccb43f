"""Formats whose key or value is one column: as its text, or as bytes."""

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from tidegate.errors import ConfigurationError
from tidegate.formats.registry import get_format
from tidegate.sql.spark import quote, render_once

from tidegate_spark.fields.written_values import BINARY_FRACTIONS
from tidegate_spark.formats.raw import TYPE_BYTES
from tidegate_spark.publish.encoders.record_part import RecordPart, check_has_text


def encode(_: SparkSession, part: RecordPart) -> Column:
    """Return the column's bytes, those of text in UTF-8; NULL stays NULL.

    A number is written in `string` as its text, in `raw` the highest byte first, as Kafka's serializers do.
    `ConfigurationError` for several columns, for parts, and for bytes in `string`, which a pipeline would read as
    base64.
    """
    if len(part.columns) != 1:
        raise ConfigurationError(
            f"{part.part}.format={part.format}: it takes one column, and there are {len(part.columns)}; use json"
        )
    check_has_text(part)
    (column,) = part.columns
    name = quote(column.name)
    kind = column.type.simpleString().upper()
    if kind in TYPE_BYTES and kind in get_format(part.format).column_types:
        return F.expr(_render_number_bytes(name, kind))
    is_binary = isinstance(column.type, T.BinaryType)
    if is_binary and get_format(part.format).only_column != "BINARY":
        raise ConfigurationError(
            f"{part.part}.format={part.format}: column={column.name} is binary, and has no text of its own, which a "
            f"pipeline reads as base64; use raw for the bytes as they are, or write base64({name}) in sql"
        )
    return F.expr(name if is_binary else f"CAST(CAST({name} AS STRING) AS BINARY)")


def _render_number_bytes(value: str, kind: str) -> str:
    width = TYPE_BYTES[kind]
    if kind == "BOOLEAN":
        return f"CASE {value} WHEN true THEN X'01' WHEN false THEN X'00' END"
    if kind in BINARY_FRACTIONS:  # Avro has the lowest byte first
        turned = f"concat({', '.join(f'substring(b, {at}, 1)' for at in range(width, 0, -1))})"
        return render_once(f"to_avro({value}, '\"{kind.lower()}\"')", turned)
    return f"unhex(right(lpad(hex(CAST({value} AS BIGINT)), 16, '0'), {2 * width}))"
