"""raw: the whole key or value is one column: bytes as they are, or a number as Kafka's own serializers write it."""

from typing import Any

from pyspark.sql import DataFrame
from tidegate.jobs.stage_job import StageTable
from tidegate.schema.column import Column
from tidegate.sql.spark import literal, quoted

from tidegate_spark.fields.json.text import bound
from tidegate_spark.formats.decoded import NO_REASON, FoundKey, FoundValue
from tidegate_spark.formats.json import key_fields
from tidegate_spark.formats.text import found_whole

# how many bytes a number has: those of LongSerializer, IntegerSerializer, ShortSerializer, DoubleSerializer and so on
WIDTHS = {"BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2, "INT": 4, "BIGINT": 8, "FLOAT": 4, "DOUBLE": 8}
FLOATING = ("FLOAT", "DOUBLE")


def read(records: DataFrame, table: StageTable) -> FoundKey:
    """A key: one column; bytes of another length than its type has are bad."""
    column, options = key_fields(table).columns[0], table.key.options
    return FoundKey(records, f"struct({_value('key', column, options)})", _reason("key", column))


def located(records: DataFrame, table: StageTable) -> FoundValue:
    """A value: one column; no value is a delete."""
    column, options = table.value_columns[0], table.value.options
    return found_whole(records, table, _value("value", column, options), _reason("value", column))


def _value(part: str, column: Column, options: dict[str, Any]) -> str:
    return f"{number(part, column.type, options.get('endianness', 'big'))} AS {quoted(column.name)}"


def number(part: str, kind: str, endianness: str) -> str:
    """SQL: the bytes of `part` as a `kind`; NULL where they are none."""
    if kind not in WIDTHS:
        return part
    width = WIDTHS[kind]
    turned = f"concat({', '.join(f'substring(b, {at}, 1)' for at in range(width, 0, -1))})"
    little = kind in FLOATING  # Avro has them so, and Spark's reader of it keeps every bit
    right = turned if (endianness == "little") != little else "b"
    fitting = f"CASE WHEN length({part}) = {width} THEN {part} END"
    return bound(fitting, bound(right, _converted("b", kind)))


def _converted(part: str, kind: str) -> str:
    if kind in FLOATING:
        return f"from_avro({part}, '\"{kind.lower()}\"', map('mode', 'PERMISSIVE'))"
    if kind == "BOOLEAN":
        return f"CASE {part} WHEN X'00' THEN false WHEN X'01' THEN true END"
    if kind == "BIGINT":
        return f"CAST(conv(hex({part}), 16, -10) AS BIGINT)"
    whole, bits = f"CAST(conv(hex({part}), 16, 10) AS BIGINT)", 8 * WIDTHS[kind]
    return f"CAST(CASE WHEN {whole} < {2 ** (bits - 1)} THEN {whole} ELSE {whole} - {2**bits} END AS {kind})"


def _reason(part: str, column: Column) -> str:
    if column.type not in WIDTHS:
        return NO_REASON
    width = WIDTHS[column.type]
    told = literal(f"the {part} is not a {column.type} of {width} byte{'s' if width > 1 else ''}, but of ")
    reason = f"WHEN length({part}) <> {width} THEN concat({told}, CAST(length({part}) AS STRING))"
    if column.type == "BOOLEAN":
        reason += f" WHEN {part} NOT IN (X'00', X'01') THEN {literal(f'the {part} is no BOOLEAN: neither 00 nor 01')}"
    return f"CASE {reason} END"
