"""What the audits of a merge job find, in Python."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from tidegate.errors import RetryLater
from tidegate.model import resource_names

from fakes.lake import MemoryDestination, Row

Judges = Mapping[str, Callable[[Any], bool]]  # an audit's text: what it says of one row, or of all rows of the branch


def broken(question: str, destination: MemoryDestination, judges: Judges) -> int:
    """How often the audit behind this statement does not hold."""
    asked = json.loads(question)
    if asked["statement"] == "audit_query":
        rows = destination.tables[asked["target"]].rows(asked["branch"].removeprefix("branch_"))
        return int(not judges[asked["query"]](rows))
    if asked["rows"] == "branch":
        keys = {json.dumps(row["key"]) for row in _staged(asked, destination)}
        of_keys = [
            r
            for r in destination.tables[asked["target"]].rows(asked["branch"].removeprefix("branch_"))
            if json.dumps({field: r[column] for column, field in asked["keys"]}) in keys
        ]
        return sum(not judges[asked["condition"]](row) for row in of_keys)
    return sum(not judges[asked["condition"]](row) for row in _written(asked, _staged(asked, destination)))


def _staged(asked: dict[str, Any], destination: MemoryDestination) -> list[Row]:
    found = destination.tables.get(asked["source"])
    if found is None or asked["snapshot_id"] not in found.snapshots:
        raise RetryLater(f"Spark failed in merge: no snapshot={asked['snapshot_id']}")
    pinned = found.snapshots[asked["snapshot_id"]].rows
    return [r for r in pinned if (r["batch_number"], r["attempt"]) == (asked["batch"], asked["attempt"])]


def _written(asked: dict[str, Any], staged: list[Row]) -> list[Row]:
    """The rows that the merge of this mode writes."""
    ordered = sorted(staged, key=lambda r: (r["offset"], r["i"]))
    if asked["rows"] == "delete":
        last = {json.dumps(r["key"]): r["offset"] for r in ordered if r["op"] == "d"}
        ordered = [r for r in ordered if r["offset"] > last.get(json.dumps(r["key"]), -1)]
    elif asked["rows"] != "append":
        ordered = list({json.dumps(r["key"]): r for r in ordered}.values())
    return [{**r["key"], **r["value"]} for r in ordered if r["op"] != "d"]


def answer(job_audits: Any, destination: MemoryDestination, judges: Judges) -> None:
    """Leave the answers where the worker looks for them."""
    found = [broken(question, destination, judges) for question in job_audits.questions]
    text = json.dumps({"attempt": job_audits.attempt, "broken": found})
    assert job_audits.property.startswith(resource_names.name_audit_property(""))
    destination.tables[job_audits.table].properties[job_audits.property] = text
