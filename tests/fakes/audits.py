"""What the audits of a merge job find, in Python."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tidegate.errors import RetryLater
from tidegate.model import resource_names

from fakes.lake import MemoryDestination
from fakes.tables import Row, find_turn, is_of_parts
from fakes.verified import count_equal, count_kinds, count_unlettered, list_differences

Judges = Mapping[str, Callable[[Any], bool]]  # an audit's text: what it says of one row, or of all rows of the branch


def count_violations(question: str, destination: MemoryDestination, judges: Judges) -> int:
    """How often the audit behind this statement does not hold."""
    values = json.loads(question)
    if values["statement"] == "audit_query":
        rows = destination.tables[values["target"]].read_rows(values["branch"].removeprefix("branch_"))
        return int(not judges[values["query"]](rows))
    if values["rows"] == "branch":
        keys = {json.dumps(row["key"]) for row in _select_staged_rows(values, destination)}
        rows_of_keys = [
            r
            for r in destination.tables[values["target"]].read_rows(values["branch"].removeprefix("branch_"))
            if json.dumps({field: r[column] for column, field in values["keys"]}) in keys
        ]
        return sum(not judges[values["condition"]](row) for row in rows_of_keys)
    return sum(
        not judges[values["condition"]](row)
        for row in _compute_written_rows(values, _select_staged_rows(values, destination))
    )


def _select_staged_rows(values: dict[str, Any], destination: MemoryDestination) -> list[Row]:
    source_table = destination.tables.get(values["source"])
    if source_table is None or values["snapshot_id"] not in source_table.snapshots:
        raise RetryLater(f"Spark failed in merge: no snapshot={values['snapshot_id']}")
    snapshot_rows = source_table.snapshots[values["snapshot_id"]].rows
    return [r for r in snapshot_rows if is_of_parts(r, values["parts"]) and r["op"] != "bad"]


def _compute_written_rows(values: dict[str, Any], staged_rows: list[Row]) -> list[Row]:
    """The rows that the merge of this mode writes."""
    changes = sorted(staged_rows, key=partial(find_turn, values))
    if values["rows"] == "delete":
        last_deletes = {json.dumps(r["key"]): find_turn(values, r) for r in changes if r["op"] == "d"}
        changes = [r for r in changes if find_turn(values, r) > last_deletes.get(json.dumps(r["key"]), (-1,))]
    elif values["rows"] != "append":
        changes = list({json.dumps(r["key"]): r for r in changes}.values())
    return [{**r["key"], **r["value"]} for r in changes if r["op"] != "d"]


def compare_with_main(question: str, destination: MemoryDestination, judges: Judges) -> str:
    """The diff of a branch: its counts, a checksum, and what the condition says of them."""
    values = json.loads(question)
    before, after = _read_sides(values, destination)
    changed = _list_changed(values, destination, before, after)
    counts = {
        "inserted": sum(key not in before for key in changed),
        "updated": sum(key in before and key in after for key in changed),
        "deleted": sum(key not in after for key in changed),
        "rows": len(changed),
        "table_rows": sum(map(len, before.values())),
    }
    checksum = str([[key, before.get(key), after.get(key)] for key in changed])
    holds = values["when"] is not None and judges[values["when"]](counts)
    return json.dumps({**counts, "checksum": checksum, "when": holds})


def show_samples(question: str, destination: MemoryDestination, judges: Judges) -> str:
    """The changed rows, and the columns that change in updated ones."""
    values = json.loads(question)
    before, after = _read_sides(values, destination)
    # a key's last row; the query shows one of them too
    changed = _list_changed(values, destination, before, after)
    pairs = [tuple(rows.get(key, [None])[-1] for rows in (before, after)) for key in changed]
    updated = [(old, new) for old, new in pairs if old is not None and new is not None]
    columns = [{"column": c, "rows": sum(old[c] != new[c] for old, new in updated)} for c in values["columns"]]
    samples = [
        {
            "kind": "inserted" if old is None else "deleted" if new is None else "updated",
            **{side: json.dumps(row) for side, row in (("before", old), ("after", new)) if row is not None},
        }
        for old, new in pairs
    ]
    return json.dumps({"columns": [entry for entry in columns if entry["rows"]], "samples": samples})


def _list_changed(
    values: dict[str, Any], destination: MemoryDestination, before: dict[str, list[Row]], after: dict[str, list[Row]]
) -> list[str]:
    """The keys of the batch that it changes; behind a truncate all that differ."""
    keys = before.keys() | after.keys()
    if not values["truncates"]:
        keys &= {json.dumps(_list_key_values(row)) for row in _select_staged_rows(values, destination)}
    return sorted(key for key in keys if before.get(key) != after.get(key))


def _list_key_values(staged_row: Row) -> list[Any]:
    key = staged_row["key"]
    return list(key.values()) if isinstance(key, dict) else [key]


def _read_sides(values: dict[str, Any], destination: MemoryDestination) -> list[dict[str, list[Row]]]:
    """By key the rows on main, and those on the branch. A key has several where the table is not upserted into."""
    table = destination.tables[values["target"]]
    columns = [column for column, _ in values["keys"]]
    sides = []
    for ref in (values["main"].removeprefix("branch_") or "main", values["branch"].removeprefix("branch_")):
        rows_by_key: dict[str, list[Row]] = {}
        for row in table.read_rows(ref):
            if _is_there(values, row):
                rows_by_key.setdefault(json.dumps([row[column] for column in columns]), []).append(row)
        sides.append(rows_by_key)
    return sides


def _is_there(values: dict[str, Any], row: Row) -> bool:
    current = values["current"] is None or row[values["current"]]
    return current and not (values["flag"] and row[values["flag"]])


def write_answers(job_audits: Any, destination: MemoryDestination, judges: Judges) -> None:
    """Leave the answers where the worker looks for them."""
    ask = {"diff_counts": compare_with_main, "diff_samples": show_samples}
    verify = {"verify_buckets": count_equal, "verify_counts": count_kinds, "verify_differences": list_differences}
    verify |= {"verify_letters": count_unlettered}
    answers = [
        verify[statement](json.loads(question), destination)
        if (statement := json.loads(question)["statement"]) in verify
        else ask.get(statement, count_violations)(question, destination, judges)
        for question in job_audits.queries
    ]
    text = json.dumps({"attempt": job_audits.attempt, "broken": answers})
    assert job_audits.property.startswith(resource_names.name_audit_property(""))
    destination.tables[job_audits.table].properties[job_audits.property] = text
