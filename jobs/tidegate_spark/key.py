"""The record key decoded: one struct of the key's columns, from the key's bytes or, without them, from the value."""

from pyspark.sql import DataFrame
from tidegate.jobs import StageTable

from tidegate_spark.formats.chosen import key_format
from tidegate_spark.formats.found import NO_REASON, FoundValue

NOWHERE = "the record has no key, and no value to take it from"
NOT_SHOWN = "key.from is value, and the record has no value that shows the key"


def with_key(found: FoundValue, table: StageTable) -> DataFrame:
    """Add `key_struct` and `key_reason` (NULL when the key is good) to the records of a found value."""
    if not table.key_columns:
        return found.records.selectExpr("*", "struct(key AS bytes) AS key_struct", f"{NO_REASON} AS key_reason")
    if found.several:  # one record's key cannot be that of all its rows
        keyed = found.records.selectExpr("*", f"{found.key} AS key_struct")
        return keyed.selectExpr("*", f"{found.key_reason} AS key_reason")
    if table.key.from_value:  # what is wrong with the value itself goes before
        keyed = found.records.selectExpr("*", f"{found.key} AS key_struct")
        missing = f"CASE WHEN located_reason IS NULL THEN '{NOT_SHOWN}' END"
        return keyed.selectExpr(
            "*", f"CASE WHEN {found.key_there} THEN {found.key_reason} ELSE {missing} END AS key_reason"
        )
    own = key_format(table)(found.records, table)
    return own.records.selectExpr(
        "*",
        f"CASE WHEN key IS NULL THEN {found.key} ELSE {own.struct} END AS key_struct",
        f"CASE WHEN key IS NOT NULL THEN {own.reason} WHEN {found.key_there} THEN {found.key_reason} "
        f"ELSE '{NOWHERE}' END AS key_reason",
    )
