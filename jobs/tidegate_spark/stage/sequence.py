"""The sequence of a record: the struct of columns by which records of one key are ordered before their offsets are."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tidegate.jobs.stage_job import StageTable
from tidegate.schema.data_types import Column
from tidegate.spec.projection import RECORD_FIELDS, Selected
from tidegate.sql.spark import quote, render_columns, render_literal

from tidegate_spark.fields.conditions import render_first_reason
from tidegate_spark.fields.json.connect import ConnectFields
from tidegate_spark.formats.decoded import DELETE, NO_CHANGE, DecodedValue
from tidegate_spark.formats.json import get_reading_rules
from tidegate_spark.stage.projection import (
    FAILURE,
    RECORD,
    render_failure,
    render_fault_reason,
    render_misfit_cases,
    render_selected_column,
)
from tidegate_spark.stage.value import render_metadata

SOURCES_COLUMN = "its_sources"


def add_sequence(decoded: DataFrame, decoded_value: DecodedValue, table: StageTable) -> DataFrame:
    """Add `sequence` to decoded records, for tables that are ordered by one; NULL for a delete that carries none.

    An upsert always has one, be its columns NULL. A delete has one if its record shows a column of the value, or if all
    columns are of Kafka's metadata; a lone tombstone shows none.
    """
    if not table.sequence:
        return decoded
    needed = _list_needed_columns(table)
    metadata = render_metadata(decoded_value, table)
    needed_columns = [name for name in needed if table.metadata.get(name, "value.").startswith("value.")]
    if table.has_history:
        parts = {n: metadata.get(table.metadata.get(n, ""), f"row_struct.{quote(n)}") for n in needed}
        has_sources = "row_struct IS NOT NULL" if needed_columns and _find_computed_columns(table) else "true"
        sourced = decoded.withColumn(SOURCES_COLUMN, F.expr(_render_struct(parts)))
        return _require_version_time(_add_sequence_column(sourced, table, has_sources), table)
    types = {c.name: c.type for c in table.value_columns}
    columns = tuple(Column(name, types[name]) for name in needed if name not in table.metadata)
    carried = ConnectFields(columns, get_reading_rules(table))
    if carried.columns and decoded_value.add_ordered_row is not None:
        decoded = decoded_value.add_ordered_row(decoded, carried)
        values = carried.render_values("ordered_row")
    else:
        values = {c.name: f"row_struct.{quote(c.name)}" for c in carried.columns}
        for name, before in decoded_value.columns_before.items():  # a delete may show the row before it
            if name in values:
                values[name] = f"CASE WHEN change = '{DELETE}' THEN {before} ELSE {values[name]} END"
    parts = {name: values.get(name) or metadata[table.metadata[name]] for name in needed}
    has_sources = " OR ".join(f"{SOURCES_COLUMN}.{quote(name)} IS NOT NULL" for name in needed_columns) or "true"
    sourced = decoded.withColumn(SOURCES_COLUMN, F.expr(_render_struct(parts)))
    return _add_sequence_column(sourced, table, f"op <> '{DELETE}' OR {has_sources}")


def _find_computed_columns(table: StageTable) -> dict[str, Selected]:
    columns = table.select.columns if table.select is not None else ()
    return {c.name: c for c in columns if c.is_derived and c.name in table.sequence}


def _list_needed_columns(table: StageTable) -> tuple[str, ...]:
    derived_columns = _find_computed_columns(table)
    keys = {name.casefold() for name, _ in table.select.keys} if table.select is not None else set()
    columns = {name.casefold(): name for name in (*(c.name for c in table.value_columns), *table.metadata)}
    read = [r for name in table.sequence for r in (derived_columns[name].reads if name in derived_columns else (name,))]
    return tuple(dict.fromkeys(columns[r.casefold()] for r in read if r.casefold() in columns.keys() - keys))


def _render_struct(parts: dict[str, str]) -> str:
    return f"struct({render_columns(parts) or 'true AS _tidegate_0'})"


def _add_sequence_column(sourced: DataFrame, table: StageTable, has_sources: str) -> DataFrame:
    derived_columns = _find_computed_columns(table)
    if not derived_columns or table.select is None:
        names = ", ".join(f"{SOURCES_COLUMN}.{quote(name)} AS {quote(name)}" for name in table.sequence)
        return sourced.withColumn("sequence", F.expr(f"CASE WHEN {has_sources} THEN struct({names}) END"))
    usable = f"change <> '{NO_CHANGE}' AND is_wanted AND key_reason IS NULL AND value_reason IS NULL"
    keys = [f"key_struct{f'.{quote(f)}' if f is not None else ''} AS {quote(name)}" for name, f in table.select.keys]
    needed = _list_needed_columns(table)
    column_names = {name.casefold() for name in (*needed, *(name for name, _ in table.select.keys))}
    record_columns = [field.name for field in RECORD_FIELDS if field.name not in column_names]
    columns = [*keys, *(f"{SOURCES_COLUMN}.{quote(name)} AS {quote(name)}" for name in needed), *record_columns]
    frame = sourced.selectExpr(f"struct(*) AS {RECORD}", f"{usable} AND ({has_sources}) AS _tidegate_usable", *columns)
    failure = f"CASE WHEN _tidegate_usable THEN {render_failure(derived_columns.values())} END"
    frame = frame.alias(table.select.alias).withColumn(FAILURE, F.expr(failure))
    reason = render_first_reason(render_misfit_cases(derived_columns.values()))
    parts = ", ".join(
        f"{render_selected_column(derived_columns[n]) if n in derived_columns else quote(n)} AS {quote(n)}"
        for n in table.sequence
    )
    ordered_records = frame.selectExpr(
        f"{RECORD}.*",
        f"CASE WHEN {FAILURE} IS NOT NULL THEN {FAILURE} WHEN _tidegate_usable THEN {reason} END AS sequence_reason",
        f"CASE WHEN _tidegate_usable AND {FAILURE} IS NULL THEN struct({parts}) END AS sequence",
    )
    faults = render_fault_reason(derived_columns.values(), "sequence")
    return ordered_records.withColumn("value_reason", F.expr(f"coalesce(value_reason, sequence_reason, {faults})"))


def _require_version_time(ordered_records: DataFrame, table: StageTable) -> DataFrame:
    first = table.sequence[0]
    reason = render_literal(f"{first} is NULL, and with history it says from when on a row holds")
    is_row = f"op <> '{DELETE}' AND change <> '{NO_CHANGE}' AND is_wanted"
    untimed = f"CASE WHEN {is_row} AND sequence.{quote(first)} IS NULL THEN {reason} END"
    return ordered_records.withColumn("value_reason", F.expr(f"coalesce(value_reason, {untimed})"))
