"""backfill: stage slices and what follows them, and apply them beside the flushes; nothing newer is overwritten."""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial

from tidegate.errors import CommitRefused, GiveUp, PositionLost, RetryLater, SomeTables, join_tables, try_tables
from tidegate.flush.stage_request import build_stage_job, build_stage_table, list_skipped_records, make_room_for_letters
from tidegate.flush.staged import add_lacking_columns, read_staged_batch, run_or_take_over
from tidegate.merge.attempt import MAX_ROUNDS, begin_attempt_beside, publish_attempt, retry_commits
from tidegate.merge.owed import account, record_history
from tidegate.merge.statements import find_written_memory, render_backfill_statements
from tidegate.model import resource_names
from tidegate.model.backfill import AppliedSlice, Backfill, list_later_pieces
from tidegate.model.batch import Plan, PlannedBatch, PublishOutcome, StagedBatch
from tidegate.model.counts import format_count
from tidegate.model.offsets import Offsets, Ranges, get_offset
from tidegate.model.ownership import describe_intermediate
from tidegate.model.position import Position
from tidegate.model.table_state import Head, StagedSource, Staging
from tidegate.ports.session import Session
from tidegate.reprocess.backfill_plan import check_log_holds, needs_later_records, refuse_waiting_letters
from tidegate.table.columns import compute_shape
from tidegate.table.compatibility import check_mergeable
from tidegate.table.history import list_backfill_tables
from tidegate.table.log import filter_table_log, read_log
from tidegate.table.position import refuse_cut, require_position
from tidegate.table.session import TableSession, open_table

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Slice:
    """One slice of one table."""

    table: TableSession
    backfill: Backfill
    number: int

    @property
    def session(self) -> Session:
        return self.table.session

    @cached_property
    def all_ranges(self) -> list[Ranges]:
        return self.backfill.list_slices(self.table.name)

    @property
    def ranges(self) -> Ranges:
        return self.all_ranges[self.number - 1]

    @property
    def prefix(self) -> str:
        return f"{self.table.prefix} backfill={self.backfill.id} slice={self.number}/{len(self.all_ranges)}"

    @property
    def intermediate(self) -> str:
        return resource_names.name_backfill_table(self.session.pipeline, self.table.spec, self.backfill.id)

    @property
    def label(self) -> str:
        return f"{self.backfill.id}/{self.number}"

    @property
    def is_applied(self) -> bool:
        return self.number in self.list_applied()

    def list_applied(self) -> frozenset[int]:
        """Return the applied slices, without those rolled back since. One may be missing, never too many."""
        table = self.table.refresh()
        if list_skipped_records(table.pipeline.name, table.state):
            table = replace(table, spec=make_room_for_letters(table.spec))
        shape = compute_shape(table.resolved)
        applied_slices = self.session.history.list_applied_slices(self.intermediate, shape)
        if not applied_slices:
            return applied_slices
        rolled_back = self.session.commits.list_rolled_back(self.table.name, resource_names.SLICE_PROPERTY)
        return frozenset(number for number in applied_slices if replace(self, number=number).label not in rolled_back)

    def require_position(self, table: TableSession) -> Position:
        """Return the position of the slice's table; `GiveUp` if the flush has yet to read the slice's records.

        `PositionLost` if the topic was created again.
        """
        position = require_position(table)
        self.check_same_topics(position.topic_ids)
        for topic, partition, start, end in self.ranges:
            reached_offset = get_offset(position.offsets, topic, partition) or 0
            # after a rewind or a rebase since the plan; a table that is appended to would have the records twice
            if reached_offset < end and start < end:
                raise GiveUp(
                    f"{self.prefix} topic={topic} partition={partition}: position={reached_offset} lies before "
                    f"the end={end} of this slice: the table was rewound since the backfill was planned, and the flush "
                    "will read these records; run `tidegate flush`, then the same command again"
                )
        return position

    def check_same_topics(self, topic_ids: Mapping[str, str]) -> None:
        """Raise `PositionLost` if these ids are of other topics than planned: their offsets mean other records."""
        for topic, planned_id in self.backfill.topic_ids.items():
            if topic_ids.get(topic, planned_id) != planned_id:
                raise PositionLost(
                    f"{self.prefix}: topic={topic} was deleted and created again since this backfill was "
                    f"planned: topic_id={topic_ids[topic]} planned={planned_id}; give it up with: "
                    f"tidegate backfill {self.session.pipeline.name} --abandon {self.backfill.id}"
                )

    def read_staging(self) -> Staging | None:
        return self.session.staging.read_staging(self.intermediate, self.table.name)


