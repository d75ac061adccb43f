"""plan: decide which offsets of the log become the next batch of each table. Changes nothing."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial

from tidegate.errors import GiveUp, NothingToDo, PositionLost, RetryLater, TidegateError, TooFewRecords
from tidegate.model import resource_names
from tidegate.model.batch import Plan, PlannedBatch
from tidegate.model.offsets import (
    Offsets,
    Ranges,
    find_lowest,
    get_offset,
    iterate_offsets,
    keep_partitions,
    merge_offsets,
)
from tidegate.model.position import WatermarkSide
from tidegate.planning.batch_size import BatchSizer
from tidegate.planning.blocked_tables import Delay, to_refusals
from tidegate.planning.key_deduplication import (
    SAMPLED_MIN_RECORDS,
    can_keep_last_per_key,
    estimate_superseded_share,
    is_deduplication_worth_it,
)
from tidegate.planning.stop_offsets import cap_at
from tidegate.ports.context import Ports
from tidegate.progress.batch_queue import combine_batches, count_mergeable, describe_full_queue, publishes_without_rows
from tidegate.progress.position_checks import check_truncates_are_ordered
from tidegate.progress.start_offsets import resolve_batch_start
from tidegate.progress.table_progress import ObservedTable, TableWithLog, attach_log, observe_tables
from tidegate.progress.topic_log import explain_no_row_topics, read_known_log
from tidegate.spec.runtime import UseWhen
from tidegate.staging.takeover import find_unfinished_batch
from tidegate.tables.distant_tables import check_no_former_batches
from tidegate.tables.templated_tables import expand_template

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _NewBatches:
    """What the new batches of all tables share: their size, their number, and what samples of their keys showed.

    `find_staged`: for each table, returns the highest batch number that was staged; read at the first call, so never if
    no table gets a new batch. `find_number`: returns the next number, one more than was ever used. `reached_offsets`:
    how far all tables inside the low watermark have come; None if there is none. `list_tables`: lists a namespace, once
    for all tables.
    """

    sizer: BatchSizer
    find_staged: Mapping[str, Callable[[], int]]
    find_number: Callable[[], int]
    reached_offsets: Offsets | None
    list_tables: Callable[[str], list[str]]
    sampled_shares: dict[str, float | None] = field(default_factory=dict)

    def sample_superseded_share(self, ports: Ports, ranges: Ranges) -> float | None:
        """The estimated share of records that a later record of their key supersedes; None for a small batch.

        Reads a sample from the brokers, once for all tables with these ranges.
        """
        range_key = str(ranges.to_dict())
        if ranges.span >= SAMPLED_MIN_RECORDS and range_key not in self.sampled_shares:
            self.sampled_shares[range_key] = estimate_superseded_share(ports.broker.sample_keys(ranges), ranges)
        return self.sampled_shares.get(range_key)


def plan(ports: Ports, at_least: int = 0, stop_offsets: Offsets | None = None) -> Plan:
    """Return the next batches of every table that has work; `NothingToDo` when none has, or fewer than `at_least` wait.

    1. Read each table's position and queue.
    2. Read the log's ends under the pipeline's isolation level, once for all tables, and check that the log still has
       the offsets at which each queue ends. This comes second, so that what another run publishes in between does not
       lie beyond the log's ends.
    3. Resume the staged batches that continue exactly from the position, in order.
    4. Cut a new batch from the end of the queue to the end of the log. `merge.max_records` and the duration of earlier
       batches cap it; tables at the same offsets share it. Cut none while some table's queue is full, or while the
       pipeline's only table has a batch waiting. If an earlier run left complete files of a batch, plan it again.

    `stop_offsets` cap the end of the log; partitions that it does not name are not read.

    A table that cannot go on, or cannot be read now, stays as it is and is listed in `refusals`; the others are
    planned. If every table is refused, the refusal is raised; if the others have no work, `SomeTables` is raised.
    """
    ports = expand_template(ports)
    return plan_observed(ports, observe_tables(ports), at_least, stop_offsets)


def plan_observed(
    ports: Ports, observed_tables: Sequence[ObservedTable], at_least: int = 0, stop_offsets: Offsets | None = None
) -> Plan:
    """Steps 2 to 4 of `plan`, for tables that were read already. `ports` hold the tables that records have named."""
    log, missing = read_known_log(ports)
    tables = [_cap_log(observed, stop_offsets) for observed in attach_log(ports, observed_tables, log, missing)]
    wait_reason = _describe_full_queues(ports, tables)
    sizer = BatchSizer(ports)
    cuts_new = not wait_reason and not _has_only_table_waiting(ports, tables)
    batches, refused = _collect_batches(ports, tables, sizer, cuts_new=cuts_new)
    remaining = _count_remaining(batches, tables)
    too_few = _explain_too_few(batches, remaining, at_least)
    refusals = to_refusals(ports, refused, has_work=bool(batches) and not too_few)
    if too_few:
        raise TooFewRecords(f"pipeline={ports.pipeline.name}: {too_few}")
    if not batches:
        if unread := explain_no_row_topics(ports, log):
            raise NothingToDo(unread)
        end = "end of the log" if stop_offsets is None else "end that was asked for, or behind it"
        raise NothingToDo(f"pipeline={ports.pipeline.name}: every table stands at the {end}")
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


def _describe_full_queues(ports: Ports, tables: Sequence[TableWithLog]) -> str:
    """Which queue is full, so that no table gets a new batch; empty if none is."""
    full = (t for t in tables if t.error is None and count_mergeable(t.queue) >= t.table.max_pending)
    return "; ".join(describe_full_queue(ports, observed.table, observed.queue) for observed in full)


def _has_only_table_waiting(ports: Ports, tables: Sequence[TableWithLog]) -> bool:
    """Whether the pipeline's only table has a batch to merge; a further batch would wait behind it."""
    return not ports.pipeline.has_several and any(count_mergeable(t.queue) for t in tables if t.error is None)


