"""merge_direct: read a direct batch's records and publish their rows, by one Spark job and without staging them."""

import logging
from dataclasses import replace

from tidegate.errors import CommitRefused, RetryLater
from tidegate.jobs.direct_job import DirectJob, DirectOutcome
from tidegate.jobs.stage_job import StageJob
from tidegate.jobs.stage_outcome import MAX_PASSES
from tidegate.merge import write_mode
from tidegate.merge.compare_and_swap import (
    Swap,
    build_commit,
    build_write_conf,
    cut_branch,
    drop_branch_on_failure,
    find_head,
    retry_commits,
)
from tidegate.merge.statements import build_merge_input, render_merge_statements
from tidegate.model import resource_names
from tidegate.model.batch import Plan, PlannedBatch, PublishedBatch, StagedBatch
from tidegate.model.merge_input import MergeInput
from tidegate.model.publish_cost import PublishOutcome
from tidegate.planning.direct_batches import build_staged_instead, can_merge_directly, find_staged_instead
from tidegate.ports.context import Head, Ports, TableState
from tidegate.progress.position_checks import resolve_position
from tidegate.progress.topic_log import check_same_topics
from tidegate.spec.table import Table
from tidegate.staging.skipped_records import find_skipped_places
from tidegate.staging.stage_request import build_direct_table
from tidegate.steps.merge import (
    Cut,
    MergeContext,
    build_result,
    build_swap,
    check_fits,
    find_published,
    merge,
    prepare_table,
    publish_batch,
)
from tidegate.steps.stage import stage
from tidegate.tables.columns import resolve_columns
from tidegate.tables.lookup import find_table

log = logging.getLogger(__name__)


class _MustBeStaged(Exception):
    """A direct job cannot decide this batch, so it must be staged; nothing was published.

    `has_unusual_records`: the reason is one of its records.
    """

    def __init__(self, reason: str, *, has_unusual_records: bool = False) -> None:
        super().__init__(reason)
        self.has_unusual_records = has_unusual_records


class _CountsLost(Exception):
    """The Spark server wrote the rows, and its counts of them were lost."""


def merge_direct(ports: Ports, direct: StagedBatch) -> tuple[StagedBatch, PublishedBatch]:
    """Publish a direct batch; return it with its counts, and what changed.

    1. Create the table if it is missing, evolve its schema if needed; give it a first snapshot.
    2. Cut a branch from the snapshot that the position was read from.
    3. One job reads the offsets, decodes, counts, and merges the rows into the branch.
    4. The counts decide. If a record is bad, spelled in an unusual way, or keeps some of the row's values, or if there
       is no row, the branch is dropped, and the batch is staged and merged as any other. The same happens if the
       pipeline file has changed, or another writer moved main.
    5. Give the branch's snapshot the position, with the times that were counted, and publish as `merge` does.

    A repeat call for a batch that is published returns ALREADY_PUBLISHED. A batch whose topics were created again is
    refused: nothing is staged by which the old records could be told from the new ones.
    """
    table = find_table(ports, direct.table)
    work = MergeContext(ports=ports, table=table, staged=direct, started_ms=ports.now_ms())
    try:
        return _merge_until_counted(work)
    except _MustBeStaged as reason:
        log.info("the direct merge was given up, the batch is staged instead: %s: %s", work.message_prefix, reason)
        return _stage_instead(work, has_unusual_records=reason.has_unusual_records)


def _merge_until_counted(work: MergeContext) -> tuple[StagedBatch, PublishedBatch]:
    for _ in range(MAX_PASSES):
        try:
            return _run_once(work)
        except _CountsLost:
            log.info(
                "the direct merge is run again: %s: Spark wrote the rows and lost their counts", work.message_prefix
            )
    raise _MustBeStaged(f"Spark lost the counts {MAX_PASSES} times")


def _run_once(work: MergeContext) -> tuple[StagedBatch, PublishedBatch]:
    """One cut. If its commit is refused, the batch is staged: another cut would have to read Kafka again."""
    # two runners may meet here over a table that is new
    state = retry_commits(work.ports, work.message_prefix, lambda: prepare_table(work))
    published_batch = _find_published(work, state)
    if published_batch is not None:
        return work.staged, published_batch
    name, batch = work.ports.pipeline.name, work.staged
    is_skipped = bool(find_skipped_places(name, state, batch.ranges, batch.topic_ids))
    if is_skipped or not can_merge_directly(work.ports.pipeline, work.table):
        raise _MustBeStaged("the pipeline file, or what is skipped, has changed since it was planned")
    try:
        return _cut_merge_publish(work, state)
    except CommitRefused as refusal:
        raise _MustBeStaged(str(refusal)) from refusal
    except RetryLater:
        # another run that published first removes this run's branch, and Spark's error would hide that
        current = work.ports.tables.read_state(work.table.name, name)
        if current and (published_batch := _find_published(work, current)):  # by this very task, which was sent twice
            return work.staged, published_batch
        raise


def _find_published(work: MergeContext, state: TableState) -> PublishedBatch | None:
    """A success if this batch stands in the table, also where it was staged after all; see `find_published`."""
    name, batch = work.ports.pipeline.name, work.staged
    if find_staged_instead(name, state) == (batch.batch, batch.attempt):
        position = resolve_position(work.ports.pipeline, work.table, state)
        if position is not None and position.offsets == batch.ranges.end:
            head = work.ports.commits.read_head(work.table.name, resource_names.name_tag(name))
            return build_result(work, head, position, PublishOutcome.ALREADY_PUBLISHED)
    return find_published(work, state)


