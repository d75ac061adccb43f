"""debezium-json: change events, with or without Kafka Connect's schema envelope."""

from pyspark.sql import DataFrame
from tidegate.jobs import StageTable
from tidegate.metadata import SOURCE
from tidegate.spark_sql import literal

from tidegate_spark.avro_fields import timestamp
from tidegate_spark.connect_fields import ConnectFields
from tidegate_spark.formats.found import DELETE, NOTHING, UPSERT, FoundValue
from tidegate_spark.formats.objects import key_fields, unreadable
from tidegate_spark.json_fields import Fields, parsed_json, the_object

UPSERTS, TRUNCATE = ("c", "r", "u"), "t"
KEY_THERE = f"kv IS NOT NULL OR event_op = '{TRUNCATE}'"  # a truncate has no key, and that is not what is wrong with it


def located(records: DataFrame, table: StageTable) -> FoundValue:
    """`op` decides what a record is; a tombstone is a delete."""
    fields = ConnectFields(table.value_columns, table.value.timestamp_unit)
    keys = ConnectFields(key_fields(table).columns, table.value.timestamp_unit)
    wanted = _source_fields(table)
    event = f"after: {fields.text_struct}, op: STRING{wanted}"
    both = f"{event}, schema: {fields.event_schema}, payload: STRUCT<{event}>"
    parsed = _with_key_of_value(records, keys).selectExpr("*", f"{parsed_json('value_text', both)} AS j")
    row_schema = "get(filter(e.schema.fields, f -> f.field = 'after'), 0).fields"
    found = parsed.selectExpr("*", f"{the_object('j')} AS e").selectExpr(
        "*",
        "coalesce(e.payload.op, e.op) AS event_op",
        "coalesce(e.payload.after, e.after) AS row",
        f"{fields.kinds_of(row_schema)} AS kinds",
        *(f"coalesce(e.payload.{name}, e.{name}) AS event_{name}" for name in ("source", "ts_ms") if name in wanted),
    )
    misfits = fields.misfits("value_text", "row", ("$.after", "$.payload.after"))
    changes = found.selectExpr(
        "*",
        f"{change(table)} AS change",
        f"CASE WHEN value IS NULL THEN NULL {unreadable('j', misfits)} {not_understood('row', table)} END "
        "AS located_reason",
    )
    return FoundValue(
        records=changes,
        columns=tuple(fields.values("row")),
        reason=fields.reason("row", "the value"),
        key=keys.struct("kv"),
        key_reason=keys.reason("kv", "the key"),
        key_there=KEY_THERE,
        metadata=METADATA,
    )


METADATA = {
    "schema": "get_json_object(value_text, '$.schema')",
    "ingestion-timestamp": timestamp("event_ts_ms", "millis", "TIMESTAMP"),
    "source.timestamp": timestamp("try_cast(event_source['ts_ms'] AS BIGINT)", "millis", "TIMESTAMP"),
    "source.database": "event_source['db']",
    "source.schema": "event_source['schema']",
    "source.table": "coalesce(event_source['table'], event_source['collection'])",
    "source.properties": "event_source",
    "op": "event_op",
    **{f"source.{name}": f"try_cast(event_source['{name}'] AS {kind})" for name, kind in SOURCE.items()},
}


def _source_fields(table: StageTable) -> str:
    """What of the event's own fields the metadata columns need: nothing is parsed for nobody."""
    asked = {key.removeprefix("value.") for key in table.metadata.values() if key.startswith("value.")}
    source = ", source: MAP<STRING, STRING>" if any(key.startswith("source.") for key in asked) else ""
    return source + (", ts_ms: BIGINT" if "ingestion-timestamp" in asked else "")


def change(table: StageTable) -> str:
    """What a record does to its row: no value is a delete, and a truncate is nothing where it is to be ignored."""
    nothing = f"WHEN event_op = '{TRUNCATE}' THEN '{NOTHING}'" if ignores_truncate(table) else ""
    return f"CASE WHEN value IS NULL THEN '{DELETE}' {nothing} ELSE coalesce(event_op, '{UPSERT}') END"


def ignores_truncate(table: StageTable) -> bool:
    """Whether a truncate of the source table is known to be handled by hand."""
    return table.value.options.get("truncate") == "ignore"


def not_understood(row: str, table: StageTable) -> str:
    """`WHEN … THEN …` for an event whose `event_op` is missing or unknown, or that has no row."""
    known = ", ".join(f"'{op}'" for op in (*UPSERTS, DELETE, TRUNCATE))
    truncated = literal("the source table was truncated (op=t): empty the table too, then set value.truncate: ignore")
    return (
        "WHEN event_op IS NULL THEN 'the change event has no op' "
        f"WHEN event_op NOT IN ({known}) THEN concat('the change event has an unknown op=', event_op) "
        f"WHEN event_op = '{TRUNCATE}' THEN {'NULL' if ignores_truncate(table) else truncated} "
        f"WHEN event_op <> '{DELETE}' AND {row} IS NULL THEN concat('the change event has no after: op=', event_op)"
    )


def _with_key_of_value(records: DataFrame, keys: Fields) -> DataFrame:
    """Add `kv`: the key's fields as `after` or `before` has them, parsed only for records without a key."""
    if not keys.columns:
        return records.selectExpr("*", "CAST(NULL AS STRING) AS kv")
    event = f"before: {keys.text_struct}, after: {keys.text_struct}"
    parsed = f"CASE WHEN key IS NULL THEN {parsed_json('value_text', f'{event}, payload: STRUCT<{event}>')} END"
    rows = records.selectExpr("*", f"{parsed} AS kvj").selectExpr("*", f"{the_object('kvj')} AS kve")
    found = "coalesce(kve.payload.after, kve.payload.before, kve.after, kve.before)"
    return rows.selectExpr("*", f"{found} AS kv")
