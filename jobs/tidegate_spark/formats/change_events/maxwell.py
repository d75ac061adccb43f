"""maxwell-json: one row change per message, values as JSON; changes of a schema are ignored."""

from pyspark.sql import DataFrame
from tidegate.jobs.stage_job import StageTable

from tidegate_spark.fields.avro import timestamp
from tidegate_spark.fields.json.objects import Fields, read_objects, the_object
from tidegate_spark.formats.decoded import FoundValue
from tidegate_spark.formats.json import key_fields, units_of, unreadable
from tidegate_spark.formats.row_messages import all_columns, found_rows, lacking

OPS = {"insert": "c", "bootstrap-insert": "r", "update": "u", "delete": "d"}
IGNORED = ("bootstrap-start", "bootstrap-complete", "heartbeat")
SCHEMA_CHANGE = "^(table|database)-(create|alter|drop)$"
METADATA = {
    "database": "e.database",
    "table": "e.table",
    "primary-key-columns": "e.primary_key_columns",
    "ingestion-timestamp": timestamp("e.ts", "seconds", "TIMESTAMP"),
}
DATA = "get_json_object(value_text, '$.data')"
ASKED = {"primary-key-columns": "primary_key_columns: ARRAY<STRING>"}


def located(records: DataFrame, table: StageTable) -> FoundValue:
    """`type` decides; a record without a value changes nothing, because its row is not known."""
    fields = Fields(all_columns(table), units_of(table))
    keys = Fields(key_fields(table).columns, units_of(table))
    old = f", old: {keys.text_struct}" if keys.columns else ""
    asked = "".join(f", {sql}" for word, sql in ASKED.items() if f"value.{word}" in table.metadata.values())
    inside = f"type: STRING, data: {fields.text_struct}{old}, database: STRING, table: STRING, ts: BIGINT{asked}"
    places = [(fields, ".data"), *([(keys, ".old")] if old else [])]
    parsed = read_objects(records, "j", inside, places)
    events = parsed.selectExpr("*", f"{the_object('j')} AS e")
    cases = " ".join(f"WHEN '{word}' THEN '{op}'" for word, op in OPS.items())
    misfits = fields.misfits("value_text", "e.data", ("$.data",))
    passed = ", ".join(f"'{word}'" for word in IGNORED)
    read = events.selectExpr(
        "*",
        f"CASE e.type {cases} END AS event_op",
        "CASE WHEN e.data IS NOT NULL THEN array(e.data) END AS datas",
        *(["CASE WHEN e.old IS NOT NULL THEN array(e.old) END AS olds"] if old else []),
    ).selectExpr(
        "*",
        f"CASE WHEN value IS NULL THEN NULL {unreadable('j', misfits)} "
        "WHEN e.type IS NULL THEN 'the message has no type' "
        f"WHEN event_op IS NULL AND e.type NOT IN ({passed}) AND NOT e.type RLIKE '{SCHEMA_CHANGE}' "
        "THEN concat('the message has an unknown type=', e.type) "
        "WHEN event_op IS NOT NULL AND datas IS NULL THEN concat('the message has no data: type=', e.type) "
        f"{lacking(DATA, 'e.data', fields, keys)} END AS own_reason",
    )
    return found_rows(read, table, (fields, keys), METADATA)