def _check_same_topics(work: MergeContext) -> None:
    """`PositionLost` if the topics are not those of the plan: the same offsets mean other records then."""
    batch = work.staged
    check_same_topics(work.ports, work.message_prefix, batch.ranges, batch.cluster_id, batch.topic_ids)


def _stage_instead(work: MergeContext, *, has_unusual_records: bool) -> tuple[StagedBatch, PublishedBatch]:
    """Stage and merge the batch as any other, into the table for which it was planned."""
    ports, direct = work.ports, work.staged
    state = ports.tables.read_state(work.table.name, ports.pipeline.name)
    check_fits(work, state)
    if state and (published_batch := _find_published(work, state)):
        return direct, published_batch
    planned_batch = PlannedBatch(
        table=direct.table,
        batch=direct.batch,
        ranges=direct.ranges,
        follows=direct.follows,
        watermark=direct.watermark,
        last_per_key=direct.last_per_key,
        superseded_share=0.0 if direct.keys_differ and not direct.last_per_key else None,
        is_direct_refused=has_unusual_records,
    )
    (staged_batch,) = stage(ports, Plan((planned_batch,), direct.cluster_id, direct.topic_ids, epochs=direct.epochs))
    staged_batch = staged_batch if direct.table_uuid is None else staged_batch.bind_to_table(direct.table_uuid)
    return staged_batch, merge(
        ports, staged_batch, build_staged_instead(ports.pipeline.name, direct.batch, direct.attempt)
    )


def _cut_merge_publish(work: MergeContext, state: TableState) -> tuple[StagedBatch, PublishedBatch]:
    ports, direct = work.ports, work.staged
    table, attempt = resolve_columns(work.table, ports.pipeline.source.metadata, state), ports.new_attempt()
    branch = resource_names.name_branch(ports.pipeline.name, direct.batch, attempt)
    plan = write_mode.choose_direct_write(ports, table, state)
    branch_cut = Cut(table=table, state=state, plan=plan, branch=branch, attempt=attempt)
    swap, values = build_swap(work, branch_cut), build_merge_input(ports.pipeline, table, direct, branch)
    (statement,) = render_merge_statements(ports, table, direct, branch, plan)
    conf = {**write_mode.choose_spark_conf(direct, plan), **build_write_conf(swap)}
    with drop_branch_on_failure(swap):
        cut_branch(swap)
        before_ms = ports.now_ms()
        outcome = ports.engine.run_direct(DirectJob(_describe_read(ports, table, direct), statement, conf))
        took_ms = ports.now_ms() - before_ms  # the job counts as staging, the rest as merging
        _check_same_topics(work)
        counted_batch = _read_counts(direct, outcome, took_ms)
        work = replace(work, staged=counted_batch, started_ms=work.started_ms + took_ms)
        swap = replace(
            build_swap(work, branch_cut),  # the position has the times that the job counted
            min_added_rows=counted_batch.counts.staged if write_mode.is_always_written(table, counted_batch) else 0,
            reparenting=write_mode.plan_reparenting(table, counted_batch, values),
        )
        head = _describe_head(swap, find_head(swap, is_written=True), values)
    log.info(
        "%s: %s snapshot=%s rows=%s",
        plan.written_as,
        work.message_prefix,
        head.snapshot_id,
        counted_batch.counts.staged,
    )
    return counted_batch, publish_batch(work, swap, head)


def _describe_read(ports: Ports, table: Table, direct: StagedBatch) -> StageJob:
    return StageJob(
        pipeline=ports.pipeline.name,
        batch=direct.batch,
        ranges=direct.ranges,
        isolation=ports.pipeline.source.isolation,
        tables=(build_direct_table(ports, table, direct),),
    )


def _read_counts(direct: StagedBatch, outcome: DirectOutcome, took_ms: int) -> StagedBatch:
    """The batch with what the job counted; `_MustBeStaged` where its rows may not be right, or were none."""
    stage_counts = outcome.stage_outcome
    if stage_counts is None:
        raise _CountsLost
    counts = stage_counts.count_records(direct.ranges.span)
    odd_counts = {
        "bad": stage_counts.bad,
        "dead_lettered": stage_counts.dead_lettered,
        "unusual": outcome.unusual_records,
    }
    odd_counts |= {"kept": stage_counts.kept or 0, "unexplained": int(counts.explain_imbalance() is not None)}
    if any(odd_counts.values()) or not counts.staged:
        numbers = " ".join(f"{name}={number}" for name, number in {**odd_counts, "staged": counts.staged}.items())
        raise _MustBeStaged(numbers, has_unusual_records=any(odd_counts.values()))
    return replace(direct, counts=counts, timestamps=stage_counts.timestamps, stage_seconds=round(took_ms / 1000, 2))


def _describe_head(swap: Swap, head: Head, values: MergeInput) -> Head:
    """The branch's snapshot with the summary of `swap`: Spark wrote the snapshot before it had counted the times.

    Best effort, because the table's properties hold the same values. If files were rewritten (copy-on-write), the
    snapshot stays as it is; if main has moved, it gets its summary when it is put onto the newer main.
    """
    if swap.written_summary.items() <= head.summary.items():
        return head
    commits, onto = swap.ports.commits, swap.state.snapshot_id or 0
    try:
        return commits.reparent(build_commit(swap, head), onto, values, swap.written_summary) or head
    except Exception as error:  # whatever it is, the rows are written: the publish decides
        log.warning(
            "the snapshot lacks the times of its records, the table's properties have them: %s: %s",
            swap.message_prefix,
            error,
        )
    # an answer that was lost may have been a success
    current = commits.read_head(swap.table, swap.branch)
    return current if swap.is_own_head(current, onto) else head
