"""string: the whole key or value is one column, as text that is read without loss."""

from pyspark.sql import DataFrame
from tidegate.jobs.stage_job import StageTable
from tidegate.schema.column import Column
from tidegate.sql.spark import literal, quoted

from tidegate_spark.fields.text import converted, unfit
from tidegate_spark.formats.decoded import DELETE, UPSERT, FoundKey, FoundValue
from tidegate_spark.formats.json import key_fields


def read(records: DataFrame, table: StageTable) -> FoundKey:
    """A key of format string: one column."""
    column = key_fields(table).columns[0]
    return FoundKey(records, f"struct({_value('key_text', column)})", _reason("key", "key_text", column))


def located(records: DataFrame, table: StageTable) -> FoundValue:
    """A value of format string: one column; no value is a delete."""
    column = table.value_columns[0]
    return found_whole(records, table, _value("value_text", column), _reason("value", "value_text", column))


def found_whole(records: DataFrame, table: StageTable, column: str, reason: str) -> FoundValue:
    """What is found where the whole value is one column, `column` in SQL; no value is a delete."""
    kind = f"CASE WHEN value IS NULL THEN '{DELETE}' ELSE '{UPSERT}' END AS change"
    found = records.selectExpr("*", kind, "CAST(NULL AS STRING) AS located_reason")
    nothing = ", ".join(f"CAST(NULL AS {c.type}) AS {quoted(c.name)}" for c in key_fields(table).columns)
    return FoundValue(
        records=found,
        columns=(column,),
        reason=reason,
        key=f"struct({nothing})",
        key_reason="CAST(NULL AS STRING)",
        key_there="false",
    )


def _value(text: str, column: Column) -> str:
    return f"{converted(text, column.type)} AS {quoted(column.name)}"


def _reason(what: str, text: str, column: Column) -> str:
    misfit = literal(f"the {what} is not a {column.type} without loss")
    return (
        f"CASE WHEN NOT is_valid_utf8({text}) THEN 'the {what} is not valid UTF-8' "
        f"WHEN {unfit(text, column.type)} THEN {misfit} END"
    )
