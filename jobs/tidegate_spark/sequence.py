"""The sequence of a record: the struct of columns by which records of one key are ordered before their offsets are."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that every Spark user knows)
from tidegate.jobs import StageTable
from tidegate.pipeline import Column
from tidegate.spark_sql import literal, quoted

from tidegate_spark.connect_fields import ConnectFields
from tidegate_spark.formats.found import DELETE, NOTHING, FoundValue
from tidegate_spark.formats.objects import units_of
from tidegate_spark.json_fields import CORRUPT, Fields, parsed_json, the_object
from tidegate_spark.value import metadata_of

UNREADABLE = "the row before the delete does not fit the columns of sequence_by"


def with_sequence(decoded: DataFrame, found: FoundValue, table: StageTable) -> DataFrame:
    """Add `sequence` to decoded records, for tables that are ordered by one; it is NULL for a delete that carries none.

    An upsert always has one, be its columns NULL. A delete has one if its record shows at least one of the columns that
    come from the value, the event's own metadata among them, or if all are of Kafka's metadata. A lone tombstone shows
    none of the value.
    """
    if not table.sequence:
        return decoded
    carried = _carried(table)
    if table.has_history:
        return _with_time(decoded, found, table)
    if carried.columns and table.value.format == "debezium-json":
        decoded = _with_before(decoded, carried)
    if table.value.format == "debezium-json":
        typed = dict(zip((c.name for c in carried.columns), carried.values("ordered_row"), strict=True))
    else:
        typed = {c.name: _shown(c.name, found) for c in carried.columns}
    metadata = metadata_of(found, table)
    parts = [typed.get(name) or f"{metadata[table.metadata[name]]} AS {quoted(name)}" for name in table.sequence]
    own = [name for name in table.sequence if table.metadata.get(name, "value.").startswith("value.")]
    shown = " OR ".join(f"its_sequence.{quoted(name)} IS NOT NULL" for name in own) or "true"
    return decoded.selectExpr("*", f"struct({', '.join(parts)}) AS its_sequence").selectExpr(
        "*", f"CASE WHEN op <> '{DELETE}' OR {shown} THEN its_sequence END AS sequence"
    )


def _with_time(decoded: DataFrame, found: FoundValue, table: StageTable) -> DataFrame:
    """The sequence where its first column is the time of a version: the row before a delete says when that one began,
    so it is left out, and the delete has no time of its own unless metadata tell it."""
    metadata = metadata_of(found, table)
    names = {name: metadata.get(table.metadata.get(name, ""), f"row_struct.{quoted(name)}") for name in table.sequence}
    parts = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in names.items())
    first = table.sequence[0]
    told = literal(f"{first} is NULL, and with history it says from when on a row holds")
    is_row = f"op <> '{DELETE}' AND change <> '{NOTHING}' AND is_wanted"
    untimed = f"CASE WHEN {is_row} AND sequence.{quoted(first)} IS NULL THEN {told} END"
    return decoded.selectExpr("*", f"struct({parts}) AS sequence").withColumn(
        "value_reason", F.expr(f"coalesce(value_reason, {untimed})")
    )


def _shown(name: str, found: FoundValue) -> str:
    """A column of the row that a record shows: a delete may show the one before it."""
    row = f"row_struct.{quoted(name)}"
    before = f"CASE WHEN change = '{DELETE}' THEN {found.before[name]} ELSE {row} END" if name in found.before else row
    return f"{before} AS {quoted(name)}"


def _carried(table: StageTable) -> ConnectFields:
    """Those columns that come from the value."""
    types = {c.name: c.type for c in table.value_columns}
    columns = tuple(Column(name, types[name]) for name in table.sequence if name not in table.metadata)
    return ConnectFields(columns, units_of(table))


def _with_before(decoded: DataFrame, carried: Fields) -> DataFrame:
    """Add `ordered_row`: the row of a change event, for a delete event the one before it, parsed for deletes alone."""
    event = f"before: {carried.text_struct}"
    parsed = parsed_json("value_text", f"{event}, payload: STRUCT<{event}>")
    wanted = f"change = '{DELETE}' AND value IS NOT NULL AND value_reason IS NULL"
    found = (
        decoded.selectExpr("*", f"CASE WHEN {wanted} THEN {parsed} END AS bj")
        .selectExpr("*", f"{the_object('bj')} AS b")
        .selectExpr("*", "coalesce(b.payload.before, b.before) AS before_row")
    )
    reason = (
        f"CASE WHEN value_reason IS NOT NULL THEN value_reason WHEN bj.{CORRUPT} IS NOT NULL THEN '{UNREADABLE}' "
        f"WHEN bj IS NOT NULL THEN {carried.reason('before_row', 'before')} END"
    )
    return found.withColumns(
        {
            "ordered_row": F.expr(f"CASE WHEN change = '{DELETE}' THEN before_row ELSE {carried.picked('row')} END"),
            "value_reason": F.expr(reason),
        }
    )
