"""Decoding alone, on real Spark: what becomes of values without a topic, a flush or a table."""

from typing import Any

from tidegate.jobs.stage_job import StageTable
from tidegate.schema.data_types import Column
from tidegate.spec.source import KeyFormat, ValueFormat


def build_stage_table(
    value: ValueFormat, columns: tuple[Column, ...], keys: tuple[Column, ...] = (), **options: Any
) -> StageTable:
    """A table of these columns, and without a key unless its columns are given too."""
    return StageTable(
        intermediate="i", attempt="a", key=KeyFormat(), key_columns=keys, value=value, value_columns=columns,
        metadata={}, ignore_deletes=False, when=None, route=None, delete_when=None, summary={}, property="p", **options,
    )  # fmt: skip


def read_reasons(spark: Any, table: StageTable, values: list[bytes | None]) -> list[str | None]:
    """Why each value is bad, None for a good one."""
    return [reason for (reason,) in decode(spark, table, [(None, value) for value in values], "reason")]


def read_reasons_by_time(spark: Any, table: StageTable, value: bytes | None, *micros: int) -> list[str | None]:
    """Why a value is bad in records of these times, None where it is good."""
    at = f"timestamp_micros(element_at(array({', '.join(f'{micro}L' for micro in micros)}), CAST(offset AS INT) + 1))"
    return [reason for (reason,) in decode(spark, table, [(None, value)] * len(micros), "reason", at=at)]


def decode_values(spark: Any, table: StageTable, values: list[bytes]) -> list[tuple[str | None, Any]]:
    """Why each value is bad, None for a good one, and its row."""
    return decode(spark, table, [(None, value) for value in values], "reason", "value_struct")


def decode_keys(spark: Any, table: StageTable, texts: list[bytes]) -> list[tuple[Any, str | None]]:
    """What each text is as a lone key, and why it is bad: None for a good one."""
    name = table.key_columns[0].name
    return decode(spark, table, [(text, b"{}") for text in texts], f"key_struct.`{name}`", "key_reason")


def decode(
    spark: Any,
    table: StageTable,
    records: list[tuple[bytes | None, bytes | None]],
    *expressions: str,
    at: str = "current_timestamp()",
    headers: list[list[tuple[str, bytes]]] | None = None,
) -> list[Any]:
    """The value of each expression for each record, in the order of the records."""
    from tidegate_spark.stage.job import decode

    header_lists = headers or [[]] * len(records)
    rows = [(key, value, "t", 0, n, header_lists[n] or None) for n, (key, value) in enumerate(records)]
    schema = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT"
    frame = spark.createDataFrame(rows, f"{schema}, headers ARRAY<STRUCT<key: STRING, value: BINARY>>")
    decoded = frame.selectExpr(
        "*", f"{at} AS timestamp", "0 AS timestampType",
        "CAST(key AS STRING) AS key_text", "CAST(value AS STRING) AS value_text",
    )  # fmt: skip
    decoded_rows = decode(decoded, table).selectExpr("offset", *expressions).collect()
    return [tuple(row)[1:] for row in sorted(decoded_rows, key=lambda row: row["offset"])]
