"""The queue of a table: batches that are staged and wait to be published, in order, from the table's position on."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from tidegate.errors import GiveUp
from tidegate.model.batch import Counts, StagedBatch, take_ends
from tidegate.model.offsets import Offsets, find_highest
from tidegate.model.position import Position, WatermarkSide
from tidegate.model.table_state import is_recreated
from tidegate.schema.data_types import Column
from tidegate.spec.pipeline import Merge
from tidegate.table.columns import compute_shape, list_key_columns, list_value_columns
from tidegate.table.position import is_of_other_log
from tidegate.table.session import TableSession, describe_table


def select_queue(
    table: TableSession, position: Position | None, staged_batches: Sequence[StagedBatch]
) -> tuple[StagedBatch, ...]:
    """Return those of `staged_batches` that continue from `position` without a gap, oldest first.

    Without a position, the first must have been planned as the first of the table.
    """
    if not staged_batches:
        return ()
    described = replace(table, spec=describe_table(table.session, table.spec))
    shapes = {
        added: compute_shape(described.add_columns(added).resolved)
        for added in {batch.added for batch in staged_batches}
    }
    uuid = table.state.uuid if table.state else None
    queue: list[StagedBatch] = []
    for batch in staged_batches:
        if queue or position:
            is_next = batch.ranges.continues(queue[-1].ranges.end if queue else position.offsets if position else {})
        else:
            is_next = not batch.follows
        if is_next and not is_passed(table, position, batch) and _fits(batch, uuid, shapes[batch.added]):
            queue.append(batch)
    return tuple(queue)


def find_reshaped(
    table: TableSession, end: Position | None, staged_batches: Sequence[StagedBatch]
) -> tuple[StagedBatch, ...]:
    """Return the batches that would follow in a queue that ends at `end`, had the rows' shape not changed since."""
    uuid = table.state.uuid if table.state else None
    reached = end.offsets if end else None
    reshaped: list[StagedBatch] = []
    for batch in staged_batches:
        is_next = not batch.follows if reached is None else batch.ranges.continues(reached)
        # it is in no queue, and nothing but its shape can be the reason
        if is_next and not is_passed(table, end, batch) and _fits(batch, uuid, batch.row_shape):
            reshaped.append(batch)
            reached = batch.ranges.end
    return tuple(reshaped)


def is_passed(table: TableSession, position: Position | None, batch: StagedBatch) -> bool:
    """Whether the batch was published once and then rolled back, or is older than a move of the position."""
    highest = table.state.highest_batch if table.state else 0
    return batch.batch <= highest or (position is not None and is_of_other_log(position, batch))


def describe_way_back(table: TableSession) -> str:
    """Say how a batch is published that was staged in another shape of the rows."""
    return (
        "set the pipeline file, or the schema that it names, back to how it was, and run: tidegate flush "
        f"{table.pipeline.name}; then change it again"
    )


def select_between(
    first: StagedBatch, last: StagedBatch, staged_batches: Sequence[StagedBatch]
) -> tuple[StagedBatch, ...]:
    """Return the queue from `first` to `last`, of which only these two are known; without what was cleaned up since."""
    queue: list[StagedBatch] = []
    for batch in staged_batches:
        is_between = first.batch <= batch.batch <= last.batch and _fits(batch, last.table_uuid, last.row_shape)
        if is_between and (not queue or batch.ranges.continues(queue[-1].ranges.end)):
            queue.append(batch)
    return tuple(queue)


def shorten_queue(queue: Sequence[StagedBatch]) -> Sequence[StagedBatch]:
    """Return what `select_between` needs to find a queue again: its ends.

    All of it if the last batch has made the intermediate table anew: those without rows ahead of it are gone there.
    """
    return queue if queue[0].row_shape != queue[-1].row_shape else take_ends(queue)


def is_whole(queue: Sequence[StagedBatch]) -> bool:
    """Whether no batch can lie between these. Offsets do not say so: a partition may join in one between."""
    return all(later.batch == batch.batch + 1 for batch, later in pairwise(queue))


def _fits(staged_batch: StagedBatch, table_uuid: str | None, shape: str) -> bool:
    # a batch of another table or pipeline file is staged again
    if staged_batch.counts.explain_imbalance() or staged_batch.row_shape != shape or not staged_batch.ranges.span:
        return False
    return staged_batch.table_uuid in (None, table_uuid)


def check_shape(table: TableSession, staged_batch: StagedBatch) -> None:
    """Raise `GiveUp` if pipeline file or schema describe other rows than when the batch was staged.

    The merge would misread them: a delete staged for a table that deletes is a row of NULLs to one that only upserts.
    """
    if staged_batch.row_shape == compute_shape(table.resolved):
        return
    # without a value schema a row has the destination's columns, and the merge itself may just have changed the key's
    file_shape = staged_batch.shape.partition(".")[2]  # of a table without a value schema
    if not file_shape or file_shape != _compute_file_shape(table):
        raise GiveUp(
            f"{table.prefix} {staged_batch.label}: the pipeline file, a schema that it names, or another writer of the "
            "table has changed the rows' shape since the batch was staged; nothing was merged; the next flush stages "
            "it again"
        )


def describe_shape(table: TableSession) -> str:
    file_shape = _compute_file_shape(table)
    return compute_shape(table.resolved) + (f".{file_shape}" if file_shape else "")


