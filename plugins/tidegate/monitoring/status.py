"""How far a pipeline has come and how far behind it is, for people and, as JSON, for programs."""

from typing import Any

from tidegate.errors import GiveUp, RetryLater
from tidegate.model import resource_names
from tidegate.model.batch import RECORDS, StagedBatch
from tidegate.model.offsets import offset_of
from tidegate.ports.context import Log, Ports
from tidegate.progress.heartbeat_records import proof_ms, valid_through_ms
from tidegate.progress.risks import cautions
from tidegate.progress.table_progress import View, come_to, published, see, views
from tidegate.progress.topic_log import known_log
from tidegate.reprocess.backfill import applied_slices, open_backfills
from tidegate.spec.time_text import moment_at

BATCHES = 10
NO_LETTERS = {"dead_letters": None, "dead_letters_replayed": None, "newest_dead_letter": None}


def status(ports: Ports) -> dict[str, Any]:
    """Position, lag, last batches and freshness of one pipeline; changes nothing.

    A table that cannot go on (rolled back, log gone, schema missing) or be read is shown all the same, with the reason
    and way out as `problem`; `exists` is None where nobody knows. What else does not answer is named in `warnings`.
    """
    proof = proof_ms(ports)
    ports, seen = see(ports)
    pipeline, (log, gone) = ports.pipeline, known_log(ports)
    found = views(ports, seen, log, gone)
    tables = [_table(ports, view, proof) for view in found]
    return {
        "pipeline": pipeline.name,
        "description": pipeline.description,
        "group": pipeline.source.group,
        "freshness": min((t["valid_through"] for t in tables if t["valid_through"]), default=None),
        "lag": sum(t["lag"] for t in tables),
        "tables": tables,
        "partitions": _partitions(ports, log, found),
        **_beside(ports, found, cautions(ports, log, come_to(log, found))),
    }


def _beside(ports: Ports, found: list[View], warnings: list[str]) -> dict[str, Any]:
    """What other tables tell of the pipeline: each part that cannot be read is empty, and a warning says why."""
    parts: dict[str, Any] = {"batches": [], "backfills": [], **NO_LETTERS}
    history = resource_names.control_table(ports.pipeline)
    for read in (
        lambda: {"batches": [shown_batch(row) for row in ports.destination.history(history, BATCHES)]},
        lambda: {"backfills": _backfills(ports, found)},
        lambda: _dead_letters(ports),
    ):
        try:
            parts |= read()
        except (GiveUp, RetryLater) as reason:
            warnings = [*warnings, str(reason)]
    return {**parts, "warnings": warnings}


def _backfills(ports: Ports, views: list[View]) -> list[dict[str, Any]]:
    """Backfills that are under way, stopped or given up, with the slices that each table has."""
    rows = []
    for one in open_backfills(ports).values():
        there, mine = {view.table.name for view in views if view.state}, sorted(t.table for t in one.tables)
        applied = {table: numbers for table, numbers in applied_slices(ports, one).items() if table in there}
        rows.append({"backfill": one.id, "tables": mine, "slices": len(one.numbers), "applied": applied})
    return rows


def _table(ports: Ports, view: View, proof: int | None) -> dict[str, Any]:
    position, state, name, problem = view.position, view.state, view.table.name, view.problem
    staged, rows = list[StagedBatch](), None
    try:
        if view.is_read:
            staged = ports.destination.staged(resource_names.intermediate_table(ports.pipeline, view.table), name)
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
        "valid_through": as_time(valid_through_ms(view, proof)),
        "rows": rows,
        "lag": view.lag,
        "rolled_back": state.rolled_back if state else False,
        "open_batches": [s.batch for s in staged if s.batch > published],
        "problem": problem,
    }


def _partitions(ports: Ports, log: Log, found: list[View]) -> list[dict[str, Any]]:
    committed = ports.broker.committed(ports.pipeline.source.group, tuple(log.end))
    return [
        {
            "topic": topic,
            "partition": partition,
            "begin": offset_of(log.begin, topic, partition),
            "published": offset,
            "committed": offset_of(committed, topic, partition),
            "end": end,
            **behind(ports, topic, partition, offset, end),
        }
        for topic, partition, offset, end in published(log, found)
    ]


def behind(ports: Ports, topic: str, partition: int, offset: int, end: int) -> dict[str, float | None]:
    """How far one partition is behind, in offsets and in seconds."""
    return {"lag": max(0, end - offset), "lag_seconds": lag_seconds(ports, topic, partition, offset, end)}


def lag_seconds(ports: Ports, topic: str, partition: int, offset: int, end: int) -> float | None:
    """Age of the first record that is not published; 0 when there is none, None when the brokers do not tell."""
    if offset >= end:
        return 0.0
    oldest = ports.broker.timestamp_of(topic, partition, offset)
    return None if oldest is None else max(0.0, round((ports.now_ms() - oldest) / 1000, 1))


def _dead_letters(ports: Ports) -> dict[str, Any]:
    found = ports.destination.dead_letters(resource_names.dead_letter_table(ports.pipeline), 1)
    told = ("table", "topic", "partition", "offset", "batch", "stage", "message")
    newest = [{name: row[name] for name in told} for row in found.newest]
    return {
        "dead_letters": found.waiting,
        "dead_letters_replayed": found.replayed,
        "newest_dead_letter": newest[0] if newest else None,
    }


def shown_batch(row: dict[str, Any]) -> dict[str, Any]:
    """One row of history as reports name it."""
    named = ("batch", "table", "span", *RECORDS, "inserted", "updated", "deleted", "seconds")
    return {
        **{key: row[key] for key in named},
        "gaps": row["span"] - row["read"],
        "backfill": row.get("backfill"),
        "published_at": as_time(row["published_at_ms"]),
        "valid_through": as_time(row["valid_through_ms"]),
    }


def as_time(milliseconds: int | None) -> str | None:
    """Milliseconds as ISO 8601 in UTC."""
    if milliseconds is None:
        return None
    return moment_at(milliseconds).isoformat(timespec="milliseconds").replace("+00:00", "Z")
