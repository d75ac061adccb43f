"""The record key decoded: one struct of the key's columns, from the key's bytes or, without them, from the value."""

import json
from dataclasses import replace

from pyspark.sql import DataFrame
from tidegate.jobs import StageTable
from tidegate.spark_sql import literal, quoted

from tidegate_spark.json_fields import CORRUPT, OBJECT, Fields, not_an_object, parsed_json

NOWHERE = "the record has no key, and no value to take it from"


def with_key(records: DataFrame, table: StageTable) -> DataFrame:
    """Add `key_struct` and `key_reason` (NULL when the key is good) to `key`, `key_text` and `value_text`."""
    if not table.key_columns:
        return records.selectExpr("*", "struct(key AS bytes) AS key_struct", "CAST(NULL AS STRING) AS key_reason")
    located = _in_value(records, table)
    if table.key.format == "string":
        return _string_key(located, table)
    return _json_key(located, table)


def key_fields(table: StageTable) -> Fields:
    """The key's columns by their names in the record, without the prefix."""
    columns = (replace(c, name=c.name.removeprefix(table.key.prefix)) for c in table.key_columns)
    return Fields(tuple(columns), table.value.timestamp_unit)


def _in_value(records: DataFrame, table: StageTable) -> DataFrame:
    """Add `in_value`: the key's fields as the value has them, parsed only for records without a key."""
    fields = key_fields(table)
    if table.value.format == "debezium-json":
        event = f"before: {fields.text_struct}, after: {fields.text_struct}"
        inner = f"{event}, payload: STRUCT<{event}>"
        found = "coalesce(kv.payload.after, kv.payload.before, kv.after, kv.before)"
    else:
        inner = fields.inner
        found = f"CASE WHEN kv IS NOT NULL THEN {fields.picked('kv')} END"
    found_in = f"CASE WHEN key IS NULL THEN {parsed_json('value_text', inner)} END"
    parsed = records.selectExpr("*", f"{found_in} AS kvj").selectExpr("*", f"kvj.{OBJECT} AS kv").drop("kvj")
    return parsed.selectExpr("*", f"{found} AS in_value").drop("kv")


def _string_key(located: DataFrame, table: StageTable) -> DataFrame:
    fields = key_fields(table)
    column = fields.columns[0]
    as_text = f"struct(try_cast(key_text AS {column.type}) AS {quoted(column.name)})"
    return located.selectExpr(
        "*",
        f"CASE WHEN key IS NOT NULL THEN {as_text} ELSE {fields.struct('in_value')} END AS key_struct",
        f"CASE WHEN key IS NULL AND in_value IS NULL THEN '{NOWHERE}' "
        f"WHEN key IS NULL THEN {fields.reason('in_value', 'the key')} "
        "WHEN NOT is_valid_utf8(key_text) THEN 'the key is not valid UTF-8' "
        f"WHEN try_cast(key_text AS {column.type}) IS NULL THEN 'the key is not a {column.type}' END AS key_reason",
    ).drop("in_value")


def _json_key(located: DataFrame, table: StageTable) -> DataFrame:
    fields = key_fields(table)
    enveloped = "payload" not in {c.name for c in fields.columns}
    inner = fields.inner + (f", payload: {fields.text_struct}" if enveloped else "")
    parsed = located.selectExpr("*", f"{_object_text(fields)} AS key_json").selectExpr(
        "*", f"{parsed_json('key_json', inner)} AS kjj"
    )
    parsed = parsed.selectExpr("*", f"kjj.{OBJECT} AS kj")
    own = fields.picked("kj")
    found = f"CASE WHEN kj.payload IS NOT NULL THEN kj.payload ELSE {own} END" if enveloped else own
    chosen = parsed.selectExpr("*", f"CASE WHEN key IS NULL THEN in_value ELSE {found} END AS kf")
    unreadable = (
        f"NOT is_valid_utf8(key_text) OR {not_an_object('key_json')} OR kj IS NULL OR kjj.{CORRUPT} IS NOT NULL"
    )
    return chosen.selectExpr(
        "*",
        f"{fields.struct('kf')} AS key_struct",
        f"CASE WHEN key IS NULL AND kf IS NULL THEN '{NOWHERE}' "
        f"WHEN key IS NOT NULL AND ({unreadable}) THEN 'the key is not a JSON object that fits the key columns' "
        f"ELSE {fields.reason('kf', 'the key')} END AS key_reason",
    ).drop("in_value", "kjj", "kj", "kf", "key_json")


def _object_text(fields: Fields) -> str:
    """The key as an object: a lone key column may come as a bare value, 42 or "abc" instead of {"id": 42}."""
    if len(fields.columns) != 1:
        return "key_text"
    name = literal(json.dumps(fields.columns[0].name))
    wrapped = f"concat('{{', {name}, ':', key_text, '}}')"
    return f"CASE WHEN ltrim(key_text) LIKE '{{%' THEN key_text ELSE {wrapped} END"
