"""The record key decoded: one struct of the key's columns, from the key's bytes or, without them, from the value."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tidegate.jobs.stage_job import StageTable
from tidegate.sql.spark import quote, render_literal

from tidegate_spark.fields.conditions import NO_REASON
from tidegate_spark.formats.change_events.unavailable_values import list_placeholder_bytes
from tidegate_spark.formats.decoded import DecodedValue, DecodeKey, get_key_decoder
from tidegate_spark.stage.kafka_source import wants_headers

NO_KEY_REASON = "the record has no key, and no value to take it from"
KEY_NOT_IN_VALUE_REASON = "key.from is value, and the record has no value that shows the key"


def add_key(decoded_value: DecodedValue, table: StageTable, decode_key: DecodeKey | None) -> DataFrame:
    """Add `key_struct` and `key_reason` (NULL if the key is good) to the records of a decoded value.

    Keys of their own bytes are read by `decode_key`, else as their format is.
    """
    if not table.key_columns:
        return decoded_value.records.selectExpr("*", "struct(key AS bytes) AS key_struct", f"{NO_REASON} AS key_reason")
    if decoded_value.has_several_rows:  # one record's key cannot be that of all its rows
        keyed = decoded_value.records.selectExpr("*", f"{decoded_value.key} AS key_struct")
        return keyed.selectExpr("*", f"{decoded_value.key_reason} AS key_reason")
    if table.key.from_value:  # what is wrong with the value itself goes before
        keyed = decoded_value.records.selectExpr("*", f"{decoded_value.key} AS key_struct")
        missing = f"CASE WHEN located_reason IS NULL THEN '{KEY_NOT_IN_VALUE_REASON}' END"
        return keyed.selectExpr(
            "*",
            f"CASE WHEN {decoded_value.key_presence} THEN {decoded_value.key_reason} ELSE {missing} END AS key_reason",
        )
    decoded_key = (decode_key or get_key_decoder(table))(decoded_value.records, table)
    return decoded_key.records.selectExpr(
        "*",
        f"CASE WHEN key IS NULL THEN {decoded_value.key} ELSE {decoded_key.struct} END AS key_struct",
        f"CASE WHEN key IS NOT NULL THEN {decoded_key.reason} WHEN {decoded_value.key_presence} THEN "
        f"{decoded_value.key_reason} ELSE '{NO_KEY_REASON}' END AS key_reason",
    )


def check_verified_fields(decoded: DataFrame, table: StageTable) -> DataFrame:
    """Give `value_reason` to records whose `key_struct` and `row_struct` differ in a field of `verified`.

    A field that the value leaves out is NULL there. A delete, or a record without a key, has nothing to compare.
    """
    if not table.verified:
        return decoded
    cases = " ".join(
        f"WHEN NOT (key_struct.{quote(name)} <=> row_struct.{quote(name)}) "
        f"THEN {render_literal(f'the key and the value differ in field {name}')}"
        for name in table.verified
    )
    differs = f"CASE WHEN key IS NULL OR row_struct IS NULL THEN NULL {cases} END"
    return decoded.withColumn("value_reason", F.expr(f"coalesce(value_reason, {differs})"))


# beside the Kafka source's columns: the records that one record stands for, itself included, and their latest timestamp
COUNT_COLUMN = "stands_for"
LATEST_TIME_COLUMN = "latest"


def keep_every_record(records: DataFrame) -> DataFrame:
    """Add the columns of a deduplicated record: each stands for one, its own latest."""
    return records.selectExpr("*", f"1L AS {COUNT_COLUMN}", f"timestamp AS {LATEST_TIME_COLUMN}")


def keep_last_per_key(records: DataFrame, table: StageTable) -> DataFrame:
    """Keep, of each key's bytes, the record with the highest offset; records without a key all stay.

    So do records with a placeholder of an unchanged value: earlier records hold the value.
    """
    words = set(table.metadata.values())
    columns = ["value", "timestamp", *(["timestampType"] if "timestamp-type" in words else [])]
    columns += ["headers"] if wants_headers(table) else []
    # counted where they are grouped, not as they are read: a task that Spark runs twice must not count twice
    # Spark sorts by the first column that it groups by: eight bytes that differ save it from comparing whole rows
    hashed = F.expr("xxhash64(topic, partition, key) AS hashed")
    alone = F.expr(f"CASE WHEN key IS NULL{_render_has_placeholder(table)} THEN offset END AS alone")
    grouped_records = records.groupBy(hashed, "topic", "partition", "key", alone).agg(
        F.expr(f"max_by(struct({', '.join(columns)}), offset) AS last"),
        F.expr("max(offset) AS offset"),
        F.expr(f"count(1) AS {COUNT_COLUMN}"),
        F.expr(f"max(timestamp) AS {LATEST_TIME_COLUMN}"),
    )
    return grouped_records.select("key", "topic", "partition", "offset", "last.*", COUNT_COLUMN, LATEST_TIME_COLUMN)


def _render_has_placeholder(table: StageTable) -> str:
    if table.value.unavailable is None:
        return ""
    lists = any(c.type.startswith("ARRAY") for c in table.value_columns if c.name in table.unchanged)
    forms = list_placeholder_bytes(table.value.unavailable, lists, "binary" in table.value.options)
    return "".join(f" OR coalesce(contains(value, X'{form.hex()}'), false)" for form in forms)
