"""Decoding alone, on real Spark: what becomes of values without a topic, a flush or a table."""

from typing import Any

from tidegate.jobs import StageTable
from tidegate.pipeline import Column, KeyFormat, ValueFormat


def a_stage(value: ValueFormat, columns: tuple[Column, ...], **more: Any) -> StageTable:
    """A table without a key, of these columns."""
    return StageTable(
        intermediate="i", attempt="a", key=KeyFormat(), key_columns=(), value=value, value_columns=columns, metadata={},
        ignore_deletes=False, when=None, route=None, delete_when=None, summary={}, property="p", **more,
    )  # fmt: skip


def reasons(spark: Any, table: StageTable, values: list[bytes | None]) -> list[str | None]:
    """Why each value is bad, None for a good one."""
    from tidegate_spark.stage import decode

    rows = [(None, value, "t", 0, n) for n, value in enumerate(values)]
    frame = spark.createDataFrame(rows, "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT")
    shown = frame.selectExpr(
        "*", "current_timestamp() AS timestamp", "0 AS timestampType",
        "CAST(key AS STRING) AS key_text", "CAST(value AS STRING) AS value_text",
    )  # fmt: skip
    found = decode(shown, table).selectExpr("offset", "reason").collect()
    return [row["reason"] for row in sorted(found, key=lambda row: row["offset"])]
