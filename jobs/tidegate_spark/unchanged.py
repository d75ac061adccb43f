"""Placeholders that a change-event connector sends for large values that did not change: told apart from values."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that every Spark user knows)
from tidegate.jobs import StageTable
from tidegate.spark_sql import literal, quoted

from tidegate_spark.formats.found import FoundValue
from tidegate_spark.placeholders import holds

KEPT = "kept"


def with_unchanged(decoded: DataFrame, found: FoundValue, table: StageTable) -> DataFrame:
    """Add `kept`, the names of the columns whose place is held or that are left out, and put NULL in `value_struct`.

    Where `sequence_by` or a sequence group orders the records, or each is a version, such a record is bad: what the
    column would keep may arrive later.
    """
    if not table.unchanged:
        return decoded
    types = {column.name: column.type for column in table.value_columns}
    text = table.value.unavailable or ""
    held = {
        name: f"(value_struct IS NOT NULL AND {found.absent[name]})"
        if name in found.absent
        else holds(f"value_struct.{quoted(name)}", types[name], text)
        for name in table.unchanged
    }
    is_ordered = bool(table.sequence) or table.has_history
    refused = {name: sql for name, sql in held.items() if is_ordered or name.casefold() in table.grouped}
    if refused:
        cases = " ".join(f"WHEN {condition} THEN {_refused(name)}" for name, condition in refused.items())
        decoded = decoded.withColumn("value_reason", F.expr(f"coalesce(value_reason, CASE {cases} END)"))
    if is_ordered:
        return decoded
    names = [*(column.name for column in table.value_columns), *table.metadata]
    fields = ", ".join(f"{_kept_out(name, held)} AS {quoted(name)}" for name in names)
    kept = ", ".join(f"CASE WHEN {condition} THEN {literal(name)} END" for name, condition in held.items())
    return decoded.withColumns(
        {
            KEPT: F.expr(f"array_compact(array({kept}))"),
            "value_struct": F.expr(f"CASE WHEN value_struct IS NOT NULL THEN struct({fields}) END"),
        }
    )


def _kept_out(name: str, held: dict[str, str]) -> str:
    value = f"value_struct.{quoted(name)}"
    return f"CASE WHEN NOT coalesce({held[name]}, false) THEN {value} END" if name in held else value


def _refused(name: str) -> str:
    return literal(
        f"the value of {name} is not in the event, as it did not change, and sequence_by, sequence_groups or "
        "history cannot tell what to keep; have the source send all columns (PostgreSQL: REPLICA IDENTITY FULL)"
    )
