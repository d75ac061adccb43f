"""Drain a table's queue: its staged batches are merged in order, up to the first that fails."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any

from tidegate.errors import AuditFailed, GiveUp, PositionLost, PublishedElsewhere, RetryLater, TidegateError
from tidegate.jobs.merge_job import MergeJob
from tidegate.merge import write_mode
from tidegate.merge.attempt import begin_attempt, publish_head, retry_commits, write_on_branch
from tidegate.merge.audits import prepare_audits
from tidegate.merge.owed import account, evolve_memory, record_history, render_dead_letter_statements
from tidegate.merge.statements import build_merge_input, render_merge_statements
from tidegate.model import resource_names
from tidegate.model.batch import PublishedBatch, PublishOutcome, StagedBatch
from tidegate.model.merge_input import MergeInput
from tidegate.model.offsets import format_offsets
from tidegate.model.position import Position, WatermarkSide
from tidegate.model.table_state import Head, StagedSource, TableState
from tidegate.ports.session import Session
from tidegate.schema.data_types import Column, format_type, parse_type
from tidegate.table.columns import list_destination_columns
from tidegate.table.compatibility import build_row_properties, check_mergeable
from tidegate.table.position import check_is_destination, check_not_overtaken, resolve_position
from tidegate.table.queue import (
    check_shape,
    combine_batches,
    describe_full_queue,
    has_rows,
    is_queue_full,
    publishes_without_rows,
    take_group,
)
from tidegate.table.session import TableSession, check_table_is_known, open_table

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BatchMerge:
    """A staged batch, or several as one, on the way into the table. The table is read again for each round."""

    table: TableSession
    staged: StagedBatch
    started_ms: int

    @property
    def prefix(self) -> str:
        return f"{self.table.prefix} {self.staged.label}"


def merge(session: Session, staged_batch: StagedBatch) -> PublishedBatch:
    """Publish `staged_batch`, which may stand for several, and return what changed.

    1. Create the table if it is missing, evolve its schema if needed; give it a first snapshot.
    2. Cut a branch from the snapshot that the position was read from.
    3. Merge the pinned snapshot of the intermediate table into the branch.
    4. Check that the branch's head is that one snapshot, and that the table's audits hold on it.
    5. Publish: main, tag and position move in one commit, if main is still the cut.

    If main moved and the position did not, it begins again at 2. A batch that is published already is a success;
    `PublishedElsewhere` if another run has moved the position.
    """
    work = BatchMerge(open_table(session, staged_batch.table), staged_batch, started_ms=session.now_ms())
    return retry_commits(session, work.prefix, partial(_run_round, work))


def _run_round(work: BatchMerge) -> PublishedBatch:
    # 1.
    work = replace(work, table=prepare_table(work))
    if published_batch := _find_published(work, work.table):
        return published_batch
    check_shape(work.table, work.staged)
    if not work.staged.counts.to_write and not publishes_without_rows(work.table, work.staged):
        return _build_result(work, None, None, PublishOutcome.NO_ROWS)
    try:
        return _cut_merge_publish(work)
    except (RetryLater, AuditFailed):
        # a run that published first has removed this run's branch, and Spark's error would hide that
        table_now = work.table.refresh()
        if table_now.state and (published_batch := _find_published(work, table_now)):  # by this very task, sent twice
            return published_batch
        _check_still_staged(work)
        raise


def _check_still_staged(work: BatchMerge) -> None:
    intermediate = work.table.intermediate
    for part in work.staged.parts:
        if work.table.session.staging.read_staged_outcome(intermediate, part.attempt) is None:
            raise GiveUp(
                f"{work.prefix}: the staged rows are gone from intermediate={intermediate} "
                f"attempt={part.attempt}; nothing was merged; the next flush stages them again"
            )


def prepare_table(work: BatchMerge) -> TableSession:
    """Run step 1 of `merge` and return the table as it is now.

    Refuses a rolled-back table before it changes anything.
    """
    table = work.table.refresh()
    _check_same_table(work, table.state)
    check_is_destination(work.prefix, table.state)
    resolve_position(table)
    if table.state is None:
        _create_table(work, "create_namespace", "create_table", "order_table")
        table = table.refresh()
    # the run that created the table may have ended before it set the order
    elif _is_unordered(table):
        _create_table(work, "order_table")
        table = table.refresh()
    if table.state is None:
        raise RetryLater(f"{work.prefix}: the catalog lacks the table that was created; it will be tried again")
    check_mergeable(table)
    table = table.evolve()
    evolve_memory(work.prefix, table)
    state = table.require_state()
    if state.snapshot_id is not None:
        return table
    start = replace(work.staged.compute_end_position(None), offsets=work.staged.ranges.start, staged_attempt="")
    start = replace(
        start, batch=state.highest_batch, timestamps={}, outside=work.staged.watermark != WatermarkSide.INSIDE
    )
    table.session.commits.seed(table.name, table.pipeline.name, start)
    seeded = table.refresh()
    return table if seeded.state is None else seeded


def _is_unordered(table: TableSession) -> bool:
    create = table.spec.create
    # the order is set before the first snapshot, and setting it again does no harm
    if table.require_state().snapshot_id is not None or not create.cluster_by or not create.enabled:
        return False
    creator = table.session.tables.read_property(table.name, resource_names.CREATED_BY_PROPERTY)
    return creator == table.pipeline.name


def _create_table(work: BatchMerge, *statement_names: str) -> None:
    table = work.table
    create = table.spec.create
    pipeline = table.pipeline.name
    if not create.enabled:
        raise GiveUp(f"{work.prefix}: the table does not exist and create.enabled=false; create it and run again")
    values = {
        "table": table.name,
        "parent": table.name.rsplit(".", 1)[0],
        "columns": _list_created_columns(table),
        "partition_by": create.partition_by,
        "cluster_by": create.cluster_by,
        "properties": create.properties,
        "pipeline": pipeline,
    }
    chosen_statements = [name for name in statement_names if name != "order_table" or create.cluster_by]
    rendered = (table.sql.render(name, **values) for name in chosen_statements)
    try:
        statements = tuple(statement for statement in rendered if statement)
        table.session.engine.run(MergeJob(pipeline, work.staged.batch, statements, table=table.name))
    except RetryLater:
        if table.refresh().state is None:  # else another first run has created the table
            raise


def _list_created_columns(table: TableSession) -> tuple[Column, ...]:
    columns = list_destination_columns(table.spec, table.metadata)
    if not table.spec.create.force_optional:
        return columns
    return tuple(Column(column.name, format_type(parse_type(column.type))) for column in columns)


def _check_same_table(work: BatchMerge, state: TableState | None) -> None:
    staged_for = work.staged.table_uuid
    current_uuid = state.uuid if state else None
    # a batch from the middle of the log must not become the first of another table
    if staged_for is not None and staged_for != current_uuid:
        raise PositionLost(
            f"{work.prefix}: the table was dropped, or replaced by another of the same name: "
            f"uuid={current_uuid} staged_for={staged_for}; nothing was merged; the next flush plans anew for the table "
            "as it is then"
        )
    if work.staged.follows and (state is None or state.recorded_position is None):
        raise PositionLost(
            f"{work.prefix}: the table has no position, and this batch follows attempt={work.staged.follows}, "
            "which is not published there; nothing was merged; the next flush plans anew for the table as it is then"
        )


def _find_published(work: BatchMerge, table: TableSession) -> PublishedBatch | None:
    """Return the result if this batch stands in the table, None if it is next; else raise."""
    staged_batch = work.staged
    position = resolve_position(table)
    if (
        position is not None
        and position.offsets == staged_batch.ranges.end
        and position.staged_attempt == staged_batch.attempt
    ):
        head = table.session.commits.read_head(table.name, resource_names.name_tag(table.pipeline.name))
        return _build_result(work, head, position, PublishOutcome.ALREADY_PUBLISHED)
    check_not_overtaken(table, staged_batch.parts[0].batch, staged_batch.ranges)
    return None


def _cut_merge_publish(work: BatchMerge) -> PublishedBatch:
    table = work.table
    staged_batch = work.staged
    write_mode.check_is_sole_writer(table, staged_batch)
    # 2.
    attempt = begin_attempt(table, staged_batch.batch, partial(_check_fits, work), work.prefix)
    values = build_merge_input(table, staged_batch, attempt.branch)
    plan = _choose_write_plan(work, values)
    position = staged_batch.compute_end_position(resolve_position(table))
    highest = max(staged_batch.batch, table.require_state().highest_batch)
    numbered = replace(position, batch=highest).to_properties(table.pipeline.name)
    attempt = replace(
        attempt,
        properties={**numbered, **build_row_properties(table)},
        summary={**numbered, **write_mode.describe_write(staged_batch, plan)},
        audits=prepare_audits(table, staged_batch, attempt.branch, attempt.id),
        source=StagedSource(table.intermediate, staged_batch.parts),
        conf=write_mode.choose_spark_conf(staged_batch, plan),
        reparenting=write_mode.plan_reparenting(table.resolved, staged_batch, values),
        min_added_rows=staged_batch.counts.staged if write_mode.is_always_written(table.spec, staged_batch) else 0,
    )
    rows = render_merge_statements(table, staged_batch, attempt.branch, plan) if staged_batch.counts.staged else ()
    letters = render_dead_letter_statements(table, staged_batch)
    # 3. and 4.
    head = write_on_branch(attempt, *letters, *rows)
    log.info("%s: %s snapshot=%s rows=%s", plan.written_as, work.prefix, head.snapshot_id, staged_batch.counts.staged)
    # 5.
    published_head = publish_head(attempt, head)
    log.info("published: %s position=%s", work.prefix, format_offsets(position.offsets))
    return _build_result(work, published_head, position, PublishOutcome.PUBLISHED)


def _choose_write_plan(work: BatchMerge, values: MergeInput) -> write_mode.WritePlan:
    if not work.staged.counts.staged:
        return write_mode.WritePlan(written_as="")
    return write_mode.choose_write_mode(work.table, work.staged, values)


def _check_fits(work: BatchMerge, table: TableSession) -> None:
    _check_same_table(work, table.state)
    _find_published(work, table)


def _build_result(
    work: BatchMerge, head: Head | None, position: Position | None, outcome: PublishOutcome
) -> PublishedBatch:
    return PublishedBatch(
        table=work.table.name,
        batch=work.staged.batch,
        ranges=work.staged.ranges,
        staged=work.staged.counts.staged,
        **account(head),
        seconds=round((work.table.session.now_ms() - work.started_ms) / 1000, 2),
        valid_through_ms=position.valid_through_ms if position else None,
        outcome=outcome,
        batches=len(work.staged.parts),
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
        """The results of the queue as one. Raises the failure, if there is one."""
        if self.failure is not None:
            raise self.failure
        return reduce(PublishedBatch.add, self.published)


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

    1. Leave out what an earlier attempt of this task has published.
    2. Merge what remains in one snapshot, as far as `take_group` allows, and so on.
    3. If several batches fail as one, and would again, merge them one by one.
    4. After a failure the rest waits.

    Each result is added to the checkpoint at once, because the task may be deferred. What `deferred_job` published
    counts as this run's work. `TableRemoved` if the pipeline file no longer names the table.
    """
    check_table_is_known(session, queue[0].table)
    checkpoint = checkpoint or MergeCheckpoint()
    table = queue[0].table
    first = queue[0].batch
    try:
        _drain(session, queue, checkpoint)
    except TidegateError as error:
        log.info("not merged: pipeline=%s table=%s queue from batch=%s", session.pipeline.name, table, first)
        # 4. the ranges of the rest start where the failed batch ends
        return QueueResult(table, tuple(checkpoint.published), _explain_failure(session, queue, error))
    return QueueResult(table, tuple(checkpoint.published))


