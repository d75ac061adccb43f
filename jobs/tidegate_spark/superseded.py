"""The last record of each raw key, before anything is decoded; how many records each one stands for."""

import base64

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that every Spark user knows)

# beside the Kafka source's columns: the records that one record stands for, itself included, and their latest timestamp
STANDS_FOR, LATEST = "stands_for", "latest"


def every_record(records: DataFrame) -> DataFrame:
    """Each record for itself."""
    return records.selectExpr("*", f"1L AS {STANDS_FOR}", f"timestamp AS {LATEST}")


def last_per_raw_key(records: DataFrame, placeholder: str | None = None) -> DataFrame:
    """Of each key's bytes, the record with the highest offset; records without a key stay for themselves.

    So do records with `placeholder` in their value: the records before them say what it stands for.
    """
    kept = [name for name in records.columns if name not in ("topic", "partition", "key", "offset")]
    # counted where they are grouped, not as they are read: a task that Spark runs twice must not count twice
    # Spark sorts by the first column that it groups by: eight bytes that differ save it from comparing whole rows
    hashed = F.expr("xxhash64(topic, partition, key) AS hashed")
    alone = F.expr(f"CASE WHEN key IS NULL{_holds(placeholder)} THEN offset END AS alone")
    grouped = records.groupBy(hashed, "topic", "partition", "key", alone).agg(
        F.expr(f"max_by(struct({', '.join(kept)}), offset) AS last"),
        F.expr("max(offset) AS offset"),
        F.expr(f"count(1) AS {STANDS_FOR}"),
        F.expr(f"max(timestamp) AS {LATEST}"),
    )
    return grouped.select("key", "topic", "partition", "offset", "last.*", STANDS_FOR, LATEST)


def _holds(placeholder: str | None) -> str:
    """Bytes in the value that may be the placeholder: as text, or in JSON as the text of its bytes."""
    if placeholder is None:
        return ""
    forms = (placeholder.encode(), base64.b64encode(placeholder.encode()))
    return "".join(f" OR coalesce(contains(value, X'{form.hex()}'), false)" for form in forms)