def _compute_file_shape(table: TableSession) -> str:
    spec = table.spec
    value = spec.value
    if not value.adds_columns and (value.columns is not None or spec.select is not None):
        return ""
    key_columns = spec.key.columns or ()
    typed_names = {column.name for column in (*(value.columns or ()), *key_columns)}
    # a key that the file gives no type has the table's
    untyped_columns = (Column(name, "STRING") for name in spec.key.fields if name not in typed_names)
    key = replace(spec.key, columns=(*key_columns, *untyped_columns))
    columns = (*(value.columns or ()), *_list_found_columns(table))
    return compute_shape(replace(spec, key=key, value=replace(value, columns=columns, added=())))


def _list_found_columns(table: TableSession) -> tuple[Column, ...]:
    """Return the value's columns that the file does not state: no merge changes more of them than whether NULL fits."""
    own_columns = (*(table.spec.value.columns or ()), *list_key_columns(table.resolved))
    own_names = {column.name.casefold() for column in own_columns}
    types = {column.name.casefold(): column.type for column in list_value_columns(table.resolved)}
    return tuple(Column(name, types[name]) for name in sorted(types.keys() - own_names))


def count_mergeable(queue: Sequence[StagedBatch]) -> int:
    """Count the batches that wait for a merge. Batches without rows at the head of the queue do not."""
    first = next((n for n, batch in enumerate(queue) if batch.counts.to_write), len(queue))
    return len(queue) - first


def is_queue_full(table: TableSession, queue: Sequence[StagedBatch]) -> bool:
    return count_mergeable(queue) >= table.spec.max_pending


def count_staged_rows(queue: Sequence[StagedBatch]) -> int:
    return sum(batch.counts.staged for batch in queue)


def find_rowless_end(queue: Sequence[StagedBatch]) -> Offsets:
    """Return where the batches without rows at the head of the queue end. They count as published."""
    ahead = queue[: len(queue) - count_mergeable(queue)]
    return ahead[-1].ranges.end if ahead else {}


def publishes_without_rows(table: TableSession, staged_batch: StagedBatch) -> bool:
    """Whether a batch without rows makes a snapshot, which moves the position.

    Once per heartbeat interval, after a batch of `merge.max_records`, and if `max_pending` such batches wait.
    """
    pipeline = table.pipeline
    interval_ms = pipeline.heartbeat.interval_seconds * 1000
    if staged_batch.ranges.span >= pipeline.merge.max_records or len(staged_batch.parts) >= table.spec.max_pending:
        return True
    return 0 < interval_ms <= table.session.now_ms() - (table.state.snapshot_ms if table.state else 0)


def take_group(queue: Sequence[StagedBatch], limits: Merge, *, takes_one: bool = False) -> tuple[StagedBatch, ...]:
    """Return the batches at the head of the queue that one merge publishes.

    They have at most `merge.max_records` rows and about `merge.max_bytes`, or are a single larger batch. With
    `takes_one` the group ends at its first batch with rows.
    """
    group: list[StagedBatch] = []
    for batch in queue:
        # batches without rows go along: alone they would not move the position
        if has_rows(group) and (takes_one or not _can_join(batch, group, limits)):
            break
        group.append(batch)
    return tuple(group)


def has_rows(group: Sequence[StagedBatch]) -> bool:
    return any(batch.counts.to_write for batch in group)


def _can_join(batch: StagedBatch, group: Sequence[StagedBatch], limits: Merge) -> bool:
    last = group[-1]
    records = sum(member.counts.to_write for member in (*group, batch))
    size = sum(member.bytes for member in (*group, batch))
    if batch.counts.to_write and (records > limits.max_records or 0 < limits.max_bytes < size):
        return False
    # of another log or table, neither offsets nor the records that dead letters name would mean one thing
    topic_ids = batch.topic_ids
    return (
        (batch.shape, batch.cluster_id) == (last.shape, last.cluster_id)
        and not any(
            is_recreated(topic_id, topic_ids.get(topic, topic_id)) for topic, topic_id in last.topic_ids.items()
        )
        and (last.table_uuid is None or batch.table_uuid == last.table_uuid)
    )


def combine_batches(group: Sequence[StagedBatch]) -> StagedBatch:
    """Return the group as one batch: the last one, with the ranges and the counts of all."""
    first = group[0]
    last = group[-1]
    if first is last:
        return last
    joins = first.watermark != WatermarkSide.INSIDE and last.watermark == WatermarkSide.INSIDE
    with_rows = [batch for batch in group if batch.counts.to_write]
    totals = (sum(numbers) for numbers in zip(*(vars(batch.counts).values() for batch in group), strict=True))
    return replace(
        last,
        ranges=first.ranges.extend_to(last.ranges),
        counts=Counts(*totals),
        timestamps=find_highest(*(batch.timestamps for batch in group)),
        follows=first.follows,
        watermark=WatermarkSide.JOINS if joins else last.watermark,
        keys_differ=len(with_rows) == 1 and with_rows[0].keys_differ,
        ahead=tuple(part for batch in group[:-1] for part in batch.parts),
        deletes=sum(batch.deletes for batch in group),
        unsequenced_deletes=sum(batch.unsequenced_deletes for batch in group),
        kept=sum(batch.kept for batch in group),
        truncated_at=next((b.truncated_at for b in reversed(group) if b.truncated_at is not None), None),
        bytes=sum(batch.bytes for batch in group),
    )


def describe_full_queue(table: TableSession, queue: Sequence[StagedBatch]) -> str:
    """Say that a queue holds `max_pending` batches, and how the pipeline reads on."""
    first = next(batch for batch in queue if batch.counts.to_write)
    return (
        f"{table.prefix}: its queue is full: waiting={count_mergeable(queue)} "
        f"max_pending={table.spec.max_pending}, so no table gets a new batch; merge of batch={first.batch} is what "
        "fails first: correct what its message says, and the next flush publishes the queue and reads on"
    )
