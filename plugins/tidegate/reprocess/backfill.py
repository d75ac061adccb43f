"""backfill: apply a part of the log again, slice by slice, while the flush goes on; nothing newer is overwritten."""

import json
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from tidegate.errors import CommitRefused, GiveUp, PositionLost, RetryLater, TidegateError, join_tables
from tidegate.merge.attempt import begin_attempt_beside, publish_attempt, retry_commits
from tidegate.merge.owed import account, record_history
from tidegate.merge.statements import render_backfill_statements
from tidegate.model import resource_names
from tidegate.model.backfill import AppliedSlice, Backfill
from tidegate.model.batch import PublishOutcome, StagedBatch
from tidegate.model.ownership import describe_intermediate
from tidegate.model.table_state import Head, StagedSource
from tidegate.ports.session import Session
from tidegate.reprocess.backfill_plan import refuse_waiting_letters
from tidegate.reprocess.backfill_stage import Slice, stage_missing, stage_missing_slice
from tidegate.spec.table import Table
from tidegate.table.compatibility import check_mergeable
from tidegate.table.history import build_slice_note
from tidegate.table.log import filter_table_log, read_log
from tidegate.table.position import refuse_cut, require_position
from tidegate.table.session import TableSession

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _SliceRound:
    slice: Slice
    table: TableSession
    staged: StagedBatch
    started_ms: int


def merge_slice(table_slice: Slice) -> tuple[AppliedSlice, StagedBatch | None]:
    """Apply one slice and return what changed; a slice that is applied already is a success too.

    1. Read the table, and stage what was flushed into it since the slice was staged.
    2. Cut a branch from that snapshot and merge the slice's records into it, except keys with a later record.
    3. Publish as a flush does, but leave position and tag alone; then mark the slice as applied.

    If main moved it begins again at 1, so that a newer record is never overwritten.
    """
    return retry_commits(
        table_slice.session, table_slice.prefix, partial(_merge_round, table_slice, table_slice.session.now_ms())
    )


def _merge_round(table_slice: Slice, started_ms: int) -> tuple[AppliedSlice, StagedBatch | None]:
    table = table_slice.table.refresh()
    table_slice.check_same_topics(require_position(table).topic_ids)
    if table_slice.is_applied:
        return _build_result(table_slice, None, None, started_ms, PublishOutcome.ALREADY_APPLIED), None
    slice_ranges = table_slice.all_ranges[table_slice.number - 1]
    refuse_waiting_letters(table, slice_ranges, table_slice.require_position(table))
    check_mergeable(table)
    table = table.evolve()
    position = table_slice.require_position(table)
    staged_batch = next(
        batch
        for batch in stage_missing_slice(table_slice, position.offsets).batches
        if batch.batch == table_slice.number
    )
    log_now = read_log(table_slice.session)  # once all is read: neither an id nor an epoch comes back
    table_slice.check_same_topics(log_now.topic_ids)
    refuse_cut(table, position, filter_table_log(log_now, table.spec))
    if not staged_batch.counts.staged:
        return _build_result(table_slice, None, staged_batch, started_ms, PublishOutcome.NO_ROWS), staged_batch
    return _merge_and_publish(_SliceRound(table_slice, table, staged_batch, started_ms)), staged_batch


def _merge_and_publish(slice_round: _SliceRound) -> AppliedSlice:
    table_slice = slice_round.slice
    table = slice_round.table
    facts: dict[str, Any] = {
        "id": table_slice.backfill.id,
        "slice": table_slice.number,
        "slices": len(table_slice.all_ranges),
        "attempt": slice_round.staged.attempt,
    }
    facts["ranges"] = slice_round.staged.ranges.to_dict()
    note = build_slice_note(table.pipeline.name, table_slice.backfill.asked, facts)
    guard = partial(_check_same_table, slice_round)
    attempt = begin_attempt_beside(table, table_slice.number, guard, table_slice.prefix, table_slice.backfill.id)
    attempt = replace(
        attempt,
        summary={resource_names.SLICE_PROPERTY: table_slice.label, resource_names.BACKFILL_PROPERTY: note},
        source=StagedSource(table_slice.intermediate, slice_round.staged.parts),
    )
    statements = render_backfill_statements(table, slice_round.staged, attempt.branch, table_slice.intermediate)
    head = publish_attempt(attempt, *statements)
    with suppress(CommitRefused, RetryLater, GiveUp):  # without it, or its table, the slice is applied once more
        table.session.history.mark_applied(table_slice.intermediate, table_slice.number)
    log.info("applied: %s snapshot=%s", table_slice.prefix, head.snapshot_id)
    return _build_result(table_slice, head, slice_round.staged, slice_round.started_ms, PublishOutcome.PUBLISHED)


def _check_same_table(slice_round: _SliceRound, table: TableSession) -> None:
    if table.require_state().uuid != slice_round.table.require_state().uuid:
        raise PositionLost(
            f"{slice_round.slice.prefix}: the table was dropped, or replaced by another of the same name, "
            "during the backfill; nothing of this slice was applied; flush, then begin the backfill again"
        )