def apply_backfill(session: Session, planned: Backfill, report: Callable[[AppliedSlice], None]) -> None:
    """Apply every slice, newest first, and clean up; `report` is called for each slice and table.

    A repeat call continues where the last one stopped. A slice that is applied twice changes nothing. A table that
    fails holds up no other: the others get all slices, and `SomeTables` is raised at the end.
    """
    failure: SomeTables | None = None
    for number in planned.numbers:
        try:
            results = apply_slice(session, planned, number)
        except SomeTables as error:
            if not error.published:
                raise
            failure = error
            results = [*error.published]
        for result in results:
            report(result)
    if failure is not None:
        raise failure
    drop_backfill(session, planned.id)


def apply_slice(session: Session, planned: Backfill, number: int) -> list[AppliedSlice]:
    """Apply slice `number` to each table that has one. Works in any order, and again.

    1. Stage what is missing, in one job for tables that need equal offsets.
    2. Merge and publish each table; one that fails does not stop the others.
    """
    slices = [
        Slice(open_table(session, mine.table), planned, number)
        for mine in planned.tables
        if number <= len(planned.list_slices(mine.table))
    ]
    # 1.
    if len(slices) > 1:
        with suppress(GiveUp):  # each merge stages what its own table lacks, and says why it cannot
            stage_missing(
                [
                    (table_slice, table_slice.require_position(table_slice.table.refresh()).offsets)
                    for table_slice in slices
                    if not table_slice.is_applied
                ]
            )
    # 2.
    by_table = {table_slice.table.name: table_slice for table_slice in slices}
    results, failures = try_tables(by_table, lambda name: merge_slice(by_table[name]))
    if failures and len(slices) == 1:
        raise next(iter(failures.values()))
    if failures:
        reasons = "\n".join(map(str, failures.values()))
        message = f"pipeline={session.pipeline.name}: {format_count(len(failures), 'table')} failed:\n{reasons}"
        raise join_tables(message, map(type, failures.values()), tuple(results))
    return results


# ---- stage: each slice, and the keys of what was flushed after it


@dataclass(frozen=True)
class StagePiece:
    """Offsets to stage as batch `number`; `keys_only` for records that only decide."""

    number: int
    ranges: Ranges
    keys_only: bool


def stage_missing(work: Sequence[tuple[Slice, Offsets]]) -> None:
    """Stage what is not staged yet for each slice, up to its table's position: newest first, one job for equal pieces.

    A slice needs itself and the keys of all later records up to the position, to find the last record of each key.
    """
    groups: dict[tuple[int, str, bool], list[tuple[Slice, StagePiece]]] = {}
    for table_slice, position in work:
        for stage_piece in _find_missing_pieces(table_slice, position, table_slice.read_staging()):
            key = (stage_piece.number, str(stage_piece.ranges.to_dict()), stage_piece.keys_only)
            groups.setdefault(key, []).append((table_slice, stage_piece))
    if not groups:
        return
    topic_log = read_log(work[0][0].session)
    for key in sorted(groups):
        table_slice, stage_piece = groups[key][0]
        content = "later offsets, which decide what may be written" if stage_piece.keys_only else "offsets"
        for topic, partition, start, end in stage_piece.ranges:
            place = f"{table_slice.prefix} topic={topic} partition={partition}: {content} [{start}, {end})"
            begin = get_offset(topic_log.begin, topic, partition) or 0
            check_log_holds(place, start=start, end=end, begin=begin)
    for key in sorted(groups, reverse=True):
        _stage_group(groups[key])


def stage_missing_slice(table_slice: Slice, position: Offsets) -> Staging:
    """Return the intermediate table once it holds all that decides about the slice up to `position`.

    `RetryLater` if others take away what was staged, again and again.
    """
    for _ in range(MAX_ROUNDS):
        staging = table_slice.read_staging()
        if staging is not None and not _find_missing_pieces(table_slice, position, staging):
            return staging
        stage_missing([(table_slice, position)])
    raise RetryLater(f"{table_slice.prefix}: what was staged was taken away {MAX_ROUNDS} times; it will be tried again")


