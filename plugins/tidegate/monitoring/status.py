"""How far a pipeline has come and how far behind it is, for people and, as JSON, for programs."""

from typing import Any

from tidegate.errors import GiveUp, RetryLater
from tidegate.model import resource_names
from tidegate.model.batch import RECORD_COUNTS, StagedBatch
from tidegate.model.offsets import get_offset
from tidegate.model.publish_cost import COST_COUNTS
from tidegate.ports.context import Log, Ports
from tidegate.progress.heartbeat_records import compute_valid_through_ms, read_connector_heartbeat_ms
from tidegate.progress.risks import find_risks
from tidegate.progress.table_progress import (
    TableWithLog,
    compare_with_log,
    find_published_offsets,
    iterate_published,
    observe_tables,
)
from tidegate.progress.topic_log import read_known_log
from tidegate.reprocess.backfill import read_applied_slices, read_open_backfills
from tidegate.spec.time_text import to_utc_datetime

MAX_BATCHES = 10
UNKNOWN_DEAD_LETTERS = {"dead_letters": None, "dead_letters_replayed": None, "newest_dead_letter": None}


def read_status(ports: Ports) -> dict[str, Any]:
    """Position, lag, last batches and freshness of one pipeline; changes nothing.

    A table that cannot go on (rolled back, log gone, schema missing) or be read is shown all the same, with the reason
    and way out as `problem`; `exists` is None where nobody knows. What else does not answer is named in `warnings`.
    """
    proof = read_connector_heartbeat_ms(ports)
    ports, seen = observe_tables(ports)
    pipeline, (log, gone) = ports.pipeline, read_known_log(ports)
    found = compare_with_log(ports, seen, log, gone)
    tables = [_describe_table(ports, view, proof) for view in found]
    return {
        "pipeline": pipeline.name,
        "description": pipeline.description,
        "group": pipeline.source.group,
        "freshness": min((t["valid_through"] for t in tables if t["valid_through"]), default=None),
        "lag": sum(t["lag"] for t in tables),
        "tables": tables,
        "partitions": _describe_partitions(ports, log, found),
        **_read_other_parts(ports, found, find_risks(ports, log, find_published_offsets(log, found))),
    }


def _read_other_parts(ports: Ports, found: list[TableWithLog], warnings: list[str]) -> dict[str, Any]:
    """What other tables tell of the pipeline: each part that cannot be read is empty, and a warning says why."""
    parts: dict[str, Any] = {"batches": [], "backfills": [], **UNKNOWN_DEAD_LETTERS}
    history = resource_names.name_control_table(ports.pipeline)
    for read in (
        lambda: {"batches": [format_batch(row) for row in ports.destination.read_history(history, MAX_BATCHES)]},
        lambda: {"backfills": _describe_backfills(ports, found)},
        lambda: _describe_dead_letters(ports),
    ):
        try:
            parts |= read()
        except (GiveUp, RetryLater) as reason:
            warnings = [*warnings, str(reason)]
    return {**parts, "warnings": warnings}


def _describe_backfills(ports: Ports, views: list[TableWithLog]) -> list[dict[str, Any]]:
    """Backfills that are under way, stopped or given up, with the slices that each table has."""
    rows = []
    for one in read_open_backfills(ports).values():
        there, mine = {view.table.name for view in views if view.state}, sorted(t.table for t in one.tables)
        applied = {table: numbers for table, numbers in read_applied_slices(ports, one).items() if table in there}
        rows.append({"backfill": one.id, "tables": mine, "slices": len(one.numbers), "applied": applied})
    return rows


def _describe_table(ports: Ports, view: TableWithLog, proof: int | None) -> dict[str, Any]:
    position, state, name, problem = view.position, view.state, view.table.name, view.problem
    staged, rows = list[StagedBatch](), None
    try:
        if view.is_read:
            staged = ports.destination.list_staged(
                resource_names.name_intermediate_table(ports.pipeline, view.table), name
            )
            rows = ports.destination.count_rows(name)
    except (GiveUp, RetryLater) as reason:
        problem = problem or str(reason)
    published = position.batch if position else 0
    return {
        "table": name,
        "mode": view.table.mode,
        "exists": state is not None if view.is_read else None,
        "batch": position.batch if position else None,
        "position": position.offsets if position else None,
        "snapshot_id": str(state.snapshot_id) if state and state.snapshot_id else None,
        "valid_through": format_time_ms(compute_valid_through_ms(view, proof)),
        "rows": rows,
        "lag": view.lag,
        "rolled_back": state.rolled_back if state else False,
        "open_batches": [s.batch for s in staged if s.batch > published],
        "problem": problem,
    }


def _describe_partitions(ports: Ports, log: Log, found: list[TableWithLog]) -> list[dict[str, Any]]:
    committed = ports.broker.read_committed(ports.pipeline.source.group, tuple(log.end))
    return [
        {
            "topic": topic,
            "partition": partition,
            "begin": get_offset(log.begin, topic, partition),
            "published": offset,
            "committed": get_offset(committed, topic, partition),
            "end": end,
            **measure_lag(ports, topic, partition, offset, end),
        }
        for topic, partition, offset, end in iterate_published(log, found)
    ]


def measure_lag(ports: Ports, topic: str, partition: int, offset: int, end: int) -> dict[str, float | None]:
    """How far one partition is behind, in offsets and in seconds."""
    return {"lag": max(0, end - offset), "lag_seconds": measure_lag_seconds(ports, topic, partition, offset, end)}


def measure_lag_seconds(ports: Ports, topic: str, partition: int, offset: int, end: int) -> float | None:
    """Age of the first record that is not published; 0 when there is none, None when the brokers do not tell."""
    if offset >= end:
        return 0.0
    oldest = ports.broker.read_timestamp(topic, partition, offset)
    return None if oldest is None else max(0.0, round((ports.now_ms() - oldest) / 1000, 1))


def _describe_dead_letters(ports: Ports) -> dict[str, Any]:
    found = ports.destination.read_dead_letters(resource_names.name_dead_letter_table(ports.pipeline), 1)
    told = ("table", "topic", "partition", "offset", "batch", "stage", "message")
    newest = [{name: row[name] for name in told} for row in found.newest]
    return {
        "dead_letters": found.waiting,
        "dead_letters_replayed": found.replayed,
        "newest_dead_letter": newest[0] if newest else None,
    }


def format_batch(row: dict[str, Any]) -> dict[str, Any]:
    """One row of history as reports name it."""
    named = ("batch", "table", "span", *RECORD_COUNTS, "inserted", "updated", "deleted", "seconds")
    return {
        **{key: row[key] for key in named},
        **{key: row.get(key) for key in COST_COUNTS},  # none in rows that an earlier version wrote
        "gaps": row["span"] - row["read"],
        "backfill": row.get("backfill"),
        "published_at": format_time_ms(row["published_at_ms"]),
        "valid_through": format_time_ms(row["valid_through_ms"]),
    }


def format_time_ms(milliseconds: int | None) -> str | None:
    """Milliseconds as ISO 8601 in UTC."""
    if milliseconds is None:
        return None
    return to_utc_datetime(milliseconds).isoformat(timespec="milliseconds").replace("+00:00", "Z")
