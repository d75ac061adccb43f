"""maxwell-json: one row change per message, values as JSON; changes of a schema are ignored."""

from dataclasses import replace

from pyspark.sql import DataFrame
from tidegate.jobs.stage_job import StageTable

from tidegate_spark.fields.avro import render_timestamp
from tidegate_spark.fields.json.objects import Fields, read_objects, render_object
from tidegate_spark.fields.json.reasons import render_unreadable_cases
from tidegate_spark.fields.json.text import render_part
from tidegate_spark.formats.change_events.row_messages import (
    MessageShape,
    decode_row_messages,
    render_lacking_cases,
    render_metadata_fields,
)
from tidegate_spark.formats.decoded import DecodedValue, render_is_unkept
from tidegate_spark.formats.json import get_reading_rules, list_key_fields, list_known_columns, list_unknown_fields

OPERATION = (
    "CASE e.type WHEN 'insert' THEN 'c' WHEN 'bootstrap-insert' THEN 'r' WHEN 'update' THEN 'u' "
    "WHEN 'delete' THEN 'd' END"
)
IGNORED_TYPES = ("bootstrap-start", "bootstrap-complete", "heartbeat")
SCHEMA_CHANGE_PATTERN = "^(table|database)-(create|alter|drop)$"
METADATA = {
    "database": "e.database",
    "table": "e.table",
    "primary-key-columns": "e.primary_key_columns",
    "ingestion-timestamp": render_timestamp("e.ts", "seconds", "TIMESTAMP"),
}
ROW_TEXT = render_part("value_text", "$.data")
OLD_ROWS = f"concat('[', {render_part('value_text', '$.old')}, ']')"
METADATA_FIELDS = {"primary-key-columns": "primary_key_columns: ARRAY<STRING>"}


def decode_value(records: DataFrame, table: StageTable) -> DecodedValue:
    """`type` decides; a record without a value changes nothing, because its row is unknown."""
    fields = Fields(list_known_columns(table), get_reading_rules(table))
    keys = list_key_fields(table)
    old = f", old: {keys.text_struct}" if keys.columns else ""
    shape = MessageShape(fields, keys, text=ROW_TEXT, row="e.data", places=("data",), old_rows=OLD_ROWS)
    metadata = render_metadata_fields(METADATA_FIELDS, table)
    inside = f"type: STRING, data: {fields.text_struct}{old}, database: STRING, table: STRING, ts: BIGINT{metadata}"
    places = [(fields, ".data"), *([(keys, ".old")] if old else [])]
    parsed_records = read_objects(records, "j", inside, places)
    events = parsed_records.selectExpr("*", f"{render_object('j')} AS e")
    misfits = fields.render_misfits("e.data", ("$.data",))
    ignored_types = ", ".join(f"'{word}'" for word in IGNORED_TYPES)
    read = events.selectExpr(
        "*",
        f"{OPERATION} AS event_op",
        "CASE WHEN e.data IS NOT NULL THEN array(e.data) END AS datas",
        *(["CASE WHEN e.old IS NOT NULL THEN array(e.old) END AS olds"] if old else []),
    ).selectExpr(
        "*",
        f"CASE WHEN value IS NULL THEN NULL {render_unreadable_cases('j', misfits)} "
        "WHEN e.type IS NULL THEN 'the message has no type' "
        f"WHEN event_op IS NULL AND e.type NOT IN ({ignored_types}) AND NOT e.type RLIKE '{SCHEMA_CHANGE_PATTERN}' "
        "THEN concat('the message has an unknown type=', e.type) "
        "WHEN event_op IS NOT NULL AND datas IS NULL THEN concat('the message has no data: type=', e.type) "
        f"{render_lacking_cases(table, shape)} END AS own_reason",
        *list_unknown_fields(table, "e.data", fields, [("data",)]),
    )
    unkept = {"ingestion-timestamp": render_is_unkept("e.ts", METADATA["ingestion-timestamp"])}
    return replace(decode_row_messages(read, table, shape, METADATA), lossy_metadata=unkept)
