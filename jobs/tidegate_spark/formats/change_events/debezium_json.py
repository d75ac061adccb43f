"""debezium-json: change events, with or without Kafka Connect's schema envelope."""

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tidegate.formats.registry import SOURCE_TYPES
from tidegate.jobs.stage_job import StageTable
from tidegate.schema.data_types import Column
from tidegate.spec.source import split_cast
from tidegate.spec.tombstone_owner import is_tombstone_owned
from tidegate.sql.spark import quote, render_literal

from tidegate_spark.fields.avro import render_timestamp
from tidegate_spark.fields.conditions import render_any
from tidegate_spark.fields.json.connect import ConnectFields
from tidegate_spark.fields.json.inner_parts import render_inner_reason
from tidegate_spark.fields.json.mongodb import render_has_text_row, unwrap_documents
from tidegate_spark.fields.json.objects import CORRUPT_COLUMN, Fields, read_objects, render_object
from tidegate_spark.fields.json.reasons import render_no_column_case, render_respelled_case, render_unreadable_cases
from tidegate_spark.fields.json.text import render_part
from tidegate_spark.fields.lossless import render_has_key_twice
from tidegate_spark.formats.decoded import (
    DELETE,
    NO_CHANGE,
    TRUNCATE,
    UPSERT,
    DecodedValue,
    render_is_unkept,
    render_truncate_case,
    render_truncate_reason,
)
from tidegate_spark.formats.json import (
    build_decoded_value,
    get_reading_rules,
    let_grow,
    list_key_fields,
    list_known_fields,
    list_unknown_fields,
    render_is_key_in_value,
    render_is_null_payload,
    render_key_reason,
    takes_extended_key,
)

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


# MongoDB's connector tells only what has changed, but in one mode; and then nothing of what was deleted meanwhile
NO_DOCUMENT_ADVICE = (
    " (MongoDB's connector sent no document: set capture.mode=change_streams_update_full there; of one that was "
    "deleted before it was looked up the delete follows, and this record may be skipped)"
)
NO_DOCUMENT_REASON = "before or after is a text, and not one JSON object"
ROW_SCHEMA = "get(filter(e.schema.fields, f -> f.field = 'after'), 0).fields"
# Spanner's change streams say in their events how much of a row an update holds; what it leaves out is NULL in `after`
SPARSE_CAPTURE_TYPES = ("NEW_VALUES", "OLD_AND_NEW_VALUES")
SPARSE_REASON = (
    "the update has only the columns that changed (Spanner's source.value_capture_type), and NULL for the "
    "others: make the change stream with value_capture_type = 'NEW_ROW', or set partial_updates: true"
)
SOURCE_COLUMN = Column("source", "MAP<STRING, STRING>")
UPSERT_OPERATIONS = ("c", "r", "u")
IS_TRUNCATE = f"coalesce(event_op = '{TRUNCATE}', false)"
# a truncate has no key, and that is not what is wrong with it
KEY_PRESENCE = f"kv IS NOT NULL OR event_op = '{TRUNCATE}'"


def decode_value(records: DataFrame, table: StageTable) -> DecodedValue:
    keys = ConnectFields(list_key_fields(table).columns, get_reading_rules(table))
    fields = ConnectFields(table.value_columns, get_reading_rules(table), other_columns=keys.columns)
    words = {split_cast(key)[0].removeprefix("value.") for key in table.metadata.values() if key.startswith("value.")}
    source = f", source: {SOURCE_COLUMN.type}" if any(key.startswith("source.") for key in words) else ""
    metadata = source + (", ts_ms: BIGINT" if "ingestion-timestamp" in words else "")
    records = unwrap_documents(records, table)
    event = f"after: {fields.text_struct}, op: STRING{metadata}"
    event_fields = f"{event}, schema: {fields.event_schema}, payload: STRUCT<{event}>"
    places: list[tuple[Fields, str]] = [(fields, ".after"), (fields, ".payload.after")]
    if "source: " in metadata:
        places += [(Fields((SOURCE_COLUMN,)), path) for path in ("", ".payload")]
    parsed_records = read_objects(_add_key_of_value(records, keys, table), "j", event_fields, places)
    events = parsed_records.selectExpr("*", f"{render_object('j')} AS e").selectExpr(
        "*",
        "coalesce(e.payload.op, e.op) AS event_op",
        "coalesce(e.payload.after, e.after) AS row",
        f"{fields.render_kinds(ROW_SCHEMA)} AS kinds",
        *(f"coalesce(e.payload.{name}, e.{name}) AS event_{name}" for name in ("source", "ts_ms") if name in metadata),
    )
    changes = events.selectExpr(
        "*",
        f"CASE WHEN {render_is_null_payload()} THEN '{get_tombstone_change(table)}' "
        f"ELSE {render_change(table)} END AS change",
        f"{_render_located_reason(fields, table)} AS located_reason",
        *list_unknown_fields(table, "row", list_known_fields(table), [("payload", "after"), ("after",)]),
    )
    has_key_problem = takes_extended_key(table)
    key_reason = render_key_reason(keys, "kv", KEY_ROW_TEXT, KEY_PLACES, has_key_problem=has_key_problem)
    return replace(
        build_decoded_value(changes, fields, keys, f"CASE WHEN kv IS NOT NULL THEN {key_reason} END"),
        key_presence=KEY_PRESENCE,
        metadata=METADATA,
        previous_key=_render_old_key_of_row(keys, table),
        truncate_condition=IS_TRUNCATE if table.value.applies_truncates else None,
        lossy_metadata=UNKEPT,
        is_tombstone=f"(value IS NULL OR {render_is_null_payload()})",
        add_ordered_row=add_ordered_row,
    )


