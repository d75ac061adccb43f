"""How a batch's rows are written into a table: appended where none of its keys is there, else merged.

A batch with a truncate of the source table is written in place of all rows.
"""

from dataclasses import dataclass

from tidegate.errors import GiveUp
from tidegate.jobs.evaluation import choose_evaluation
from tidegate.model.batch import StagedBatch
from tidegate.model.merge_input import MergeInput
from tidegate.model.table_state import Reparenting
from tidegate.ports.context import Ports, TableState
from tidegate.spec.table import DeleteMode, Table, TableMode
from tidegate.sql.pruning import UNBOUNDED, Bounds

APPEND, MERGE, TRUNCATE = "append", "merge", "truncate"
WRITTEN_AS_PROPERTY = "tidegate.written-as"
DIRECT_PROPERTY = "tidegate.direct"  # of a snapshot whose rows were not staged
TRUNCATED_AT_PROPERTY = "tidegate.truncated-at"  # the offset of the truncate in a snapshot's batch
# Spark would sort the rows once more, to leave out a key's earlier ones before it moves them to where they are compared
DISTINCT_KEYS_CONF = {"spark.sql.optimizer.windowGroupLimitThreshold": "-1"}
# a truncate takes all partitions, not only those that the rows behind it fall into
WHOLE_TABLE_CONF = {"spark.sql.sources.partitionOverwriteMode": "static"}


@dataclass(frozen=True)
class WritePlan:
    """What was found of the table before a batch is written; without `bounds` nothing was looked for."""

    bounds: Bounds | None = None
    written_as: str = MERGE


MERGE_UNBOUNDED = WritePlan()


def choose_write_mode(
    ports: Ports, table: Table, staged: StagedBatch, state: TableState, values: MergeInput
) -> WritePlan:
    """How the rows get into the snapshot of `state`, from which the branch must be cut: it holds for no other one.

    `values` are what the merge is filled with.
    """
    if staged.truncated_at is not None:
        return WritePlan(written_as=TRUNCATE)
    if table.mode == TableMode.APPEND:
        return WritePlan(written_as=APPEND)
    if table.history is not None:
        return MERGE_UNBOUNDED
    bounds = ports.tables.find_bounds(table.name, {**values, "at": state.snapshot_id, "rows": staged.counts.staged})
    return WritePlan(bounds, APPEND if _adds_only_new_keys(table, staged) and _has_only_new_keys(bounds) else MERGE)


def choose_direct_write(ports: Ports, table: Table, state: TableState) -> WritePlan:
    """How rows of which nothing is known before they are written get in: merged, unless the table holds none.

    That is looked up in its manifests: what a snapshot tells of its rows is as good as its writer.
    """
    if table.mode == TableMode.APPEND:
        return WritePlan(UNBOUNDED, APPEND)
    is_empty = state.total_records == 0 and ports.tables.count_rows(table.name) == 0
    return WritePlan(UNBOUNDED, APPEND if is_empty else MERGE)


def describe_write(staged: StagedBatch, plan: WritePlan) -> dict[str, str]:
    """What a snapshot tells of how its rows came into the table, and where the source table was emptied."""
    truncated = {} if staged.truncated_at is None else {TRUNCATED_AT_PROPERTY: str(staged.truncated_at)}
    direct = {DIRECT_PROPERTY: "true"} if staged.direct else {}
    return {WRITTEN_AS_PROPERTY: plan.written_as, **truncated, **direct}


def choose_spark_conf(staged: StagedBatch, plan: WritePlan) -> dict[str, str]:
    """What Spark is told for the statements of a batch."""
    conf = dict(DISTINCT_KEYS_CONF) if staged.keys_differ else {}
    if staged.truncated_at is not None:
        conf |= WHOLE_TABLE_CONF
    rows = _count_rows_read(staged, plan)
    return conf if rows is None else conf | choose_evaluation(rows)


def _count_rows_read(staged: StagedBatch, plan: WritePlan) -> int | None:
    """At most how many rows the statements read, of the batch and of the table; None where that is not known.

    A direct job knows more than its statement: how many records it reads.
    """
    if staged.direct:
        return None
    if plan.written_as == APPEND:
        return staged.counts.staged
    if plan.bounds is None or plan.bounds.overlap is None:
        return None
    return staged.counts.staged + plan.bounds.overlap.rows


def check_is_sole_writer(ports: Ports, where: str, staged: StagedBatch) -> None:
    """`GiveUp` where a truncate would take rows that another pipeline brought in, from another source table."""
    if staged.truncated_at is None:
        return
    others = [name for name in ports.tables.list_pipelines(staged.table) if name != ports.pipeline.name]
    if others:
        raise GiveUp(
            f"{where}: the batch holds a truncate at offset={staged.truncated_at}, and the table has rows of "
            f"pipeline={', '.join(others)} too; nothing was merged; give each pipeline a table of its own, or set "
            "value.truncate: ignore and remove the rows yourself"
        )


def is_folded(table: Table, staged: StagedBatch) -> bool:
    """Whether a key's records are folded column by column: in partial updates, and where one keeps an unchanged value.

    Without such records the last one of each key decides alone, and the statement is the cheaper one.
    """
    return table.partial_updates or staged.kept > 0


def is_always_written(table: Table, staged: StagedBatch) -> bool:
    """Whether a staged row changes the table whatever that holds: no row is a delete, and none can come too late."""
    if table.mode == TableMode.APPEND:
        return True
    return (
        table.mode == TableMode.UPSERT
        and table.history is None
        and not table.sequence_by
        and not is_folded(table, staged)
    )


def plan_reparenting(table: Table, staged: StagedBatch, values: MergeInput) -> Reparenting | None:
    """How it can be proven that a merge does the same on a newer main; None where that takes its rows, not its files.

    A delete, or an upsert that writes each column, is the same whatever became of the row of its key. Audits ask about
    the branch as a whole, and a truncate takes whatever main holds.
    """
    if table.audits or staged.truncated_at is not None:
        return None
    if table.mode == TableMode.APPEND or not staged.counts.staged:
        return Reparenting()
    if table.upsert and not _writes_each_column(table, values):
        return None
    asks_rows = (
        table.sequence_by or table.history is not None or table.deletes != DeleteMode.HARD or is_folded(table, staged)
    )
    return None if asks_rows else Reparenting(values)


def _writes_each_column(table: Table, values: MergeInput) -> bool:
    """Whether an upsert of a row that is there leaves nothing of it; without values it would not even touch it."""
    written = {name for name, _ in values["keys"]} | set(values["values"])
    return (
        bool(values["values"])
        and table.target_schema is not None
        and {name for name, _ in table.target_schema.fields} <= written
    )


def _has_only_new_keys(bounds: Bounds) -> bool:
    return bounds.overlap is not None and not bounds.overlap.files


def _adds_only_new_keys(table: Table, staged: StagedBatch) -> bool:
    """Whether a key that is not in the table is no more than a row to add, or a delete of nothing."""
    plain = table.upsert and table.deletes == DeleteMode.HARD and not table.sequence_by
    return plain and not is_folded(table, staged)
