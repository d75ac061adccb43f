"""The dead-letter table in BigQuery: what status and the command line read, and its copy for a replay's Spark job."""

import io
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import count, islice
from typing import Any

from tidegate.adapters.bigquery.catalog import BigQueryPort
from tidegate.adapters.bigquery.errors import translate_bigquery_errors
from tidegate.adapters.bigquery.staging import get_folder
from tidegate.model.offsets import Ranges
from tidegate.model.table_state import DISCARDED_STAGE, DeadLetter, DeadLetters, WaitingLetter
from tidegate.ports.destination import DeadLetterStore
from tidegate.sql.googlesql import render_literal

ROWS_PER_FILE = 10_000
MAX_FILTER_RANGES = 100  # as many ranges of offsets are named in a statement


class BigQueryDeadLetters(BigQueryPort, DeadLetterStore):
    """Queries read letters; a replay gets a copy in files, as Spark has no reader of BigQuery tables."""

    @translate_bigquery_errors
    def read_dead_letters(self, name: str, limit: int) -> DeadLetters:
        warehouse = self._get_warehouse(name)
        if warehouse.find_table(name) is None:
            return DeadLetters()
        table = warehouse.quote_name(name)
        discarded = f"COUNTIF(stage = '{DISCARDED_STAGE}') AS discarded"
        counted = (
            f"SELECT COUNTIF(replayed_at IS NULL) AS waiting, COUNT(replayed_at) AS done, {discarded} FROM {table}"
        )
        (counts,) = warehouse.query_rows(counted)
        rows: list[dict[str, Any]] = []
        if limit and counts["waiting"]:
            order = "written_at DESC, topic DESC, `partition` DESC, `offset` DESC"
            newest = f"SELECT * FROM {table} WHERE replayed_at IS NULL ORDER BY {order} LIMIT {limit}"
            rows = warehouse.query_rows(newest)
        letters = tuple(DeadLetter.from_row(row) for row in rows)
        return DeadLetters(counts["waiting"], counts["done"] - counts["discarded"], letters, counts["discarded"])

    @translate_bigquery_errors
    def list_waiting_letters(self, name: str, table: str) -> list[WaitingLetter]:
        return self._list_places(name, table, "replayed_at IS NULL")

    @translate_bigquery_errors
    def list_replayed_letters(self, name: str, table: str, attempts: Collection[str]) -> list[WaitingLetter]:
        listed = ", ".join(map(render_literal, sorted(attempts)))
        return self._list_places(name, table, f"replayed_by IN ({listed})") if attempts else []

    def _list_places(self, name: str, table: str, condition: str) -> list[WaitingLetter]:
        columns = "topic, `partition`, `offset`, message, written_at, topic_id, replayed_by"
        rows = self._query(name, columns, f"{condition} AND `table` = {render_literal(table)}")
        return [WaitingLetter(**row) for row in rows]

    def _query(self, name: str, columns: str, condition: str, rest: str = "") -> list[dict[str, Any]]:
        """Letters, or counts of them; none without a table."""
        warehouse = self._get_warehouse(name)
        if warehouse.find_table(name) is None:
            return []
        return warehouse.query_rows(f"SELECT {columns} FROM {warehouse.quote_name(name)} WHERE {condition}{rest}")

    @translate_bigquery_errors
    def read_letters_of_attempt(self, name: str, table: str, attempt: str) -> list[DeadLetter]:
        condition = f"`table` = {render_literal(table)} AND attempt = {render_literal(attempt)}"
        rows = self._query(name, "*", condition, " ORDER BY topic, `partition`, `offset`")
        return [DeadLetter.from_row(row) for row in rows]

    @translate_bigquery_errors
    def copy_dead_letters(self, name: str, table: str, intermediate: str) -> str:
        # a file's letters are in memory at a time, with their values: millions may wait
        warehouse = self._get_warehouse(name)
        path = f"{get_folder(intermediate)}/letters"
        columns = "topic, `partition`, `offset`, `timestamp`, key, value, headers, `table`, replayed_at, topic_id"
        where_clause = f"WHERE replayed_at IS NULL AND `table` = {render_literal(table)}"
        rows = warehouse.iterate_rows(f"SELECT {columns} FROM {warehouse.quote_name(name)} {where_clause}")
        warehouse.folder.delete(path)
        for number in count():
            letters = list(islice(rows, ROWS_PER_FILE))
            if letters or not number:
                warehouse.folder.write(f"{path}/part-{number}.parquet", _to_parquet(letters))
            if len(letters) < ROWS_PER_FILE:
                break
        return warehouse.folder.to_uri(path)

    @translate_bigquery_errors
    def count_letters_of_others(
        self, name: str, table: str, attempts: Sequence[str], ranges: Ranges
    ) -> Mapping[tuple[str, int], int]:
        # BigQuery reads no statement of more than a megabyte: very many ranges are not named, but all letters between
        # the first and the last offset are fetched, and compared here
        busy = [part for part in ranges if part[3] > part[2]]
        if not busy:
            return Counter()
        own_attempts = ", ".join(map(render_literal, attempts))
        other_attempts = f"`table` = {render_literal(table)} AND attempt NOT IN ({own_attempts})"
        if len(busy) > MAX_FILTER_RANGES:
            between = f"`offset` >= {min(part[2] for part in busy)} AND `offset` < {max(part[3] for part in busy)}"
            rows = self._query(name, "topic, `partition`, `offset`", f"{other_attempts} AND {between}")
            return Counter((row["topic"], row["partition"]) for row in rows if ranges.contains(**row))
        parts = (
            f"(topic = {render_literal(topic)} AND `partition` = {partition} AND `offset` >= {start} "
            f"AND `offset` < {end})"
            for topic, partition, start, end in busy
        )
        condition = f"{other_attempts} AND ({' OR '.join(parts)})"
        rows = self._query(name, "topic, `partition`, COUNT(*) AS n", condition, " GROUP BY topic, `partition`")
        return Counter({(row["topic"], row["partition"]): int(row["n"]) for row in rows})


def _to_parquet(rows: list[dict[str, Any]]) -> bytes:
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
    # empty headers are NULL, as Kafka's source has them
    letters = [{**row, "headers": row["headers"] or None} for row in rows]
    pq.write_table(pa.Table.from_pylist(letters, schema=pa.schema(types)), content)
    return content.getvalue()
