"""plan: decide which offsets of the log become the next batch of each table. Changes nothing."""

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial

from tidegate.errors import GiveUp, NothingToDo, RetryLater, TidegateError, TooFewRecords, join_tables
from tidegate.flush.batch_size import BatchSizer, cap_at
from tidegate.flush.staged import find_unfinished_batch
from tidegate.formats.registry import get_format
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
from tidegate.schema.wire_format import OTHER_IDS, WIRE
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.runtime import UseWhen
from tidegate.spec.table import DeleteMode, Table, TableMode
from tidegate.table.log import explain_no_row_topics, read_known_log
from tidegate.table.position import check_truncates_are_ordered
from tidegate.table.progress import ObservedTable, TableWithLog, attach_log, observe_tables
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

# With these options the key's bytes alone do not identify it, or the last record of a key may make no row.
BESIDE_BYTES = ("wire_format", "ignored_records", WIRE, OTHER_IDS)
# Smaller batches are not sampled: choosing the last records of one takes less than a second.
SAMPLED_MIN_RECORDS = 100_000
MIN_SAMPLED_KEYS = 500  # fewer give no estimate
FREQUENT_KEY_COUNT = 4  # a key seen so often in a sample is counted by itself, not extrapolated
MIN_SUPERSEDED_SHARE = 0.5  # from here on the saved decoding, writing and merging pays for finding the last records


def can_keep_last_per_key(pipeline: Pipeline, table: Table) -> bool:
    """Whether staging only the last record of each raw key gives an equal table."""
    return (
        # the last record of a key, by offset, must decide alone; keys have several byte forms, so the merge chooses
        # once more
        table.last_per_key != UseWhen.NEVER
        and table.mode == TableMode.UPSERT_DELETE
        and table.deletes == DeleteMode.HARD
        and not table.sequence_by
        and table.history is None
        and not get_format(table.value.format).holds_several_rows
        and not any(set(BESIDE_BYTES) & set(part.options) for part in (table.key, table.value))
        and not table.key.from_value
        and not table.folds_records
        and not table.value.applies_truncates
        and _is_found_in_bytes(table.value.unavailable)
        and table.when is None
        and table.route is None
        and table.naming is None
        and table.delete_when is None
        and pipeline.source.errors.max_dead_letters is None
        and not pipeline.source.verify_integrity
    )


def _is_found_in_bytes(placeholder: str | None) -> bool:
    # the job looks for the placeholder in the raw bytes, before it decodes a record
    return placeholder is None or re.fullmatch("[A-Za-z0-9_]+", placeholder) is not None


def is_deduplication_worth_it(share: float | None) -> bool:
    return share is None or share >= MIN_SUPERSEDED_SHARE


def estimate_superseded_share(keys: Mapping[tuple[str, int], Sequence[bytes | None]], ranges: Ranges) -> float | None:
    """Estimate the share of records that a later record of their key supersedes; None if too few keys were sampled."""
    spans = {(topic, partition): end - start for topic, partition, start, end in ranges}
    # two records of a sample have one key as often as two records of the whole range
    samples = {place: sample for place, sample in keys.items() if len(sample) >= MIN_SAMPLED_KEYS}
    weight = sum(spans[place] for place in samples)
    if not weight:
        return None
    shares = (spans[place] * _estimate_partition_share(sample, spans[place]) for place, sample in samples.items())
    return round(sum(shares) / weight, 2)


def _estimate_partition_share(sample: Sequence[bytes | None], span: int) -> float:
    counts = Counter(key for key in sample if key is not None)
    often = sum(count for count in counts.values() if count >= FREQUENT_KEY_COUNT)
    rare_records = len(sample) - often
    repeat_pairs = sum(count * (count - 1) for count in counts.values() if count < FREQUENT_KEY_COUNT)
    rare_repeats = (
        span * rare_records / len(sample) * repeat_pairs / (rare_records * (rare_records - 1))
        if rare_records > 1
        else 0.0
    )
    return (often + rare_records * rare_repeats / (1 + rare_repeats)) / len(sample)


log = logging.getLogger(__name__)
Failure = tuple[str, GiveUp]  # a table that cannot be staged, and why
Delay = tuple[str, GiveUp | RetryLater]  # a table that cannot be planned, for good or for now, and why


def to_refusals(session: Session, delays: Sequence[Delay], *, has_work: bool) -> tuple[Refusal, ...]:
    """Return the refusals that a plan carries, so that the other tables go on.

    Raises one reason if all tables are refused, and `SomeTables` if the other tables have no work.
    """
    if delays and len(delays) == len(session.pipeline.tables):
        raise next((error for _, error in delays if isinstance(error, RetryLater)), delays[0][1])
    refusals = note_refusals(delays)
    if refusals and not has_work:
        raise join_tables(format_refusals(session, refusals), [type(error) for _, error in delays])
    return refusals


@contextmanager
def isolate_failure(table: str, failures: list[Failure]) -> Iterator[None]:
    try:
        yield
    except GiveUp as error:
        failures.append((table, error))


