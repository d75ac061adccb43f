"""One whole flush without a scheduler: the steps in order, as the DAG runs them."""

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from tidegate.errors import (
    GiveUp,
    HeldForApproval,
    NothingToDo,
    PublishedElsewhere,
    SomeTables,
    TidegateError,
    find_kind,
    join_tables,
)
from tidegate.flush.clean_up import CleanUpReport, clean_up, compact
from tidegate.flush.heartbeat import commit_offsets, heartbeat, settle_start
from tidegate.flush.merge_queue import QueueResult, group_by_table, merge_queue
from tidegate.flush.plan import plan
from tidegate.flush.refusals import format_refusals
from tidegate.flush.stage import stage_tables
from tidegate.model.batch import Plan, PlanScope, PublishedBatch, Refusal, StagedBatch
from tidegate.model.counts import format_count
from tidegate.model.offsets import Offsets
from tidegate.ports.session import Session
from tidegate.table.template import expand_template

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FlushResult:
    """What one flush did. `failures`: full names of the tables that stay behind, with the reason.

    `held`: what waits for a person's approval, which is no failure.
    """

    published: tuple[PublishedBatch, ...]
    failures: tuple[tuple[str, TidegateError], ...] = ()
    held: tuple[HeldForApproval, ...] = ()
    clean_up_reports: tuple[CleanUpReport, ...] = ()
    offsets_left: int = 0  # the offsets that no batch reached, of the table that is farthest behind


def flush(session: Session, merges_at_once: int = 1, stop_offsets: Offsets | None = None) -> FlushResult:
    """Run plan, stage, merge, commit_offsets, clean_up and heartbeat once.

    Reads nothing beyond `stop_offsets`. A repeat call publishes staged batches first, and reads no published record
    again. If a table fails, the others go on, and `SomeTables` is raised at the end. `PublishedElsewhere`: other runs
    have published all tables first. `NothingToDo`: the heartbeat has run.
    """
    # the tables that records have named are looked for once, not by every step
    expanded_session = expand_template(session)
    flush_plan = plan_flush(expanded_session, stop_offsets=stop_offsets)
    return flush_planned(session, expanded_session, flush_plan, merges_at_once)


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
    session: Session, expanded_session: Session, flush_plan: Plan, merges_at_once: int = 1, *, compacts: bool = False
) -> FlushResult:
    """Run the steps of `flush` after plan. `expanded_session` holds the tables that records have named.

    With `compacts` also compact the tables that are due, whichever others fail: clean_up tells so once.
    """
    settle_start(expanded_session)
    try:
        staged_batches, refused_staging = stage_tables(expanded_session, flush_plan)
    except GiveUp:
        _clean_up_behind_failure(expanded_session)  # attempts that nobody will merge
        raise
    refusals = [*flush_plan.refusals, *refused_staging]
    known_tables = {table.name for table in expanded_session.pipeline.tables}
    staged_tables = {batch.table for batch in staged_batches}
    # staging may have found names of new tables in the records
    session = expanded_session if staged_tables <= known_tables else expand_template(session)
    # where nothing could be staged, another flush at once could not either
    left = flush_plan.offsets_left if staged_batches else 0
    flushed = replace(_merge_all(session, staged_batches, merges_at_once), offsets_left=left)
    failure: TidegateError | None = None
    try:
        if flushed.published:
            with suppress(NothingToDo):  # a table that has not begun may keep the group where it is
                commit_offsets(session)
        flushed = replace(flushed, clean_up_reports=tuple(clean_up(session)))
        heartbeat(session)
    except TidegateError as error:
        failure = error
    if compacts:
        compact(session, [report.table for report in flushed.clean_up_reports if report.needs_compaction])
    # a failure of tables goes first: it also names what is published
    if of_tables := _find_failure(session, flushed, refusals):
        if failure:
            log.warning("%s", failure)
        raise of_tables
    if failure:
        raise failure
    if flushed.held and not flushed.published:
        raise flushed.held[0]
    return flushed


def _clean_up_behind_failure(session: Session) -> None:
    clean_up(session)
    try:
        heartbeat(session)
    except TidegateError as error:
        # the first failure is the one to report
        log.warning("%s", error)


def _merge_all(session: Session, batches: list[StagedBatch], at_once: int) -> FlushResult:
    queues = group_by_table(batches)
    if at_once == 1 or len(queues) == 1:
        drained = [merge_queue(session, queue) for queue in queues]
    else:
        drained = _merge_beside_each_other(session, queues, at_once)
    published_batches = tuple(batch for queue in drained for batch in queue.published)
    failed = [queue for queue in drained if queue.held is None]
    return FlushResult(
        published_batches,
        tuple((queue.table, queue.failure) for queue in failed if queue.failure is not None),
        tuple(queue.held for queue in drained if queue.held is not None),
    )


def _merge_beside_each_other(session: Session, queues: list[list[StagedBatch]], at_once: int) -> list[QueueResult]:
    workers = ThreadPoolExecutor(at_once, thread_name_prefix="tidegate-merge")
    is_awaited = True
    try:
        return list(workers.map(partial(merge_queue, session), queues))
    except KeyboardInterrupt:
        is_awaited = False
        raise
    finally:
        # Ctrl-C does not wait for running merges
        workers.shutdown(wait=is_awaited, cancel_futures=not is_awaited)


def _find_failure(session: Session, flushed: FlushResult, refusals: Sequence[Refusal]) -> TidegateError | None:
    """Return one error for all tables that failed or were refused; None if there is none that anybody must see."""
    failures = [error for _, error in flushed.failures]
    lost_only = all(isinstance(error, PublishedElsewhere) for error in failures)
    if failures and lost_only and flushed.published and not refusals:
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
    return join_tables("\n".join(messages), kinds, flushed.published)
