"""What the statements for `sequence_by` do, in Python: the same windows and the same comparisons, row by row."""

import json
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from typing import Any

from fakes.tables import Row, find_turn

Counted = tuple[list[Row], dict[str, int]]


def build_sort_key(sequence: list[Any] | None) -> list[tuple[bool, Any]] | None:
    """A sequence as Spark compares structs: field by field, NULL lowest."""
    return None if sequence is None else [(value is not None, 0 if value is None else value) for value in sequence]


def get_key(statement: dict[str, Any], row: Row) -> str:
    return json.dumps([row.get(column) for column, _ in statement["keys"]])


@dataclass
class Change:
    """One row of `_sequenced.sql`: the last upsert that counts (or none), the highest sequence, the last reset."""

    row: Row | None
    last: Row | None
    reset: Row | None
    is_reset_later: bool = False

    @property
    def ends_deleted(self) -> bool:
        return self.last is None or self.last["op"] == "d" or self.is_reset_later


def find_changes(statement: dict[str, Any], staged_rows: list[Row]) -> dict[str, Change]:
    by_key: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(staged_rows, key=partial(find_turn, statement)):
        by_key[get_key(statement, row["key"])].append(row)
    return {key: _build_change(rows) for key, rows in by_key.items()}


def _build_change(rows: list[Row]) -> Change:
    change = Change(None, None, None)
    for row in rows:
        if row["sequence"] is None:
            change.reset = row
            change.is_reset_later = True
        elif change.last is None or build_sort_key(row["sequence"]) >= build_sort_key(change.last["sequence"]):
            change.last = row
            change.is_reset_later = False
            change.row = row if row["op"] != "d" else change.row
    return change


def remember_deletes(
    statement: dict[str, Any], remembered_rows: list[Row], staged_rows: list[Row], rows: list[Row]
) -> list[Row]:
    facts_by_key = {get_key(statement, row): row for row in remembered_rows}
    current_rows = {get_key(statement, row): [row.get(name) for name in statement["sequence"]] for row in rows}
    for key, change in find_changes(statement, staged_rows).items():
        deletes = [change.reset, change.last if change.last and change.last["op"] == "d" else None]
        deleting_change = max((row for row in deletes if row), key=partial(find_turn, statement), default=None)
        sequences = [change.last["sequence"] if change.last else None, current_rows.get(key) if change.reset else None]
        sequence = max((s for s in sequences if s is not None), key=build_sort_key, default=None)
        if deleting_change is None or sequence is None:
            continue
        known_fact = facts_by_key.get(key)
        is_soft_deleted = statement["soft"] and change.row is not None
        if known_fact is not None and is_soft_deleted:
            is_soft_deleted = build_sort_key(change.row["sequence"]) >= build_sort_key(known_fact["sequence"])
        if not is_soft_deleted and (
            known_fact is None or build_sort_key(sequence) >= build_sort_key(known_fact["sequence"])
        ):
            place = {name: deleting_change[name] for name in ("topic", "partition", "offset", "timestamp")}
            facts_by_key[key] = {**deleting_change["key"], "sequence": sequence, **place}
    return list(facts_by_key.values())


def merge_sequenced(
    statement: dict[str, Any], table: list[Row], staged_rows: list[Row], remembered_rows: list[Row]
) -> Counted:
    sequences_by_key = {get_key(statement, row): build_sort_key(row["sequence"]) for row in remembered_rows}
    rows_by_key = {get_key(statement, row): row for row in table}
    counts = {"inserted": 0, "updated": 0, "deleted": 0}
    merge_one = _apply_soft_delete if statement["soft"] else _apply_hard_delete
    for key, change in find_changes(statement, staged_rows).items():
        allowed_rows = [
            row and _is_reached(row, sequences_by_key.get(key)) and row for row in (change.row, change.last)
        ]
        row, newest_change = (allowed_row or None for allowed_row in allowed_rows)
        current_row = rows_by_key.get(key)
        count_name, new_values = merge_one(statement, change, row, newest_change, current_row)
        if count_name:
            counts[count_name] += 1
            rows_by_key.pop(key, None)
            rows_by_key |= {key: {**(current_row or {}), **new_values}} if new_values else {}
    return list(rows_by_key.values()), counts


def _is_reached(row: Row, sequence: list[Any] | None) -> bool:
    return sequence is None or build_sort_key(row["sequence"]) >= sequence


def _get_standing_sequence(statement: dict[str, Any], current_row: Row) -> list[Any]:
    return build_sort_key([current_row.get(name) for name in statement["sequence"]])


def _build_row(statement: dict[str, Any], row: Row) -> Row:
    return {**row["key"], **{name: row["value"].get(name) for name in statement["values"]}}


def _apply_hard_delete(
    statement: dict[str, Any], change: Change, row: Row | None, newest_change: Row | None, current_row: Row | None
) -> tuple[str | None, Row]:
    if current_row is None:
        is_insert = newest_change is not None and not change.ends_deleted
        return ("inserted", _build_row(statement, newest_change)) if is_insert else (None, {})
    is_applied = newest_change is not None and _is_reached(
        newest_change, _get_standing_sequence(statement, current_row)
    )
    if change.ends_deleted if is_applied else change.reset is not None:
        return "deleted", {}
    return ("updated", _build_row(statement, newest_change)) if is_applied else (None, {})


def _apply_soft_delete(
    statement: dict[str, Any], change: Change, row: Row | None, newest_change: Row | None, current_row: Row | None
) -> tuple[str | None, Row]:
    flag, deletion_flag = statement["flag"], {statement["flag"]: change.ends_deleted}
    sequence_values = dict(zip(statement["sequence"], newest_change["sequence"], strict=True)) if newest_change else {}
    if current_row is None:
        return ("inserted", {**_build_row(statement, row), **sequence_values, **deletion_flag}) if row else (None, {})
    current_sequence = _get_standing_sequence(statement, current_row)
    if row is not None and _is_reached(row, current_sequence):
        return "updated", {**_build_row(statement, row), **sequence_values, **deletion_flag}
    if newest_change is not None and _is_reached(newest_change, current_sequence):
        return "updated", {**sequence_values, flag: True}
    return ("updated", {flag: True}) if change.reset else (None, {})
