"""What the audits of a merge job find, in Python."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tidegate.errors import RetryLater
from tidegate.model import resource_names

from fakes.lake import MemoryDestination
from fakes.tables import Row, find_turn, is_of_parts

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
    return [r for r in snapshot_rows if is_of_parts(r, values["parts"])]


def _compute_written_rows(values: dict[str, Any], staged_rows: list[Row]) -> list[Row]:
    """The rows that the merge of this mode writes."""
    changes = sorted(staged_rows, key=partial(find_turn, values))
    if values["rows"] == "delete":
        last_deletes = {json.dumps(r["key"]): find_turn(values, r) for r in changes if r["op"] == "d"}
        changes = [r for r in changes if find_turn(values, r) > last_deletes.get(json.dumps(r["key"]), (-1,))]
    elif values["rows"] != "append":
        changes = list({json.dumps(r["key"]): r for r in changes}.values())
    return [{**r["key"], **r["value"]} for r in changes if r["op"] != "d"]


def write_answers(job_audits: Any, destination: MemoryDestination, judges: Judges) -> None:
    """Leave the answers where the worker looks for them."""
    violation_counts = [count_violations(question, destination, judges) for question in job_audits.questions]
    text = json.dumps({"attempt": job_audits.attempt, "broken": violation_counts})
    assert job_audits.property.startswith(resource_names.name_audit_property(""))
    destination.tables[job_audits.table].properties[job_audits.property] = text
