"""How a batch's rows are written into a table: appended where none of its keys is there, else merged."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.model.batch import StagedBatch
from tidegate.model.table_state import Reparenting
from tidegate.ports.context import Ports, TableState
from tidegate.spec.table import Table
from tidegate.sql.pruning import Bounds

APPEND, MERGE = "append", "merge"


@dataclass(frozen=True)
class WritePlan:
    """What was found of the table before a batch is written; without `bounds` nothing was looked for."""

    bounds: Bounds | None = None
    written_as: str = MERGE


MERGE_UNBOUNDED = WritePlan()


def choose_write_mode(
    ports: Ports, table: Table, staged: StagedBatch, state: TableState, values: Mapping[str, Any]
) -> WritePlan:
    """The way into the snapshot of `state`, from which the branch must then be cut: what is found holds for no other.

    `values` are what the merge is filled with.
    """
    if table.mode == "append":
        return WritePlan(written_as=APPEND)
    if table.history is not None:
        return MERGE_UNBOUNDED
    bounds = ports.tables.find_bounds(table.name, {**values, "at": state.snapshot_id, "rows": staged.counts.staged})
    return WritePlan(bounds, APPEND if _only_adds_new_keys(table, staged) and _has_only_new_keys(bounds) else MERGE)


def is_folded(table: Table, staged: StagedBatch) -> bool:
    """Whether a key's records are folded column by column: in partial updates, and where one keeps an unchanged value.

    Without such records the last one of each key decides alone, and the statement is the cheaper one.
    """
    return table.partial_updates or staged.kept > 0


def is_always_written(table: Table, staged: StagedBatch) -> bool:
    """Whether a staged row changes the table whatever that holds: no row is a delete, and none can come too late."""
    if table.mode == "append":
        return True
    return table.mode == "upsert" and table.history is None and not table.sequence_by and not is_folded(table, staged)


def plan_reparenting(table: Table, staged: StagedBatch, values: Mapping[str, Any]) -> Reparenting | None:
    """How it can be proven that a merge does the same on a newer main; None where that takes its rows, not its files.

    A delete, or an upsert that writes each column, is the same whatever became of the row of its key. Audits ask about
    the branch as a whole.
    """
    if table.audits:
        return None
    if table.mode == "append" or not staged.counts.staged:
        return Reparenting()
    if table.upsert and not _writes_each_column(table, values):
        return None
    asks_rows = table.sequence_by or table.history is not None or table.deletes != "hard" or is_folded(table, staged)
    return None if asks_rows else Reparenting(dict(values))


def _writes_each_column(table: Table, values: Mapping[str, Any]) -> bool:
    """Whether an upsert of a row that is there leaves nothing of it; without values it would not even touch it."""
    written = {name for name, _ in values["keys"]} | set(values["values"])
    return bool(values["values"]) and table.held is not None and {name for name, _ in table.held.fields} <= written


def _has_only_new_keys(bounds: Bounds) -> bool:
    return bounds.overlap is not None and not bounds.overlap.files


def _only_adds_new_keys(table: Table, staged: StagedBatch) -> bool:
    """Whether a key that is not in the table is no more than a row to add, or a delete of nothing."""
    plain = table.upsert and table.deletes == "hard" and not table.sequence_by
    return plain and not is_folded(table, staged)
