"""The last record of each raw key, before anything is decoded; how many records each one stands for."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that every Spark user knows)
from tidegate.jobs.stage_job import StageTable

from tidegate_spark.formats.change_events.unavailable_values import list_placeholder_bytes
from tidegate_spark.stage.kafka_source import wants_headers

# beside the Kafka source's columns: the records that one record stands for, itself included, and their latest timestamp
COUNT_COLUMN = "stands_for"
LATEST_TIME_COLUMN = "latest"


def keep_every_record(records: DataFrame) -> DataFrame:
    """Each record for itself, with the columns that a deduplicated one has: it stands for one, its own latest."""
    return records.selectExpr("*", f"1L AS {COUNT_COLUMN}", f"timestamp AS {LATEST_TIME_COLUMN}")


def keep_last_per_key(records: DataFrame, table: StageTable) -> DataFrame:
    """Of each key's bytes, the record with the highest offset; records without a key stay for themselves.

    So do records whose value holds the place of an unchanged one: the records before them say what it stands for.
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
    """Bytes in the value that may be the placeholder of an unchanged column."""
    if table.value.unavailable is None:
        return ""
    lists = any(c.type.startswith("ARRAY") for c in table.value_columns if c.name in table.unchanged)
    forms = list_placeholder_bytes(table.value.unavailable, lists, "binary" in table.value.options)
    return "".join(f" OR coalesce(contains(value, X'{form.hex()}'), false)" for form in forms)