def _build_result(
    table_slice: Slice, head: Head | None, staged_batch: StagedBatch | None, started_ms: int, outcome: PublishOutcome
) -> AppliedSlice:
    return AppliedSlice(
        table=table_slice.table.name,
        backfill=table_slice.backfill.id,
        slice=table_slice.number,
        slices=len(table_slice.all_ranges),
        ranges=table_slice.all_ranges[table_slice.number - 1],
        staged=staged_batch.counts.staged if staged_batch else 0,
        **account(head),
        seconds=round((table_slice.session.now_ms() - started_ms) / 1000, 2),
        outcome=outcome,
    )


def apply_backfill(session: Session, planned: Backfill, report: Callable[[AppliedSlice], None]) -> None:
    """Apply every slice, newest first, and clean up; `report` is called for each slice and table.

    A repeat call continues where the last one stopped. A slice that is applied twice changes nothing.
    """
    for number in planned.numbers:
        for result in apply_slice(session, planned, number):
            report(result)
    drop_backfill(session, planned.id)


def apply_slice(session: Session, planned: Backfill, number: int) -> list[AppliedSlice]:
    """Apply slice `number` to each table that has one. Works in any order, and again.

    1. Stage what is missing, in one job for tables that need equal offsets.
    2. Merge and publish each table; one that fails does not stop the others.
    """
    slices = [
        Slice.from_backfill(session, planned, mine.table, number)
        for mine in planned.tables
        if number <= len(planned.list_slices(mine.table))
    ]
    # 1.
    stage_missing([(table_slice, _read_position(table_slice)) for table_slice in slices if not table_slice.is_applied])
    results: list[AppliedSlice] = []
    failures: list[TidegateError] = []
    for table_slice in slices:
        try:
            # 2.
            result, staged = merge_slice(table_slice)
        except TidegateError as failure:
            failures.append(failure)
            continue
        if staged is not None:
            record_history(session, staged, result)
        results.append(result)
    _raise_failures(session, slices, failures)
    return results


def _read_position(table_slice: Slice) -> dict[str, dict[int, int]]:
    return table_slice.require_position(table_slice.table.refresh()).offsets


def _raise_failures(session: Session, slices: list[Slice], failures: list[TidegateError]) -> None:
    if failures and len(slices) == 1:
        raise failures[0]
    if failures:
        reasons = "\n".join(str(failure) for failure in failures)
        message = f"pipeline={session.pipeline.name}: {len(failures)} tables failed:\n{reasons}"
        raise join_tables(message, map(type, failures))


def read_open_backfills(session: Session) -> dict[str, Backfill]:
    """Return the backfills that have intermediate tables, by id: under way, stopped, or given up."""
    name = session.pipeline.name
    # the page asks every few seconds, and most tables have no backfill
    list_names = cache(session.tables.list_tables)
    notes = [
        note
        for table in session.pipeline.tables
        if _has_backfills(name, table, list_names)
        for note in session.history.list_backfills(table.name, name)
    ]
    backfills = [Backfill.from_dict(json.loads(note)) for note in notes]
    return {backfill.id: backfill for backfill in backfills}


def _has_backfills(pipeline: str, table: Table, list_names: Callable[[str], list[str]]) -> bool:
    namespace, _, bare_name = table.name.rpartition(".")
    prefix = resource_names.get_backfill_prefix(pipeline, bare_name).casefold()  # some catalogs keep names so
    return any(listed.casefold().startswith(prefix) for listed in list_names(namespace))


def read_applied_slices(session: Session, planned: Backfill) -> dict[str, list[int]]:
    names = {table.name for table in session.pipeline.tables}
    slices = [Slice.from_backfill(session, planned, mine.table, 1) for mine in planned.tables if mine.table in names]
    return {part.table.name: sorted(part.list_applied(), reverse=True) for part in slices}


def drop_backfill(session: Session, backfill_id: str) -> list[str]:
    """Drop a backfill's intermediate tables, branches and marks; rows stay. Return the tables that were dropped."""
    dropped = []
    for table in session.pipeline.tables:
        for own in _list_backfill_tables(session, table, backfill_id):
            if session.tables.claim(own, describe_intermediate(session.pipeline, table)) is not None:
                session.staging.drop(own)
                dropped.append(own)
        forget = partial(session.history.forget_backfill, table.name, session.pipeline.name, backfill_id)
        with suppress(RetryLater):  # branches of a backfill without a table mean nothing; the next call drops them
            retry_commits(
                session, f"pipeline={session.pipeline.name} table={table.name} backfill={backfill_id}", forget
            )
    return dropped


def _list_backfill_tables(session: Session, table: Table, backfill_id: str) -> list[str]:
    begin = f"{resource_names.get_backfill_prefix(session.pipeline.name, table.name)}{backfill_id}".casefold()
    namespace = table.name.rpartition(".")[0]
    listed = [f"{namespace}.{name}" for name in session.tables.list_tables(namespace)]
    return [name for name in listed if name.casefold().startswith(begin)]


def abandon_backfill(session: Session, backfill_id: str) -> list[str]:
    """Give up an open backfill; slices that are applied stay applied. Return the tables that were dropped.

    `GiveUp` if no backfill of this id is open.
    """
    open_backfills = read_open_backfills(session)
    if backfill_id not in open_backfills:
        raise GiveUp(
            f"pipeline={session.pipeline.name} backfill={backfill_id}: there is no such backfill; "
            f"open ones: {', '.join(sorted(open_backfills)) or 'none'}"
        )
    return drop_backfill(session, backfill_id)
