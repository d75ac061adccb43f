"""The two halves of a flush, each on its own clock: staging reads the log, merging publishes what is staged.

Both may run at once, and beside whole flushes: a batch belongs to the run that stages it, and a merge publishes only
what continues from the table's position. Staging touches neither a destination nor the group's offsets.
"""

from collections.abc import Callable, Set
from dataclasses import dataclass

from tidegate.errors import GiveUp, NothingToDo, SomeTables, find_kind, join_tables
from tidegate.flush.flush import FlushResult, flush_planned, plan_flush
from tidegate.flush.heartbeat import settle_start
from tidegate.flush.plan import plan
from tidegate.flush.refusals import format_refusals
from tidegate.flush.stage import stage_tables
from tidegate.model.batch import Plan, PlanScope, StagedBatch
from tidegate.ports.session import Session
from tidegate.table.progress import observe_tables
from tidegate.table.queue import count_mergeable, count_staged_rows, is_queue_full
from tidegate.table.template import expand_template


@dataclass(frozen=True)
class StagingResult:
    """What one run of staging did."""

    batches: tuple[StagedBatch, ...]
    failure: SomeTables | None = None  # of the tables that were refused; the others are staged all the same
    offsets_left: int = 0  # that no batch reached, of the table that is farthest behind; 0 if nothing was staged
    calls_merge: bool = False  # a merge need not wait for its time, see `is_merge_called`


def stage_new_batches(session: Session, report: Callable[[Plan], None] = lambda _: None) -> StagingResult:
    """Run plan and stage once: put a new batch behind the queue of each table that has records to read.

    `report` gets the plan before the work begins. `NothingToDo` if no record was added, or while a queue is full.
    """
    expanded_session = expand_template(session)
    stage_plan = plan_stage(expanded_session)
    report(stage_plan)
    settle_start(expanded_session)
    batches, refused = stage_tables(expanded_session, stage_plan)
    refusals = [*stage_plan.refusals, *refused]
    failure = (
        join_tables(format_refusals(session, refusals), [find_kind(refusal.kind) for refusal in refusals])
        if refusals
        else None
    )
    staged_tables = {batch.table for batch in batches}
    waiting_tables = find_waiting_tables(stage_plan, staged_tables, {refusal.table for refusal in refused})
    # staging may have found names of new tables in the records
    known_tables = {table.name for table in expanded_session.pipeline.tables}
    session = expanded_session if staged_tables <= known_tables else expand_template(session)
    is_called = is_merge_called(session, staged_tables, waiting_tables)
    left = stage_plan.offsets_left if batches else 0  # what waits for a merge is tried again at its time
    return StagingResult(tuple(batches), failure, left, is_called)


def plan_stage(session: Session) -> Plan:
    try:
        return plan(session, scope=PlanScope.NEW)
    except (NothingToDo, SomeTables, GiveUp):
        # as the heartbeat of a flush does; a table may have no work, or be refused, beside others
        settle_start(session)
        raise


def merge_staged_batches(session: Session, merges_at_once: int = 1, at_least: int = 0) -> FlushResult:
    """Run merge, commit_offsets, clean_up and heartbeat once, for what is staged; reads no record.

    Raises as `flush` does; `TooFewRecords` if no table has `at_least` staged rows and no queue is full.
    """
    expanded_session = expand_template(session)
    merge_plan = plan_flush(expanded_session, at_least, scope=PlanScope.STAGED)
    return flush_planned(session, expanded_session, merge_plan, merges_at_once)


def find_waiting_tables(planned: Plan, staged_tables: Set[str], refused_tables: Set[str]) -> Set[str]:
    """Return the tables whose planned batch waits until the rows ahead of it are merged, as `stage_tables` says."""
    return {batch.table for batch in planned.tables} - staged_tables - refused_tables


def is_merge_called(session: Session, staged_tables: Set[str], waiting_tables: Set[str]) -> bool:
    """Whether a table has enough staged rows or a full queue, or rows behind which nothing can be staged."""
    threshold = session.pipeline.merge.records_threshold
    concerned_tables = staged_tables | waiting_tables
    observed_tables = observe_tables(
        session, [table for table in session.pipeline.tables if table.name in concerned_tables]
    )
    return any(
        observed.held is None
        and (
            0 < threshold <= count_staged_rows(observed.queue)
            or is_queue_full(observed, observed.queue)
            or (observed.name in waiting_tables and count_mergeable(observed.queue) > 0)
        )
        for observed in observed_tables
    )
