"""What the statements for `sequence_by` do, in Python: the same windows and the same comparisons, row by row."""

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from fakes.lake import Row

Counted = tuple[list[Row], dict[str, int]]


def build_sort_key(sequence: list[Any] | None) -> list[tuple[bool, Any]] | None:
    """A sequence as Spark compares structs: field by field, NULL lowest."""
    return None if sequence is None else [(part is not None, 0 if part is None else part) for part in sequence]


def get_key(statement: dict[str, Any], row: Row) -> str:
    return json.dumps([row.get(column) for column, _ in statement["keys"]])


@dataclass
class Change:
    """One row of `_sequenced.sql`: the last upsert that counts (or none), the highest sequence, the last reset."""

    row: Row | None
    last: Row | None
    reset: Row | None

    @property
    def ends_deleted(self) -> bool:
        if self.last is None or self.last["op"] == "d":
            return True
        return self.reset is not None and get_order(self.reset) > get_order(self.last)


def get_order(row: Row) -> tuple[Any, ...]:
    return row["offset"], row["topic"], row["partition"], row["i"]


def find_changes(statement: dict[str, Any], staged: list[Row]) -> dict[str, Change]:
    by_key: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(staged, key=get_order):
        by_key[get_key(statement, row["key"])].append(row)
    return {key: _change(rows) for key, rows in by_key.items()}


def _change(rows: list[Row]) -> Change:
    found = Change(None, None, None)
    for row in rows:
        if row["sequence"] is None:
            found.reset = row
        elif found.last is None or build_sort_key(row["sequence"]) >= build_sort_key(found.last["sequence"]):
            found.last = row
            found.row = row if row["op"] != "d" else found.row
    return found


def remember_deletes(statement: dict[str, Any], remembered: list[Row], staged: list[Row], rows: list[Row]) -> list[Row]:
    after = {get_key(statement, row): row for row in remembered}
    standing = {get_key(statement, row): [row.get(name) for name in statement["sequence"]] for row in rows}
    for key, change in find_changes(statement, staged).items():
        deletes = [change.reset, change.last if change.last and change.last["op"] == "d" else None]
        by = max((row for row in deletes if row), key=get_order, default=None)
        reached = [change.last["sequence"] if change.last else None, standing.get(key) if change.reset else None]
        sequence = max((s for s in reached if s is not None), key=build_sort_key, default=None)
        if by is None or sequence is None:
            continue
        known = after.get(key)
        kept = statement["soft"] and change.row is not None
        if known is not None and kept:
            kept = build_sort_key(change.row["sequence"]) >= build_sort_key(known["sequence"])
        if not kept and (known is None or build_sort_key(sequence) >= build_sort_key(known["sequence"])):
            place = {name: by[name] for name in ("topic", "partition", "offset", "timestamp")}
            after[key] = {**by["key"], "sequence": sequence, **place}
    return list(after.values())


def merge_sequenced(statement: dict[str, Any], table: list[Row], staged: list[Row], remembered: list[Row]) -> Counted:
    known = {get_key(statement, row): build_sort_key(row["sequence"]) for row in remembered}
    after = {get_key(statement, row): row for row in table}
    counts = {"inserted": 0, "updated": 0, "deleted": 0}
    merge_one = _apply_soft_delete if statement["soft"] else _apply_hard_delete
    for key, change in find_changes(statement, staged).items():
        allowed = [row and _is_reached(row, known.get(key)) and row for row in (change.row, change.last)]
        row, newest = (found or None for found in allowed)
        standing = after.get(key)
        what, made = merge_one(statement, change, row, newest, standing)
        if what:
            counts[what] += 1
            after.pop(key, None)
            after |= {key: {**(standing or {}), **made}} if made else {}
    return list(after.values()), counts


def _is_reached(row: Row, sequence: list[Any] | None) -> bool:
    return sequence is None or build_sort_key(row["sequence"]) >= sequence


def _get_standing_sequence(statement: dict[str, Any], standing: Row) -> list[Any]:
    return build_sort_key([standing.get(name) for name in statement["sequence"]])


def _build_row(statement: dict[str, Any], row: Row) -> Row:
    return {**row["key"], **{name: row["value"].get(name) for name in statement["values"]}}


def _apply_hard_delete(
    statement: dict[str, Any], change: Change, row: Row | None, newest: Row | None, standing: Row | None
) -> tuple[str | None, Row]:
    if standing is None:
        inserted = newest is not None and not change.ends_deleted
        return ("inserted", _build_row(statement, newest)) if inserted else (None, {})
    counts = newest is not None and _is_reached(newest, _get_standing_sequence(statement, standing))
    if change.ends_deleted if counts else change.reset is not None:
        return "deleted", {}
    return ("updated", _build_row(statement, newest)) if counts else (None, {})


def _apply_soft_delete(
    statement: dict[str, Any], change: Change, row: Row | None, newest: Row | None, standing: Row | None
) -> tuple[str | None, Row]:
    flag, ends = statement["flag"], {statement["flag"]: change.ends_deleted}
    ordered = dict(zip(statement["sequence"], newest["sequence"], strict=True)) if newest else {}
    if standing is None:
        return ("inserted", {**_build_row(statement, row), **ordered, **ends}) if row else (None, {})
    stands_at = _get_standing_sequence(statement, standing)
    if row is not None and _is_reached(row, stands_at):
        return "updated", {**_build_row(statement, row), **ordered, **ends}
    if newest is not None and _is_reached(newest, stands_at):
        return "updated", {**ordered, flag: True}
    return ("updated", {flag: True}) if change.reset else (None, {})