def _collect_batches(
    ports: Ports, tables: Sequence[TableWithLog], sizer: BatchSizer, *, cuts_new: bool
) -> tuple[list[PlannedBatch], list[Delay]]:
    """3. and 4.: the batches of the tables that go on, and those that do not.

    If the log no longer continues at the end of a queue, the queue is published first, and the table is refused after
    that. The refusal asks a person to move the position, which would lose the staged batches.
    """
    find_staged = {observed.table.name: cache(partial(_find_highest_staged, ports, observed)) for observed in tables}
    published = [observed.state.highest_batch for observed in tables if observed.state]
    find_number = cache(lambda: 1 + max([*published, *(find() for find in find_staged.values())]))
    inside = [t.end.offsets for t in tables if t.position and t.end and not t.end.outside]
    new = _NewBatches(
        sizer=sizer,
        find_staged=find_staged,
        find_number=find_number,
        reached_offsets=find_lowest(*inside) if inside else None,
        list_tables=cache(ports.tables.list_tables),
    )
    batches, refused = list[PlannedBatch](), list[Delay]()
    for logged_table in tables:
        fresh, error = None, logged_table.error
        try:
            fresh = _plan_new_batch(ports, logged_table, new) if cuts_new and error is None else None
        except GiveUp as refusal:
            error = refusal
        error = error and _explain_refusal(ports, logged_table, error, new)
        table_batches = _list_table_batches(ports, logged_table, fresh)
        batches += table_batches
        if error is not None and not table_batches:
            refused.append((logged_table.table.name, error))
    return batches, refused


def _explain_refusal(
    ports: Ports, observed: TableWithLog, error: GiveUp | RetryLater, new: _NewBatches
) -> GiveUp | RetryLater:
    """The refusal to report. Batches under a former suffix come first: they may hold what the log has lost."""
    try:
        if isinstance(error, PositionLost) and observed.is_read and not observed.staged_batches:
            _check_suffix(ports, observed, new)
    except GiveUp as reason:
        return reason
    return error


def _check_suffix(ports: Ports, observed: TableWithLog, new: _NewBatches) -> None:
    """`GiveUp` if batches wait under a former suffix. Checked only for a table without batches under this suffix."""
    if not observed.table.discovers_names and not new.find_staged[observed.table.name]():
        check_no_former_batches(ports, observed.table, observed.state, new.list_tables)


