"""Drain a table's queue: its staged batches are merged in order, up to the first that fails."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any

from tidegate.errors import AuditFailed, GiveUp, PositionLost, PublishedElsewhere, RetryLater, TidegateError
from tidegate.jobs.merge_job import MergeJob
from tidegate.merge import write_mode
from tidegate.merge.attempt import Swap, publish_head, retry_commits, write_on_branch
from tidegate.merge.audits import prepare_audits
from tidegate.merge.owed import count_changes, evolve_memory, render_dead_letter_statements
from tidegate.merge.statements import build_merge_input, render_merge_statements
from tidegate.model import resource_names
from tidegate.model.batch import PublishedBatch, StagedBatch
from tidegate.model.merge_input import MergeInput
from tidegate.model.offsets import format_offsets
from tidegate.model.position import Position, WatermarkSide
from tidegate.model.publish_cost import PublishOutcome, read_cost
from tidegate.model.table_state import StagedSource
from tidegate.ports.context import Head, Ports, TableState
from tidegate.schema.column import Column
from tidegate.schema.data_types import format_type, parse_type
from tidegate.spec.table import Table
from tidegate.table.columns import list_destination_columns, resolve_columns
from tidegate.table.compatibility import build_row_properties, check_mergeable
from tidegate.table.history import record_batch
from tidegate.table.lookup import check_table_is_known, find_table
from tidegate.table.position import check_is_destination, check_not_overtaken, resolve_position
from tidegate.table.queue import (
    check_shape,
    combine_batches,
    count_mergeable,
    describe_full_queue,
    iterate_merge_groups,
    publishes_without_rows,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class MergeContext:
    """What stays the same over all cuts of one merge."""

    ports: Ports
    table: Table
    staged: StagedBatch
    started_ms: int

    @property
    def message_prefix(self) -> str:
        """For messages."""
        return f"pipeline={self.ports.pipeline.name} table={self.table.name} batch={self.staged.batch}"


def merge(ports: Ports, staged_batch: StagedBatch) -> PublishedBatch:
    """Publish `staged_batch` and return what changed; a batch published already is a success too.

    1. Create the table if it is missing, evolve its schema if needed; give it a first snapshot.
    2. Cut a branch from the snapshot that the position was read from.
    3. Merge the pinned snapshot of the intermediate table into the branch.
    4. Check that the branch's head is that one snapshot, and that the table's audits hold on it.
    5. Publish: main, tag and position move in one commit, if main is still the cut.

    Main moved and the position did not: back to 2. The position moved: `PublishedElsewhere`.
    """
    table = find_table(ports, staged_batch.table)
    work = MergeContext(ports=ports, table=table, staged=staged_batch, started_ms=ports.now_ms())
    return retry_commits(ports, work.message_prefix, partial(_run_round, work))


def _run_round(work: MergeContext) -> PublishedBatch:
    """One cut; `CommitRefused` asks for the next."""
    state = prepare_table(work)
    if published_batch := _find_published(work, state):
        return published_batch
    check_shape(work.ports, work.table, state, work.staged)
    if not work.staged.counts.to_write and not publishes_without_rows(work.ports, work.table, state, work.staged):
        return _build_result(work, None, None, PublishOutcome.NO_ROWS)
    try:
        return _cut_merge_publish(work, state)
    except (RetryLater, AuditFailed):
        # a run that published first has removed this run's branch, and Spark's error would hide that
        state_now = _read_state(work)
        if state_now and (published_batch := _find_published(work, state_now)):  # by this very task, sent twice
            return published_batch
        _check_still_staged(work)
        raise


def _check_still_staged(work: MergeContext) -> None:
    intermediate = resource_names.name_intermediate_table(work.ports.pipeline, work.table)
    if work.ports.staging.read_staged_outcome(intermediate, work.staged.attempt) is None:
        raise GiveUp(
            f"{work.message_prefix}: the staged rows are gone from intermediate={intermediate} "
            f"attempt={work.staged.attempt}; nothing was merged; the next flush stages them again"
        )


def prepare_table(work: MergeContext) -> TableState:
    """Step 1 of `merge`: create the table if it is missing, evolve its schema, give it a snapshot; return its state."""
    ports = work.ports
    table = work.table
    name = work.ports.pipeline.name
    state = _read_state(work)
    _check_same_table(work, state)
    check_is_destination(work.message_prefix, state)
    resolve_position(ports.pipeline, table, state)  # refuses a table that was rolled back, before anything is changed
    if state is None:
        _create_table(work, "create_namespace", "create_table", "order_table")
        state = _read_state(work)
    elif _is_unordered(work, state):
        _create_table(work, "order_table")
        state = _read_state(work)
    if state is None:
        raise RetryLater(f"{work.message_prefix}: the catalog lacks the table that was created; it will be tried again")
    table = resolve_columns(table, work.ports.pipeline.source.metadata, state)
    check_mergeable(work.ports.pipeline, table, state)
    columns = list_destination_columns(table, work.ports.pipeline.source.metadata)
    if ports.tables.evolve(table.name, columns, add=table.add_columns, widen=table.widen, relax=table.relax):
        state = _read_state(work) or state
    evolve_memory(ports, work.message_prefix, replace(table, target_schema=state.struct))
    if state.snapshot_id is None:
        start = replace(work.staged.compute_end_position(None), offsets=work.staged.ranges.start, staged_attempt="")
        start = replace(start, batch=state.highest_batch, timestamps={})
        ports.commits.seed(table.name, name, replace(start, outside=work.staged.watermark != WatermarkSide.INSIDE))
        state = _read_state(work) or state
    return state


def _is_unordered(work: MergeContext, state: TableState) -> bool:
    """Whether the run that created the table may have ended before it set the table's order (`cluster_by`).

    A table gets its first snapshot after that. Setting the order again does no harm.
    """
    table = work.table
    name = work.ports.pipeline.name
    if state.snapshot_id is not None or not table.create.cluster_by or not table.create.enabled:
        return False
    return work.ports.tables.read_property(table.name, resource_names.CREATED_BY_PROPERTY) == name


def _create_table(work: MergeContext, *statement_names: str) -> None:
    table = work.table
    pipeline = work.ports.pipeline
    if not table.create.enabled:
        raise GiveUp(
            f"{work.message_prefix}: the table does not exist and create.enabled=false; create it and run again"
        )
    values = {
        "table": table.name,
        "parent": table.name.rsplit(".", 1)[0],
        "columns": _list_created_columns(table, list_destination_columns(table, pipeline.source.metadata)),
        "partition_by": table.create.partition_by,
        "cluster_by": table.create.cluster_by,
        "properties": table.create.properties,
        "pipeline": pipeline.name,
    }
    chosen_statements = [name for name in statement_names if name != "order_table" or table.create.cluster_by]
    rendered = (work.ports.get_sql(table.name).render(name, **values) for name in chosen_statements)
    try:
        statements = tuple(statement for statement in rendered if statement)
        work.ports.engine.run(MergeJob(pipeline.name, work.staged.batch, statements, table=table.name))
    except RetryLater:
        if _read_state(work) is None:  # else another first run has created the table
            raise


def _list_created_columns(table: Table, columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """The columns of a new table; none is required with `create.force_optional`."""
    if not table.create.force_optional:
        return columns
    return tuple(Column(column.name, format_type(parse_type(column.type))) for column in columns)


def _read_state(work: MergeContext) -> TableState | None:
    return work.ports.tables.read_state(work.table.name, work.ports.pipeline.name)


def _check_same_table(work: MergeContext, state: TableState | None) -> None:
    """A batch from the middle of the log must not become the first of another table."""
    staged_for = work.staged.table_uuid
    current_uuid = state.uuid if state else None
    if staged_for is not None and staged_for != current_uuid:
        raise PositionLost(
            f"{work.message_prefix}: the table was dropped, or replaced by another of the same name: "
            f"uuid={current_uuid} staged_for={staged_for}; nothing was merged; the next flush plans anew for the table "
            "as it is then"
        )
    if work.staged.follows and (state is None or state.recorded_position is None):
        raise PositionLost(
            f"{work.message_prefix}: the table has no position, and this batch follows attempt={work.staged.follows}, "
            "which is not published there; nothing was merged; the next flush plans anew for the table as it is then"
        )


def _find_published(work: MergeContext, state: TableState) -> PublishedBatch | None:
    """A success if this batch stands in the table, None if it is next, an error if neither."""
    staged_batch = work.staged
    pipeline = work.ports.pipeline
    position = resolve_position(pipeline, work.table, state)
    if (
        position is not None
        and position.offsets == staged_batch.ranges.end
        and position.staged_attempt == staged_batch.attempt
    ):
        head = work.ports.commits.read_head(work.table.name, resource_names.name_tag(pipeline.name))
        return _build_result(work, head, position, PublishOutcome.ALREADY_PUBLISHED)
    check_not_overtaken(pipeline, work.table, state, staged_batch.batch, staged_batch.ranges)
    return None


def _cut_merge_publish(work: MergeContext, state: TableState) -> PublishedBatch:
    ports = work.ports
    staged_batch = work.staged
    write_mode.check_is_sole_writer(ports, work.message_prefix, staged_batch)
    table = resolve_columns(work.table, ports.pipeline.source.metadata, state)
    attempt = ports.new_attempt()
    branch = resource_names.name_branch(ports.pipeline.name, staged_batch.batch, attempt)
    intermediate = resource_names.name_intermediate_table(ports.pipeline, table)
    values = build_merge_input(ports.pipeline, table, staged_batch, branch)
    plan = _choose_write_plan(work, table, state, values)
    position = staged_batch.compute_end_position(resolve_position(ports.pipeline, work.table, state))
    numbered = replace(position, batch=max(staged_batch.batch, state.highest_batch)).to_properties(ports.pipeline.name)
    swap = Swap(
        ports=ports,
        message_prefix=work.message_prefix,
        table=table.name,
        state=state,
        branch=branch,
        attempt=attempt,
        properties={**numbered, **build_row_properties(ports.pipeline, table)},
        guard=partial(_check_fits, work),
        summary={**numbered, "tidegate.pipeline": ports.pipeline.name, **write_mode.describe_write(staged_batch, plan)},
        tag=resource_names.name_tag(ports.pipeline.name),
        audits=prepare_audits(ports, table, staged_batch, branch, attempt),
        source=StagedSource(intermediate, staged_batch.batch, staged_batch.attempt),
        conf=write_mode.choose_spark_conf(staged_batch, plan),
        reparenting=write_mode.plan_reparenting(table, staged_batch, values),
        min_added_rows=staged_batch.counts.staged if write_mode.is_always_written(table, staged_batch) else 0,
    )
    rows = render_merge_statements(ports, table, staged_batch, branch, plan) if staged_batch.counts.staged else ()
    letters = render_dead_letter_statements(ports, staged_batch, state.highest_batch, intermediate)
    head = write_on_branch(swap, staged_batch.batch, *letters, *rows)
    log.info(
        "%s: %s snapshot=%s rows=%s", plan.written_as, work.message_prefix, head.snapshot_id, staged_batch.counts.staged
    )
    published_head = publish_head(swap, head)
    log.info("published: %s position=%s", work.message_prefix, format_offsets(position.offsets))
    return _build_result(work, published_head, position, PublishOutcome.PUBLISHED)


def _choose_write_plan(work: MergeContext, table: Table, state: TableState, values: MergeInput) -> write_mode.WritePlan:
    if not work.staged.counts.staged:
        return write_mode.WritePlan(written_as="")
    return write_mode.choose_write_mode(work.ports, table, work.staged, state, values)


def _check_fits(work: MergeContext, state: TableState | None) -> None:
    """Raise when the batch is not the table's next one any more."""
    _check_same_table(work, state)
    if state is not None:
        _find_published(work, state)


def _build_result(
    work: MergeContext, head: Head | None, position: Position | None, outcome: PublishOutcome
) -> PublishedBatch:
    """What the merge did, by the snapshot that it published."""
    return PublishedBatch(
        table=work.table.name,
        batch=work.staged.batch,
        ranges=work.staged.ranges,
        staged=work.staged.counts.staged,
        **vars(count_changes(head)),
        **vars(read_cost(head.summary if head else None)),
        seconds=round((work.ports.now_ms() - work.started_ms) / 1000, 2),
        snapshot_id=head.snapshot_id if head else None,
        valid_through_ms=position.valid_through_ms if position else None,
        outcome=outcome,
        written_as=head.summary.get(write_mode.WRITTEN_AS_PROPERTY, "") if head else "",
    )


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
    table = queue[0].table
    first = queue[0].batch
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