def note_refusals(failures: Sequence[Delay]) -> tuple[Refusal, ...]:
    for message in dict.fromkeys(str(error) for _, error in failures):
        log.warning(message)
    return tuple(Refusal(table, type(error).__name__, str(error)) for table, error in failures)


def join_failures(failures: Sequence[Failure]) -> GiveUp:
    first = failures[0][1]
    words = dict.fromkeys(str(error) for _, error in failures)
    return first if len(words) == 1 else type(first)("\n".join(words))


def format_refusals(session: Session, refusals: Sequence[Refusal]) -> str:
    tables = format_names([refusal.table for refusal in refusals])  # the reasons behind them shall be seen, too
    reasons = dict.fromkeys(refusal.message for refusal in refusals)
    head = (
        f"pipeline={session.pipeline.name}: tables={tables} cannot go on and were left as they are, the others go on:"
    )
    return "\n".join([head, *reasons])


logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _NewBatches:
    """What the new batches of all tables share.

    - `find_staged`: for each table, the highest batch number that was staged; read only when needed.
    - `find_number`: one more than the highest number that was ever used.
    - `reached_offsets`: how far all tables inside the low watermark have come; None if there is none.
    """

    sizer: BatchSizer
    find_staged: Mapping[str, Callable[[], int]]
    find_number: Callable[[], int]
    reached_offsets: Offsets | None
    sampled_shares: dict[str, float | None] = field(default_factory=dict)

    def sample_superseded_share(self, session: Session, ranges: Ranges) -> float | None:
        """Estimate the superseded share from a sample, read once for all tables with these ranges.

        None for a small batch.
        """
        range_key = str(ranges.to_dict())
        if ranges.span >= SAMPLED_MIN_RECORDS and range_key not in self.sampled_shares:
            self.sampled_shares[range_key] = estimate_superseded_share(session.broker.sample_keys(ranges), ranges)
        return self.sampled_shares.get(range_key)


def plan(
    session: Session, at_least: int = 0, stop_offsets: Offsets | None = None, scope: PlanScope = PlanScope.ALL
) -> Plan:
    """Return the next batches of every table that has work; `NothingToDo` if none has, or fewer than `at_least` wait.

    1. Read each table's position and queue.
    2. Read the log's ends once; check that the log still has the end of each queue.
    3. Resume the staged batches that continue exactly from the position.
    4. Cut a new batch up to the end of the log or a cap; tables at equal offsets share it. None while a queue is full.

    `stop_offsets` cap the end of the log; partitions that it does not name are not read. With `PlanScope.STAGED`
    nothing is cut, and `at_least` counts staged rows; a full queue is always enough. A table that cannot go on is
    listed in `refusals`. If every table is refused, the refusal is raised; if the others have no work, `SomeTables`.
    """
    session = expand_template(session)
    # 1. before the log is read, so that what another run publishes in between does not lie beyond the log's ends
    return plan_observed(session, observe_tables(session), at_least, stop_offsets, scope)


def plan_observed(
    session: Session,
    observed_tables: Sequence[ObservedTable],
    at_least: int = 0,
    stop_offsets: Offsets | None = None,
    scope: PlanScope = PlanScope.ALL,
) -> Plan:
    """Run steps 2 to 4 of `plan`, for tables that were read already.

    `session` holds the tables that records have named.
    """
    # 2.
    log, missing = read_known_log(session)
    tables = [_cap_log(observed, stop_offsets) for observed in attach_log(observed_tables, log, missing)]
    wait_reason = _describe_full_queues(session, tables)
    sizer = BatchSizer(session)
    cuts_new = not wait_reason and _may_cut(session, tables, scope)
    # 3. and 4.
    batches, refused = _collect_batches(session, tables, sizer, scope, cuts_new=cuts_new)
    remaining = 0 if scope == PlanScope.STAGED else _count_remaining(batches, tables)
    too_few = _explain_too_few(tables, batches, remaining, at_least, scope)
    refusals = to_refusals(session, refused, has_work=bool(batches) and not too_few)
    if too_few:
        raise TooFewRecords(f"pipeline={session.pipeline.name}: {too_few}")
    if not batches:
        raise NothingToDo(_explain_no_work(session, log, scope, wait_reason, stop_offsets))
    if wait_reason:
        logger.warning(wait_reason)
    return Plan(
        tables=tuple(batches),
        cluster_id=log.cluster_id,
        topic_ids=log.topic_ids,
        wait_reason=wait_reason,
        refusals=refusals,
        offsets_left=remaining,
        size_reason=sizer.reason,
        epochs=log.epochs,
    )


def _explain_no_work(
    session: Session, log: Log, scope: PlanScope, wait_reason: str, stop_offsets: Offsets | None
) -> str:
    place = f"pipeline={session.pipeline.name}"
    if scope == PlanScope.STAGED:
        return f"{place}: no staged batch waits for a merge"
    if wait_reason:  # nothing is resumed where only new batches count
        return wait_reason
    if unread := explain_no_row_topics(session, log):
        return unread
    end = "end of the log" if stop_offsets is None else "end that was asked for, or behind it"
    return f"{place}: every table stands at the {end}"