def _render_located_reason(fields: ConnectFields, table: StageTable) -> str:
    misfits = fields.render_misfits("row", ("$.after", "$.payload.after"))
    alien = render_no_column_case(AFTER_TEXT, "row", fields, list_known_fields(table))
    return (
        f"CASE WHEN value IS NULL OR {render_is_null_payload()} THEN NULL "
        f"WHEN j.{CORRUPT_COLUMN} IS NOT NULL AND {render_has_text_row()} THEN '{NO_DOCUMENT_REASON}' "
        f"{render_unreadable_cases('j', misfits)} {render_unknown_event_cases('row', table, is_json=True)} "
        f"{'' if table.is_partial else _render_sparse_case()} "
        f"{'' if table.value.adds_columns else alien} "
        f"{render_respelled_case(AFTER_TEXT, 'row', fields)} "
        f"ELSE {render_inner_reason('row', let_grow(fields, table), 'the value', AFTER_PLACES)} END"
    )


def _render_sparse_case() -> str:
    # a missing column may be NULL or left out
    kinds = ", ".join(map(render_literal, SPARSE_CAPTURE_TYPES))
    paths = ("$.source.value_capture_type", "$.payload.source.value_capture_type")
    kind_paths = ", ".join(render_part("value_text", path) for path in paths)
    # few records have the word: the others are not taken apart once more
    may_be = "event_op = 'u' AND contains(value_text, 'NEW_VALUES')"
    is_sparse = f"{may_be} AND coalesce(coalesce({kind_paths}) IN ({kinds}), false)"
    return f"WHEN {is_sparse} THEN {render_literal(SPARSE_REASON)}"


def _render_old_key_of_row(keys: Fields, table: StageTable) -> str | None:
    if not keys.columns:
        return None
    new = keys.render_values("kv")
    parts = []
    for name, old in keys.render_values("kvb").items():
        shows = f"coalesce(array_contains(json_object_keys({BEFORE_TEXT}), {render_literal(name)}), false)"
        parts.append((name, old, new[name], shows))
    return render_old_key(parts, "kvb", table)


def render_old_key(parts: Sequence[tuple[str, str, str, str]], before: str, table: StageTable) -> str:
    """Return a struct of the old key if an update changes a key that is taken from the value.

    `parts`: for each field its name, old and new value, and whether the row before shows the field.
    """
    changed_keys = " OR ".join(
        f"(NOT ({old} <=> {new}) AND ({old} IS NOT NULL OR {shows}))" for _, old, new, shows in parts
    )
    struct = ", ".join(
        f"CASE WHEN {old} IS NULL AND NOT {shows} THEN {new} ELSE {old} END AS {quote(name)}"
        for name, old, new, shows in parts
    )
    is_update = f"{render_is_key_in_value(table)} AND event_op = 'u' AND {before} IS NOT NULL"
    return f"CASE WHEN {is_update} AND ({changed_keys}) THEN struct({struct}) END"


