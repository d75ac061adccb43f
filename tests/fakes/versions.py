"""What history means, in a few lines, and what its two statements do in Python."""

import json
from collections import defaultdict
from typing import Any

from fakes.sequenced import build_sort_key
from fakes.tables import Row

Change = tuple[Any, str, tuple[Any, ...], int, Any]
TIME, KIND, PLACE = "_tidegate_valid_from", "_tidegate_kind", ("topic", "partition", "offset", "i")


def compute_versions(changes: list[Change]) -> list[tuple[Any, Any, Any, Any]]:
    """The model: rows (key, value, from, to) of changes (key, upsert | delete | tombstone, sequence, timestamp, value).

    A change stands at the first part of its sequence; a tombstone has none, and ends what came before it and no more.
    """
    rows = []
    for key in {change[0] for change in changes}:
        times: list[Any] = []
        changes_by_time: dict[Any, list[Any]] = defaultdict(list)
        for number, (_, kind, sequence, timestamp, value) in enumerate(c for c in changes if c[0] == key):
            time = max([timestamp, *times]) if kind == "tombstone" else sequence[0]
            times.append(timestamp if kind == "tombstone" else time)
            changes_by_time[time].append((kind, build_sort_key(list(sequence)) or [], number, value))
        rows += _lay_out_versions(key, changes_by_time)
    return rows


def _lay_out_versions(key: Any, changes_by_time: dict[Any, list[Any]]) -> list[tuple[Any, Any, Any, Any]]:
    rows: list[tuple[Any, Any, Any, Any]] = []
    current_version: tuple[Any, Any] | None = None
    place = -9
    for time in sorted(changes_by_time):
        last_upsert = max(
            ((s, n, v) for kind, s, n, v in changes_by_time[time] if kind == "upsert"),
            default=None,
            key=lambda c: c[:2],
        )
        place = place if last_upsert is None else last_upsert[1]
        deletes = [change for change in changes_by_time[time] if change[0] in ("delete", "tombstone")]
        ends = any(
            n > place if kind == "tombstone" else last_upsert is None or (s, n) > last_upsert[:2]
            for kind, s, n, _ in deletes
        )
        # where a row ended, and the change that ended it is forgotten
        ends |= not deletes and any(
            kind == "ended" and n > (last_upsert[1] if last_upsert else -9) for kind, _, n, _ in changes_by_time[time]
        )
        if last_upsert is not None and (current_version is None or current_version[1] != last_upsert[2]):
            rows += [(key, current_version[1], current_version[0], time)] if current_version else []
            current_version = (time, last_upsert[2])
        if ends and current_version:
            rows.append((key, current_version[1], current_version[0], time))
            current_version = None
    return rows + ([(key, current_version[1], current_version[0], None)] if current_version else [])


def remember_changes(
    statement: dict[str, Any], remembered_facts: list[Row], staged_rows: list[Row], rows: list[Row]
) -> list[Row]:
    """The facts of a batch among those that are known."""
    facts_by_place = {json.dumps([fact["key"], fact[TIME], fact[KIND]]): fact for fact in remembered_facts}
    times_by_key: dict[str, list[Any]] = defaultdict(list)
    for key, time in [(fact["key"], fact[TIME]) for fact in remembered_facts] + [
        (_get_key(statement, row), row[statement[end]]) for row in rows for end in ("valid_from", "valid_to")
    ]:
        times_by_key[json.dumps(key)] += [time] if time is not None else []
    known_places = {json.dumps([fact[name] for name in ("key", *PLACE)]) for fact in remembered_facts}
    for row in sorted(staged_rows, key=lambda r: (r["offset"], r["i"])):
        time, kind, name = _get_time(statement, row), _get_kind(statement, row), json.dumps(row["key"])
        if kind == "t" and json.dumps([row[name] for name in ("key", *PLACE)]) in known_places:
            continue
        times_by_key[name].append(time)
        time = max(times_by_key[name]) if kind == "t" else time
        place = json.dumps([row["key"], time, kind])
        fact = {**{n: row[n] for n in (*PLACE, "key", "value", "sequence", "timestamp")}, TIME: time, KIND: kind}
        if place not in facts_by_place or _get_order(fact) > _get_order(facts_by_place[place]):
            facts_by_place[place] = fact
    return list(facts_by_place.values())


