"""The statements about dead letters, in memory."""

from typing import Any

from tidegate.errors import RetryLater
from tidegate.jobs.stage_job import StageJob
from tidegate.model.ownership import Ownership

from fakes.broker import Record
from fakes.lake import MemoryDestination, Row, within


def write_dead_letters(destination: MemoryDestination, statement: dict[str, Any]) -> None:
    """Do one of the statements whose names end in `_dead_letters`."""
    name = statement["table"]
    if statement["statement"] == "create_dead_letters":
        destination.create(name, ()).properties.update(Ownership(**statement["own"]).properties)
        return
    rows = destination.tables[name].rows()
    if statement["statement"] == "forget_dead_letters":
        kept = [r for r in rows if not _is_stale(r, statement)]
    elif statement["statement"] == "replayed_dead_letters":
        kept = _replayed(destination, rows, statement)
    else:
        kept = _written(destination, rows, statement)
    destination.add_snapshot(name, "main", tuple(kept), {})


def _is_stale(row: Row, statement: dict[str, Any]) -> bool:
    of_others = row["table"] == statement["target"] and row["attempt"] != statement["attempt"]
    return of_others and within(row, statement["ranges"])


def _written(destination: MemoryDestination, rows: list[Row], statement: dict[str, Any]) -> list[Row]:
    pinned = destination.tables[statement["source"]].snapshots.get(statement["snapshot_id"])
    if pinned is None:
        raise RetryLater(f"Spark failed in merge: no snapshot={statement['snapshot_id']}")
    held = {_place(row): row for row in rows}
    for row in pinned.rows:
        if (row["batch_number"], row["attempt"], row["op"]) != (statement["batch"], statement["attempt"], "bad"):
            continue
        letter = {name: row[name] for name in ("topic", "partition", "offset", "timestamp", "attempt")} | row["bad"]
        letter |= {"table": statement["target"], "batch": row["batch_number"], "replayed_at": None}
        letter["written_at"] = destination.clock()
        if held.get(_place(letter), {}).get("attempt") != letter["attempt"]:
            held[_place(letter)] = letter
    return list(held.values())


def _replayed(destination: MemoryDestination, rows: list[Row], statement: dict[str, Any]) -> list[Row]:
    source = destination.tables.get(statement["source"])
    pinned = source.snapshots.get(statement["snapshot_id"]) if source else None
    if pinned is None:
        raise RetryLater(f"Spark failed in merge: no snapshot={statement['snapshot_id']}")
    attempt, named = statement["attempt"], {"table": statement["target"]}
    bad = {_place({**r, **named}) for r in pinned.rows if (r["attempt"], r["op"]) == (attempt, "bad")}

    def is_read(row: Row) -> bool:
        mine = row["table"] == statement["target"] and row["replayed_at"] is None
        return mine and within(row, statement["ranges"]) and _place(row) not in bad

    return [{**row, "replayed_at": destination.clock()} if is_read(row) else row for row in rows]


def waiting_letters(destination: MemoryDestination, job: StageJob) -> list[tuple[str, int, Record]]:
    """The dead letters that a job reads instead of the log, as records at their places."""
    letters = job.letters
    assert letters is not None
    rows = [r for r in destination.tables[letters.table].rows() if r["table"] == letters.destination]
    waiting = [r for r in rows if r["replayed_at"] is None and within(r, job.ranges)]
    return [(r["topic"], r["partition"], Record(r["offset"], r["key"], r["value"], r["timestamp"])) for r in waiting]


def _place(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("table", "topic", "partition", "offset"))
