"""Whether one job may read a batch's records and merge them, so that nothing is staged.

Then each row is written once instead of twice. If the job meets what only staged rows can answer (a bad record, a row
that keeps some of its values), it ends before anything is published, and the batch is staged as any other.
"""

from tidegate.model import resource_names
from tidegate.model.offsets import Ranges
from tidegate.ports.context import TableState
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.runtime import SparkMode, UseWhen
from tidegate.spec.table import DeleteMode, Table, TableMode

# A property of the destination table, for each pipeline: the last batch that was planned direct and then staged.
STAGED_INSTEAD_PROPERTY = "staged-instead"
REFUSED_BATCH_PROPERTY = "tidegate.not-direct"  # of the intermediate table: the last batch that could not be direct
BATCHES_STAGED = 50  # after such a batch so many are staged: a direct try that fails reads the batch twice
# Rows of the table for each offset of the batch. A direct merge does not know the batch's keys, so it reads the key of
# every row. In larger tables a staged merge, which knows them, saves more than staging costs.
MAX_ROWS_PER_OFFSET = 10
SMALL_TABLE_ROWS = 100_000  # reading the keys of so many rows costs less than staging any batch
DIRECT_MODES = (TableMode.UPSERT_DELETE, TableMode.UPSERT, TableMode.APPEND)


def can_merge_directly(pipeline: Pipeline, table: Table) -> bool:
    """Whether this pipeline and table allow a merge without staged rows.

    Staged rows are needed if several tables share one read, if the table's own rows decide (`sequence_by`, history,
    partial updates), if rows are soft-deleted or selected by SQL, and for audits and truncates.
    """
    return (
        pipeline.merge.direct == UseWhen.AUTO
        and pipeline.spark.mode == SparkMode.CONNECT
        and not pipeline.has_several
        and table.mode in DIRECT_MODES
        and table.deletes == DeleteMode.HARD
        and table.history is None
        and table.select is None
        and not table.sequence_by
        and not table.sequence_groups
        and not table.partial_updates
        and not table.audits
        and not table.value.applies_truncates
    )


def is_direct_worth_it(table: Table, state: TableState | None, ranges: Ranges) -> bool:
    """Whether a direct merge costs less than staging: it reads the keys of few rows, and rewrites no files."""
    if table.mode == TableMode.APPEND or state is None:
        return True
    if state.rewrites_files or state.total_records is None:
        return False
    return state.total_records <= max(SMALL_TABLE_ROWS, MAX_ROWS_PER_OFFSET * ranges.span)


def is_behind_refused(batch: int, last_refused: str | None) -> bool:
    """Whether one of the batches just before could not be direct. `last_refused` is its number, None for none."""
    return last_refused is not None and int(last_refused) <= batch <= int(last_refused) + BATCHES_STAGED


def find_staged_instead(pipeline: str, state: TableState | None) -> tuple[int, str] | None:
    """The last batch that was planned direct and then staged: its number, and the attempt of the direct try."""
    marks = state.marks if state else {}
    text = marks.get(resource_names.name_pipeline_property(pipeline, STAGED_INSTEAD_PROPERTY), "")
    number, _, attempt = text.partition(" ")
    return (int(number), attempt) if number.isdecimal() else None


def build_staged_instead(pipeline: str, batch: int, attempt: str) -> dict[str, str]:
    """The property that `find_staged_instead` reads; the commit that publishes the batch sets it."""
    return {resource_names.name_pipeline_property(pipeline, STAGED_INSTEAD_PROPERTY): f"{batch} {attempt}"}