def merge_history(
    statement: dict[str, Any], table: list[Row], staged_rows: list[Row], remembered_facts: list[Row]
) -> Any:
    """The table's rows after the batch's keys were laid out anew, and what changed."""
    changed_keys = {json.dumps(row["key"]) for row in staged_rows}
    no_versions = [row for row in table if row.get(statement["valid_from"]) is None]
    table = [row for row in table if row not in no_versions]
    changes = []
    for row in table:
        if json.dumps(_get_key(statement, row)) in changed_keys:
            values = {name: row.get(name) for name in statement["values"]}
            sequence = [row.get(name) for name in statement["sequence"]]
            begin, end = row[statement["valid_from"]], row[statement["valid_to"]]
            changes.append((_get_key(statement, row), "upsert", begin, sequence, -2, values))
            if end is not None:
                changes.append((_get_key(statement, row), "ended", end, [], -1 if begin == end else -3, values))
    kind_names = {"u": "upsert", "d": "delete", "t": "tombstone"}
    for fact in (fact for fact in remembered_facts if json.dumps(fact["key"]) in changed_keys):
        value = fact["value"] and {name: fact["value"].get(name) for name in statement["values"]}
        changes.append((fact["key"], kind_names[fact[KIND]], fact[TIME], fact["sequence"] or [], fact["offset"], value))
    new_versions = {
        json.dumps([row[name] for name in _list_names(statement)]): row for row in _build_versions(statement, changes)
    }
    unchanged_rows = [row for row in table if json.dumps(_get_key(statement, row)) not in changed_keys]
    old_versions = {
        json.dumps([r[n] for n in _list_names(statement)]): r
        for r in table
        if json.dumps(_get_key(statement, r)) in changed_keys
    }
    counts = {
        "inserted": len(new_versions.keys() - old_versions.keys()),
        "deleted": len(old_versions.keys() - new_versions.keys()),
    }
    counts["updated"] = sum(
        new_versions[name] != old_versions[name] for name in new_versions.keys() & old_versions.keys()
    )
    return [*no_versions, *unchanged_rows, *new_versions.values()], counts


def _build_versions(statement: dict[str, Any], changes: list[Any]) -> list[Row]:
    compared_columns = [name for name, _ in statement["compared"]]
    rows = []
    for name in dict.fromkeys(json.dumps(change[0]) for change in changes):
        changes_by_time: dict[Any, list[Any]] = defaultdict(list)
        values_by_time = {}
        for key, kind, time, sequence, place, values in changes:
            if json.dumps(key) == name:
                compared_text = json.dumps([values[c] for c in compared_columns]) if kind == "upsert" else None
                changes_by_time[time].append((kind, build_sort_key(sequence), place, compared_text))
                if kind == "upsert":
                    values_by_time[time] = max(
                        values_by_time.get(time, ([], -9, None)),
                        (build_sort_key(sequence), place, values),
                        key=_get_order_prefix,
                    )
        for _, _, begin, end in _lay_out_versions(name, changes_by_time):
            span = {statement["valid_from"]: begin, statement["valid_to"]: end, statement["is_current"]: end is None}
            rows.append({**_get_key_columns(statement, json.loads(name)), **values_by_time[begin][2], **span})
    return rows


def _get_order_prefix(change: tuple[Any, ...]) -> tuple[Any, ...]:
    return change[:2]


def _get_key_columns(statement: dict[str, Any], key: Row) -> Row:
    return {column: key[column] for column, _ in statement["keys"]}


def _list_names(statement: dict[str, Any]) -> list[str]:
    return [*(column for column, _ in statement["keys"]), statement["valid_from"]]


def _get_key(statement: dict[str, Any], row: Row) -> Row:
    return {column: row[column] for column, _ in statement["keys"]}


def _get_kind(statement: dict[str, Any], row: Row) -> str:
    if row["op"] != "d":
        return "u"
    return "t" if statement["sequence"] and row["sequence"][0] is None else "d"


def _get_time(statement: dict[str, Any], row: Row) -> Any:
    return row["timestamp"] if not statement["sequence"] or row["sequence"][0] is None else row["sequence"][0]


def _get_order(fact: Row) -> Any:
    return ([] if fact[KIND] == "t" else build_sort_key(fact["sequence"])) or [], fact["offset"], fact["i"]
