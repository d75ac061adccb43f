"""json: an object with the columns as fields; a lone key column may come bare."""

import json
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that every Spark user knows)
from tidegate.jobs import StageTable
from tidegate.spark_sql import literal

from tidegate_spark.connect_fields import ConnectFields
from tidegate_spark.formats.found import DELETE, UPSERT, FoundKey, FoundValue
from tidegate_spark.json_fields import CORRUPT, Fields, not_an_object, parsed_json, the_object
from tidegate_spark.plain_keys import PLAIN, plain_key, plain_or_parsed

# one text, number or word, and nothing else: what follows it would become fields beside the key's
BARE = r'^\s*("(?:[^"\\]++|\\.)*+"|[^\s",:{}\[\]]+)\s*$'


def key_fields(table: StageTable) -> Fields:
    """The key's columns by their names in the record, without the prefix."""
    columns = (replace(c, name=c.name.removeprefix(table.key.prefix)) for c in table.key_columns)
    return Fields(tuple(columns), table.value.timestamp_unit)


def located(records: DataFrame, table: StageTable) -> FoundValue:
    """A value is an upsert, no value is a delete."""
    told = table.value.options
    if "ids" in told:
        records = records.withColumn("value_text", headless("value"))
    if reads_envelope(table):
        return _enveloped(records, table)
    fields, keys = Fields(table.value_columns, table.value.timestamp_unit), key_fields(table)
    parsed = _with_key_of_value(records, keys).selectExpr("*", f"{parsed_json('value_text', fields.inner)} AS j")
    misfits = fields.misfits("value_text", the_object("j"), ("$",))
    gone = "value_text IS NULL"  # of two columns that say so, Spark need not carry the bytes along
    found = parsed.selectExpr(
        "*",
        f"CASE WHEN {gone} THEN '{DELETE}' ELSE '{UPSERT}' END AS change",
        f"{the_object('j')} AS row",
        f"CASE WHEN {gone} THEN NULL {headed('value', told)} {unreadable('j', misfits)} END AS located_reason",
    )
    return FoundValue(
        records=found,
        columns=tuple(fields.values("row")),
        reason=fields.reason("row", "the value"),
        key=keys.struct("kv"),
        key_reason=keys.reason("kv", "the key"),
        key_there="kv IS NOT NULL",
    )


def _enveloped(records: DataFrame, table: StageTable) -> FoundValue:
    """The same in Kafka Connect's envelope: the payload is the row, its schema says what the fields mean."""
    fields = ConnectFields(table.value_columns, table.value.timestamp_unit)
    keys = ConnectFields(key_fields(table).columns, table.value.timestamp_unit)
    inside = f"schema: {fields.row_schema}, payload: {fields.text_struct}"
    key_inside = f"payload: {keys.text_struct}" if keys.columns else "payload: STRING"
    found = records.selectExpr(
        "*",
        f"{parsed_json('value_text', inside)} AS j",
        f"CASE WHEN key IS NULL THEN {parsed_json('value_text', key_inside)} END AS kvj",
    ).selectExpr("*", f"{the_object('j')} AS e", f"{the_object('kvj')}.payload AS kv")
    found = found.selectExpr("*", "e.payload AS row", f"{fields.kinds_of('e.schema.fields')} AS kinds")
    misfits = fields.misfits("value_text", "row", ("$.payload",))
    changes = found.selectExpr(
        "*",
        f"CASE WHEN value IS NULL THEN '{DELETE}' ELSE '{UPSERT}' END AS change",
        f"CASE WHEN value IS NULL THEN NULL {headed('value', table.value.options)} {unreadable('j', misfits)} "
        "WHEN row IS NULL THEN 'the value has no payload: it is not in an envelope' END AS located_reason",
    )
    return FoundValue(
        records=changes,
        columns=tuple(fields.values("row")),
        reason=fields.reason("row", "the value"),
        key=keys.struct("kv"),
        key_reason=keys.reason("kv", "the key"),
        key_there="kv IS NOT NULL",
    )


def _with_key_of_value(records: DataFrame, keys: Fields) -> DataFrame:
    """Add `kv`: the key's fields as the value has them, parsed only for records without a key."""
    if not keys.columns:
        return records.selectExpr("*", "CAST(NULL AS STRING) AS kv")
    parsed = f"CASE WHEN key IS NULL THEN {parsed_json('value_text', keys.inner)} END"
    return records.selectExpr("*", f"{parsed} AS kvj").selectExpr("*", f"{the_object('kvj')} AS kv")


def unreadable(parsed: str, misfits: str) -> str:
    """`WHEN … THEN …` for a value text that is not an object which fits its columns."""
    return (
        f"WHEN NOT is_valid_utf8(value_text) THEN 'the value is not valid UTF-8' "
        f"WHEN {not_an_object('value_text')} THEN 'the value is not a JSON object' "
        f"WHEN {the_object(parsed)} IS NULL THEN 'the value is not one JSON object' "
        f"WHEN {parsed}.{CORRUPT} IS NOT NULL "
        f"THEN concat('the value does not fit value.schema, fields: ', {misfits})"
    )


