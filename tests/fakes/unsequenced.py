"""Merges in which the offset decides, in Python: inserts, upserts, deletes, soft deletes, and those of a backfill."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from fakes.tables import Row, find_turn


def merge_unsequenced(
    request: dict[str, Any], table: list[Row], staged_rows: list[Row], keys: list[str]
) -> tuple[list[Row], dict[str, int]]:
    """What the statement does; keys are compared null-safe, by Python's own equality."""
    statement, values = request["statement"], request["values"]

    def build_key(row: Row) -> tuple[Any, ...]:
        return tuple(json.dumps(row.get(name)) for name in keys)

    def build_row(row: Row) -> Row:
        return {**row["key"], **{name: row["value"].get(name) for name in values}}

    changes = sorted(staged_rows, key=partial(find_turn, request))
    counts = {"inserted": 0, "updated": 0, "deleted": 0}
    if statement == "merge_append":
        new_rows = [build_row(row) for row in changes if row["op"] != "d"]
        return [*table, *new_rows], {**counts, "inserted": len(new_rows)}
    if statement == "merge_new":  # what is there is not looked at: a key that is there is there twice
        new_rows = [build_row(row) for row in {build_key(r["key"]): r for r in changes}.values() if row["op"] != "d"]
        return [*table, *new_rows], {**counts, "inserted": len(new_rows)}
    if statement == "merge_delete":
        last_deletes = {build_key(r["key"]): find_turn(request, r) for r in changes if r["op"] == "d"}
        remaining_rows = [row for row in table if build_key(row) not in last_deletes]
        new_rows = [
            build_row(r)
            for r in changes
            if r["op"] != "d" and find_turn(request, r) > last_deletes.get(build_key(r["key"]), (-1,))
        ]
        return [*remaining_rows, *new_rows], {
            "inserted": len(new_rows),
            "updated": 0,
            "deleted": len(table) - len(remaining_rows),
        }
    last_changes = {build_key(r["key"]): r for r in changes}
    if statement in ("backfill_append", "backfill_delete"):  # one row for a key that has none
        current_keys = {build_key(row) for row in table}
        last_changes = {key: r for key, r in last_changes.items() if r["op"] == "d" or key not in current_keys}
    if statement == "merge_soft_delete":
        return _delete_softly(request["flag"], table, changes, build_key, build_row)
    merged_rows = []
    for row in table:
        change = last_changes.pop(build_key(row), None)
        if change is None:
            merged_rows.append(row)
        elif change["op"] == "d":
            counts["deleted"] += 1
        else:
            counts["updated"] += 1
            merged_rows.append({**row, **build_row(change)})
    new_rows = [build_row(change) for change in last_changes.values() if change["op"] != "d"]
    return [*merged_rows, *new_rows], {**counts, "inserted": len(new_rows)}


def _delete_softly(
    flag: str, table: list[Row], changes: list[Row], build_key: Callable[[Row], Any], build_row: Callable[[Row], Row]
) -> tuple[list[Row], dict[str, int]]:
    rows_by_key = {build_key(row): row for row in table}
    keys_before = set(rows_by_key)
    deletion_flags = {build_key(r["key"]): r["op"] == "d" for r in changes}
    upserts = {build_key(r["key"]): r for r in changes if r["op"] != "d"}
    rows_by_key |= {key: {**rows_by_key.get(key, {}), **build_row(row)} for key, row in upserts.items()}
    rows_by_key |= {
        key: {**rows_by_key[key], flag: is_delete} for key, is_delete in deletion_flags.items() if key in rows_by_key
    }
    counts = {
        "inserted": len(set(rows_by_key) - keys_before),
        "updated": len(keys_before & set(deletion_flags)),
        "deleted": 0,
    }
    return list(rows_by_key.values()), counts
