"""The dead-letter table in BigQuery, as status and the command line read it, and its copy for a replay's Spark job."""

import io
from typing import Any

from tidegate.adapters.bigquery.client.client import Warehouse
from tidegate.model.offsets import Ranges
from tidegate.ports.context import DeadLetters
from tidegate.sql.googlesql import literal, quoted_name

ROWS_OF_A_FILE = 10_000


def newest(warehouse: Warehouse, name: str, limit: int) -> DeadLetters:
    """Counts, and of those that wait the newest `limit`."""
    if warehouse.table(name) is None:
        return DeadLetters()
    table = quoted_name(warehouse.reference(name))
    counted = f"SELECT COUNTIF(replayed_at IS NULL) AS waiting, COUNT(replayed_at) AS replayed FROM {table}"
    (found,) = warehouse.rows(counted)
    rows: list[dict[str, Any]] = []
    if limit and found["waiting"]:
        order = "written_at DESC, topic DESC, `partition` DESC, `offset` DESC"
        rows = warehouse.rows(f"SELECT * FROM {table} WHERE replayed_at IS NULL ORDER BY {order} LIMIT {limit}")
    return DeadLetters(found["waiting"], found["replayed"], tuple(rows))


def waiting(warehouse: Warehouse, name: str, destination: str) -> list[tuple[str, int, int]]:
    """Where those of a destination lie that were not replayed."""
    if warehouse.table(name) is None:
        return []
    asked = f"WHERE replayed_at IS NULL AND `table` = {literal(destination)}"
    table = quoted_name(warehouse.reference(name))
    rows = warehouse.rows(f"SELECT topic, `partition`, `offset` FROM {table} {asked}")
    return [(row["topic"], row["partition"], row["offset"]) for row in rows]


def copied(warehouse: Warehouse, name: str, destination: str, path: str) -> str:
    """Copy those of a destination that wait to Parquet files below `path`, in place of what is there; the folder."""
    columns = "topic, `partition`, `offset`, `timestamp`, key, value, headers, `table`, replayed_at"
    asked = f"WHERE replayed_at IS NULL AND `table` = {literal(destination)}"
    rows = warehouse.rows(f"SELECT {columns} FROM {quoted_name(warehouse.reference(name))} {asked}")
    warehouse.folder.delete(path)
    for number, begin in enumerate(range(0, max(1, len(rows)), ROWS_OF_A_FILE)):
        warehouse.folder.write(f"{path}/part-{number}.parquet", _as_parquet(rows[begin : begin + ROWS_OF_A_FILE]))
    return warehouse.folder.uri(path)


def _as_parquet(rows: list[dict[str, Any]]) -> bytes:
    """With the types of the table in Iceberg. No headers are NULL, as Kafka's source has it: BigQuery knows only []."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    time = pa.timestamp("us", tz="UTC")
    header = pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))
    types = {
        **{"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64(), "timestamp": time},
        **{"key": pa.binary(), "value": pa.binary(), "headers": header, "table": pa.string(), "replayed_at": time},
    }
    content = io.BytesIO()
    found = [{**row, "headers": row["headers"] or None} for row in rows]
    pq.write_table(pa.Table.from_pylist(found, schema=pa.schema(types)), content)
    return content.getvalue()


def of_attempt(warehouse: Warehouse, name: str, destination: str, attempt: str) -> list[dict[str, Any]]:
    """Those of a destination that this attempt left, ordered by their places."""
    if warehouse.table(name) is None:
        return []
    asked = f"WHERE `table` = {literal(destination)} AND attempt = {literal(attempt)}"
    table = quoted_name(warehouse.reference(name))
    return list(warehouse.rows(f"SELECT * FROM {table} {asked} ORDER BY topic, `partition`, `offset`"))


def of_others(warehouse: Warehouse, name: str, destination: str, attempt: str, ranges: Ranges) -> int:
    """How many of a destination lie in these ranges and are not this attempt's."""
    parts = [
        f"(topic = {literal(topic)} AND `partition` = {partition} AND `offset` >= {start} AND `offset` < {end})"
        for topic, partition, start, end in ranges
        if end > start
    ]
    if not parts or warehouse.table(name) is None:
        return 0
    table = quoted_name(warehouse.reference(name))
    others = f"`table` = {literal(destination)} AND attempt <> {literal(attempt)}"
    (found,) = warehouse.rows(f"SELECT COUNT(*) AS n FROM {table} WHERE {others} AND ({' OR '.join(parts)})")
    return int(found["n"])