AFTER_PLACES = ("payload.after", "after")
KEY_PLACES = (*AFTER_PLACES, "payload.before", "before")
AFTER_TEXT, BEFORE_TEXT = (
    f"coalesce({render_part('value_text', f'$.payload.{row}')}, {render_part('value_text', f'$.{row}')})"
    for row in ("after", "before")
)
KEY_ROW_TEXT = f"coalesce({AFTER_TEXT}, {BEFORE_TEXT})"
METADATA = {
    "schema": render_part("value_text", "$.schema"),
    "ingestion-timestamp": render_timestamp("event_ts_ms", "millis", "TIMESTAMP"),
    "source.timestamp": render_timestamp("try_cast(event_source['ts_ms'] AS BIGINT)", "millis", "TIMESTAMP"),
    "source.database": "event_source['db']",
    "source.schema": "event_source['schema']",
    "source.table": "coalesce(event_source['table'], event_source['collection'])",
    "source.properties": "event_source",
    "op": "event_op",
    **{f"source.{name}": f"try_cast(event_source['{name}'] AS {kind})" for name, kind in SOURCE_TYPES.items()},
}
UNKEPT = {
    "ingestion-timestamp": render_is_unkept("event_ts_ms", METADATA["ingestion-timestamp"]),
    "source.timestamp": render_is_unkept("event_source['ts_ms']", METADATA["source.timestamp"]),
    "source.properties": f"coalesce({render_has_key_twice('event_source')}, false)",
    **{
        f"source.{name}": render_is_unkept(f"event_source['{name}']", METADATA[f"source.{name}"], kind)
        for name, kind in SOURCE_TYPES.items()
    },
}


def render_change(table: StageTable) -> str:
    return (
        f"CASE WHEN value IS NULL THEN '{get_tombstone_change(table)}' {render_truncate_case(IS_TRUNCATE, table)} "
        f"ELSE coalesce(nullif(event_op, '{NO_CHANGE}'), '{UPSERT}') END"  # an op of that name is unknown, too
    )


def get_tombstone_change(table: StageTable) -> str:
    """Return what a record without a value does: a delete by its key; nothing if that is not the row's key."""
    keys = [] if table.key.into else [column.name for column in table.key_columns]
    is_owned = is_tombstone_owned(table, [column.name for column in table.value_columns], keys, table.metadata)
    return DELETE if is_owned and not table.key.from_value else NO_CHANGE


def render_unknown_event_cases(row: str, table: StageTable, *, is_json: bool = False) -> str:
    """Return `WHEN … THEN …` for an event whose `event_op` is missing or unknown, or that has no row."""
    advice = _render_no_document_advice() if is_json else "''"
    operations = ", ".join(f"'{op}'" for op in (*UPSERT_OPERATIONS, DELETE, TRUNCATE))
    return (
        "WHEN event_op IS NULL THEN 'the change event has no op' "
        f"WHEN event_op NOT IN ({operations}) THEN concat('the change event has an unknown op=', event_op) "
        f"WHEN {IS_TRUNCATE} THEN {render_truncate_reason(table, ' (op=t)')} "
        f"WHEN event_op <> '{DELETE}' AND {row} IS NULL "
        f"THEN concat('the change event has no after: op=', event_op, {advice})"
    )


def _render_no_document_advice() -> str:
    paths = ("$", "$.payload")
    connectors = (f"{render_part('value_text', f'{path}.source.connector')} = 'mongodb'" for path in paths)
    changes = (f"{render_part('value_text', f'{path}.updateDescription')} IS NOT NULL" for path in paths)
    return f"CASE WHEN {render_any((*connectors, *changes))} THEN {render_literal(NO_DOCUMENT_ADVICE)} ELSE '' END"


def _add_key_of_value(records: DataFrame, keys: Fields, table: StageTable) -> DataFrame:
    # parsed only for records whose key is taken there
    if not keys.columns:
        return records.selectExpr("*", "CAST(NULL AS STRING) AS kv")
    event = f"before: {keys.text_struct}, after: {keys.text_struct}"
    places = [(keys, f"{path}.{row}") for path in ("", ".payload") for row in ("before", "after")]
    rows = read_objects(records, "kvj", f"{event}, payload: STRUCT<{event}>", places, render_is_key_in_value(table))
    key_row = "coalesce(kve.payload.after, kve.payload.before, kve.after, kve.before)"
    before_sql = "coalesce(kve.payload.before, kve.before)"
    return rows.selectExpr("*", f"{render_object('kvj')} AS kve").selectExpr(
        "*", f"{key_row} AS kv", f"{before_sql} AS kvb"
    )
