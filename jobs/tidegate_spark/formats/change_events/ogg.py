"""ogg-json: operations as Oracle GoldenGate writes them, one row each; an update may leave out what did not change."""

import re
from dataclasses import replace

from pyspark.sql import DataFrame
from tidegate.jobs.stage_job import StageTable
from tidegate.schema.data_types import Primitive
from tidegate.sql.spark import literal

from tidegate_spark.fields.json.objects import Fields, read_objects, the_object
from tidegate_spark.fields.lossless import typed_text
from tidegate_spark.formats.change_events.debezium_json import ignores_truncate
from tidegate_spark.formats.decoded import DELETE, FoundValue
from tidegate_spark.formats.json import key_fields, units_of, unreadable
from tidegate_spark.formats.row_messages import UPDATE, all_columns, differ, found_rows, lacking

OPS, TRUNCATE = {"I": "c", "U": UPDATE, "D": DELETE}, "T"
AFTER, BEFORE = "get_json_object(value_text, '$.after')", "get_json_object(value_text, '$.before')"
ROW = f"CASE WHEN e.op_type = 'D' THEN {BEFORE} ELSE {AFTER} END"
POSITION = "try_cast(e.pos AS DECIMAL(38,0))"
NO_POSITION = f"WHEN {POSITION} IS NULL THEN 'the operation has no pos that is a number'"
MOMENT = Primitive("TIMESTAMP")
METADATA = {
    "op": "e.op_type",
    "table": "e.table",
    "primary-keys": "e.primary_keys",
    "pos": POSITION,
    "ingestion-timestamp": typed_text("e.current_ts", MOMENT, None),
    "event-timestamp": typed_text("e.op_ts", MOMENT, None),
}
ASKED = {
    "table": "table: STRING",
    "primary-keys": "primary_keys: ARRAY<STRING>",
    "pos": "pos: STRING",
    "ingestion-timestamp": "current_ts: STRING",
    "event-timestamp": "op_ts: STRING",
}


def located(records: DataFrame, table: StageTable) -> FoundValue:
    """`op_type` decides; a record without a value changes nothing, because its row is not known."""
    fields = Fields(tuple(replace(c, nullable=True) for c in all_columns(table)), units_of(table))
    keys = Fields(key_fields(table).columns, units_of(table))
    words = {word.removeprefix("value.") for word in table.metadata.values()}
    asked = "".join(f", {sql}" for word, sql in ASKED.items() if word in words)
    inside = f"op_type: STRING, before: {fields.text_struct}, after: {fields.text_struct}{asked}"
    parsed = read_objects(records, "j", inside, [(fields, ".after"), (fields, ".before")])
    cases = " ".join(f"WHEN '{word}' THEN '{op}'" for word, op in OPS.items())
    events = parsed.selectExpr("*", f"{the_object('j')} AS e").selectExpr(
        "*",
        f"CASE e.op_type {cases} END AS event_op",
        "CASE WHEN e.op_type = 'D' THEN e.before ELSE e.after END AS data",
        f"CASE WHEN e.op_type = 'U' THEN json_object_keys({AFTER}) END AS sent",
        *([f"CASE WHEN e.before IS NOT NULL THEN {keys.picked('e.before')} END AS old"] if keys.columns else []),
    )
    misfits = fields.misfits("value_text", "data", ("$.after", "$.before"))
    read = events.selectExpr(
        "*",
        "CASE WHEN data IS NOT NULL THEN array(data) END AS datas",
        *(["CASE WHEN old IS NOT NULL THEN array(old) END AS olds"] if keys.columns else []),
        f"CASE WHEN value IS NULL THEN NULL {unreadable('j', misfits)} {_not_understood(table)} "
        f"{NO_POSITION if 'pos' in words else ''} {lacking(ROW, 'data', fields, keys)} {_moved_in_part(table, keys)} "
        f"{_lacks_required(table, fields)} {_lacks_judged(table)} END AS own_reason",
    )
    absent = {c.name: _is_absent(c.name) for c in fields.columns}
    return replace(found_rows(read, table, (fields, keys), METADATA), absent=absent)


def _is_absent(name: str) -> str:
    """A condition: the update leaves the column out, which says that it did not change."""
    return f"event_op = '{UPDATE}' AND NOT array_contains(sent, {literal(name)})"


def _not_understood(table: StageTable) -> str:
    truncated = literal("the source table was truncated: empty the table too, then set value.truncate: ignore")
    return (
        "WHEN e.op_type IS NULL THEN 'the operation has no op_type' "
        f"WHEN e.op_type = '{TRUNCATE}' THEN {'NULL' if ignores_truncate(table) else truncated} "
        "WHEN event_op IS NULL THEN concat('the operation has an unknown op_type=', e.op_type) "
        "WHEN data IS NULL AND e.op_type = 'D' THEN 'the operation has no before: op_type=D' "
        "WHEN data IS NULL THEN concat('the operation has no after: op_type=', e.op_type)"
    )


def _lacks_required(table: StageTable, fields: Fields) -> str:
    """`WHEN … THEN …` for a row without a NOT NULL column; an update may leave it out, and a delete tells no more than
    the key."""
    cases = []
    for column in (c for c in table.value_columns if not c.nullable):
        kept = f" AND NOT coalesce({_is_absent(column.name)}, false)" if column.name in table.unchanged else ""
        told = literal(f"the value field {column.name} is required and missing")
        cases.append(f"WHEN event_op <> '{DELETE}' AND {fields.is_null('data', column)}{kept} THEN {told}")
    return " ".join(cases)


def _lacks_judged(table: StageTable) -> str:
    """`WHEN … THEN …` for an update without a column by which the record is chosen: it would be taken for NULL."""
    route, naming = table.route.field if table.route else "", table.naming.template if table.naming else ""
    told = {"when": table.when, "delete_when": table.delete_when, "route": route, "the table's name": naming}
    cases = []
    for word, text in told.items():
        for column in table.value_columns:
            if re.search(rf"(?<!\w){re.escape(column.name)}(?!\w)", text or "", re.IGNORECASE):
                reason = literal(f"the update leaves out {column.name}, which {word} looks at")
                cases.append(f"WHEN {_is_absent(column.name)} THEN {reason}")
    return " ".join(cases)


def _moved_in_part(table: StageTable, keys: Fields) -> str:
    """`WHEN … THEN …` for an update to another key without all columns: the row of that key does not have them."""
    if not keys.columns or not table.unchanged:
        return ""
    lacks = " OR ".join(_is_absent(name) for name in table.unchanged)
    told = literal("the update changes the key and leaves out columns; have the source send all columns")
    return f"WHEN event_op = '{UPDATE}' AND ({differ(keys, 'old', 'data')}) AND ({lacks}) THEN {told}"
