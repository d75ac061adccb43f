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

# a pipeline's property of its table: the last batch that was to be direct and was staged after all
STAGED_INSTEAD_PROPERTY = "staged-instead"
REFUSED_BATCH_PROPERTY = "tidegate.not-direct"  # of an intermediate table: the last batch that could not be direct
BATCHES_STAGED = 50  # after such a batch, this many are staged at once: each might be read twice otherwise
# Rows of the table for each offset of the batch. The merge of a direct batch knows none of its keys beforehand, so it
# reads the key of every row; beyond, bounds and named keys of staged rows save more than staging costs.
MAX_ROWS_PER_OFFSET = 10
SMALL_TABLE_ROWS = 100_000  # whose keys are read for less than a batch is staged for, however few its offsets are
DIRECT_MODES = (TableMode.UPSERT_DELETE, TableMode.UPSERT, TableMode.APPEND)


def can_merge_directly(pipeline: Pipeline, table: Table) -> bool:
    """Whether the rows of a batch are right without a look at staged ones, in this pipeline and table.

    Not where several tables share one read, where a batch of the queue may wait, where rows that are there decide
    (`sequence_by`, history, partial updates), and where audits or a truncate are asked of the staged rows.
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
    """Whether the merge reads so few rows of the table, and writes so few, that staging would cost more."""
    if table.mode == TableMode.APPEND or state is None:
        return True
    if state.rewrites_files or state.total_records is None:
        return False
    return state.total_records <= max(SMALL_TABLE_ROWS, MAX_ROWS_PER_OFFSET * ranges.span)


def is_behind_refused(batch: int, last_refused: str | None) -> bool:
    """Whether a batch shortly before could not be direct. `last_refused` is its number, None for none."""
    return last_refused is not None and int(last_refused) <= batch <= int(last_refused) + BATCHES_STAGED


def find_staged_instead(pipeline: str, state: TableState | None) -> tuple[int, str] | None:
    """The last direct batch that was staged after all: its number, and the attempt that was to be direct."""
    marks = state.marks if state else {}
    text = marks.get(resource_names.name_pipeline_property(pipeline, STAGED_INSTEAD_PROPERTY), "")
    number, _, attempt = text.partition(" ")
    return (int(number), attempt) if number.isdecimal() else None


def build_staged_instead(pipeline: str, batch: int, attempt: str) -> dict[str, str]:
    """The property that remembers it, for the commit that publishes the batch."""
    return {resource_names.name_pipeline_property(pipeline, STAGED_INSTEAD_PROPERTY): f"{batch} {attempt}"}