def _count_remaining(batches: Sequence[PlannedBatch], tables: Sequence[TableWithLog]) -> int:
    """How many offsets lie behind the planned batches, for the table with the most."""
    reached = {batch.table: batch.ranges.end for batch in batches}
    logs = {observed.table.name: observed.log for observed in tables if observed.error is None}
    spans = (
        Ranges.between(end, merge_offsets(end, keep_partitions(logs[table].end, end))).span
        for table, end in reached.items()
        if table in logs
    )
    return max(spans, default=0)


def _explain_too_few(batches: Sequence[PlannedBatch], remaining: int, at_least: int) -> str:
    """A sentence if too few records wait to start a flush. Staged batches are always finished."""
    waiting = max((batch.ranges.span for batch in batches), default=0) + remaining
    if not batches or waiting >= at_least or any(batch.is_resumed for batch in batches):
        return ""
    return f"waiting={waiting} records_threshold={at_least}: fewer than start a flush"


def _cap_log(observed: TableWithLog, stop_offsets: Offsets | None) -> TableWithLog:
    """The table, with a log that ends at `stop_offsets` at the latest."""
    if stop_offsets is None or observed.error is not None:
        return observed
    reached = merge_offsets(observed.log.begin, observed.end.offsets if observed.end else {})
    return replace(observed, log=replace(observed.log, end=cap_at(observed.log.end, stop_offsets, reached)))


def _find_highest_staged(ports: Ports, observed: TableWithLog) -> int:
    try:
        return ports.staging.find_highest_batch(resource_names.name_intermediate_table(ports.pipeline, observed.table))
    except TidegateError:
        if observed.error is None:
            raise
        return 0  # numbers are unique for each table alone, so a table that cannot be read does not count


def _list_table_batches(ports: Ports, observed: TableWithLog, fresh: PlannedBatch | None) -> list[PlannedBatch]:
    """The queue, then the new batch. Empty if no batch has rows and the position need not move yet."""
    queue, table = observed.queue, observed.table
    idle = fresh is None and not count_mergeable(queue)
    if idle and not (queue and publishes_without_rows(ports, table, observed.state, combine_batches(queue))):
        return []
    return [*(PlannedBatch(table.name, s.batch, s.ranges, s.attempt) for s in queue), *([fresh] if fresh else [])]


def _plan_new_batch(ports: Ports, observed: TableWithLog, new: _NewBatches) -> PlannedBatch | None:
    table, log = observed.table, observed.log
    check_truncates_are_ordered(ports.pipeline, table, log)
    start = resolve_batch_start(ports, observed)
    ranges = new.sizer.choose_ranges(start, log.end)
    if ranges.span or observed.position is None:
        _check_suffix(ports, observed, new)
    if not ranges.span:
        return None
    highest = max([observed.state.highest_batch if observed.state else 0, *(batch.batch for batch in observed.queue)])
    number, ranges = find_unfinished_batch(ports, table, start, log.end, highest) or (0, ranges)
    if ports.pipeline.has_several:
        # a missing schema fails this table here; later it would fail the tables that share its read too
        ports.schemas.describe_table(table)
    may_leave_out = can_keep_last_per_key(ports.pipeline, table)
    is_sampled = may_leave_out and table.last_per_key == UseWhen.AUTO
    share = new.sample_superseded_share(ports, ranges) if is_sampled else None
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
    """Whether the table counts for the group's offsets from this batch on: inside, outside, or joining.

    A table that was added later is outside until a batch of its own ends where the other tables are already. Once
    inside it stays inside, however far it falls behind.
    """
    came_later = observed.end.outside if observed.end else reached_offsets is not None
    if not came_later:
        return WatermarkSide.INSIDE
    batch_end = ranges.end
    offset_pairs = [
        (get_offset(batch_end, topic, p), offset) for topic, p, offset in iterate_offsets(reached_offsets or {})
    ]
    reaches = all(mine is None or mine >= offset for mine, offset in offset_pairs)
    return WatermarkSide.JOINS if reaches else WatermarkSide.OUTSIDE
