"""A record without a key that changes a field of the key: the row of the old key is deleted beside the new one."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that every Spark user knows)
from tidegate.jobs.stage_job import StageTable

from tidegate_spark.formats.change_events.unavailable_values import KEPT_COLUMN
from tidegate_spark.formats.decoded import DELETE, DecodedValue


def add_old_key_deletes(fated: DataFrame, decoded_value: DecodedValue, table: StageTable) -> DataFrame:
    """Add the deletes of old keys, each with its record's place and sequence, as the record's second row.

    They pass every condition that looks at the row, as deletes of missing rows do nothing; a record whose new row is
    filtered counts as staged by them. Tables that take no deletes keep the old row.
    """
    if table.ignore_deletes:
        return fated
    rows = "CASE WHEN moved_from_key IS NOT NULL AND fate IN ('staged', 'filtered') THEN array(false, true) END"
    moved_key = f"CASE WHEN is_old_key_wanted THEN {decoded_value.previous_key} END"
    records = fated.selectExpr("*", f"{moved_key} AS moved_from_key").selectExpr(
        "*", f"explode(coalesce({rows}, array(false))) AS is_old_key"
    )
    # what belongs to the old key is set last: it is read from the columns that it replaces
    changed_columns = {
        "record_fate": "CASE WHEN moved_from_key IS NOT NULL AND fate = 'filtered' THEN 'staged' ELSE record_fate END",
        "fate": "CASE WHEN is_old_key THEN 'staged' ELSE fate END",
        "key_struct": "CASE WHEN is_old_key THEN moved_from_key ELSE key_struct END",
        "value_struct": "CASE WHEN NOT is_old_key THEN value_struct END",
        "op": f"CASE WHEN is_old_key THEN '{DELETE}' ELSE op END",
        "row_number": "CASE WHEN is_old_key THEN row_number + 1L ELSE row_number END",
    }
    if table.stages_kept:
        changed_columns[KEPT_COLUMN] = f"CASE WHEN is_old_key THEN slice({KEPT_COLUMN}, 1, 0) ELSE {KEPT_COLUMN} END"
    return records.withColumns({name: F.expr(sql) for name, sql in changed_columns.items()})
