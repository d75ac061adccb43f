"""Backfills that are done, and whose rows a rollback of the table has taken since: nothing applies them again."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.model import resource_names
from tidegate.model.offsets import Offsets, Ranges, get_offset
from tidegate.ports.context import Ports
from tidegate.spec.time_text import format_utc, to_utc_datetime


@dataclass(frozen=True)
class UndoneBackfill:
    """Of one backfill the numbers of slices that are gone from a table; `command` applies all of it again."""

    id: str
    slices: frozenset[int]
    command: str


def build_slice_note(pipeline: str, request: str, facts: Mapping[str, Any]) -> str:
    """What a slice's snapshot tells of it: `facts`, whose backfill it is, and the words that ask for it again."""
    return json.dumps({**facts, "pipeline": pipeline, "asked": request})


def find_undone_backfills(ports: Ports, table: str) -> list[UndoneBackfill]:
    """The backfills of `table` that nobody goes on with, and of which a rollback has taken slices.

    Not those whose records the flush has yet to read again, as far as snapshots tell. A slice that is about to be
    published looks like one that is gone, until its backfill ends: so the table is looked at once more behind that.
    """
    name = ports.pipeline.name
    rolled_back_slices = ports.commits.list_rolled_back(table, resource_names.SLICE_PROPERTY)
    state = ports.tables.read_state(table, name) if rolled_back_slices else None
    if state is None or state.position is None:
        return []
    open_ids = {json.loads(note)["id"] for note in ports.history.list_backfills(table, name)}
    slices, commands = dict[str, set[int]](), dict[str, str]()
    for note in _read_notes(ports, table):
        backfill, number = note["id"], note["slice"]
        is_lost = (
            f"{backfill}/{number}" in rolled_back_slices
            and note.get("pipeline", name) == name
            and backfill not in open_ids
        )
        if is_lost and _is_passed(Ranges.from_dict(note["ranges"]), state.position.offsets):
            slices.setdefault(backfill, set()).add(number)
            commands[backfill] = _build_command(name, note.get("asked"))
    still_gone = ports.commits.list_rolled_back(table, resource_names.SLICE_PROPERTY) if slices else frozenset()
    undone = {
        backfill_id: frozenset(n for n in numbers if f"{backfill_id}/{n}" in still_gone)
        for backfill_id, numbers in slices.items()
    }
    return [
        UndoneBackfill(backfill_id, numbers, commands[backfill_id])
        for backfill_id, numbers in sorted(undone.items())
        if numbers
    ]


def _read_notes(ports: Ports, table: str) -> list[dict[str, Any]]:
    """What the snapshots of slices tell; those of a replay tell a word."""
    texts = ports.commits.list_rolled_back(table, resource_names.BACKFILL_PROPERTY)
    return [json.loads(text) for text in sorted(texts) if text.startswith("{")]


def _is_passed(ranges: Ranges, position: Offsets) -> bool:
    """Whether the position lies behind all of the ranges, so that the flush does not read them."""
    return all((get_offset(position, topic, partition) or 0) >= end for topic, partition, _, end in ranges)


def _build_command(pipeline: str, request: str | None) -> str:
    """The words of then; a snapshot of an earlier version does not tell them."""
    if request is None:
        return f"tidegate backfill {pipeline}, with the range of then"
    words, tables = json.loads(request)
    times = [words.get(name) for name in ("from_ms", "to_ms")]
    if all(isinstance(ms, int) for ms in times):
        begin, end = (format_utc(to_utc_datetime(ms)) for ms in times)
        range_words = f"--from {begin} --to {end}"
    else:
        range_words = f"--range '{json.dumps(words)}'"
    return " ".join(
        [
            f"tidegate backfill {pipeline} {range_words}",
            *(f"--table {resource_names.quote_word(table)}" for table in tables),
        ]
    )
