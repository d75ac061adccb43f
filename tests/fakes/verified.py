"""What the statements of verify find, in Python: each key's rows in the table, beside what its staged records make."""

import json
from collections import Counter
from functools import partial
from typing import Any

from fakes.lake import MemoryDestination
from fakes.tables import Row, find_place, find_turn, is_of_parts

Rows = dict[str, list[Row]]  # by key


def count_equal(values: dict[str, Any], destination: MemoryDestination) -> str:
    """One bucket has all keys."""
    entries = _compare_keys(values, destination)
    is_same = all(entry["kind"] == "equal" for entry in entries)
    return json.dumps({"equal": len(entries) if is_same else 0, "buckets": [] if is_same else [0]})


def count_kinds(values: dict[str, Any], destination: MemoryDestination) -> str:
    entries = _compare_keys(values, destination)
    counts = Counter(entry["kind"] for entry in entries)
    copied = sum(entry["kind"] == "surplus" and entry["log"] is not None for entry in entries)
    return json.dumps({**{kind: counts[kind] for kind in values["kinds"]}, "copied": copied})


def list_differences(values: dict[str, Any], destination: MemoryDestination) -> str:
    entries = _compare_keys(values, destination)
    return json.dumps([entry for entry in entries if entry["kind"] in ("missing", "surplus", "different")])


def count_unlettered(values: dict[str, Any], destination: MemoryDestination) -> int:
    """The bad records that no letter names which waits or is over by itself."""
    letters = {find_place(letter) for letter in _list_letters(values, destination) if letter["replayed_by"] is None}
    rows = destination.tables[values["source"]].snapshots[values["snapshot_id"]].rows
    bad = [row for row in rows if is_of_parts(row, values["parts"]) and row["op"] == "bad"]
    return sum(find_place(row) not in letters for row in bad)


def _list_letters(values: dict[str, Any], destination: MemoryDestination) -> list[Row]:
    """The dead letters of the table, without those of another topic of the same name."""
    if values["letters"] is None:
        return []
    letters = destination.tables[values["letters"]].snapshots[values["letters_snapshot_id"]].rows
    ids = values["ids"]
    return [
        letter
        for letter in letters
        if letter["table"] == values["target"]
        and (letter["topic_id"] is None or ids.get(letter["topic"]) in (None, letter["topic_id"]))
    ]


def _compare_keys(values: dict[str, Any], destination: MemoryDestination) -> list[dict[str, Any]]:
    assert values["form"] == "last", (
        "records that are folded, by a sequence or with history, are not compared in Python"
    )
    records = [
        row
        for row in destination.tables[values["source"]].snapshots[values["last_snapshot_id"]].rows
        if is_of_parts(row, values["seen_parts"]) and row["op"] != "bad"
    ]
    read = sorted((row for row in records if is_of_parts(row, values["parts"])), key=partial(find_turn, values))
    last = {_name_key(values, record["key"]): record for record in read}
    in_log = {key: {**row["key"], **row["value"]} for key, row in last.items() if row["op"] != "d"}
    in_table: Rows = {}
    for row in destination.tables[values["target"]].snapshots[values["table_snapshot_id"]].rows:
        in_table.setdefault(_name_key(values, row), []).append(row)
    places: dict[str, set[tuple[str, int]]] = {}
    for record in read:
        places.setdefault(_name_key(values, record["key"]), set()).add((record["topic"], record["partition"]))
    letters = {find_place(letter) for letter in _list_letters(values, destination)}
    doubted = {
        _name_key(values, row["key"])
        for row in records
        if not is_of_parts(row, values["parts"]) or find_place(row) in letters
    }
    return [
        _describe(
            values,
            key,
            in_table.get(key, []),
            in_log.get(key),
            can_tell=key not in doubted and _tells(values, places, key),
        )
        for key in sorted(in_table.keys() | in_log.keys())
    ]


def _name_key(values: dict[str, Any], row: Row) -> str:
    return json.dumps({column: row[column] for column, _ in values["keys"]})


def _tells(values: dict[str, Any], places: dict[str, set[tuple[str, int]]], key: str) -> bool:
    """Whether the staged records alone tell the key's row: they are of one partition, and the log has all of them."""
    if values["is_complete"]:
        return len(places.get(key, ())) < 2
    return values["is_plain"] and key in places and all(len(of_key) == 1 for of_key in places.values())


def _describe(
    values: dict[str, Any], key: str, rows: list[Row], expected: Row | None, *, can_tell: bool
) -> dict[str, Any]:
    expected_rows = [] if expected is None else [{name: expected[name] for name in values["columns"]}]
    rows = [{name: row[name] for name in values["columns"]} for row in rows]
    if rows == expected_rows:
        kind = "equal"
    elif not can_tell or (values["may_lack_deletes"] and not rows):
        kind = "unknowable"
    elif not rows:
        kind = "missing"
    else:
        kind = "different" if expected_rows and len(rows) == 1 else "surplus"
    pairs = zip(rows, expected_rows, strict=False)
    columns = [
        {"column": name, "table": mine[name], "log": theirs[name]}
        for mine, theirs in pairs
        for name in values["columns"]
        if mine[name] != theirs[name]
    ]
    sides = {
        "table": json.dumps(rows[0]) if rows else None,
        "log": json.dumps(expected_rows[0]) if expected_rows else None,
    }
    return {"kind": kind, "key": key, "rows": len(rows), **sides, "columns": columns}
