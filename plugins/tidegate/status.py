"""How far a pipeline has come and how far behind it is, for people and, as JSON, for programs."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tidegate import names
from tidegate.batch import RECORDS
from tidegate.dynamic import fan_out
from tidegate.errors import PositionLost
from tidegate.offsets import Offsets, merged, offset_of, pairs
from tidegate.pending import end_of_empty, queue_of
from tidegate.pipeline import Table
from tidegate.ports import Log, Ports, TableState
from tidegate.position import Position
from tidegate.slices import done
from tidegate.standing import check_log, effective_position
from tidegate.steps.backfill import open_backfills
from tidegate.steps.plan import first_start, read_log, table_log

BATCHES = 10


def status(ports: Ports) -> dict[str, Any]:
    """Position, lag, last batches and freshness of one pipeline; changes nothing.

    A table that cannot go on (rolled back, log gone) is shown all the same, with the reason and way out as `problem`.
    """
    ports = fan_out(ports)
    pipeline, destinations = ports.pipeline, [table for table in ports.pipeline.tables if not table.finds]
    # the log after the tables: what a flush publishes in between must not look like a log that lost its end
    states = [ports.destination.state(table.name, pipeline.name) for table in destinations]
    log = read_log(ports)
    views = [_view(ports, *found, log) for found in zip(destinations, states, strict=True)]
    tables = [_table(ports, view) for view in views]
    return {
        "pipeline": pipeline.name,
        "description": pipeline.description,
        "group": pipeline.source.group,
        "freshness": min((t["valid_through"] for t in tables if t["valid_through"]), default=None),
        "lag": sum(t["lag"] for t in tables),
        "tables": tables,
        "partitions": _partitions(ports, log, views),
        "batches": [_batch(row) for row in ports.destination.history(names.control_table(pipeline), BATCHES)],
        "backfills": _backfills(ports, views),
        **_dead_letters(ports),
    }


def _backfills(ports: Ports, views: list["_View"]) -> list[dict[str, Any]]:
    """Backfills that are under way, stopped or given up, with the slices that each table has."""
    rows = []
    for one in open_backfills(ports).values():
        mark, mine = names.backfill_mark(ports.pipeline.name, one.id), {t.table for t in one.tables}
        marks = {v.table.name: v.state.marks.get(mark) for v in views if v.state and v.table.name in mine}
        applied = {table: done(text) for table, text in marks.items()}
        rows.append({"backfill": one.id, "tables": sorted(mine), "slices": len(one.numbers), "applied": applied})
    return rows


@dataclass(frozen=True)
class _View:
    """One table as it stands: `following` are its next offsets, `problem` why it cannot go on."""

    table: Table
    state: TableState | None
    position: Position | None
    following: Offsets
    log: Log
    problem: str | None


def _view(ports: Ports, table: Table, state: TableState | None, whole_log: Log) -> _View:
    log = table_log(whole_log, table)
    position, problem = state.recorded if state else None, None
    try:
        position = effective_position(ports.pipeline, table, state)
        if position is not None:
            check_log(ports.pipeline, table, position, log)
    except PositionLost as reason:
        problem = str(reason)
    following = first_start(ports, log) if position is None else merged(log.begin, position.offsets)
    # what is read and holds no rows is done, although the position follows later: the group's offsets say the same
    read = end_of_empty(queue_of(ports, table, state, position)) if problem is None else {}
    return _View(table, state, position, merged(following, read), log, problem)


def _table(ports: Ports, view: _View) -> dict[str, Any]:
    position, state, name = view.position, view.state, view.table.name
    staged = ports.destination.staged(names.intermediate_table(ports.pipeline, view.table), name)
    published = position.batch if position else 0
    return {
        "table": name,
        "mode": view.table.mode,
        "exists": state is not None,
        "batch": position.batch if position else None,
        "position": position.offsets if position else None,
        "snapshot_id": str(state.snapshot_id) if state and state.snapshot_id else None,
        "valid_through": _time(position.valid_through_ms if position else None),
        "rows": ports.destination.count_rows(name),
        "lag": sum(max(0, end - (offset_of(view.following, t, p) or 0)) for t, p, end in pairs(view.log.end)),
        "rolled_back": state.rolled_back if state else False,
        "open_batches": [s.batch for s in staged if s.batch > published],
        "problem": view.problem,
    }


def _partitions(ports: Ports, log: Log, views: list[_View]) -> list[dict[str, Any]]:
    committed = ports.broker.committed(ports.pipeline.source.group, tuple(log.end))
    rows = []
    for topic, partition, end in pairs(log.end):
        known = [o for o in (offset_of(v.following, topic, partition) for v in views) if o is not None]
        published = min(known, default=offset_of(log.begin, topic, partition) or 0)
        rows.append(
            {
                "topic": topic,
                "partition": partition,
                "begin": offset_of(log.begin, topic, partition),
                "published": published,
                "committed": offset_of(committed, topic, partition),
                "end": end,
                "lag": max(0, end - published),
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


def _dead_letters(ports: Ports) -> dict[str, Any]:
    found = ports.destination.dead_letters(names.dead_letter_table(ports.pipeline), 1)
    told = ("table", "topic", "partition", "offset", "batch", "stage", "message")
    newest = [{name: row[name] for name in told} for row in found.newest]
    return {
        "dead_letters": found.waiting,
        "dead_letters_replayed": found.replayed,
        "newest_dead_letter": newest[0] if newest else None,
    }


def _batch(row: dict[str, Any]) -> dict[str, Any]:
    named = ("batch", "table", "span", *RECORDS, "inserted", "updated", "deleted", "seconds")
    return {
        **{key: row[key] for key in named},
        "gaps": row["span"] - row["read"],
        "backfill": row.get("backfill"),
        "published_at": _time(row["published_at_ms"]),
        "valid_through": _time(row["valid_through_ms"]),
    }


def _time(milliseconds: int | None) -> str | None:
    if milliseconds is None:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
