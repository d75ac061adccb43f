"""One whole flush without a scheduler: the steps in order, as the DAG runs them; and each of its two halves."""

import logging
from collections.abc import Callable, Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from tidegate.errors import (
    GiveUp,
    HeldForApproval,
    NothingToDo,
    PublishedElsewhere,
    SomeTables,
    TidegateError,
    find_kind,
    join_errors,
    join_tables,
)
from tidegate.flush.clean_up import clean_up, compact
from tidegate.flush.heartbeat import commit_offsets, heartbeat, settle_start
from tidegate.flush.merge_queue import QueueResult, group_by_table, merge_queue
from tidegate.flush.plan import format_refusals, plan
from tidegate.flush.stage import stage_tables
from tidegate.model.batch import Plan, PlanScope, PublishedBatch, Refusal, StagedBatch
from tidegate.model.counts import format_count
from tidegate.model.offsets import Offsets
from tidegate.ports.session import Session
from tidegate.table.observed_table import ObservedTable, observe_tables
from tidegate.table.queue import count_mergeable, count_staged_rows, is_queue_full
from tidegate.table.session import expand_template

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FlushResult:
    """What one flush did. `held`: what waits for a person's approval, which is no failure."""

    published: tuple[PublishedBatch, ...]
    held: tuple[HeldForApproval, ...] = ()
    offsets_left: int = 0  # the offsets that no batch reached, of the table that is farthest behind


def flush(session: Session, merges_at_once: int = 1, stop_offsets: Offsets | None = None) -> FlushResult:
    """Run plan, stage, merge, commit_offsets, clean_up and heartbeat once.

    Reads nothing beyond `stop_offsets`. A repeat call publishes staged batches first, and reads no published record
    again. If a table fails, the others go on, and `SomeTables` is raised at the end. `PublishedElsewhere`: other runs
    have published all tables first. `NothingToDo`: the heartbeat has run.
    """
    # the tables that records have named are looked for once, not by every step
    session = expand_template(session)
    return flush_planned(session, plan_flush(session, stop_offsets=stop_offsets), merges_at_once)


def plan_flush(
    session: Session, at_least: int = 0, stop_offsets: Offsets | None = None, scope: PlanScope = PlanScope.ALL
) -> Plan:
    """Plan a flush. Without work, or if it is refused, clean up behind a killed run and run the heartbeat."""
    try:
        return plan(session, at_least, stop_offsets, scope)
    except NothingToDo:
        clean_up(session)  # of a run that was killed after its publish
        heartbeat(session)
        raise
    except (SomeTables, GiveUp):  # a refused pipeline may stand still for longer than the group's offsets last
        _clean_up_behind_failure(session)
        raise


def flush_planned(
    session: Session,
    flush_plan: Plan,
    merges_at_once: int,
    *,
    compacts: bool = False,
    report: Callable[[QueueResult], None] = lambda _: None,
) -> FlushResult:
    """Run the steps of `flush` after plan, for a session that holds the tables that records have named.

    With `compacts` also compact the tables that are due, whichever others fail: clean_up tells so once. `report` gets
    each table's result behind the merges, also if the flush fails then.
    """
    settle_start(session)
    with _tell_refused(flush_plan):
        try:
            staged_batches, refused_staging = stage_tables(session, flush_plan)
        except GiveUp:
            _clean_up_behind_failure(session)  # attempts that nobody will merge
            raise
    session = _add_new_tables(session, staged_batches)
    queues = _merge_all(session, group_by_table(staged_batches), merges_at_once)
    for queue in queues:
        report(queue)
    published = tuple(batch for queue in queues for batch in queue.published)
    due_tables = list[str]()
    failure: TidegateError | None = None
    try:
        if published:
            with suppress(NothingToDo):  # a table that has not begun may keep the group where it is
                commit_offsets(session)
        due_tables = [report.table for report in clean_up(session) if report.needs_compaction]
        heartbeat(session)
    except TidegateError as error:
        failure = error
    if compacts:
        compact(session, due_tables)
    # a failure of tables goes first: it also names what is published
    if of_tables := _find_failure(session, queues, published, [*flush_plan.refusals, *refused_staging]):
        if failure:
            log.warning("%s", failure)
        raise of_tables
    if failure:
        raise failure
    held = tuple(queue.held for queue in queues if queue.held is not None)
    if held and not published:
        raise held[0]
    # where nothing could be staged, another flush at once could not either
    return FlushResult(published, held, flush_plan.offsets_left if staged_batches else 0)


@contextmanager
def _tell_refused(planned: Plan) -> Iterator[None]:
    """Where no other table can be staged, name those that the plan refused too: the error is all that a run says."""
    try:
        yield
    except GiveUp as error:
        if not planned.refusals:
            raise
        refused = [(find_kind(refusal.kind) or GiveUp)(refusal.message) for refusal in planned.refusals]
        raise join_errors([error, *refused]) from error


def _clean_up_behind_failure(session: Session) -> None:
    clean_up(session)
    try:
        heartbeat(session)
    except TidegateError as error:
        # the first failure is the one to report
        log.warning("%s", error)


