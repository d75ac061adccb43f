"""string: the whole key or value is one column, as text that is read without loss."""

from pyspark.sql import DataFrame
from tidegate.jobs.stage_job import StageTable
from tidegate.schema.data_types import Column
from tidegate.sql.spark import render_columns

from tidegate_spark.fields.conditions import NO_REASON
from tidegate_spark.fields.text import render_conversion, render_is_lossy
from tidegate_spark.fields.written_values import render_misfit_reason
from tidegate_spark.formats.decoded import TOMBSTONE_DELETES, DecodedKey, DecodedValue, render_null_fields
from tidegate_spark.formats.json import list_key_fields


def decode_key(records: DataFrame, table: StageTable) -> DecodedKey:
    column = list_key_fields(table).columns[0]
    value = render_conversion("key_text", column.type)
    return DecodedKey(
        records, f"struct({render_columns({column.name: value})})", _render_reason("key", "key_text", column)
    )


def decode_value(records: DataFrame, table: StageTable) -> DecodedValue:
    column = table.value_columns[0]
    return decode_whole_value(
        records,
        table,
        render_conversion("value_text", column.type),
        _render_reason("value", "value_text", column, table.value.truncates(column.name)),
    )


def decode_whole_value(records: DataFrame, table: StageTable, value: str, reason: str) -> DecodedValue:
    changes = records.selectExpr("*", TOMBSTONE_DELETES, f"{NO_REASON} AS located_reason")
    name = table.value_columns[0].name
    return DecodedValue(
        records=changes,
        columns={name: value},
        reason=reason,
        doubts={name: f"({reason}) IS NOT NULL"},
        key=f"struct({render_null_fields(list_key_fields(table).columns)})",
        key_reason=NO_REASON,
        key_presence="false",
    )


def _render_reason(subject: str, text: str, column: Column, truncates: bool = False) -> str:
    misfit = render_misfit_reason(f"the {subject} is not a {column.type} without loss", text, column.type)
    return (
        f"CASE WHEN NOT is_valid_utf8({text}) THEN 'the {subject} is not valid UTF-8' "
        f"WHEN {render_is_lossy(text, column.type, truncates=truncates)} THEN {misfit} END"
    )
