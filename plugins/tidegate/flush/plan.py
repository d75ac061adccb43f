"""plan: decide which offsets of the log become the next batch of each table. Changes nothing."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache

from tidegate.errors import (
    GiveUp,
    HeldForApproval,
    NothingToDo,
    RetryLater,
    TidegateError,
    TooFewRecords,
    join_errors,
    join_tables,
)
from tidegate.flush.batch_size import BatchSizer
from tidegate.flush.key_deduplication import (
    SAMPLED_MIN_RECORDS,
    can_keep_last_per_key,
    estimate_superseded_share,
    is_deduplication_worth_it,
)
from tidegate.flush.stage_request import has_skipped_ahead
from tidegate.flush.staged import find_unfinished_batch
from tidegate.model.batch import Plan, PlannedBatch, PlanScope, Refusal
from tidegate.model.kafka_log import Log
from tidegate.model.offsets import (
    Offsets,
    Ranges,
    find_lowest,
    format_names,
    get_offset,
    iterate_offsets,
    keep_partitions,
    merge_offsets,
)
from tidegate.model.position import WatermarkSide
from tidegate.ports.session import Session
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.runtime import UseWhen
from tidegate.table.log import explain_no_row_topics, read_known_log
from tidegate.table.observed_table import ObservedTable, TableWithLog, attach_log, observe_tables
from tidegate.table.queue import (
    combine_batches,
    count_mergeable,
    count_staged_rows,
    describe_full_queue,
    is_queue_full,
    publishes_without_rows,
)
from tidegate.table.session import expand_template
from tidegate.table.start_offsets import resolve_batch_start

log = logging.getLogger(__name__)
Delay = tuple[str, GiveUp | RetryLater]  # a table that cannot be planned, for good or for now, and why


@dataclass(frozen=True)
class _NewBatches:
    """What the new batches of all tables share."""

    sizer: BatchSizer
    find_number: Callable[[], int]  # one more than the highest number that was ever used; read only when needed
    reached_offsets: Offsets | None  # how far all tables inside the low watermark have come; None if there is none
    sampled_shares: dict[str, float | None] = field(default_factory=dict)

    def sample_superseded_share(self, session: Session, ranges: Ranges) -> float | None:
        """Estimate the superseded share from a sample, read once for all tables with these ranges.

        None for a small batch.
        """
        range_key = str(ranges.to_dict())
        if ranges.span >= SAMPLED_MIN_RECORDS and range_key not in self.sampled_shares:
            self.sampled_shares[range_key] = estimate_superseded_share(session.broker.sample_keys(ranges), ranges)
        return self.sampled_shares.get(range_key)


def choose_scope(pipeline: Pipeline) -> PlanScope:
    """Return what a run that merges plans: with a clock of staging only what is staged."""
    return PlanScope.STAGED if pipeline.stage.has_clock else PlanScope.ALL


def plan(
    session: Session, at_least: int = 0, stop_offsets: Offsets | None = None, scope: PlanScope = PlanScope.ALL
) -> Plan:
    """Return the next batches of every table that has work; `NothingToDo` if none has, or fewer than `at_least` wait.

    1. Read each table's position and queue.
    2. Read the log's ends once; check that the log still has the end of each queue.
    3. Resume the staged batches that continue exactly from the position.
    4. Cut a new batch up to the end of the log or a cap; tables at equal offsets share it. None while a queue is full.
       A queue that waits for a person's approval is not resumed, and holds no other table back when it is full; where
       records make columns, or one is skipped, nothing is cut behind it.

    `stop_offsets` cap the end of the log; partitions that it does not name are not read. With `PlanScope.STAGED`
    nothing is cut, and `at_least` counts staged rows; a full queue is always enough, and one without rows that is due.
    A table that cannot go on is listed in `refusals`. If every table is refused, the refusals are raised as one; if the
    others have no work, `SomeTables`.
    """
    session = expand_template(session)
    # 1. before the log is read, so that what another run publishes in between does not lie beyond the log's ends
    return plan_observed(session, observe_tables(session), at_least, stop_offsets, scope)


def plan_observed(
    session: Session,
    observed_tables: Sequence[ObservedTable],
    at_least: int,
    stop_offsets: Offsets | None = None,
    scope: PlanScope = PlanScope.ALL,
) -> Plan:
    """Run steps 2 to 4 of `plan`, for tables that were read already.

    `session` holds the tables that records have named.
    """
    # 2.
    kafka_log, missing = read_known_log(session)
    # the log may have records of a schema that was registered since a queue was looked at
    session.schemas.forget()
    tables = attach_log(observed_tables, kafka_log, missing)
    wait_reason = _describe_full_queues(session, tables)
    sizer = BatchSizer(session, stop_offsets)
    cuts_new = not wait_reason and _may_cut(session, tables, scope)
    # 3. and 4.
    batches, refused = _collect_batches(session, tables, sizer, scope, cuts_new=cuts_new)
    remaining = 0 if scope == PlanScope.STAGED else _count_remaining(batches, tables, sizer)
    too_few = _explain_too_few(tables, batches, remaining, at_least, scope)
    refusals = to_refusals(session, refused, has_work=bool(batches) and not too_few)
    if too_few:
        raise TooFewRecords(f"pipeline={session.pipeline.name}: {too_few}")
    if not batches:
        if held := [table.held.describe() for table in tables if table.held is not None]:
            raise HeldForApproval("\n".join(held))
        raise NothingToDo(_explain_no_work(session, kafka_log, scope, wait_reason, stop_offsets))
    if wait_reason:
        log.warning(wait_reason)
    return Plan(
        tables=tuple(batches),
        cluster_id=kafka_log.cluster_id,
        topic_ids=kafka_log.topic_ids,
        wait_reason=wait_reason,
        refusals=refusals,
        offsets_left=remaining,
        size_reason=sizer.reason,
        epochs=kafka_log.epochs,
    )


def _explain_no_work(
    session: Session, kafka_log: Log, scope: PlanScope, wait_reason: str, stop_offsets: Offsets | None
) -> str:
    place = f"pipeline={session.pipeline.name}"
    if scope == PlanScope.STAGED:
        return f"{place}: no staged batch waits for a merge"
    if wait_reason:  # nothing is resumed where only new batches count
        return wait_reason
    if unread := explain_no_row_topics(session, kafka_log):
        return unread
    end = "end of the log" if stop_offsets is None else "end that was asked for, or behind it"
    return f"{place}: every table stands at the {end}"


def _describe_full_queues(session: Session, tables: Sequence[TableWithLog]) -> str:
    full = [t for t in tables if t.error is None and t.held is None and is_queue_full(t, t.queue)]
    if session.pipeline.stage.has_clock:
        return "; ".join(
            f"{observed.prefix}: its queue is full: waiting={count_mergeable(observed.queue)} "
            f"max_pending={observed.spec.max_pending}, so nothing is staged until a merge takes it; see what its "
            "merges say, or let them come more often"
            for observed in full
        )
    return "; ".join(describe_full_queue(observed, observed.queue) for observed in full)


def _may_cut(session: Session, tables: Sequence[TableWithLog], scope: PlanScope) -> bool:
    if scope != PlanScope.ALL:
        return scope == PlanScope.NEW
    if session.pipeline.has_several or session.pipeline.stage.has_clock:
        return True
    # with one clock and one table a further batch would only wait behind the first one
    return not any(count_mergeable(t.queue) for t in tables if t.error is None and t.held is None)


def _collect_batches(
    session: Session, tables: Sequence[TableWithLog], sizer: BatchSizer, scope: PlanScope, *, cuts_new: bool
) -> tuple[list[PlannedBatch], list[Delay]]:
    published = [observed.state.highest_batch for observed in tables if observed.state]
    find_number = cache(lambda: 1 + max([*published, *map(_find_highest_staged, tables)]))
    inside = [t.end.offsets for t in tables if t.position and t.end and not t.end.outside]
    new = _NewBatches(
        sizer=sizer,
        find_number=find_number,
        reached_offsets=find_lowest(*inside) if inside else None,
    )
    batches = list[PlannedBatch]()
    refused = list[Delay]()
    for logged_table in tables:
        fresh = None
        error = logged_table.error
        try:
            is_cut = cuts_new and error is None and not _must_wait_for_approval(logged_table)
            fresh = _plan_new_batch(session, logged_table, new) if is_cut else None
        except (GiveUp, RetryLater) as refusal:
            error = refusal
        table_batches = _list_table_batches(logged_table, fresh, scope)
        batches += table_batches
        # a queue is published before its table is refused: an answer to the refusal would lose the staged batches
        if error is not None and not table_batches:
            refused.append((logged_table.spec.name, logged_table.add_hold(error)))
    return batches, refused


def _must_wait_for_approval(table: TableWithLog) -> bool:
    if table.held is None:
        return False
    # these need a new intermediate table, and the present one has the rows of the held batch
    needs_new_table = table.spec.value.adds_columns or has_skipped_ahead(table.pipeline.name, table.state)
    return needs_new_table or is_queue_full(table, table.queue)


def _count_remaining(batches: Sequence[PlannedBatch], tables: Sequence[TableWithLog], sizer: BatchSizer) -> int:
    reached = {batch.table: batch.ranges.end for batch in batches}
    logs = {observed.spec.name: observed.log for observed in tables if observed.error is None}
    spans = (
        Ranges.between(end, merge_offsets(end, keep_partitions(sizer.find_end(end, logs[table].end), end))).span
        for table, end in reached.items()
        if table in logs
    )
    return max(spans, default=0)


def _explain_too_few(
    tables: Sequence[TableWithLog], batches: Sequence[PlannedBatch], remaining: int, at_least: int, scope: PlanScope
) -> str:
    if scope == PlanScope.STAGED:
        resumed = [table for table in tables if table.held is None]
        most = max((count_staged_rows(table.queue) for table in resumed), default=0)
        if not batches or most >= at_least or any(_must_merge(table, batches) for table in resumed):
            return ""
        return f"staged={most} records_threshold={at_least}: fewer than start a merge"
    waiting = max((batch.ranges.span for batch in batches), default=0) + remaining
    # a flush always finishes staged batches
    if not batches or waiting >= at_least or any(batch.is_resumed for batch in batches):
        return ""
    return f"waiting={waiting} records_threshold={at_least}: fewer than start a flush"


def _must_merge(table: TableWithLog, batches: Sequence[PlannedBatch]) -> bool:
    # however few rows wait: nothing is staged behind a full queue, and a position follows batches without rows in time
    is_planned = any(batch.table == table.name for batch in batches)
    return is_queue_full(table, table.queue) or (is_planned and not count_mergeable(table.queue))


def _find_highest_staged(observed: TableWithLog) -> int:
    try:
        return observed.session.staging.find_highest_batch(observed.intermediate)
    except TidegateError:
        if observed.error is None:
            raise
        return 0  # numbers are unique for each table alone, so a table that cannot be read does not count


def _list_table_batches(observed: TableWithLog, fresh: PlannedBatch | None, scope: PlanScope) -> list[PlannedBatch]:
    # empty if no batch has rows and the position need not move yet
    new = [fresh] if fresh else []
    if scope == PlanScope.NEW or observed.held is not None:
        return new
    queue = observed.queue
    idle = fresh is None and not count_mergeable(queue)
    if idle and not (queue and publishes_without_rows(observed, combine_batches(queue))):
        return []
    return [*(PlannedBatch(observed.name, s.batch, s.ranges, s.attempt) for s in queue), *new]


def _plan_new_batch(session: Session, observed: TableWithLog, new: _NewBatches) -> PlannedBatch | None:
    table = observed.spec
    kafka_log = observed.log
    _check_truncates_are_ordered(observed)
    start = resolve_batch_start(observed)
    log_end = new.sizer.find_end(start, kafka_log.end)
    ranges = new.sizer.choose_ranges(start, log_end)
    if not ranges.span:
        return None
    highest = max([observed.state.highest_batch if observed.state else 0, *(batch.batch for batch in observed.queue)])
    # files that an earlier run left complete are taken over under their number
    number, ranges = find_unfinished_batch(observed, start, log_end, highest) or (0, ranges)
    if session.pipeline.has_several:
        # a missing schema fails this table here; later it would fail the tables that share its read too
        session.schemas.describe_table(table)
    may_leave_out = can_keep_last_per_key(session.pipeline, table)
    is_sampled = may_leave_out and table.last_per_key == UseWhen.AUTO
    share = new.sample_superseded_share(session, ranges) if is_sampled else None
    return PlannedBatch(
        table=table.name,
        batch=number or new.find_number(),
        ranges=ranges,
        follows=observed.queue[-1].attempt if observed.queue else "",
        watermark=_classify_watermark(observed, new.reached_offsets, ranges),
        last_per_key=may_leave_out and is_deduplication_worth_it(share),
        superseded_share=share,
        added=observed.queue[-1].added if observed.queue else (),
    )


def _check_truncates_are_ordered(observed: TableWithLog) -> None:
    counts = {topic: len(partitions) for topic, partitions in observed.log.end.items()}
    several = next((topic for topic, count in counts.items() if count > 1), None)
    if observed.spec.value.applies_truncates and several is not None:
        raise GiveUp(
            f"{observed.prefix}: topic={several} has partitions={counts[several]}, and "
            "value.truncate: apply needs one: between partitions nobody can tell which rows are older than a truncate; "
            "set value.truncate: refuse or ignore, or produce to a topic of one partition"
        )


def _classify_watermark(observed: TableWithLog, reached_offsets: Offsets | None, ranges: Ranges) -> WatermarkSide:
    # a table that was added later counts once a batch of its own ends where the others are, and then for good
    came_later = observed.end.outside if observed.end else reached_offsets is not None
    if not came_later:
        return WatermarkSide.INSIDE
    batch_end = ranges.end
    offset_pairs = [
        (get_offset(batch_end, topic, p), offset) for topic, p, offset in iterate_offsets(reached_offsets or {})
    ]
    reaches = all(mine is None or mine >= offset for mine, offset in offset_pairs)
    return WatermarkSide.JOINS if reaches else WatermarkSide.OUTSIDE


# ---- tables that cannot go on, while the others do


def to_refusals(session: Session, delays: Sequence[Delay], *, has_work: bool) -> tuple[Refusal, ...]:
    """Return the refusals that a plan carries, so that the other tables go on.

    Raises the reasons as one error if all tables are refused, and `SomeTables` if the other tables have no work.
    """
    if delays and len(delays) == len(session.pipeline.tables):
        raise join_errors([error for _, error in delays])
    refusals = note_refusals(delays)
    if refusals and not has_work:
        raise join_tables(format_refusals(session, refusals), [type(error) for _, error in delays])
    return refusals


def note_refusals(failures: Sequence[Delay]) -> tuple[Refusal, ...]:
    for message in dict.fromkeys(str(error) for _, error in failures):
        log.warning(message)
    return tuple(Refusal(table, type(error).__name__, str(error)) for table, error in failures)


def format_refusals(session: Session, refusals: Sequence[Refusal]) -> str:
    tables = format_names([refusal.table for refusal in refusals])  # the reasons behind them shall be seen, too
    reasons = dict.fromkeys(refusal.message for refusal in refusals)
    head = (
        f"pipeline={session.pipeline.name}: tables={tables} cannot go on and were left as they are, the others go on:"
    )
    return "\n".join([head, *reasons])