def _add_new_tables(session: Session, staged_batches: Sequence[StagedBatch]) -> Session:
    # staging may have found names of new tables in the records
    known_tables = {table.name for table in session.pipeline.tables}
    is_known = all(batch.table in known_tables for batch in staged_batches)
    return session if is_known else expand_template(session, again=True)


def _merge_all(session: Session, queues: list[list[StagedBatch]], at_once: int) -> list[QueueResult]:
    if at_once == 1 or len(queues) == 1:
        return [merge_queue(session, queue) for queue in queues]
    workers = ThreadPoolExecutor(at_once, thread_name_prefix="tidegate-merge")
    is_awaited = True
    try:
        futures = [workers.submit(merge_queue, session, queue) for queue in queues]
        # a Ctrl-C that meets the begin of a wait is seen at its end
        while wait(futures, timeout=1.0).not_done:
            pass
        return [future.result() for future in futures]
    except KeyboardInterrupt:
        is_awaited = False
        raise
    finally:
        # Ctrl-C does not wait for running merges
        workers.shutdown(wait=is_awaited, cancel_futures=not is_awaited)


def _find_failure(
    session: Session,
    queues: Sequence[QueueResult],
    published: tuple[PublishedBatch, ...],
    refusals: Sequence[Refusal],
) -> TidegateError | None:
    """Return one error for all tables that failed or were refused; None if there is none that anybody must see."""
    failures = [queue.failure for queue in queues if queue.failure is not None and queue.held is None]
    lost_only = all(isinstance(error, PublishedElsewhere) for error in failures)
    if failures and lost_only and published and not refusals:
        log.info("another run published first; nothing needs repair: %s", "; ".join(map(str, failures)))
        return None
    if failures and not refusals and (not session.pipeline.has_several or lost_only):
        return failures[0]
    messages = list[str]()
    if failures:
        messages += [
            f"pipeline={session.pipeline.name}: {format_count(len(failures), 'table')} failed:",
            *map(str, failures),
        ]
    if refusals:
        messages.append(format_refusals(session, refusals))
    if not messages:
        return None
    kinds = [*map(type, failures), *(find_kind(refusal.kind) for refusal in refusals)]
    return join_tables("\n".join(messages), kinds, published)


# ---- the two halves on clocks of their own: staging reads the log, merging publishes what is staged
# Both may run at once, and beside whole flushes: a batch belongs to the run that stages it, and a merge publishes only
# what continues from the table's position. Staging touches neither a destination nor the group's offsets.


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
    session = expand_template(session)
    stage_plan = plan_stage(session)
    report(stage_plan)
    settle_start(session)
    with _tell_refused(stage_plan):
        batches, refused = stage_tables(session, stage_plan)
    refusals = [*stage_plan.refusals, *refused]
    failure = None
    if refusals:
        failure = join_tables(format_refusals(session, refusals), [find_kind(refusal.kind) for refusal in refusals])
    staged_tables = {batch.table for batch in batches}
    refused_tables = {refusal.table for refusal in refused}
    is_called = is_merge_called(_add_new_tables(session, batches), stage_plan, staged_tables, refused_tables)
    left = stage_plan.offsets_left if batches else 0  # what waits for a merge is tried again at its time
    return StagingResult(tuple(batches), failure, left, is_called)


def plan_stage(session: Session) -> Plan:
    try:
        return plan(session, scope=PlanScope.NEW)
    except (NothingToDo, SomeTables, GiveUp):
        # as the heartbeat of a flush does; a table may have no work, or be refused, beside others
        settle_start(session)
        raise


def is_merge_called(session: Session, planned: Plan, staged_tables: Set[str], refused_tables: Set[str]) -> bool:
    """Whether a table has enough staged rows or a full queue, or rows behind which nothing can be staged."""
    # their planned batch waits until the rows ahead of it are merged, as `stage_tables` says
    waiting_tables = {batch.table for batch in planned.tables} - staged_tables - refused_tables
    concerned_tables = staged_tables | waiting_tables
    observed_tables = observe_tables(
        session, [table for table in session.pipeline.tables if table.name in concerned_tables]
    )
    return any(
        has_enough_staged(observed)
        or (observed.name in waiting_tables and observed.held is None and count_mergeable(observed.queue) > 0)
        for observed in observed_tables
    )


def has_enough_staged(observed: ObservedTable) -> bool:
    """Whether so many rows are staged for the table, or so many batches, that a merge need not wait for its time."""
    is_enough = 0 < observed.pipeline.merge.records_threshold <= count_staged_rows(observed.queue)
    return observed.held is None and (is_enough or is_queue_full(observed, observed.queue))


def merge_staged_batches(session: Session, merges_at_once: int = 1, at_least: int = 0) -> FlushResult:
    """Run merge, commit_offsets, clean_up and heartbeat once, for what is staged; reads no record.

    Raises as `flush` does; `TooFewRecords` if no table has `at_least` staged rows and no queue is full.
    """
    session = expand_template(session)
    return flush_planned(session, plan_flush(session, at_least, scope=PlanScope.STAGED), merges_at_once)
