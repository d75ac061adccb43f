"""What a merge job does, in Python: it merges staged rows into a branch, and remembers deletes and changes."""

import json
import re
from typing import Any

from tidegate.errors import RetryLater

from fakes.bounds import check_bounds
from fakes.folded import merge_folded
from fakes.lake import MemoryDestination
from fakes.sequenced import build_sort_key, merge_sequenced, remember_deletes
from fakes.tables import Row, find_place, is_of_parts
from fakes.unsequenced import merge_unsequenced
from fakes.versions import merge_history, remember_changes

UPDATE_COUNT_PREFIX = "spark.merge-into.num-target-rows-"


class MergeRunner:
    """Runs the statements that change rows of a destination table, or of its memory."""

    destination: MemoryDestination

    def merge_rows(self, statement: dict[str, Any], summary: dict[str, str]) -> None:
        rows = self._select_staged_rows(statement)
        branch = statement["branch"].removeprefix("branch_")
        target = self.destination.tables.get(statement["target"])
        if target is None or branch not in target.refs:
            raise RetryLater(f"Spark failed in merge: no branch={branch}")
        keys = [column for column, _ in statement["keys"]]
        if statement["statement"].startswith("merge_truncate"):
            is_folded = statement["statement"] == "merge_truncate_folded"
            upsert_statement = {**statement, "statement": "merge_upsert_delete"}
            merged_rows, _ = (
                merge_folded(statement, [], rows) if is_folded else merge_unsequenced(upsert_statement, [], rows, keys)
            )
            summary_counts = {"added-records": len(merged_rows), "deleted-records": len(target.read_rows(branch))}
            snapshot_summary = {**summary, **{name: str(number) for name, number in summary_counts.items()}}
            self.destination.add_snapshot(statement["target"], branch, tuple(merged_rows), snapshot_summary)
            return
        check_bounds(statement, [row["key"] for row in rows])
        if statement["statement"] == "merge_sequenced":
            memory_branch = branch if statement.get("is_remembered") else "main"
            deletes = statement["deletes"]
            remembered_rows = self.destination.tables[deletes].read_rows(memory_branch) if deletes else []
            merged_rows, counts = merge_sequenced(statement, target.read_rows(branch), rows, remembered_rows)
        elif statement["statement"] == "merge_history":
            facts = self.destination.tables[statement["changes"]].read_rows(branch)
            merged_rows, counts = merge_history(statement, target.read_rows(branch), rows, facts)
        elif statement["statement"] == "merge_folded":
            merged_rows, counts = merge_folded(statement, target.read_rows(branch), rows)
        else:
            merged_rows, counts = merge_unsequenced(statement, target.read_rows(branch), rows, keys)
        if any(counts.values()):
            is_insert = statement["statement"] in ("merge_append", "merge_new")
            summary_counts = {"added-records": counts["inserted"]} if is_insert else {}
            summary_counts = summary_counts or {UPDATE_COUNT_PREFIX + name: number for name, number in counts.items()}
            snapshot_summary = {**summary, **{name: str(number) for name, number in summary_counts.items()}}
            self.destination.add_snapshot(statement["target"], branch, tuple(merged_rows), snapshot_summary)

    def remember_rows(self, statement: dict[str, Any], summary: dict[str, str]) -> None:
        has_history = statement["statement"] == "remember_changes"
        memory = statement["changes" if has_history else "deletes"]
        memory_table, target = self.destination.tables[memory], self.destination.tables[statement["target"]]
        branch = statement["branch"].removeprefix("branch_")
        rows = target.read_rows(branch) if statement["asks_rows"] else []
        remember = remember_changes if has_history else remember_deletes
        new_rows = remember(statement, memory_table.read_rows(branch), self._select_staged_rows(statement), rows)
        self.destination.add_snapshot(memory, branch, tuple(new_rows), summary)

    def _select_staged_rows(self, statement: dict[str, Any]) -> list[Row]:
        source_table = self.destination.tables.get(statement["source"])
        if source_table is None or statement["snapshot_id"] not in source_table.snapshots:
            raise RetryLater(f"Spark failed in merge: no snapshot={statement['snapshot_id']}")
        staged_rows = [r for r in source_table.snapshots[statement["snapshot_id"]].rows if r["op"] != "bad"]
        target_columns = [column for column, field in statement["keys"] if field is None]
        staged_rows = (
            [{**row, "key": {target_columns[0]: row["key"]}} for row in staged_rows] if target_columns else staged_rows
        )
        rows = [r for r in staged_rows if is_of_parts(r, statement["parts"])]
        rows = [r for r in rows if r["offset"] > statement.get("truncated_at", -1)]
        if statement.get("guarded"):
            rows = _drop_superseded_rows(
                rows, [r for r in staged_rows if r["batch_number"] > statement["batch"]], statement
            )
        return [_rename_columns(row, statement) for row in rows]


def _rename_columns(row: Row, statement: dict[str, Any]) -> Row:
    """A staged row under the table's names, where a column was renamed."""
    key = dict(zip((column for column, _ in statement["keys"]), row["key"].values(), strict=True))
    if row["value"] is None:
        return {**row, "key": key}
    candidates = {
        column: [row["value"].get(name) for name in re.findall("`([^`]+)`", sql)]
        for column, sql in statement.get("expressions", {}).items()
    }
    value = {column: next((v for v in values if v is not None), None) for column, values in candidates.items()}
    named = {name: part for name, part in {**row["value"], **value}.items() if name in {*statement["values"], *key}}
    return {**row, "key": key, "value": named}


def _drop_superseded_rows(rows: list[Row], later_rows: list[Row], statement: dict[str, Any]) -> list[Row]:
    """What a backfill or a replay may apply: records of keys that no later one up to the position supersedes."""

    def build_key(row: Row) -> str:
        return json.dumps(row["key"], sort_keys=True)

    # of a replay, the letters' own records are among the later ones
    own_places = {find_place(row) for row in rows} if "by_offset" in statement else set()
    later_by_key: dict[str, list[Row]] = {}
    for row in later_rows:
        if find_place(row) not in own_places:
            later_by_key.setdefault(build_key(row), []).append(row)
    if "sequence" not in statement:
        return [
            row
            for row in rows
            if not any(
                "by_offset" not in statement or later["topic"] != row["topic"] or later["offset"] > row["offset"]
                for later in later_by_key.get(build_key(row), [])
            )
        ]
    by_key: dict[str, list[Row]] = {}
    for row in rows:
        by_key.setdefault(build_key(row), []).append(row)
    superseded = {
        key
        for key, key_rows in by_key.items()
        if any(_supersedes(later, key_rows, statement) for later in later_by_key.get(key, []))
    }
    return [row for row in rows if build_key(row) not in superseded]


def _supersedes(later: Row, rows: list[Row], statement: dict[str, Any]) -> bool:
    """Whether a later record decides a key: of its rows the highest sequence counts, and behind it a delete without."""
    sequenced_rows = [(build_sort_key(row["sequence"]), row["offset"]) for row in rows if row["sequence"] is not None]
    last, last_offset = max(sequenced_rows, default=(None, -1))
    sequence = build_sort_key(later["sequence"])
    if last is not None and sequence is not None and sequence < last:
        return False
    if "by_offset" not in statement or later["topic"] != rows[0]["topic"]:
        return True
    reset_offset = max((row["offset"] for row in rows if row["sequence"] is None), default=-1)
    is_higher = last is not None and sequence is not None and sequence > last
    return later["offset"] > reset_offset and (is_higher or later["offset"] > last_offset)
