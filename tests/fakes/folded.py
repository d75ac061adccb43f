"""What merge_folded does, in Python: a key's records column by column, life by life."""

import json
from typing import Any

from tidegate.jobs.stage_job import StageTable

from fakes.lake import Row


def replace_placeholders(table: StageTable, value: Row) -> tuple[Row, list[str]]:
    """The value with NULL where the source holds an unchanged value's place, and the names of those columns."""
    held = [name for name in table.unchanged if value.get(name) == table.value.unavailable]
    return {name: None if name in held else value[name] for name in value}, held


def merge_folded(statement: dict[str, Any], table: list[Row], staged: list[Row]) -> tuple[list[Row], dict[str, int]]:
    flag, counts = statement["flag"], {"inserted": 0, "updated": 0, "deleted": 0}

    def key_of(row: Row) -> str:
        return json.dumps([row.get(column) for column, _ in statement["keys"]])

    after = {key_of(row): row for row in table}
    by_key: dict[str, list[Row]] = {}
    for row in sorted(staged, key=_get_order):
        by_key.setdefault(key_of(row["key"]), []).append(row)
    for key, rows in by_key.items():
        what, made = _merge_rows(statement, flag, after.get(key), rows)
        if what:
            counts[what] += 1
            after.pop(key, None)
            after |= {key: made} if made is not None else {}
    return list(after.values()), counts


def _merge_rows(
    statement: dict[str, Any], flag: str | None, standing: Row | None, rows: list[Row]
) -> tuple[str | None, Row | None]:
    lives: list[list[Row]] = [[]]
    for row in rows:
        if row["op"] != "d":
            lives[-1].append(row)
        elif flag is None:
            lives.append([])
    number = max((n for n, life in enumerate(lives) if life), default=None)
    ends_deleted = rows[-1]["op"] == "d"
    if flag is None and ends_deleted:
        return ("deleted" if standing else None), None
    if number is None:
        return ("updated", {**standing, flag: True}) if standing else (None, None)
    fresh = number > 0 or standing is None
    row = {**(standing or {}), **rows[0]["key"], **(dict.fromkeys(statement["values"]) if fresh else {})}
    for change in lives[number]:
        row |= {name: change["value"].get(name) for name in statement["values"] if _has_value(statement, name, change)}
    for name in (name for name in statement["values"] if statement["given"][name][0] == "by_sequence"):
        row |= _choose_group_values(statement, name, lives[number], None if fresh else standing)
    row |= {flag: ends_deleted} if flag else {}
    return ("updated" if standing else "inserted"), row


def _get_order(row: Row) -> tuple[Any, ...]:
    return row["offset"], row["topic"], row["partition"], row["i"]


def _choose_group_values(statement: dict[str, Any], name: str, life: list[Row], standing: Row | None) -> Row:
    """A column of a sequence group: of the record with the highest sequence, unless the row's is higher."""
    sequence = statement["given"][name][1][0]
    told = [change for change in life if change["value"].get(sequence) is not None]
    newest = max(told, key=lambda change: (change["value"][sequence], _get_order(change)), default=None)
    if standing is None:
        return {name: (newest or life[0])["value"].get(name)}
    reached = standing.get(sequence)
    wins = newest is not None and (reached is None or newest["value"][sequence] >= reached)
    wins = wins and not (statement["late"] and newest["value"][sequence] == reached)
    return {name: newest["value"].get(name)} if wins else {}


def _has_value(statement: dict[str, Any], name: str, change: Row) -> bool:
    how, fields = statement["given"][name]
    if how == "by_sequence":
        return False
    if how == "not_null":
        return change["value"].get(name) is not None
    return how == "always" or not set(fields) & set(change["kept"])
