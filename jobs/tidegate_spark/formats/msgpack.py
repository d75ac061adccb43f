"""msgpack: a MessagePack map with the columns as fields, decoded in batches outside of the JVM."""

from dataclasses import replace
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type
from tidegate.jobs.stage_job import StageTable
from tidegate.jobs.stage_outcome import UNKNOWN_FIELDS
from tidegate.schema.data_types import Array, DataType, Map, Primitive, Struct, format_type, parse_type

from tidegate_spark.fields import arrow_decoder, msgpack
from tidegate_spark.fields.conditions import NO_REASON
from tidegate_spark.fields.json.objects import Fields
from tidegate_spark.formats.decoded import TOMBSTONE_DELETES, DecodedKey, DecodedValue
from tidegate_spark.formats.json import (
    build_decoded_value,
    get_reading_rules,
    list_key_fields,
    list_known_fields,
    render_is_key_in_value,
    reports_unknown_fields,
)
from tidegate_spark.formats.json import decode_value as decode_json

# the server's workers do not have the product's code: these modules go with the function
cloudpickle.register_pickle_by_value(arrow_decoder)
cloudpickle.register_pickle_by_value(msgpack)

Shape = dict[str, Any]
NO_TEXT = ""  # there is no text beside the fields that says how they are written


def decode_key(records: DataFrame, table: StageTable) -> DecodedKey:
    """Read a map with the key's fields; a lone one may come bare."""
    keys = list_key_fields(table, NO_TEXT)
    decoded = records.withColumn("kp", _decode_part("key", F.col("key"), _build_key_shape(keys)))
    reason = f"CASE WHEN kp.reason IS NOT NULL THEN kp.reason ELSE {keys.render_reason('kp.row', 'the key')} END"
    return DecodedKey(decoded, keys.render_struct("kp.row"), reason)


def decode_value(records: DataFrame, table: StageTable) -> DecodedValue:
    """A record whose fields may become columns is read as JSON: its columns take what that format's columns take."""
    if table.value.adds_columns:
        return _decode_as_json(records, table)
    fields = Fields(table.value_columns, get_reading_rules(table), NO_TEXT)
    keys = list_key_fields(table, NO_TEXT)
    shape = {**_build_shape(fields), "known": [column.name for column in list_known_fields(table).columns]}
    shape |= {"reports": True} if reports_unknown_fields(table) else {}
    unknown = f"transform(p.row.{msgpack.UNKNOWN_FIELDS}, x -> struct(x.path AS path, parse_json(x.sample) AS value))"
    decoded = records.withColumn("p", _decode_part("value", F.col("value"), shape))
    if keys.columns:
        key_bytes = F.expr(f"CASE WHEN {render_is_key_in_value(table)} THEN value END")
        decoded = decoded.withColumn("kv", _decode_part("value", key_bytes, {**_build_key_shape(keys), "bare": False}))
    changes = decoded.selectExpr(
        "*",
        TOMBSTONE_DELETES,
        "p.reason AS located_reason",
        "CASE WHEN p.reason IS NULL THEN p.row END AS row",
        *([f"{unknown} AS {UNKNOWN_FIELDS}"] if reports_unknown_fields(table) else []),
    )
    reason = f"CASE WHEN kv.reason IS NOT NULL THEN kv.reason ELSE {keys.render_reason('kv.row', 'the key')} END"
    return replace(
        build_decoded_value(changes, fields, keys, reason if keys.columns else NO_REASON),
        key=keys.render_struct("kv.row") if keys.columns else "struct()",
        key_presence="value IS NOT NULL" if keys.columns else "false",
        doubts=fields.render_doubts("p.row"),
        columns_of_unlocated=fields.render_values("p.row"),
    )


def _decode_as_json(records: DataFrame, table: StageTable) -> DecodedValue:
    text_type = from_arrow_type(arrow_decoder.build_result_type(msgpack.to_text_type()))
    transcribe = F.arrow_udf(msgpack.build_transcriber(), text_type)
    texts = records.withColumn("p", transcribe(F.col("value")))
    # a value that cannot be read is no delete
    texts = texts.withColumn("value_text", F.expr("CASE WHEN value IS NOT NULL THEN coalesce(p.row.text, '') END"))
    decoded = decode_json(texts, table)
    reason = F.expr("coalesce(p.reason, located_reason)")
    return replace(decoded, records=decoded.records.withColumn("located_reason", reason))


def _decode_part(part: str, data: Column, shape: Shape) -> Any:
    # as a text it would be sent to the server to be read
    result_type = from_arrow_type(arrow_decoder.build_result_type(msgpack.to_arrow_type(shape)))
    return F.arrow_udf(msgpack.build_decoder(shape, part), result_type)(data)


def _build_shape(fields: Fields) -> Shape:
    return build_shape(Struct(tuple((column.name, parse_type(column.type)) for column in fields.columns)))


def _build_key_shape(keys: Fields) -> Shape:
    return {**_build_shape(keys), "must": True, "bare": len(keys.columns) == 1}


def build_shape(data_type: DataType, path: str = "", is_key: bool = False) -> Shape:
    """Return the type as the decoder reads it, at a `path` of names for messages; `is_key` in keys of maps."""
    match data_type:
        case Array(element):
            shape: Shape = {"kind": "list", "element": build_shape(element, path, is_key)}
        case Map(key, value):
            shape = {"kind": "map", "key": build_shape(key, path, True), "value": build_shape(value, path, is_key)}
        case Struct(fields):
            inside = f"{path}." if path else ""
            shape = {"kind": "struct", "fields": {n: build_shape(t, f"{inside}{n}", is_key) for n, t in fields}}
        case Primitive():
            shape = {"kind": "leaf", "is_key": is_key}
    return {**shape, "type": format_type(data_type).replace("`", ""), "path": path}
