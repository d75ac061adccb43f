"""raw: the whole key or value is one column: bytes as they are, or a number as Kafka's own serializers write it."""

from pyspark.sql import DataFrame
from tidegate.jobs.stage_job import StageTable
from tidegate.schema.data_types import Column
from tidegate.sql.spark import render_columns, render_literal, render_once

from tidegate_spark.fields.conditions import NO_REASON
from tidegate_spark.fields.written_values import BINARY_FRACTIONS
from tidegate_spark.formats.decoded import DecodedKey, DecodedValue
from tidegate_spark.formats.json import list_key_fields
from tidegate_spark.formats.text import decode_whole_value

# how many bytes a number has: those of LongSerializer, IntegerSerializer, ShortSerializer, DoubleSerializer and so on
TYPE_BYTES = {"BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2, "INT": 4, "BIGINT": 8, "FLOAT": 4, "DOUBLE": 8}


def decode_key(records: DataFrame, table: StageTable) -> DecodedKey:
    """Read one column; bytes of another length than its type has are bad."""
    column = list_key_fields(table).columns[0]
    value = render_number("key", column.type, table.key.options.get("endianness", "big"))
    return DecodedKey(records, f"struct({render_columns({column.name: value})})", _render_reason("key", column))


def decode_value(records: DataFrame, table: StageTable) -> DecodedValue:
    column = table.value_columns[0]
    value = render_number("value", column.type, table.value.options.get("endianness", "big"))
    return decode_whole_value(records, table, value, _render_reason("value", column))


def render_number(part: str, kind: str, endianness: str) -> str:
    if kind not in TYPE_BYTES:
        return part
    width = TYPE_BYTES[kind]
    turned = f"concat({', '.join(f'substring(b, {at}, 1)' for at in range(width, 0, -1))})"
    little = kind in BINARY_FRACTIONS  # Avro has them so, and Spark's reader of it keeps every bit
    right = turned if (endianness == "little") != little else "b"
    sized_part = f"CASE WHEN length({part}) = {width} THEN {part} END"
    return render_once(sized_part, render_once(right, _render_conversion("b", kind)))


def _render_conversion(part: str, kind: str) -> str:
    if kind in BINARY_FRACTIONS:
        return f"from_avro({part}, '\"{kind.lower()}\"', map('mode', 'PERMISSIVE'))"
    if kind == "BOOLEAN":
        return f"CASE {part} WHEN X'00' THEN false WHEN X'01' THEN true END"
    if kind == "BIGINT":
        return f"CAST(conv(hex({part}), 16, -10) AS BIGINT)"
    whole = f"CAST(conv(hex({part}), 16, 10) AS BIGINT)"
    bits = 8 * TYPE_BYTES[kind]
    return f"CAST(CASE WHEN {whole} < {2 ** (bits - 1)} THEN {whole} ELSE {whole} - {2**bits} END AS {kind})"


def _render_reason(part: str, column: Column) -> str:
    if column.type not in TYPE_BYTES:
        return NO_REASON
    width = TYPE_BYTES[column.type]
    begin = render_literal(f"the {part} is not a {column.type} of {width} byte{'s' if width > 1 else ''}, but of ")
    reason = f"WHEN length({part}) <> {width} THEN concat({begin}, CAST(length({part}) AS STRING))"
    if column.type == "BOOLEAN":
        reason += (
            f" WHEN {part} NOT IN (X'00', X'01') THEN {render_literal(f'the {part} is no BOOLEAN: neither 00 nor 01')}"
        )
    return f"CASE {reason} END"
