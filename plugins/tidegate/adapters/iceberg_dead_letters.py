"""The dead-letter table in Iceberg, as status and the command line read it."""

from datetime import datetime
from typing import Any

from pyiceberg.table import Table

from tidegate.offsets import Ranges
from tidegate.ports import DeadLetters

PLACE = ("topic", "partition", "offset")


def newest(table: Table, limit: int) -> DeadLetters:
    """Counts, and of those that wait the newest `limit`; keys and values are read for these alone."""
    seen = table.scan(selected_fields=("written_at", "replayed_at")).to_arrow()
    waiting = seen.filter(seen["replayed_at"].is_null())
    times: list[datetime] = sorted(waiting["written_at"].to_pylist(), reverse=True)
    rows: list[dict[str, Any]] = []
    if limit and times:
        since = times[min(limit, len(times)) - 1]
        wanted = f"replayed_at IS NULL AND written_at >= '{since.isoformat()}'"
        order = [("written_at", "descending"), *((name, "descending") for name in PLACE)]
        rows = table.scan(row_filter=wanted).to_arrow().sort_by(order).slice(0, limit).to_pylist()
    return DeadLetters(waiting.num_rows, seen.num_rows - waiting.num_rows, tuple(rows))


def waiting(table: Table, destination: str) -> list[tuple[str, int, int]]:
    """Where those of a destination lie that were not replayed."""
    rows = table.scan(row_filter="replayed_at IS NULL", selected_fields=(*PLACE, "table")).to_arrow().to_pylist()
    return [(row["topic"], row["partition"], row["offset"]) for row in rows if row["table"] == destination]


def of_attempt(table: Table, destination: str, attempt: str) -> list[dict[str, Any]]:
    """Those of a destination that this attempt left, ordered by their places."""
    rows = table.scan(row_filter=f"attempt = '{attempt}'").to_arrow().sort_by([(name, "ascending") for name in PLACE])
    return [row for row in rows.to_pylist() if row["table"] == destination]


def of_others(table: Table, destination: str, attempt: str, ranges: Ranges) -> int:
    """How many of a destination lie in these ranges and are not this attempt's."""
    parts = [part for part in ranges if part[3] > part[2]]
    if not parts:
        return 0
    near = f"offset >= {min(start for _, _, start, _ in parts)} AND offset < {max(end for *_, end in parts)}"
    fields = (*PLACE, "table", "attempt")
    rows = table.scan(row_filter=near, selected_fields=fields).to_arrow().to_pylist()
    others = (row for row in rows if row["table"] == destination and row["attempt"] != attempt)
    return sum(any(_within(row, *part) for part in parts) for row in others)


def _within(row: dict[str, Any], topic: str, partition: int, start: int, end: int) -> bool:
    return (row["topic"], row["partition"]) == (topic, partition) and start <= row["offset"] < end
