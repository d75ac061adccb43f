"""The row that orders a change event: that of the event, and of a delete event the one before it."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that every Spark user knows)

from tidegate_spark.fields.json.objects import CORRUPT_COLUMN, Fields, read_objects, render_object
from tidegate_spark.formats.decoded import DELETE

UNREADABLE_REASON = "the row before the delete does not fit the columns of sequence_by"


def add_ordered_row(decoded: DataFrame, carried: Fields) -> DataFrame:
    """Add `ordered_row`: the row of a change event, for a delete event the one before it, parsed for deletes alone."""
    event = f"before: {carried.text_struct}"
    is_delete = f"change = '{DELETE}' AND value IS NOT NULL AND value_reason IS NULL"
    places = [(carried, ".before"), (carried, ".payload.before")]
    rows = (
        read_objects(decoded, "bj", f"{event}, payload: STRUCT<{event}>", places, is_delete)
        .selectExpr("*", f"{render_object('bj')} AS b")
        .selectExpr("*", "coalesce(b.payload.before, b.before) AS before_row")
    )
    reason = (
        f"CASE WHEN value_reason IS NOT NULL THEN value_reason WHEN bj.{CORRUPT_COLUMN} IS NOT NULL "
        f"THEN '{UNREADABLE_REASON}' "
        f"WHEN bj IS NOT NULL THEN {carried.render_reason('before_row', 'before')} END"
    )
    return rows.withColumns(
        {
            "ordered_row": F.expr(
                f"CASE WHEN change = '{DELETE}' THEN before_row ELSE {carried.render_parsed_struct('row')} END"
            ),
            "value_reason": F.expr(reason),
        }
    )