def _describe_full_queues(session: Session, tables: Sequence[TableWithLog]) -> str:
    full = [t for t in tables if t.error is None and is_queue_full(t, t.queue)]
    if session.pipeline.stage.has_clock:
        return "; ".join(
            f"{observed.prefix}: its queue is full: waiting={count_mergeable(observed.queue)} "
            f"max_pending={observed.table.max_pending}, so nothing is staged until a merge takes it; see what its "
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
    return not any(count_mergeable(t.queue) for t in tables if t.error is None)


def _collect_batches(
    session: Session, tables: Sequence[TableWithLog], sizer: BatchSizer, scope: PlanScope, *, cuts_new: bool
) -> tuple[list[PlannedBatch], list[Delay]]:
    find_staged = {observed.table.name: cache(partial(_find_highest_staged, session, observed)) for observed in tables}
    published = [observed.state.highest_batch for observed in tables if observed.state]
    find_number = cache(lambda: 1 + max([*published, *(find() for find in find_staged.values())]))
    inside = [t.end.offsets for t in tables if t.position and t.end and not t.end.outside]
    new = _NewBatches(
        sizer=sizer,
        find_staged=find_staged,
        find_number=find_number,
        reached_offsets=find_lowest(*inside) if inside else None,
    )
    batches = list[PlannedBatch]()
    refused = list[Delay]()
    for logged_table in tables:
        fresh = None
        error = logged_table.error
        try:
            fresh = _plan_new_batch(session, logged_table, new) if cuts_new and error is None else None
        except GiveUp as refusal:
            error = refusal
        table_batches = _list_table_batches(logged_table, fresh, scope)
        batches += table_batches
        # a queue is published before its table is refused: an answer to the refusal would lose the staged batches
        if error is not None and not table_batches:
            refused.append((logged_table.table.name, error))
    return batches, refused


def _count_remaining(batches: Sequence[PlannedBatch], tables: Sequence[TableWithLog]) -> int:
    reached = {batch.table: batch.ranges.end for batch in batches}
    logs = {observed.table.name: observed.log for observed in tables if observed.error is None}
    spans = (
        Ranges.between(end, merge_offsets(end, keep_partitions(logs[table].end, end))).span
        for table, end in reached.items()
        if table in logs
    )
    return max(spans, default=0)


def _explain_too_few(
    tables: Sequence[TableWithLog], batches: Sequence[PlannedBatch], remaining: int, at_least: int, scope: PlanScope
) -> str:
    if scope == PlanScope.STAGED:
        most = max((count_staged_rows(table.queue) for table in tables), default=0)
        if not batches or most >= at_least or any(is_queue_full(table, table.queue) for table in tables):
            return ""
        return f"staged={most} records_threshold={at_least}: fewer than start a merge"
    waiting = max((batch.ranges.span for batch in batches), default=0) + remaining
    # a flush always finishes staged batches
    if not batches or waiting >= at_least or any(batch.is_resumed for batch in batches):
        return ""
    return f"waiting={waiting} records_threshold={at_least}: fewer than start a flush"


def _cap_log(observed: TableWithLog, stop_offsets: Offsets | None) -> TableWithLog:
    if stop_offsets is None or observed.error is not None:
        return observed
    reached = merge_offsets(observed.log.begin, observed.end.offsets if observed.end else {})
    return replace(observed, log=replace(observed.log, end=cap_at(observed.log.end, stop_offsets, reached)))


def _find_highest_staged(session: Session, observed: TableWithLog) -> int:
    try:
        return observed.session.staging.find_highest_batch(observed.intermediate)
    except TidegateError:
        if observed.error is None:
            raise
        return 0  # numbers are unique for each table alone, so a table that cannot be read does not count


def _list_table_batches(observed: TableWithLog, fresh: PlannedBatch | None, scope: PlanScope) -> list[PlannedBatch]:
    """Return the queue, then the new batch. Empty if no batch has rows and the position need not move yet."""
    new = [fresh] if fresh else []
    if scope == PlanScope.NEW:
        return new
    queue = observed.queue
    idle = fresh is None and not count_mergeable(queue)
    if idle and not (queue and publishes_without_rows(observed, combine_batches(queue))):
        return []
    return [*(PlannedBatch(observed.name, s.batch, s.ranges, s.attempt) for s in queue), *new]


def _plan_new_batch(session: Session, observed: TableWithLog, new: _NewBatches) -> PlannedBatch | None:
    table = observed.table
    log = observed.log
    check_truncates_are_ordered(observed, log)
    start = resolve_batch_start(session, observed)
    ranges = new.sizer.choose_ranges(start, log.end)
    if not ranges.span:
        return None
    highest = max([observed.state.highest_batch if observed.state else 0, *(batch.batch for batch in observed.queue)])
    # files that an earlier run left complete are taken over under their number
    number, ranges = find_unfinished_batch(observed, start, log.end, highest) or (0, ranges)
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
    )


def _classify_watermark(observed: TableWithLog, reached_offsets: Offsets | None, ranges: Ranges) -> WatermarkSide:
    """Whether the table counts for the group's offsets from this batch on: inside, outside, or joining."""
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
