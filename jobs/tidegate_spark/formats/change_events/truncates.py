"""A truncate of the source table: a bad record, ignored, or applied, as `value.truncate` says."""

from tidegate.jobs.stage_job import StageTable
from tidegate.sql.spark import render_literal

from tidegate_spark.formats.decoded import DELETE, NO_CHANGE, NO_REASON

REFUSAL = "empty the table too, then set value.truncate: ignore, or have the table emptied by value.truncate: apply"


def render_truncate_reason(table: StageTable, operation: str = "") -> str:
    """Why a truncate is a bad record, NULL where it is ignored or applied; `operation` is how the event names it."""
    if _is_ignored(table) or table.value.applies_truncates:
        return NO_REASON
    return render_literal(f"the source table was truncated{operation}: {REFUSAL}")


def render_truncate_case(is_truncate: str, table: StageTable) -> str:
    """`WHEN … THEN …` for what a truncate changes; nothing where it is a bad record.

    One that is applied goes the way of a delete, which shows no row, until its batch is written.
    """
    if _is_ignored(table):
        return f"WHEN {is_truncate} THEN '{NO_CHANGE}'"
    return f"WHEN {is_truncate} THEN '{DELETE}'" if table.value.applies_truncates else ""


def _is_ignored(table: StageTable) -> bool:
    return bool(table.value.options.get("truncate") == "ignore")
