"""The statements about dead letters, in memory."""

from typing import Any

from tidegate.errors import RetryLater
from tidegate.jobs.stage_job import StageJob
from tidegate.model.ownership import Ownership, TableKind

from fakes.broker import Record
from fakes.lake import MemoryDestination
from fakes.tables import Row, is_of_parts, is_within


def build_mark(ownership: dict[str, Any]) -> dict[str, str]:
    """The properties that a statement sets for an `Ownership` that went through JSON."""
    return Ownership(**{**ownership, "kind": TableKind(ownership["kind"])}).properties


def write_dead_letters(destination: MemoryDestination, statement: dict[str, Any]) -> None:
    """Do one of the statements whose names end in `_dead_letters`."""
    name = statement["table"]
    if statement["statement"] == "create_dead_letters":
        destination.create(name, ()).properties.update(build_mark(statement["own"]))
        return
    rows = destination.tables[name].read_rows()
    if statement["statement"] == "forget_dead_letters":
        new_rows = [r for r in rows if not _is_stale(r, statement)]
    elif statement["statement"] == "reread_dead_letters":
        new_rows = [_mark_as_read(destination, r) if _is_reread(r, statement) else r for r in rows]
    elif statement["statement"] == "reopen_dead_letters":
        new_rows = [{**r, "replayed_at": None, "replayed_by": None} if _is_undone(r, statement) else r for r in rows]
    elif statement["statement"] == "discard_dead_letters":
        new_rows = [_discard(destination, r, statement) if _is_chosen(r, statement) else r for r in rows]
    elif statement["statement"] == "replayed_dead_letters":
        new_rows = _mark_as_replayed(destination, rows, statement)
    else:
        new_rows = _build_written_rows(destination, rows, statement)
    destination.add_snapshot(name, "main", tuple(new_rows), {})


def _is_chosen(row: Row, statement: dict[str, Any]) -> bool:
    partition = (row["topic"], row["partition"], row.get("topic_id") or "")
    is_listed = any(
        partition == (place["topic"], place["partition"], place["topic_id"]) and row["offset"] in place["offsets"]
        for place in statement["places"]
    )
    return row["table"] == statement["target"] and row["replayed_at"] is None and is_listed


def _discard(destination: MemoryDestination, row: Row, statement: dict[str, Any]) -> Row:
    message = statement["note"] + row["message"]
    return {**row, "replayed_at": destination.clock(), "stage": "discarded", "message": message}


def _is_stale(row: Row, statement: dict[str, Any]) -> bool:
    ids, topic_id = statement["ids"], row.get("topic_id")
    is_same_topic = topic_id is None or ids.get(row["topic"]) in (None, topic_id)
    return _is_of_others(row, statement) and row["batch"] > statement["published"] and is_same_topic


def _is_reread(row: Row, statement: dict[str, Any]) -> bool:
    is_same_topic = row.get("topic_id") is not None and row["topic_id"] == statement["ids"].get(row["topic"])
    is_open = row["replayed_at"] is None or row.get("replayed_by") is not None
    return _is_of_others(row, statement) and is_open and row["batch"] <= statement["published"] and is_same_topic


def _mark_as_read(destination: MemoryDestination, row: Row) -> Row:
    return {**row, "replayed_at": row["replayed_at"] or destination.clock(), "replayed_by": None}


def _is_undone(row: Row, statement: dict[str, Any]) -> bool:
    return row["table"] == statement["target"] and row.get("replayed_by") in statement["attempts"]


def _is_of_others(row: Row, statement: dict[str, Any]) -> bool:
    of_others = row["table"] == statement["target"] and row["attempt"] not in statement["attempts"]
    return of_others and is_within(row, statement["ranges"])


def _build_written_rows(destination: MemoryDestination, rows: list[Row], statement: dict[str, Any]) -> list[Row]:
    snapshot = destination.tables[statement["source"]].snapshots.get(statement["snapshot_id"])
    if snapshot is None:
        raise RetryLater(f"Spark failed in merge: no snapshot={statement['snapshot_id']}")
    letters = list(rows)
    for row in snapshot.rows:
        if row["op"] != "bad" or not is_of_parts(row, statement["parts"]):
            continue
        letter = {name: row[name] for name in ("topic", "partition", "offset", "timestamp", "attempt")} | row["bad"]
        letter |= {"table": statement["target"], "batch": row["batch_number"], "replayed_at": None}
        letter |= {"written_at": destination.clock(), "topic_id": statement["ids"].get(letter["topic"])}
        letter["replayed_by"] = None
        duplicates = [duplicate for duplicate in letters if _is_same(duplicate, letter)]
        is_kept = any(
            duplicate["attempt"] == letter["attempt"] or duplicate["stage"] == "discarded" for duplicate in duplicates
        )
        if not is_kept:
            letters = [*(duplicate for duplicate in letters if duplicate not in duplicates), letter]
    return letters


def _is_same(first_row: Row, second_row: Row) -> bool:
    """One place of one topic; where an id is not known, by the record's bytes."""
    if _get_place(first_row) != _get_place(second_row):
        return False
    ids = {row.get("topic_id") for row in (first_row, second_row)}
    has_same_bytes = all(first_row[name] == second_row[name] for name in ("timestamp", "key", "value"))
    return (len(ids) == 1 and None not in ids) or (None in ids and has_same_bytes)


def _mark_as_replayed(destination: MemoryDestination, rows: list[Row], statement: dict[str, Any]) -> list[Row]:
    source = destination.tables.get(statement["source"])
    snapshot = source.snapshots.get(statement["snapshot_id"]) if source else None
    if snapshot is None:
        raise RetryLater(f"Spark failed in merge: no snapshot={statement['snapshot_id']}")
    attempt, table_name = statement["attempt"], {"table": statement["target"]}
    bad_places = {_get_place({**r, **table_name}) for r in snapshot.rows if (r["attempt"], r["op"]) == (attempt, "bad")}
    ids = statement["ids"]

    def is_read(row: Row) -> bool:
        is_waiting = row["table"] == statement["target"] and row["replayed_at"] is None
        is_same_topic = (row.get("topic_id") or None) == (ids.get(row["topic"]) or None)
        return (
            is_waiting and is_same_topic and is_within(row, statement["ranges"]) and _get_place(row) not in bad_places
        )

    replay_marks = {"replayed_at": destination.clock(), "replayed_by": attempt}
    return [{**row, **replay_marks} if is_read(row) else row for row in rows]


def list_waiting_records(destination: MemoryDestination, job: StageJob) -> list[tuple[str, int, Record]]:
    """The dead letters that a job reads instead of the log, as records at their places."""
    letters = job.letters
    assert letters is not None
    rows = [r for r in destination.tables[letters.table].read_rows() if r["table"] == letters.destination]
    topic_ids = letters.topic_ids
    rows = [r for r in rows if (r.get("topic_id") or None) == (topic_ids.get(r["topic"]) or None)]
    waiting_rows = [r for r in rows if r["replayed_at"] is None and is_within(r, job.ranges)]
    return [
        (r["topic"], r["partition"], Record(r["offset"], r["key"], r["value"], r["timestamp"])) for r in waiting_rows
    ]


def _get_place(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("table", "topic", "partition", "offset"))