def _drain(session: Session, queue: Sequence[StagedBatch], checkpoint: MergeCheckpoint) -> None:
    for _ in queue:
        try:
            # 1. counted again for each try: another run of this task may be ahead
            return _merge_remaining(session, queue, _count_published(session, queue), checkpoint)
        except PublishedElsewhere:
            if not _count_published(session, queue):
                raise  # the table stands at none of these batches
    raise PublishedElsewhere(
        f"pipeline={session.pipeline.name} table={queue[0].table}: another run publishes these batches; nothing needs "
        "repair"
    )


def _merge_remaining(session: Session, queue: Sequence[StagedBatch], start: int, checkpoint: MergeCheckpoint) -> None:
    if deferred_group := _find_deferred_group(queue[:start], checkpoint):
        _publish_group(session, deferred_group, checkpoint)
    elif start == len(queue):
        _publish_group(session, queue[-1:], checkpoint)  # which says that it is published
    takes_one = False
    while start < len(queue):
        # 2.
        group = _choose_group(session, queue[start:], takes_one=takes_one)
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


def _choose_group(session: Session, queue: Sequence[StagedBatch], *, takes_one: bool) -> Sequence[StagedBatch]:
    group = take_group(queue, session.pipeline.merge, takes_one=takes_one)
    intermediate = open_table(session, queue[0].table).intermediate
    # all of them are read at the snapshot of the last one, so it must hold them
    while has_rows(group[:-1]) and not session.staging.holds_rows(intermediate, group):
        group = group[:-1]
    return group


