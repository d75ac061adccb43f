"""The record value decoded: what kind of change it is, and one struct of the value's columns."""

from pyspark.sql import DataFrame
from tidegate.jobs import StageTable
from tidegate.pipeline import Route
from tidegate.spark_sql import literal, quoted

from tidegate_spark.json_fields import CORRUPT, OBJECT, Fields, not_an_object, parsed_json

DELETE, UPSERTS = "d", ("c", "r", "u")
METADATA = {
    "topic": "topic",
    "partition": "partition",
    "offset": "offset",
    "timestamp": "timestamp",
    "timestamp-type": (
        "CASE timestampType WHEN 0 THEN 'CreateTime' WHEN 1 THEN 'LogAppendTime' ELSE 'NoTimestampType' END"
    ),
    "headers": "map_from_entries(headers)",
}


def with_value(records: DataFrame, table: StageTable) -> DataFrame:
    """Add `op` (c, r, u or d), `value_struct` (NULL for a delete) and `value_reason` (NULL when the value is good)."""
    fields = Fields(table.value_columns, table.value.timestamp_unit)
    located = _debezium(records, fields) if table.value.format == "debezium-json" else _plain(records, fields)
    columns = [*fields.values("row"), *(f"{METADATA[key]} AS {quoted(name)}" for name, key in table.metadata.items())]
    decoded = located.selectExpr(
        "*",
        f"CASE WHEN change <> '{DELETE}' AND located_reason IS NULL THEN {fields.reason('row', 'the value')} "
        "ELSE located_reason END AS value_reason",
        f"CASE WHEN change <> '{DELETE}' THEN struct({', '.join(columns)}) END AS row_struct",
    )
    return _conditions(decoded, table)


def _plain(records: DataFrame, fields: Fields) -> DataFrame:
    """JSON objects: a value is an upsert, no value is a delete."""
    parsed = records.selectExpr("*", f"{parsed_json('value_text', fields.inner)} AS j")
    misfits = fields.misfits("value_text", f"j.{OBJECT}", ("$",))
    return parsed.selectExpr(
        "*",
        f"CASE WHEN value IS NULL THEN '{DELETE}' ELSE 'u' END AS change",
        f"j.{OBJECT} AS row",
        f"CASE WHEN value IS NULL THEN NULL {_unreadable('j', misfits)} END AS located_reason",
    )


def _debezium(records: DataFrame, fields: Fields) -> DataFrame:
    """Change events: `op` decides; a tombstone is a delete; with or without Kafka Connect's schema envelope."""
    event = f"after: {fields.text_struct}, op: STRING"
    parsed = records.selectExpr("*", f"{parsed_json('value_text', f'{event}, payload: STRUCT<{event}>')} AS j")
    located = parsed.selectExpr("*", f"j.{OBJECT} AS e").selectExpr(
        "*", "coalesce(e.payload.op, e.op) AS event_op", "coalesce(e.payload.after, e.after) AS row"
    )
    misfits = fields.misfits("value_text", "row", ("$.after", "$.payload.after"))
    known = ", ".join(f"'{op}'" for op in (*UPSERTS, DELETE))
    return located.selectExpr(
        "*",
        f"CASE WHEN value IS NULL THEN '{DELETE}' ELSE coalesce(event_op, 'u') END AS change",
        f"CASE WHEN value IS NULL THEN NULL {_unreadable('j', misfits)} "
        "WHEN event_op IS NULL THEN 'the change event has no op' "
        f"WHEN event_op NOT IN ({known}) THEN concat('the change event has an unknown op=', event_op) "
        f"WHEN event_op <> '{DELETE}' AND row IS NULL THEN concat('the change event has no after: op=', event_op) "
        "END AS located_reason",
    )


def _unreadable(parsed: str, misfits: str) -> str:
    return (
        f"WHEN NOT is_valid_utf8(value_text) THEN 'the value is not valid UTF-8' "
        f"WHEN {not_an_object('value_text')} THEN 'the value is not a JSON object' "
        f"WHEN {parsed}.{OBJECT} IS NULL OR {parsed}.{CORRUPT} IS NOT NULL "
        f"THEN concat('the value does not fit value.schema, fields: ', {misfits})"
    )


def _conditions(decoded: DataFrame, table: StageTable) -> DataFrame:
    """Apply `delete_when`, `when` and `route`; they see the row, and the record's topic, partition and offset."""
    if table.when is None and table.route is None and table.delete_when is None:
        return decoded.selectExpr("*", "change AS op", "true AS is_wanted", "row_struct AS value_struct")
    names = {c.name.lower() for c in table.value_columns} | {name.lower() for name in table.metadata}
    beside = [name for name in ("topic", "partition", "offset") if name not in names]
    shown = decoded.selectExpr("struct(*) AS _tidegate", "row_struct.*", *beside)
    # a delete shows no value: a condition that is NULL for it lets it pass, as a delete of a missing row does nothing
    judged = shown.selectExpr(
        "_tidegate.*",
        f"coalesce(({table.delete_when or 'false'}), false) AS is_delete",
        f"coalesce(({table.when or 'true'}), _tidegate.change = '{DELETE}') AND "
        f"coalesce({_routed(table.route)}, _tidegate.change = '{DELETE}') AS is_wanted",
    )
    return judged.selectExpr(
        "*",
        f"CASE WHEN is_delete THEN '{DELETE}' ELSE change END AS op",
        "CASE WHEN NOT is_delete THEN row_struct END AS value_struct",
    )


def _routed(route: Route | None) -> str:
    """A condition: the field's text is one of the names, or matches the whole pattern; NULL where there is no text."""
    if route is None:
        return "true"
    text = f"CAST({quoted(route.field)} AS STRING)"
    if route.pattern is None:
        return f"({text} IN ({', '.join(literal(name) for name in route.names)}))"
    whole = literal(rf"\A(?:{route.pattern})\z")
    return f"regexp_like({text}, {whole})"
