"""merge: drain a table's queue, in order and with as few merges as possible, up to the first batch that fails."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from tidegate.errors import GiveUp, HeldForApproval, PublishedElsewhere, TidegateError
from tidegate.flush.merge import merge
from tidegate.merge.owed import record_history
from tidegate.model.batch import PublishedBatch, PublishOutcome, StagedBatch
from tidegate.ports.session import Session
from tidegate.table.approval import Hold, find_last_hold
from tidegate.table.observed_table import ObservedTable, observe_tables
from tidegate.table.position import resolve_position
from tidegate.table.queue import (
    combine_batches,
    describe_full_queue,
    has_rows,
    is_queue_full,
    is_whole,
    select_between,
    take_group,
)
from tidegate.table.session import TableSession, check_table_is_known, find_table, open_table

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class QueueResult:
    """What was published of one table's queue; `failure` is why the rest still waits.

    `held`: the rest waits for a person's approval. That is the `failure` too, if nothing was published before.
    `ended`: what the table waited for until this run published.
    """

    table: str
    published: tuple[PublishedBatch, ...]
    failure: TidegateError | None = None
    held: HeldForApproval | None = None
    ended: Hold | None = None

    @property
    def total(self) -> PublishedBatch:
        """The results of the queue as one. Raises the failure, if there is one."""
        if self.failure is not None:
            raise self.failure
        return reduce(PublishedBatch.add, self.published)

    @property
    def begun(self) -> HeldForApproval | None:
        """What the table waits for since this very run; None if nothing, or somebody knows already."""
        return self.held if self.held is not None and self.held.is_new else None


def group_by_table(batches: Sequence[StagedBatch]) -> list[list[StagedBatch]]:
    by_table: dict[str, list[StagedBatch]] = {}
    for batch in batches:
        by_table.setdefault(batch.table, []).append(batch)
    return list(by_table.values())


@dataclass(frozen=True)
class DeferredJob:
    """The job for which a task was deferred, and the seconds since then."""

    job: str
    seconds: float


@dataclass
class MergeCheckpoint:
    """What a run of a queue has published so far."""

    published: list[PublishedBatch] = field(default_factory=list)
    deferred_job: DeferredJob | None = None  # the job for which the task was deferred; None if it was not
    first_under_way: int | None = None  # the number of the first batch that it was merging then
    last_hold: Hold | None = None  # what the table waited for when it was read first; not kept

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], now_seconds: float) -> "MergeCheckpoint":
        published_batches = [PublishedBatch.from_dict(entry) for entry in data.get("published", ())]
        deferred_job = DeferredJob(data["job"], now_seconds - data["since"]) if "job" in data else None
        return cls(published_batches, deferred_job, data.get("first_under_way"))

    def to_dict(self) -> dict[str, Any]:
        published_batches = [batch.to_dict() for batch in self.published]
        return {"published": published_batches, "first_under_way": self.first_under_way}


def merge_queue(
    session: Session, queue: Sequence[StagedBatch], checkpoint: MergeCheckpoint | None = None
) -> QueueResult:
    """Publish one table's staged batches in order and record each; stop at the first failure.

    `queue` may be the first and the last batch alone: those between are read.

    1. Leave out what an earlier attempt of this task has published.
    2. Merge what remains in one snapshot, as far as `take_group` allows, and so on.
    3. If several batches fail as one, and would again, merge them one by one. Where a person may have to approve a
       batch, always: what is approved must not depend on what was staged behind it.
    4. After a failure the rest waits, and behind a batch that waits for an approval.

    Each result is added to the checkpoint at once, because the task may be deferred. What `deferred_job` published
    counts as this run's work. `TableRemoved` if the pipeline file no longer names the table.
    """
    table = queue[0].table
    check_table_is_known(session, table)
    if not is_whole(queue):
        staged_batches = session.staging.list_staged(open_table(session, table).intermediate, table)
        # another run may have published all of them, and cleaned up: then the last batch is the one that tells
        queue = select_between(queue[0], queue[-1], staged_batches) or queue[-1:]
    checkpoint = checkpoint or MergeCheckpoint()
    first = queue[0].batch
    try:
        if find_table(session, table).approve is not None:
            (observed,) = observe_tables(session, [find_table(session, table)])
            checkpoint.last_hold = find_last_hold(observed)
            queue = _add_approved(observed, queue, checkpoint)
        _drain(session, queue, checkpoint)
    except HeldForApproval as held:
        log.log(logging.WARNING if held.is_new else logging.INFO, "%s", held)
        failure = None if checkpoint.published else held
        return QueueResult(table, tuple(checkpoint.published), failure, held=held, ended=_find_ended(checkpoint))
    except TidegateError as error:
        log.info("not merged: pipeline=%s table=%s queue from batch=%s", session.pipeline.name, table, first)
        # 4. the ranges of the rest start where the failed batch ends
        explained = _explain_failure(session, queue, error)
        return QueueResult(table, tuple(checkpoint.published), explained, ended=_find_ended(checkpoint))
    return QueueResult(table, tuple(checkpoint.published), ended=_find_ended(checkpoint))


def _find_ended(checkpoint: MergeCheckpoint) -> Hold | None:
    """Return the hold that this run has ended: each publish clears it, whichever batch that is."""
    has_published = any(batch.outcome == PublishOutcome.PUBLISHED for batch in checkpoint.published)
    return checkpoint.last_hold if has_published else None


def _add_approved(
    observed: ObservedTable, queue: Sequence[StagedBatch], checkpoint: MergeCheckpoint
) -> Sequence[StagedBatch]:
    """Return the queue with what is ahead of it: the plan leaves that out while it waits for an approval.

    `HeldForApproval` if it waits still.
    """
    observed.check_queue_is_known()
    if observed.held is not None:
        session = observed.session
        _add_deferred(session, queue[: _count_published(observed, queue)], checkpoint)
        raise HeldForApproval(observed.held.describe())
    return [*(batch for batch in observed.queue if batch.batch < queue[0].batch), *queue]


def _drain(session: Session, queue: Sequence[StagedBatch], checkpoint: MergeCheckpoint) -> None:
    for _ in queue:
        try:
            # 1. counted again for each try: another run of this task may be ahead
            table = open_table(session, queue[0].table).refresh()
            # the file may ask for no approval any more
            checkpoint.last_hold = checkpoint.last_hold or find_last_hold(table)
            return _merge_remaining(session, queue, _count_published(table, queue), checkpoint)
        except PublishedElsewhere:
            if not _count_published(open_table(session, queue[0].table).refresh(), queue):
                raise  # the table stands at none of these batches
    raise PublishedElsewhere(
        f"pipeline={session.pipeline.name} table={queue[0].table}: another run publishes these batches; nothing needs "
        "repair"
    )


def _merge_remaining(session: Session, queue: Sequence[StagedBatch], start: int, checkpoint: MergeCheckpoint) -> None:
    is_added = _add_deferred(session, queue[:start], checkpoint)
    if not is_added and start == len(queue):
        _publish_group(session, queue[-1:], checkpoint)  # which says that it is published
    takes_one = find_table(session, queue[0].table).approve is not None
    while start < len(queue):
        # 2.
        group = choose_group(session, queue[start:], takes_one=takes_one)
        try:
            _publish_group(session, group, checkpoint)
        except GiveUp as error:
            if takes_one or not has_rows(group[:-1]):
                raise
            # 3. so that the batches ahead of a bad one come in
            log.warning("not merged as one: %s; its batches are merged one by one", error)
            takes_one = True
        else:
            start += len(group)


def _add_deferred(session: Session, published: Sequence[StagedBatch], checkpoint: MergeCheckpoint) -> bool:
    """Add what the deferred job has published of these batches to the checkpoint; False if that is nothing."""
    first = checkpoint.first_under_way if checkpoint.deferred_job else None
    deferred = [] if first is None else [batch for batch in published if batch.batch >= first]
    if deferred:
        _publish_group(session, deferred, checkpoint)
    return bool(deferred)


def choose_group(session: Session, queue: Sequence[StagedBatch], *, takes_one: bool) -> Sequence[StagedBatch]:
    """Return the batches at the head of the queue that one merge publishes."""
    group = take_group(queue, session.pipeline.merge, takes_one=takes_one)
    intermediate = open_table(session, queue[0].table).intermediate
    # all of them are read at the snapshot of the last one, so it must hold them
    while has_rows(group[:-1]) and not session.staging.holds_rows(intermediate, group):
        group = group[:-1]
    return group


def _publish_group(session: Session, group: Sequence[StagedBatch], checkpoint: MergeCheckpoint) -> None:
    checkpoint.first_under_way = group[0].batch
    published_batch = merge(session, combine_batches(group))
    deferred = checkpoint.deferred_job
    if deferred is not None and published_batch.job == deferred.job:
        seconds = round(published_batch.seconds + deferred.seconds, 2)
        published_batch = replace(published_batch, outcome=PublishOutcome.PUBLISHED, seconds=seconds)
    if published_batch.batch in [batch.batch for batch in checkpoint.published]:
        return  # before the task was deferred
    checkpoint.published.append(published_batch)
    record_history(session, group, published_batch)


def _count_published(table: TableSession, queue: Sequence[StagedBatch]) -> int:
    position = resolve_position(table)
    for count, staged_batch in enumerate(queue, 1):
        if position and staged_batch.attempt == position.staged_attempt and staged_batch.ranges.end == position.offsets:
            return count
    return 0


def _explain_failure(session: Session, queue: Sequence[StagedBatch], error: TidegateError) -> TidegateError:
    table = open_table(session, queue[0].table)
    if isinstance(error, PublishedElsewhere) or not session.pipeline.has_several or not is_queue_full(table, queue):
        return error
    return type(error)(f"{error}\n{describe_full_queue(table, queue)}")
