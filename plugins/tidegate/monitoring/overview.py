"""A pipeline in one line, cheap enough to ask of hundreds: how far behind, since when, and what it did last."""

import logging
from typing import Any

from tidegate.errors import GiveUp, RetryLater
from tidegate.model import resource_names
from tidegate.model.offsets import offset_of, pairs
from tidegate.monitoring.status import as_time, behind, lag_seconds
from tidegate.ports.context import Log, Ports
from tidegate.progress.heartbeat_records import valid_through_ms
from tidegate.progress.table_progress import View, published

log = logging.getLogger(__name__)
RECENT = 10
ROWS = ("inserted", "updated", "deleted")


def unpublished(found: list[View]) -> set[tuple[str, int, int]]:
    """Topic, partition and offset of each table's first record that it has not published: their age is its lag."""
    ends = [(v, t, p, offset_of(v.following, t, p) or 0, end) for v in found for t, p, end in pairs(v.log.end)]
    return {(t, p, offset) for _, t, p, offset, end in ends if offset < end}


def overview(ports: Ports, found: list[View], log: Log, proof: int | None = None) -> dict[str, Any]:
    """Lag and freshness of the pipeline, its tables and partitions, from what is seen already.

    `lag_seconds`: age of the oldest record that is not published, 0 when there is none, None when nobody tells.
    `proof` is the time that change-data connectors vouch for, where it was asked for before the tables and the log.
    `starts_at`: how many offsets must wait before a flush starts.
    `published_ms`: when the last snapshot of any table was published, None before the first.
    """
    tables = [_table(ports, view, proof) for view in found]
    return {
        "pipeline": ports.pipeline.name,
        "description": ports.pipeline.description,
        "lag": sum(table["lag"] for table in tables),
        "lag_seconds": _oldest([table["lag_seconds"] for table in tables]),
        "freshness": min((t["valid_through"] for t in tables if t["valid_through"]), default=None),
        "starts_at": _starts_at(ports),
        "open_batches": max((table["open_batches"] for table in tables), default=0),
        "published_ms": max((v.state.snapshot_ms for v in found if v.state and v.state.snapshot_ms), default=None),
        "tables": tables,
        "partitions": [
            {
                "topic": topic,
                "partition": partition,
                "published": offset,
                "end": end,
                **behind(ports, topic, partition, offset, end),
            }
            for topic, partition, offset, end in published(log, found)
        ],
    }


def _starts_at(ports: Ports) -> int:
    merge = ports.pipeline.merge
    return 1 if merge.is_timed else max(1, merge.records_threshold)


def _table(ports: Ports, view: View, proof: int | None) -> dict[str, Any]:
    ages = [lag_seconds(ports, t, p, offset_of(view.following, t, p) or 0, end) for t, p, end in pairs(view.log.end)]
    position = view.position
    return {
        "table": view.table.name,
        "batch": position.batch if position else None,
        "lag": view.lag,
        "lag_seconds": _oldest(ages),
        "valid_through": as_time(valid_through_ms(view, proof)),
        "open_batches": len(view.queue),
        "max_pending": view.table.max_pending,
        "problem": view.problem,
    }


def _oldest(ages: list[float | None]) -> float | None:
    """The greatest age; one that is not known matters only while no other is greater than 0."""
    known = max((age for age in ages if age is not None), default=0.0)
    return None if known == 0.0 and None in ages else known


def lately(ports: Ports) -> dict[str, Any]:
    """The last flush over all tables that had rows in it, and the dead letters that wait; dearer than `overview`.

    Each is None where its table cannot be read now: neither hides how the destinations stand.
    """
    return {"last_flush": _last_flush(ports), "dead_letters": count_waiting_letters(ports)}


def _last_flush(ports: Ports) -> dict[str, Any] | None:
    try:
        found = ports.destination.history(resource_names.control_table(ports.pipeline), RECENT)
    except (GiveUp, RetryLater) as reason:
        log.warning("pipeline=%s: no history: %s", ports.pipeline.name, reason)
        return None
    rows = [row for row in found if not row["backfill"]]
    newest = [row for row in rows if row["batch"] == rows[0]["batch"]]
    return _flush(newest) if newest else None


def count_waiting_letters(ports: Ports) -> int | None:
    """How many dead letters wait, None where nobody can tell."""
    try:
        return ports.destination.dead_letters(resource_names.dead_letter_table(ports.pipeline), 0).waiting
    except (GiveUp, RetryLater) as reason:
        log.warning("pipeline=%s: dead letters are not counted: %s", ports.pipeline.name, reason)
        return None


def _flush(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "batch": rows[0]["batch"],
        "published_at": as_time(rows[0]["published_at_ms"]),
        "seconds": round(sum(row["seconds"] for row in rows), 2),
        "read": max(row["read"] for row in rows),
        **{name: sum(row[name] for row in rows) for name in ROWS},
    }
