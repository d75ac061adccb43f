"""What history means, in a few lines, and what its two statements do in Python."""

import json
from collections import defaultdict
from typing import Any

from fakes.lake import Row
from fakes.sequenced import build_sort_key

Change = tuple[Any, str, tuple[Any, ...], int, Any]
TIME, KIND, PLACE = "_tidegate_valid_from", "_tidegate_kind", ("topic", "partition", "offset", "i")


def compute_versions(changes: list[Change]) -> list[tuple[Any, Any, Any, Any]]:
    """The model: rows (key, value, from, to) of changes (key, upsert | delete | tombstone, sequence, timestamp, value).

    A change stands at the first part of its sequence; a tombstone has none, and ends what came before it and no more.
    """
    rows = []
    for key in {change[0] for change in changes}:
        reached: list[Any] = []
        at: dict[Any, list[Any]] = defaultdict(list)
        for number, (_, kind, sequence, timestamp, value) in enumerate(c for c in changes if c[0] == key):
            time = max([timestamp, *reached]) if kind == "tombstone" else sequence[0]
            reached.append(timestamp if kind == "tombstone" else time)
            at[time].append((kind, build_sort_key(list(sequence)) or [], number, value))
        rows += _lay_out_versions(key, at)
    return rows


def _lay_out_versions(key: Any, at: dict[Any, list[Any]]) -> list[tuple[Any, Any, Any, Any]]:
    rows: list[tuple[Any, Any, Any, Any]] = []
    standing: tuple[Any, Any] | None = None
    place = -9
    for time in sorted(at):
        last = max(((s, n, v) for kind, s, n, v in at[time] if kind == "upsert"), default=None, key=lambda c: c[:2])
        place = place if last is None else last[1]
        told = [change for change in at[time] if change[0] in ("delete", "tombstone")]
        ends = any(n > place if kind == "tombstone" else last is None or (s, n) > last[:2] for kind, s, n, _ in told)
        # where a row ended, and the change that ended it is forgotten
        ends |= not told and any(kind == "ended" and n > (last[1] if last else -9) for kind, _, n, _ in at[time])
        if last is not None and (standing is None or standing[1] != last[2]):
            rows += [(key, standing[1], standing[0], time)] if standing else []
            standing = (time, last[2])
        if ends and standing:
            rows.append((key, standing[1], standing[0], time))
            standing = None
    return rows + ([(key, standing[1], standing[0], None)] if standing else [])


def remember_changes(statement: dict[str, Any], remembered: list[Row], staged: list[Row], rows: list[Row]) -> list[Row]:
    """The facts of a batch among those that are known."""
    after = {json.dumps([fact["key"], fact[TIME], fact[KIND]]): fact for fact in remembered}
    reached: dict[str, list[Any]] = defaultdict(list)
    for key, time in [(fact["key"], fact[TIME]) for fact in remembered] + [
        (_get_key(statement, row), row[statement[end]]) for row in rows for end in ("valid_from", "valid_to")
    ]:
        reached[json.dumps(key)] += [time] if time is not None else []
    known = {json.dumps([fact[name] for name in PLACE]) for fact in remembered}
    for row in sorted(staged, key=lambda r: (r["offset"], r["i"])):
        time, kind, name = _get_time(statement, row), _get_kind(statement, row), json.dumps(row["key"])
        if kind == "t" and json.dumps([row[name] for name in PLACE]) in known:
            continue
        reached[name].append(time)
        time = max(reached[name]) if kind == "t" else time
        place = json.dumps([row["key"], time, kind])
        fact = {**{n: row[n] for n in (*PLACE, "key", "value", "sequence", "timestamp")}, TIME: time, KIND: kind}
        if place not in after or _get_order(fact) > _get_order(after[place]):
            after[place] = fact
    return list(after.values())


def merge_history(statement: dict[str, Any], table: list[Row], staged: list[Row], remembered: list[Row]) -> Any:
    """The table's rows after the batch's keys were laid out anew, and what changed."""
    touched = {json.dumps(row["key"]) for row in staged}
    changes = []
    for row in table:
        if json.dumps(_get_key(statement, row)) in touched:
            values = {name: row.get(name) for name in statement["values"]}
            sequence = [row.get(name) for name in statement["sequence"]]
            begin, end = row[statement["valid_from"]], row[statement["valid_to"]]
            changes.append((_get_key(statement, row), "upsert", begin, sequence, -2, values))
            if end is not None:
                changes.append((_get_key(statement, row), "ended", end, [], -1 if begin == end else -3, values))
    words = {"u": "upsert", "d": "delete", "t": "tombstone"}
    for fact in (fact for fact in remembered if json.dumps(fact["key"]) in touched):
        value = fact["value"] and {name: fact["value"].get(name) for name in statement["values"]}
        changes.append((fact["key"], words[fact[KIND]], fact[TIME], fact["sequence"] or [], fact["offset"], value))
    made = {
        json.dumps([row[name] for name in _list_names(statement)]): row for row in _build_versions(statement, changes)
    }
    kept = [row for row in table if json.dumps(_get_key(statement, row)) not in touched]
    before = {
        json.dumps([r[n] for n in _list_names(statement)]): r
        for r in table
        if json.dumps(_get_key(statement, r)) in touched
    }
    counts = {"inserted": len(made.keys() - before.keys()), "deleted": len(before.keys() - made.keys())}
    counts["updated"] = sum(made[name] != before[name] for name in made.keys() & before.keys())
    return [*kept, *made.values()], counts


def _build_versions(statement: dict[str, Any], changes: list[Any]) -> list[Row]:
    stamps = [name for name, _ in statement["compared"]]
    rows = []
    for name in dict.fromkeys(json.dumps(change[0]) for change in changes):
        at: dict[Any, list[Any]] = defaultdict(list)
        full = {}
        for key, kind, time, sequence, place, values in changes:
            if json.dumps(key) == name:
                told = json.dumps([values[c] for c in stamps]) if kind == "upsert" else None
                at[time].append((kind, build_sort_key(sequence), place, told))
                if kind == "upsert":
                    full[time] = max(
                        full.get(time, ([], -9, None)), (build_sort_key(sequence), place, values), key=_get_order_prefix
                    )
        for _, _, begin, end in _lay_out_versions(name, at):
            span = {statement["valid_from"]: begin, statement["valid_to"]: end, statement["is_current"]: end is None}
            rows.append({**_get_key_columns(statement, json.loads(name)), **full[begin][2], **span})
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
