"""What merge_folded does, in Python: a key's records column by column, life by life."""

import json
from functools import partial
from typing import Any

from tidegate.jobs.stage_job import StageTable

from fakes.tables import Row, find_turn


def replace_placeholders(table: StageTable, value: Row) -> tuple[Row, list[str]]:
    """The value with NULL where the source holds an unchanged value's place, and the names of those columns."""
    placeholder_columns = [name for name in table.unchanged if value.get(name) == table.value.unavailable]
    return {name: None if name in placeholder_columns else value[name] for name in value}, placeholder_columns


def merge_folded(
    statement: dict[str, Any], table: list[Row], staged_rows: list[Row]
) -> tuple[list[Row], dict[str, int]]:
    flag, counts = statement["flag"], {"inserted": 0, "updated": 0, "deleted": 0}

    def build_key(row: Row) -> str:
        return json.dumps([row.get(column) for column, _ in statement["keys"]])

    rows_by_key = {build_key(row): row for row in table}
    by_key: dict[str, list[Row]] = {}
    for row in sorted(staged_rows, key=partial(find_turn, statement)):
        by_key.setdefault(build_key(row["key"]), []).append(row)
    for key, rows in by_key.items():
        count_name, merged_row = _merge_rows(statement, flag, rows_by_key.get(key), rows)
        if count_name:
            counts[count_name] += 1
            rows_by_key.pop(key, None)
            rows_by_key |= {key: merged_row} if merged_row is not None else {}
    return list(rows_by_key.values()), counts


def _merge_rows(
    statement: dict[str, Any], flag: str | None, current_row: Row | None, rows: list[Row]
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
        return ("deleted" if current_row else None), None
    if number is None:
        return ("updated", {**current_row, flag: True}) if current_row else (None, None)
    starts_empty = number > 0 or current_row is None
    row = {**(current_row or {}), **rows[0]["key"], **(dict.fromkeys(statement["values"]) if starts_empty else {})}
    for change in lives[number]:
        row |= {name: change["value"].get(name) for name in statement["values"] if _has_value(statement, name, change)}
    if starts_empty:
        row |= {name: lives[number][0]["value"].get(name) for name, _ in _iterate_rules(statement, "first")}
    for name, _ in _iterate_rules(statement, "by_sequence"):
        row |= _choose_group_values(statement, name, lives[number], None if starts_empty else current_row)
    row |= {flag: ends_deleted} if flag else {}
    return ("updated" if current_row else "inserted"), row


def _iterate_rules(statement: dict[str, Any], rule: str) -> list[tuple[str, Any]]:
    return [(name, given) for name, given in statement["given"].items() if given[0] == rule]


def _choose_group_values(statement: dict[str, Any], name: str, life: list[Row], current_row: Row | None) -> Row:
    """A column of a sequence group: of the record with the highest sequence, unless the row's is higher."""
    sequence = statement["given"][name][1][0]
    sequenced_changes = [change for change in life if change["value"].get(sequence) is not None]
    newest_change = max(
        sequenced_changes,
        key=lambda change: (change["value"][sequence], find_turn(statement, change)),
        default=None,
    )
    if current_row is None:
        return {name: (newest_change or life[0])["value"].get(name)}
    current_sequence = current_row.get(sequence)
    is_newer = newest_change is not None and (
        current_sequence is None or newest_change["value"][sequence] >= current_sequence
    )
    is_newer = is_newer and not (statement["late"] and newest_change["value"][sequence] == current_sequence)
    return {name: newest_change["value"].get(name)} if is_newer else {}


def _has_value(statement: dict[str, Any], name: str, change: Row) -> bool:
    rule, fields = statement["given"][name]
    if rule in ("by_sequence", "first"):
        return False
    if rule == "not_null":
        return change["value"].get(name) is not None
    return rule == "always" or not set(fields) & set(change["kept"])
