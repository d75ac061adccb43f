"""How a batch's rows are written into a table: appended if none of its keys is there, else merged.

A batch with a truncate of the source table replaces all rows.
"""

from dataclasses import dataclass

from tidegate.errors import GiveUp
from tidegate.jobs.evaluation import choose_evaluation
from tidegate.model.batch import StagedBatch
from tidegate.model.merge_input import MergeInput
from tidegate.model.table_state import Reparenting
from tidegate.spec.table import DeleteMode, Table, TableMode
from tidegate.sql.pruning import Bounds
from tidegate.table.session import TableSession

APPEND = "append"
MERGE = "merge"
TRUNCATE = "truncate"
WRITTEN_AS_PROPERTY = "tidegate.written-as"
TRUNCATED_AT_PROPERTY = "tidegate.truncated-at"  # the offset of the truncate in a snapshot's batch
# else Spark sorts the rows once more, to drop a key's earlier ones before the shuffle
DISTINCT_KEYS_CONF = {"spark.sql.optimizer.windowGroupLimitThreshold": "-1"}
# a truncate replaces all partitions, not only those of the rows behind it
WHOLE_TABLE_CONF = {"spark.sql.sources.partitionOverwriteMode": "static"}


@dataclass(frozen=True)
class WritePlan:
    """How a batch is written; `bounds` limit which files the merge reads, None if none were looked for."""

    bounds: Bounds | None = None
    written_as: str = MERGE


MERGE_UNBOUNDED = WritePlan()


def choose_write_mode(table: TableSession, staged_batch: StagedBatch, values: MergeInput) -> WritePlan:
    """Choose how the rows are written. Holds only for a branch cut from the snapshot that was read."""
    spec = table.spec
    if staged_batch.truncated_at is not None:
        return WritePlan(written_as=TRUNCATE)
    if spec.mode == TableMode.APPEND:
        return WritePlan(written_as=APPEND)
    if spec.history is not None:
        return MERGE_UNBOUNDED
    snapshot_id = table.require_state().snapshot_id
    bounds = table.find_bounds({**values, "at": snapshot_id, "rows": staged_batch.counts.staged})
    has_only_new_keys = bounds.overlap is not None and not bounds.overlap.files
    is_plain = spec.upsert and spec.deletes == DeleteMode.HARD and not spec.sequence_by
    adds_only = is_plain and not is_folded(spec, staged_batch)
    return WritePlan(bounds, APPEND if adds_only and has_only_new_keys else MERGE)


def describe_write(staged_batch: StagedBatch, plan: WritePlan) -> dict[str, str]:
    truncated = {} if staged_batch.truncated_at is None else {TRUNCATED_AT_PROPERTY: str(staged_batch.truncated_at)}
    return {WRITTEN_AS_PROPERTY: plan.written_as, **truncated}


def choose_spark_conf(staged_batch: StagedBatch, plan: WritePlan) -> dict[str, str]:
    conf = dict(DISTINCT_KEYS_CONF) if staged_batch.keys_differ else {}
    if staged_batch.truncated_at is not None:
        conf |= WHOLE_TABLE_CONF
    staged = staged_batch.counts.staged
    if plan.written_as == APPEND:
        return conf | choose_evaluation(staged)
    overlap = plan.bounds.overlap if plan.bounds else None
    return conf if overlap is None else conf | choose_evaluation(staged + overlap.rows)


def check_is_sole_writer(table: TableSession, staged_batch: StagedBatch) -> None:
    """Raise `GiveUp` if a truncate would remove rows that another pipeline has written."""
    if staged_batch.truncated_at is None:
        return
    other_pipelines = table.list_other_pipelines()
    if other_pipelines:
        raise GiveUp(
            f"{table.prefix} {staged_batch.label}: the batch holds a truncate at "
            f"offset={staged_batch.truncated_at}, and the table has rows of pipeline={', '.join(other_pipelines)} too; "
            "nothing was merged; give each pipeline a table of its own, or set value.truncate: ignore and remove the "
            "rows yourself"
        )


def is_folded(table: Table, staged_batch: StagedBatch) -> bool:
    """Whether a key's records are folded column by column. Else the last record of each key decides alone."""
    return table.folds_records or staged_batch.kept > 0


def name_fold(table: Table, *, is_folded: bool) -> str:
    """Return by what a key's records become one row: `folded`, `sequenced`, `soft_delete`, or the `last` of them.

    With `history` they become a row for each version.
    """
    if table.history is not None:
        return "history"
    if is_folded:
        return "folded"
    if table.sequence_by:
        return "sequenced"
    return "soft_delete" if table.deletes == DeleteMode.SOFT else "last"


def is_always_written(table: Table, staged_batch: StagedBatch) -> bool:
    """Whether each staged row changes the table, whatever it holds: none is a delete, and none can be late."""
    if table.mode == TableMode.APPEND:
        return True
    return (
        table.mode == TableMode.UPSERT
        and table.history is None
        and not table.sequence_by
        and not is_folded(table, staged_batch)
    )


def plan_reparenting(table: Table, staged_batch: StagedBatch, values: MergeInput) -> Reparenting | None:
    """Return how files of a newer main prove that the merge would write equal rows there; None if rows must be read."""
    # audits read the whole branch, a diff what main has, and a truncate removes that
    if table.audits or table.approve or staged_batch.truncated_at is not None:
        return None
    if table.mode == TableMode.APPEND or not staged_batch.counts.staged:
        return Reparenting()
    # deletes, and upserts that write each column, do not depend on the row that they replace
    if table.upsert and not _writes_each_column(table, values):
        return None
    asks_rows = (
        table.sequence_by
        or table.history is not None
        or table.deletes != DeleteMode.HARD
        or is_folded(table, staged_batch)
    )
    return None if asks_rows else Reparenting(values)


def _writes_each_column(table: Table, values: MergeInput) -> bool:
    written_columns = {name for name, _ in values["keys"]} | set(values["values"])
    return (
        bool(values["values"])
        and table.target_schema is not None
        and {name for name, _ in table.target_schema.fields} <= written_columns
    )
