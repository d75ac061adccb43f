"""ogg-json: operations as Oracle GoldenGate writes them, one row each; an update may leave out what did not change."""

from dataclasses import replace

from pyspark.sql import DataFrame
from tidegate.jobs.stage_job import StageTable
from tidegate.schema.data_types import Primitive
from tidegate.sql.spark import render_literal

from tidegate_spark.fields.json.objects import Fields, read_objects, render_object
from tidegate_spark.fields.json.reasons import render_unreadable_cases
from tidegate_spark.fields.json.text import render_part
from tidegate_spark.fields.lossless import render_is_text_lossy, render_text_conversion
from tidegate_spark.formats.change_events.row_messages import (
    UPDATE,
    MessageShape,
    decode_row_messages,
    render_keys_differ,
    render_lacking_cases,
    render_metadata_fields,
)
from tidegate_spark.formats.decoded import DELETE, DecodedValue, render_truncate_reason
from tidegate_spark.formats.json import get_reading_rules, list_key_fields, list_known_columns, list_unknown_fields

OPERATION = "CASE e.op_type WHEN 'I' THEN 'c' WHEN 'U' THEN 'u' WHEN 'D' THEN 'd' END"
TRUNCATE = "T"
AFTER_TEXT, BEFORE_TEXT = (render_part("value_text", f"$.{row}") for row in ("after", "before"))
OLD_ROWS = f"concat('[', {BEFORE_TEXT}, ']')"
OLD_NAMES = f"json_object_keys({BEFORE_TEXT})"
ROW_TEXT = f"CASE WHEN e.op_type = 'D' THEN {BEFORE_TEXT} ELSE {AFTER_TEXT} END"
POSITION_TYPE = Primitive("DECIMAL(38,0)")
POSITION = "try_cast(e.pos AS DECIMAL(38,0))"
POSITION_CASE = (
    f"WHEN {POSITION} IS NULL OR {render_is_text_lossy('e.pos', POSITION_TYPE, None)} "
    "THEN 'the operation has no pos that is a number'"
)
TIMESTAMP_TYPE = Primitive("TIMESTAMP")
METADATA = {
    "op": "e.op_type",
    "table": "e.table",
    "primary-keys": "e.primary_keys",
    "pos": POSITION,
    "ingestion-timestamp": render_text_conversion("e.current_ts", TIMESTAMP_TYPE, None),
    "event-timestamp": render_text_conversion("e.op_ts", TIMESTAMP_TYPE, None),
}
METADATA_FIELDS = {
    "table": "table: STRING",
    "primary-keys": "primary_keys: ARRAY<STRING>",
    "pos": "pos: STRING",
    "ingestion-timestamp": "current_ts: STRING",
    "event-timestamp": "op_ts: STRING",
}


def decode_value(records: DataFrame, table: StageTable) -> DecodedValue:
    """`op_type` decides; a record without a value changes nothing, because its row is unknown."""
    fields = Fields(tuple(replace(c, nullable=True) for c in list_known_columns(table)), get_reading_rules(table))
    keys = list_key_fields(table)
    shape = MessageShape(fields, keys, text=ROW_TEXT, row="data", places=("after", "before"), old_rows=OLD_ROWS)
    metadata = render_metadata_fields(METADATA_FIELDS, table)
    inside = f"op_type: STRING, before: {fields.text_struct}, after: {fields.text_struct}{metadata}"
    parsed_records = read_objects(records, "j", inside, [(fields, ".after"), (fields, ".before")])
    old = [f"CASE WHEN e.before IS NOT NULL THEN {keys.render_parsed_struct('e.before')} END AS old"]
    events = parsed_records.selectExpr("*", f"{render_object('j')} AS e").selectExpr(
        "*",
        f"{OPERATION} AS event_op",
        "CASE WHEN e.op_type = 'D' THEN e.before ELSE e.after END AS data",
        f"CASE WHEN e.op_type = 'U' THEN json_object_keys({AFTER_TEXT}) END AS sent",
        *(old if keys.columns else []),
    )
    misfits = fields.render_misfits("data", ("$.after", "$.before"))
    other_cases = f"{_render_partial_move_case(table, keys)} {_render_required_cases(table, fields)}"
    read = events.selectExpr(
        "*",
        "CASE WHEN data IS NOT NULL THEN array(data) END AS datas",
        *(["CASE WHEN old IS NOT NULL THEN array(old) END AS olds"] if keys.columns else []),
        f"CASE WHEN value IS NULL THEN NULL {render_unreadable_cases('j', misfits)} {_render_unknown_cases(table)} "
        f"{POSITION_CASE if 'value.pos' in table.metadata.values() else ''} "
        f"{render_lacking_cases(table, shape, other_cases)} END AS own_reason",
        *list_unknown_fields(table, "e.after", fields, [("after",)]),
    )
    absent = {c.name: _render_is_absent(c.name, table) for c in fields.columns}
    is_truncate = f"coalesce(e.op_type = '{TRUNCATE}', false)"
    decoded = decode_row_messages(read, table, shape, METADATA, is_truncate)
    return replace(decoded, absent_columns=absent, lossy_metadata=_render_unkept(table))


def _render_unkept(table: StageTable) -> dict[str, str]:
    texts = {"ingestion-timestamp": "e.current_ts", "event-timestamp": "e.op_ts"}
    columns = {word.removeprefix("value."): name for name, word in table.metadata.items()}
    leaves = {w: replace(TIMESTAMP_TYPE, is_truncated=table.value.truncates(columns[w])) for w in texts if w in columns}
    return {
        word: f"({texts[word]} IS NOT NULL AND ({render_is_text_lossy(texts[word], leaf, None)}))"
        for word, leaf in leaves.items()
    }


def _render_is_absent(name: str, table: StageTable) -> str:
    # a column that the update leaves out did not change
    names = ", ".join(render_literal(other) for other in table.names_of.get(name, (name,)))
    return f"event_op = '{UPDATE}' AND NOT arrays_overlap(sent, array({names}))"


def _render_unknown_cases(table: StageTable) -> str:
    return (
        "WHEN e.op_type IS NULL THEN 'the operation has no op_type' "
        f"WHEN e.op_type = '{TRUNCATE}' THEN {render_truncate_reason(table)} "
        "WHEN event_op IS NULL THEN concat('the operation has an unknown op_type=', e.op_type) "
        "WHEN data IS NULL AND e.op_type = 'D' THEN 'the operation has no before: op_type=D' "
        "WHEN data IS NULL THEN concat('the operation has no after: op_type=', e.op_type)"
    )


def _render_required_cases(table: StageTable, fields: Fields) -> str:
    # an update, or a delete, may leave a column out
    cases = []
    for column in (c for c in table.value_columns if not c.nullable):
        condition = f"event_op <> '{DELETE}' AND {fields.render_is_null('data', column)}"
        if column.name in table.unchanged:
            condition += f" AND NOT coalesce({_render_is_absent(column.name, table)}, false)"
        reason = render_literal(f"the value field {column.name} is required and missing")
        cases.append(f"WHEN {condition} THEN {reason}")
    return " ".join(cases)


def _render_partial_move_case(table: StageTable, keys: Fields) -> str:
    # the row of the other key does not have the missing columns
    if not keys.columns or not table.unchanged:
        return ""
    lacks = " OR ".join(_render_is_absent(name, table) for name in table.unchanged)
    reason = render_literal("the update changes the key and leaves out columns; have the source send all columns")
    is_moved = render_keys_differ(keys, "old", "data", OLD_NAMES)
    return f"WHEN event_op = '{UPDATE}' AND ({is_moved}) AND ({lacks}) THEN {reason}"