@dataclass(frozen=True)
class _KeyObject:
    """What is looked for in a key's object: the fields themselves, or those of an envelope's payload."""

    fields: Fields
    enveloped: bool
    kinds: str
    inner: str

    @classmethod
    def of(cls, table: StageTable) -> "_KeyObject":
        """The object of the table's keys."""
        fields = key_fields(table)
        names = {c.name.lower() for c in fields.columns}
        enveloped = "payload" not in names
        kinds, schema = "CAST(NULL AS STRING)", ""
        if enveloped and "schema" not in names and reads_envelope(table):
            fields = told = ConnectFields(fields.columns, fields.unit, "key_kinds")
            kinds, schema = told.kinds_of("kj.schema.fields"), f", schema: {told.row_schema}"
        payload = f", payload: {fields.text_struct}" if enveloped else ""
        return cls(fields, enveloped, kinds, fields.inner + payload + schema)


def with_key_object(records: DataFrame, table: StageTable) -> DataFrame:
    """Add the key's object, parsed where it is not plain: beside the value's, so that Spark copies the record once."""
    if "ids" in table.key.options:
        records = records.withColumn("key_text", headless("key"))
    key = _KeyObject.of(table)
    texts = records.selectExpr("*", f"{_object_text(key.fields)} AS key_json")
    plain, parsed = plain_key(key.fields.columns, "key_text"), parsed_json("key_json", key.inner)
    if plain is None:
        return texts.selectExpr("*", f"{parsed} AS kjj")
    return texts.selectExpr("*", f"{plain} AS {PLAIN}").selectExpr(
        "*", f"CASE WHEN {PLAIN} IS NULL THEN {parsed} END AS kjj"
    )


def read(records: DataFrame, table: StageTable) -> FoundKey:
    """A key: an object, with or without Kafka Connect's envelope, or one bare value; it is parsed already."""
    key = _KeyObject.of(table)
    fields, kinds = key.fields, key.kinds
    parsed = records.selectExpr("*", f"{the_object('kjj')} AS kj")
    is_plain = plain_key(fields.columns, "key_text") is not None
    own = plain_or_parsed(fields.columns, "kj") if is_plain else fields.picked("kj")
    found = f"CASE WHEN kj.payload IS NOT NULL THEN kj.payload ELSE {own} END" if key.enveloped else own
    chosen = parsed.selectExpr("*", f"{found} AS kf", f"{kinds} AS key_kinds")
    bad = f"NOT is_valid_utf8(key_text) OR {not_an_object('key_json')} OR kj IS NULL OR kjj.{CORRUPT} IS NOT NULL"
    if len(fields.columns) == 1:
        bad += f" OR NOT {_is_object('key_text')} AND NOT key_text RLIKE {literal(BARE)}"
    reason = (
        f"CASE {headed('key', table.key.options)} {f'WHEN {PLAIN} IS NOT NULL THEN NULL ' if is_plain else ''}"
        f"WHEN {bad} THEN 'the key is not a JSON object that fits the key columns' "
        f"ELSE {fields.reason('kf', 'the key')} END"
    )
    return FoundKey(chosen, fields.struct("kf"), reason)


def headless(part: str) -> Column:
    """The text behind a magic byte and a schema id."""
    return F.expr(f"CAST(substring({part}, 6) AS STRING)")


def headed(part: str, options: dict[str, Any]) -> str:
    """`WHEN … THEN …` for bytes without a magic byte and a known schema id; nothing where no registry is asked."""
    if "ids" not in options:
        return ""
    known = ", ".join(literal(f"00{number:08X}") for number in options["ids"])
    return (
        f"WHEN length({part}) < 5 OR hex(substring({part}, 1, 1)) <> '00' "
        f"THEN 'the {part} does not begin with the magic byte and a schema id' "
        f"WHEN hex(substring({part}, 1, 5)) NOT IN ({known}) THEN concat('the {part} has schema id=', "
        f"conv(hex(substring({part}, 2, 4)), 16, 10), ', which is no version of its subject')"
    )


def reads_envelope(table: StageTable) -> bool:
    """Whether Kafka Connect's schema beside the payload decides how fields are read."""
    return table.value.format == "debezium-json" or bool(table.value.options.get("envelope"))


def _object_text(fields: Fields) -> str:
    """The key as an object: a lone key column may come as a bare value, 42 or "abc" instead of {"id": 42}."""
    if len(fields.columns) != 1:
        return "key_text"
    name = literal(json.dumps(fields.columns[0].name))
    wrapped = f"concat('{{', {name}, ':', key_text, '}}')"
    return f"CASE WHEN {_is_object('key_text')} THEN key_text ELSE {wrapped} END"


def _is_object(text: str) -> str:
    return f"ltrim({text}) LIKE '{{%'"