def _publish_group(session: Session, group: Sequence[StagedBatch], checkpoint: MergeCheckpoint) -> None:
    checkpoint.first_under_way = group[0].batch
    published_batch = _claim_deferred(merge(session, combine_batches(group)), checkpoint.deferred_job)
    if published_batch.batch in [batch.batch for batch in checkpoint.published]:
        return  # before the task was deferred
    checkpoint.published.append(published_batch)
    for staged_batch in group:
        record_history(session, staged_batch, published_batch)


def _find_deferred_group(published: Sequence[StagedBatch], checkpoint: MergeCheckpoint) -> Sequence[StagedBatch]:
    if checkpoint.deferred_job is None or checkpoint.first_under_way is None:
        return ()
    return [batch for batch in published if batch.batch >= checkpoint.first_under_way]


def _claim_deferred(published_batch: PublishedBatch, awaited: DeferredJob | None) -> PublishedBatch:
    if awaited is None or published_batch.job != awaited.job:
        return published_batch
    return replace(
        published_batch, outcome=PublishOutcome.PUBLISHED, seconds=round(published_batch.seconds + awaited.seconds, 2)
    )


def _count_published(session: Session, queue: Sequence[StagedBatch]) -> int:
    position = resolve_position(open_table(session, queue[0].table).refresh())
    for count, staged_batch in enumerate(queue, 1):
        if position and staged_batch.attempt == position.staged_attempt and staged_batch.ranges.end == position.offsets:
            return count
    return 0


def _explain_failure(session: Session, queue: Sequence[StagedBatch], error: TidegateError) -> TidegateError:
    table = open_table(session, queue[0].table)
    if isinstance(error, PublishedElsewhere) or not session.pipeline.has_several or not is_queue_full(table, queue):
        return error
    return type(error)(f"{error}\n{describe_full_queue(table, queue)}")
