"""Columns that a batch's records make: found by its stage job, and staged by a second one.

The rows of a flush bring them along, and its merge adds them to the table. A backfill and a replay compare what they
stage with the table, so they add them first.
"""

from functools import partial

from tidegate.errors import GiveUp
from tidegate.flush.stage_request import NO_COLUMN
from tidegate.jobs.stage_job import StageTable
from tidegate.model.batch import PlannedBatch
from tidegate.ports.session import Session
from tidegate.schema.data_types import Column
from tidegate.schema.inferred_types import overlay_columns
from tidegate.table.session import TableSession

MAX_SHOWN_COLUMNS = 5
NOTHING_TO_MAKE = (
    "no record has a field with a value, so there is no column to make the table of; declare value.schema, or wait for "
    "other records"
)


def find_lacking_columns(session: Session, planned: PlannedBatch, stage_table: StageTable) -> tuple[Column, ...]:
    """Return the columns with which the batch is to be staged again; none if its job had all, or found a bad record.

    The attempt must not be completed before. `GiveUp` for more new fields than `value.infer.max_new_columns`, and for
    rows of a table that has no column yet.
    """
    if not stage_table.value.adds_columns:
        return ()
    return session.recall_columns(stage_table.attempt, partial(_read_lacking_columns, session, planned, stage_table))


def _read_lacking_columns(session: Session, planned: PlannedBatch, stage_table: StageTable) -> tuple[Column, ...]:
    outcome = session.staging.read_job_outcome(stage_table.intermediate, planned.batch, stage_table.attempt)
    if outcome is None or outcome.bad:
        return ()
    place = f"pipeline={session.pipeline.name} table={planned.table} batch={planned.batch}"
    if not outcome.lacking.fields:
        has_columns = stage_table.key_columns or stage_table.metadata or stage_table.value_columns != (NO_COLUMN,)
        if not has_columns and outcome.count_records(planned.ranges.span).to_write:
            # staged, these rows would wait for a table, and the records that make one for these rows
            raise GiveUp(f"{place}: {NOTHING_TO_MAKE}")
        return ()
    most = stage_table.value.infer.max_new_columns
    if outcome.lacking.fields > most:
        names = ", ".join(column.name for column in outcome.lacking.columns[:MAX_SHOWN_COLUMNS])
        raise GiveUp(
            f"{place}: the records have new_fields={outcome.lacking.fields}, more than "
            f"value.infer.max_new_columns={most}, in {names}; nothing was added; declare a MAP or a STRING in "
            "value.schema for the object that holds them, or raise it"
        )
    return overlay_columns(planned.added, outcome.lacking.columns)


def add_lacking_columns(table: TableSession, planned: PlannedBatch, stage_table: StageTable) -> bool:
    """Add the columns that `find_lacking_columns` returns to a table that is there; False if there are none."""
    added = find_lacking_columns(table.session, planned, stage_table)
    if added:
        table.add_columns(added).refresh().evolve()
    return bool(added)
