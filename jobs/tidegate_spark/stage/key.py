"""The record key decoded: one struct of the key's columns, from the key's bytes or, without them, from the value."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that every Spark user knows)
from tidegate.jobs.stage_job import StageTable
from tidegate.sql.spark import quote, render_literal

from tidegate_spark.formats.decoded import NO_REASON, DecodedValue
from tidegate_spark.formats.registry import DecodeKey, get_key_decoder

NO_KEY_REASON = "the record has no key, and no value to take it from"
KEY_NOT_IN_VALUE_REASON = "key.from is value, and the record has no value that shows the key"


def add_key(decoded_value: DecodedValue, table: StageTable, decode_key: DecodeKey | None = None) -> DataFrame:
    """Add `key_struct` and `key_reason` (NULL when the key is good) to the records of a decoded value.

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

    A field that the value leaves out is NULL there, and so differs from one that the key has. A delete, or a record
    without a key, has nothing to compare.
    """
    if not table.verified:
        return decoded
    cases = " ".join(_render_case(name) for name in table.verified)
    differs = f"CASE WHEN key IS NULL OR row_struct IS NULL THEN NULL {cases} END"
    return decoded.withColumn("value_reason", F.expr(f"coalesce(value_reason, {differs})"))


def _render_case(name: str) -> str:
    reason = render_literal(f"the key and the value differ in field {name}")
    return f"WHEN NOT (key_struct.{quote(name)} <=> row_struct.{quote(name)}) THEN {reason}"