def _find_missing_pieces(table_slice: Slice, position: Offsets, staging: Staging | None) -> list[StagePiece]:
    slices = table_slice.all_ranges
    table = table_slice.table.refresh()
    current = compute_shape(table.resolved)  # what was staged under another pipeline file is not there
    staged_ranges = (
        {batch.batch: batch.ranges for batch in staging.batches if batch.row_shape == current} if staging else {}
    )
    last = len(slices) if needs_later_records(table_slice.table.spec) else table_slice.number
    pieces = [
        StagePiece(number, slices[number - 1], keys_only=False)
        for number in range(table_slice.number, last + 1)
        if staged_ranges.get(number) != slices[number - 1]
    ]
    if not needs_later_records(table_slice.table.spec):
        return pieces
    end = table_slice.backfill.get_ranges(table_slice.table.name).end
    later = list_later_pieces(staged_ranges, len(slices), end, position, table_slice.backfill.max_records)
    return pieces + [StagePiece(number, ranges, keys_only=True) for number, ranges in later]


def _stage_group(group: list[tuple[Slice, StagePiece]], *, is_repeated: bool = False) -> None:
    first, stage_piece = group[0]
    session = first.session
    backfill = first.backfill
    plan = Plan((), backfill.cluster_id, backfill.topic_ids)
    note = json.dumps(backfill.to_dict())
    planned_batches = [
        PlannedBatch(table_slice.table.name, stage_piece.number, stage_piece.ranges, last_per_key=True)
        for table_slice, _ in group
    ]
    stage_tables = [
        replace(
            build_stage_table(session, plan, batch, intermediate=table_slice.intermediate, note=note),
            keys_only=stage_piece.keys_only,
        )
        for batch, (table_slice, _) in zip(planned_batches, group, strict=True)
    ]
    job = build_stage_job(session, stage_piece.number, stage_piece.ranges, stage_tables)
    content = "keys" if stage_piece.keys_only else "records"
    offsets = stage_piece.ranges.span
    log.info("staging: %s batch=%s offsets=%s of %s", first.prefix, stage_piece.number, offsets, content)
    growing = list[tuple[Slice, StagePiece]]()
    for (table_slice, _), batch, table in zip(group, planned_batches, run_or_take_over(session, job), strict=True):
        if add_lacking_columns(table_slice.table, batch, table):
            growing.append((table_slice, stage_piece))
        else:
            read_staged_batch(session, batch, table)
    if growing and is_repeated:
        raise RetryLater(f"{first.prefix}: columns were changed meanwhile; it is staged again")
    if growing:  # once more, with these columns
        _stage_group(growing, is_repeated=True)


# ---- merge and publish


def merge_slice(table_slice: Slice) -> AppliedSlice:
    """Apply one slice and return what changed; a slice that is applied already is a success too.

    1. Read the table, and stage what was flushed into it since the slice was staged.
    2. Cut a branch from that snapshot and merge the slice's records into it, except keys with a later record.
    3. Publish as a flush does, but leave position and tag alone; then mark the slice as applied.

    If main moved it begins again at 1, so that a newer record is never overwritten.
    """
    session = table_slice.session
    merge_round = partial(_merge_round, table_slice, session.now_ms())
    result, staged = retry_commits(session, table_slice.prefix, merge_round)
    if staged is not None:
        record_history(session, [staged], result)
    return result


def _merge_round(table_slice: Slice, started_ms: int) -> tuple[AppliedSlice, StagedBatch | None]:
    state = table_slice.table.refresh().state
    # up to the position there may be records of a schema that was registered since the table was opened
    table_slice.session.schemas.forget()
    table = replace(open_table(table_slice.session, table_slice.table.name), state=state)
    table_slice = replace(table_slice, table=table)
    table_slice.check_same_topics(require_position(table).topic_ids)
    if table_slice.is_applied:
        return _build_result(table_slice, None, None, started_ms, PublishOutcome.ALREADY_APPLIED), None
    refuse_waiting_letters(table, table_slice.ranges, table_slice.require_position(table))
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
    head = _merge_and_publish(table_slice, table, staged_batch)
    return _build_result(table_slice, head, staged_batch, started_ms, PublishOutcome.PUBLISHED), staged_batch


