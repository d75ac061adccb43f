"""The dead-letter table in BigQuery, as status and the command line read it, and its copy for a replay's Spark job."""

import io
from collections import Counter
from collections.abc import Collection
from itertools import count, islice
from typing import Any

from tidegate.adapters.bigquery.client.client import Warehouse
from tidegate.model.offsets import Ranges
from tidegate.model.table_state import DISCARDED_STAGE, DeadLetter, DeadLetters, WaitingLetter
from tidegate.sql.googlesql import quote_name, render_literal

ROWS_PER_FILE = 10_000
MAX_FILTER_RANGES = 100  # as many ranges of offsets are named in a statement


def read_newest_letters(warehouse: Warehouse, name: str, limit: int) -> DeadLetters:
    """The counts of dead letters, and the newest `limit` of those that wait."""
    if warehouse.find_table(name) is None:
        return DeadLetters()
    table = quote_name(warehouse.to_reference(name))
    discarded = f"COUNTIF(stage = '{DISCARDED_STAGE}') AS discarded"
    counted = f"SELECT COUNTIF(replayed_at IS NULL) AS waiting, COUNT(replayed_at) AS done, {discarded} FROM {table}"
    (counts,) = warehouse.query_rows(counted)
    rows: list[dict[str, Any]] = []
    if limit and counts["waiting"]:
        order = "written_at DESC, topic DESC, `partition` DESC, `offset` DESC"
        rows = warehouse.query_rows(f"SELECT * FROM {table} WHERE replayed_at IS NULL ORDER BY {order} LIMIT {limit}")
    newest = tuple(DeadLetter.from_row(row) for row in rows)
    return DeadLetters(counts["waiting"], counts["done"] - counts["discarded"], newest, counts["discarded"])


def list_waiting(warehouse: Warehouse, name: str, destination: str) -> list[WaitingLetter]:
    """The places of a destination's dead letters that were not replayed."""
    return _list_places(warehouse, name, destination, "replayed_at IS NULL")


def list_replayed(warehouse: Warehouse, name: str, destination: str, attempts: Collection[str]) -> list[WaitingLetter]:
    """The places of a destination's dead letters that these attempts have read; none in an earlier version's table."""
    letters_table = warehouse.find_table(name)
    if not attempts or letters_table is None or all(field.name != "replayed_by" for field in letters_table.schema):
        return []
    listed = ", ".join(map(render_literal, sorted(attempts)))
    return _list_places(warehouse, name, destination, f"replayed_by IN ({listed})")


def _list_places(warehouse: Warehouse, name: str, destination: str, condition: str) -> list[WaitingLetter]:
    letters_table = warehouse.find_table(name)
    if letters_table is None:
        return []
    names = {field.name for field in letters_table.schema}
    later = ", ".join(name if name in names else f"NULL AS {name}" for name in ("topic_id", "replayed_by"))
    where_clause = f"WHERE {condition} AND `table` = {render_literal(destination)}"
    table = quote_name(warehouse.to_reference(name))
    columns = f"topic, `partition`, `offset`, message, written_at, {later}"
    rows = warehouse.query_rows(f"SELECT {columns} FROM {table} {where_clause}")
    return [WaitingLetter(**row) for row in rows]


def copy_waiting(warehouse: Warehouse, name: str, destination: str, path: str) -> str:
    """Copy a destination's waiting dead letters to Parquet files below `path`, replacing others; return the folder.

    A file's letters are in memory at a time, with their values: millions may wait.
    """
    columns = "topic, `partition`, `offset`, `timestamp`, key, value, headers, `table`, replayed_at, topic_id"
    where_clause = f"WHERE replayed_at IS NULL AND `table` = {render_literal(destination)}"
    rows = warehouse.iterate_rows(f"SELECT {columns} FROM {quote_name(warehouse.to_reference(name))} {where_clause}")
    warehouse.folder.delete(path)
    for number in count():
        letters = list(islice(rows, ROWS_PER_FILE))
        if letters or not number:
            warehouse.folder.write(f"{path}/part-{number}.parquet", _to_parquet(letters))
        if len(letters) < ROWS_PER_FILE:
            break
    return warehouse.folder.to_uri(path)


def _to_parquet(rows: list[dict[str, Any]]) -> bytes:
    """One Parquet file with the types of the table in Iceberg. Empty headers are NULL, as Kafka's source has them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    time = pa.timestamp("us", tz="UTC")
    header = pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))
    types = {
        **{"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64(), "timestamp": time},
        **{"key": pa.binary(), "value": pa.binary(), "headers": header, "table": pa.string(), "replayed_at": time},
        "topic_id": pa.string(),
    }
    content = io.BytesIO()
    letters = [{**row, "headers": row["headers"] or None} for row in rows]
    pq.write_table(pa.Table.from_pylist(letters, schema=pa.schema(types)), content)
    return content.getvalue()


def read_of_attempt(warehouse: Warehouse, name: str, destination: str, attempt: str) -> list[DeadLetter]:
    """The dead letters of a destination that this attempt left, ordered by their places."""
    if warehouse.find_table(name) is None:
        return []
    where_clause = f"WHERE `table` = {render_literal(destination)} AND attempt = {render_literal(attempt)}"
    table = quote_name(warehouse.to_reference(name))
    rows = warehouse.query_rows(f"SELECT * FROM {table} {where_clause} ORDER BY topic, `partition`, `offset`")
    return [DeadLetter.from_row(row) for row in rows]


def count_letters_of_others(
    warehouse: Warehouse, name: str, destination: str, attempt: str, ranges: Ranges
) -> Counter[tuple[str, int]]:
    """Count a destination's dead letters of other attempts in these ranges, by topic and partition.

    Very many ranges are not named: BigQuery reads no statement of more than a megabyte. Then all between the first and
    the last offset are fetched, and compared here.
    """
    busy = {(topic, partition): (start, end) for topic, partition, start, end in ranges if end > start}
    if not busy or warehouse.find_table(name) is None:
        return Counter()
    table = quote_name(warehouse.to_reference(name))
    other_attempts = f"`table` = {render_literal(destination)} AND attempt <> {render_literal(attempt)}"
    if len(busy) > MAX_FILTER_RANGES:
        between = f"`offset` >= {min(busy.values())[0]} AND `offset` < {max(end for _, end in busy.values())}"
        rows = warehouse.query_rows(
            f"SELECT topic, `partition`, `offset` FROM {table} WHERE {other_attempts} AND {between}"
        )
        places = (((row["topic"], row["partition"]), row["offset"]) for row in rows)
        return Counter(p for p, offset in places if p in busy and busy[p][0] <= offset < busy[p][1])
    parts = (
        f"(topic = {render_literal(topic)} AND `partition` = {partition} AND `offset` >= {start} AND `offset` < {end})"
        for (topic, partition), (start, end) in busy.items()
    )
    counted = f"SELECT topic, `partition`, COUNT(*) AS n FROM {table} WHERE {other_attempts} AND ({' OR '.join(parts)})"
    rows = warehouse.query_rows(f"{counted} GROUP BY topic, `partition`")
    return Counter({(row["topic"], row["partition"]): int(row["n"]) for row in rows})
