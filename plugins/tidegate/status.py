"""How far a pipeline has come and how far behind it is, for people and, as JSON, for programs."""

from datetime import UTC, datetime
from typing import Any

from tidegate import names
from tidegate.offsets import offset_of, pairs
from tidegate.pipeline import Table
from tidegate.ports import Log, Ports
from tidegate.steps.plan import position_offsets, read_log, table_log

BATCHES = 10


def status(ports: Ports) -> dict[str, Any]:
    """Position, lag, last batches and freshness of one pipeline; changes nothing."""
    pipeline = ports.pipeline
    log = read_log(ports)
    tables = [_table(ports, table, log) for table in pipeline.tables]
    return {
        "pipeline": pipeline.name,
        "description": pipeline.description,
        "group": pipeline.source.group,
        "freshness": min((t["valid_through"] for t in tables if t["valid_through"]), default=None),
        "lag": sum(t["lag"] for t in tables),
        "tables": tables,
        "partitions": _partitions(ports, log),
        "batches": [_batch(row) for row in ports.destination.history(names.control_table(pipeline), BATCHES)],
        "dead_letters": 0,
    }


def _table(ports: Ports, table: Table, log: Log) -> dict[str, Any]:
    state = ports.destination.state(table.name, ports.pipeline.name)
    position = state.position if state else None
    part = table_log(log, table)
    staged = ports.destination.staged(names.intermediate_table(ports.pipeline, table), table.name)
    published = position.batch if position else 0
    following = position_offsets(ports, table, log)
    lag = sum(end - (offset_of(following, t, p) or 0) for t, p, end in pairs(part.end))
    return {
        "table": table.name,
        "mode": table.mode,
        "exists": state is not None,
        "batch": position.batch if position else None,
        "position": position.offsets if position else None,
        "snapshot_id": str(state.snapshot_id) if state and state.snapshot_id else None,
        "valid_through": _time(position.valid_through_ms if position else None),
        "rows": ports.destination.count_rows(table.name),
        "lag": lag,
        "rolled_back": state.rolled_back if state else False,
        "open_batches": [s.batch for s in staged if s.batch > published],
    }


def _partitions(ports: Ports, log: Log) -> list[dict[str, Any]]:
    committed = ports.broker.committed(ports.pipeline.source.group, tuple(log.end))
    following = [position_offsets(ports, table, log) for table in ports.pipeline.tables]
    rows = []
    for topic, partition, end in pairs(log.end):
        known = [o for o in (offset_of(n, topic, partition) for n in following) if o is not None]
        published = min(known, default=offset_of(log.begin, topic, partition) or 0)
        rows.append(
            {
                "topic": topic,
                "partition": partition,
                "begin": offset_of(log.begin, topic, partition),
                "published": published,
                "committed": offset_of(committed, topic, partition),
                "end": end,
                "lag": end - published,
                "lag_seconds": _lag_seconds(ports, topic, partition, published, end),
            }
        )
    return rows


def _lag_seconds(ports: Ports, topic: str, partition: int, published: int, end: int) -> float | None:
    """Age of the first record that is not published; 0 when there is none."""
    if published >= end:
        return 0.0
    oldest = ports.broker.timestamp_of(topic, partition, published)
    return None if oldest is None else max(0.0, round((ports.now_ms() - oldest) / 1000, 1))


def _batch(row: dict[str, Any]) -> dict[str, Any]:
    named = {key: row[key] for key in ("batch", "table", "read", "staged", "inserted", "updated", "deleted", "seconds")}
    return {**named, "published_at": _time(row["published_at_ms"]), "valid_through": _time(row["valid_through_ms"])}


def _time(milliseconds: int | None) -> str | None:
    if milliseconds is None:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
