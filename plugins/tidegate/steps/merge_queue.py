"""Drain a table's queue: its staged batches are merged in order, up to the first that fails."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from tidegate.errors import PublishedElsewhere, TidegateError
from tidegate.model.batch import PublishedBatch, StagedBatch
from tidegate.model.publish_cost import PublishOutcome
from tidegate.ports.context import Ports
from tidegate.progress.batch_queue import combine_batches, count_mergeable, describe_full_queue, iterate_merge_groups
from tidegate.progress.position_checks import resolve_position
from tidegate.steps.merge import merge
from tidegate.tables.batch_history import record_batch
from tidegate.tables.lookup import check_table_is_known, find_table

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class QueueResult:
    """What was published of one table's queue; `failure` is why the rest still waits."""

    table: str
    published: tuple[PublishedBatch, ...]
    failure: TidegateError | None = None

    @property
    def total(self) -> PublishedBatch:
        """The results of the queue as one; raises the failure, if there is one."""
        if self.failure is not None:
            raise self.failure
        return reduce(PublishedBatch.add, self.published)


def group_by_table(batches: Sequence[StagedBatch]) -> list[list[StagedBatch]]:
    """Staged batches by table, in the order of each one's queue; tables in the order of their first batch."""
    by_table: dict[str, list[StagedBatch]] = {}
    for batch in batches:
        by_table.setdefault(batch.table, []).append(batch)
    return list(by_table.values())


@dataclass(frozen=True)
class DeferredJob:
    """The job for which a task was deferred, and for how many seconds."""

    job: str
    seconds: float


@dataclass
class MergeCheckpoint:
    """What a run of a queue has published so far.

    `deferred_job`: the job for which the task was deferred; None if it was not.
    """

    published: list[PublishedBatch] = field(default_factory=list)
    deferred_job: DeferredJob | None = None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], now_seconds: float) -> "MergeCheckpoint":
        """What a deferred task stored: the batches it had published, its job, and since when it waits (Unix time)."""
        published_batches = [PublishedBatch.from_dict(entry) for entry in data.get("published", ())]
        return cls(published_batches, DeferredJob(data["job"], now_seconds - data["since"]) if "job" in data else None)

    def to_dict(self) -> dict[str, Any]:
        """The batches; the operator that defers the task adds the job."""
        return {"published": [batch.to_dict() for batch in self.published]}


def merge_queue(ports: Ports, queue: Sequence[StagedBatch], checkpoint: MergeCheckpoint | None = None) -> QueueResult:
    """Publish one table's staged batches in order and record each; stop at the first failure.

    1. Leave out what an earlier attempt of this task has published already.
    2. Merge batches without rows together with the next one that has rows, in one snapshot.
    3. After a failure the rest waits, because its ranges start where the failed batch ends.

    Each result is added to the checkpoint at once, because the task may be deferred. When it is resumed, what its
    `deferred_job` published counts as this run's work. TableRemoved if the pipeline file no longer names the table.
    """
    check_table_is_known(ports, queue[0].table)
    checkpoint = checkpoint or MergeCheckpoint()
    table, first = queue[0].table, queue[0].batch
    try:
        _drain(ports, queue, checkpoint)
    except TidegateError as error:
        log.info("not merged: pipeline=%s table=%s queue from batch=%s", ports.pipeline.name, table, first)
        return QueueResult(table, tuple(checkpoint.published), _explain_failure(ports, queue, error))
    return QueueResult(table, tuple(checkpoint.published))


def _drain(ports: Ports, queue: Sequence[StagedBatch], checkpoint: MergeCheckpoint) -> None:
    """Publish what remains of the queue. If another run of this task is ahead, find again what remains."""
    for _ in queue:
        try:
            return _merge_remaining(ports, _find_remaining(ports, queue, checkpoint.deferred_job), checkpoint)
        except PublishedElsewhere:
            if len(_find_remaining(ports, queue, checkpoint.deferred_job)) == len(queue):
                raise  # the table stands at none of these batches
    raise PublishedElsewhere(
        f"pipeline={ports.pipeline.name} table={queue[0].table}: another run publishes these batches; nothing needs "
        "repair"
    )


def _merge_remaining(ports: Ports, remaining: Sequence[StagedBatch], checkpoint: MergeCheckpoint) -> None:
    published_batches = checkpoint.published
    for group in iterate_merge_groups(remaining):
        published_batch = _claim_deferred(merge(ports, combine_batches(group)), checkpoint.deferred_job)
        if published_batch.batch in [batch.batch for batch in published_batches]:
            continue  # before the task was deferred
        published_batches.append(published_batch)
        for staged_batch in group:
            record_batch(ports, staged_batch, published_batch)


def _claim_deferred(published_batch: PublishedBatch, awaited: DeferredJob | None) -> PublishedBatch:
    if awaited is None or published_batch.job != awaited.job:
        return published_batch
    return replace(
        published_batch, outcome=PublishOutcome.PUBLISHED, seconds=round(published_batch.seconds + awaited.seconds, 2)
    )


def _find_remaining(ports: Ports, queue: Sequence[StagedBatch], awaited: DeferredJob | None) -> Sequence[StagedBatch]:
    """The batches after the one that the table's position names.

    That one is included if it is the last, or if the task was deferred for its job.
    """
    table = find_table(ports, queue[0].table)
    state = ports.tables.read_state(table.name, ports.pipeline.name)
    position = resolve_position(ports.pipeline, table, state)
    for index, staged_batch in enumerate(queue):
        if position and staged_batch.attempt == position.staged_attempt and staged_batch.ranges.end == position.offsets:
            return queue[index:] if awaited else queue[index + 1 :] or queue[index:]
    return queue


def _explain_failure(ports: Ports, queue: Sequence[StagedBatch], error: TidegateError) -> TidegateError:
    """The failure; if the table's queue is full now, also what that means for the pipeline."""
    table = find_table(ports, queue[0].table)
    if (
        isinstance(error, PublishedElsewhere)
        or not ports.pipeline.has_several
        or count_mergeable(queue) < table.max_pending
    ):
        return error
    return type(error)(f"{error}\n{describe_full_queue(ports, table, queue)}")