def _merge_and_publish(table_slice: Slice, table: TableSession, staged_batch: StagedBatch) -> Head:
    # `find_undone_backfills` reads it
    note = {
        "id": table_slice.backfill.id,
        "slice": table_slice.number,
        "slices": len(table_slice.all_ranges),
        "attempt": staged_batch.attempt,
        "ranges": staged_batch.ranges.to_dict(),
        "pipeline": table.pipeline.name,
        "asked": table_slice.backfill.asked,
    }

    def check_same_table(table_now: TableSession) -> None:
        if table_now.require_state().uuid != table.require_state().uuid:
            raise PositionLost(
                f"{table_slice.prefix}: the table was dropped, or replaced by another of the same name, "
                "during the backfill; nothing of this slice was applied; run `tidegate flush`, then begin the backfill "
                "again"
            )

    number = table_slice.number
    attempt = begin_attempt_beside(table, number, check_same_table, table_slice.prefix, table_slice.backfill.id)
    attempt = replace(
        attempt,
        summary={resource_names.SLICE_PROPERTY: table_slice.label, resource_names.BACKFILL_PROPERTY: json.dumps(note)},
        memory=find_written_memory(table, staged_batch),
        source=StagedSource(table_slice.intermediate, staged_batch.parts),
    )
    statements = render_backfill_statements(table, staged_batch, attempt.branch, table_slice.intermediate)
    head = publish_attempt(attempt, *statements)
    with suppress(CommitRefused, RetryLater, GiveUp):  # without it, or its table, the slice is applied once more
        table.session.history.mark_applied(table_slice.intermediate, table_slice.number)
    log.info("applied: %s snapshot=%s", table_slice.prefix, head.snapshot_id)
    return head


def _build_result(
    table_slice: Slice, head: Head | None, staged_batch: StagedBatch | None, started_ms: int, outcome: PublishOutcome
) -> AppliedSlice:
    return AppliedSlice(
        table=table_slice.table.name,
        backfill=table_slice.backfill.id,
        slice=table_slice.number,
        slices=len(table_slice.all_ranges),
        ranges=table_slice.ranges,
        staged=staged_batch.counts.staged if staged_batch else 0,
        **account(head),
        seconds=round((table_slice.session.now_ms() - started_ms) / 1000, 2),
        outcome=outcome,
    )


# ---- open backfills


def read_open_backfills(session: Session) -> dict[str, Backfill]:
    """Return the backfills that have intermediate tables, by id: under way, stopped, or given up."""
    name = session.pipeline.name
    # the page asks every few seconds, and most tables have no backfill
    list_names = cache(session.tables.list_tables)
    notes = [
        note
        for table in session.pipeline.tables
        if list_backfill_tables(session, table, "", list_names)
        for note in session.history.list_backfills(table.name, name)
    ]
    backfills = [Backfill.from_dict(json.loads(note)) for note in notes]
    return {backfill.id: backfill for backfill in backfills}


def read_applied_slices(session: Session, planned: Backfill) -> dict[str, list[int]]:
    names = {table.name for table in session.pipeline.tables}
    slices = [Slice(open_table(session, mine.table), planned, 1) for mine in planned.tables if mine.table in names]
    return {part.table.name: sorted(part.list_applied(), reverse=True) for part in slices}


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


def drop_backfill(session: Session, backfill_id: str) -> list[str]:
    """Drop a backfill's intermediate tables, branches and marks; rows stay. Return the tables that were dropped."""
    dropped = []
    for table in session.pipeline.tables:
        for own in list_backfill_tables(session, table, backfill_id, session.tables.list_tables):
            if session.tables.claim(own, describe_intermediate(session.pipeline, table)) is not None:
                session.staging.drop(own)
                dropped.append(own)
        forget = partial(session.history.forget_backfill, table.name, session.pipeline.name, backfill_id)
        with suppress(RetryLater):  # branches of a backfill without a table mean nothing; the next call drops them
            retry_commits(
                session, f"pipeline={session.pipeline.name} table={table.name} backfill={backfill_id}", forget
            )
    return dropped
