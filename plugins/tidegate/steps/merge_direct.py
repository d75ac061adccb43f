"""merge_direct: read a direct batch's records and publish their rows, by one Spark job and without staging them."""

import logging
from dataclasses import replace
from functools import partial

from tidegate.errors import CommitRefused, RetryLater
from tidegate.jobs.direct_job import DirectJob, DirectOutcome
from tidegate.jobs.stage_job import StageJob
from tidegate.merge import write_mode
from tidegate.merge.compare_and_swap import (
    Swap,
    build_commit,
    build_write_conf,
    cut_branch,
    drop_branch_on_failure,
    find_head,
    publish_head,
    retry_commits,
)
from tidegate.merge.statements import build_merge_input, render_merge_statements
from tidegate.model import resource_names
from tidegate.model.batch import Plan, PlannedBatch, PublishedBatch, StagedBatch
from tidegate.model.merge_input import MergeInput
from tidegate.model.publish_cost import PublishOutcome
from tidegate.planning.direct_batches import build_staged_instead, find_staged_instead
from tidegate.ports.context import Head, Ports, TableState
from tidegate.progress.position_checks import check_not_overtaken, resolve_position
from tidegate.spec.table import Table
from tidegate.staging.stage_request import build_direct_table
from tidegate.steps.merge import (
    MergeContext,
    build_result,
    check_fits,
    compute_end_position,
    find_published,
    merge,
    prepare_table,
)
from tidegate.steps.stage import stage
from tidegate.tables.columns import resolve_columns
from tidegate.tables.compatibility import build_key_property
from tidegate.tables.lookup import find_table

log = logging.getLogger(__name__)
MAX_DESCRIPTIONS = 3  # commits that give a snapshot its summary; refused where something else of the table changed


class _MustBeStaged(Exception):
    """The records ask for more than a direct job can judge; nothing of it was published."""


def merge_direct(ports: Ports, direct: StagedBatch) -> tuple[StagedBatch, PublishedBatch]:
    """Publish a direct batch; return it with its counts, and what changed.

    1. Create the table if it is missing, evolve its schema if needed; give it a first snapshot.
    2. Cut a branch from the snapshot that the position was read from.
    3. One job reads the offsets, decodes, counts, and merges the rows into the branch.
    4. What was counted decides. A record that is bad, spelled in an unusual way or keeps some of the row's values, and
       a batch without rows: the branch is dropped, the batch is staged and merged as any other, and the table remembers
       it, so that the next batches are staged at once.
    5. Give the branch's snapshot the position, with the times that were counted, and publish as `merge` does.

    A repeat call for a batch that is published says so.
    """
    table = find_table(ports, direct.table)
    work = MergeContext(ports=ports, table=table, staged=direct, started_ms=ports.now_ms())
    try:
        return retry_commits(ports, work.where, partial(_run_round, work))
    except _MustBeStaged as reason:
        log.info("staged after all: %s: %s", work.where, reason)
    planned = PlannedBatch(
        table=direct.table,
        batch=direct.batch,
        ranges=direct.ranges,
        follows=direct.follows,
        watermark=direct.watermark,
        last_per_key=direct.last_per_key,
        superseded_share=0.0 if direct.keys_differ and not direct.last_per_key else None,
    )
    (staged,) = stage(ports, Plan((planned,), direct.cluster_id, direct.topic_ids))
    return staged, merge(ports, staged, build_staged_instead(ports.pipeline.name, direct.batch, direct.attempt))


def _run_round(work: MergeContext) -> tuple[StagedBatch, PublishedBatch]:
    """One cut; `CommitRefused` asks for the next."""
    state = prepare_table(work)
    done = _find_published(work, state)
    if done is not None:
        return work.staged, done
    try:
        return _cut_merge_publish(work, state)
    except RetryLater:
        # the winner of a race removes the loser's branch, and Spark's words for that are not the reason
        current = work.ports.tables.read_state(work.table.name, work.ports.pipeline.name)
        check_not_overtaken(work.ports.pipeline, work.table, current, work.staged.batch, work.staged.ranges)
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


def _cut_merge_publish(work: MergeContext, state: TableState) -> tuple[StagedBatch, PublishedBatch]:
    ports, name, direct = work.ports, work.ports.pipeline.name, work.staged
    table, attempt = resolve_columns(work.table, ports.pipeline.source.metadata, state), ports.new_attempt()
    branch = resource_names.name_branch(name, direct.batch, attempt)
    values = build_merge_input(ports.pipeline, table, direct, branch)
    way = write_mode.choose_direct_write(table, state)
    swap = _describe_swap(work, state, way, branch, attempt)
    (statement,) = render_merge_statements(ports, table, direct, branch, way)
    conf = {**write_mode.choose_spark_conf(direct, way), **build_write_conf(swap)}
    with drop_branch_on_failure(swap):
        cut_branch(swap)
        before_ms = ports.now_ms()
        outcome = ports.engine.run_direct(DirectJob(_describe_read(ports, table, direct), statement, conf))
        took_ms = ports.now_ms() - before_ms  # the job counts as staging, what is around it as the merge
        counted = _read_counts(direct, outcome, took_ms)
        work = replace(work, staged=counted, started_ms=work.started_ms + took_ms)
        swap = replace(
            _describe_swap(work, state, way, branch, attempt),
            must_add=work.staged.counts.staged if write_mode.is_always_written(table, work.staged) else 0,
            reparenting=write_mode.plan_reparenting(table, work.staged, values),
        )
        head = _describe_head(swap, find_head(swap, is_written=True), values)
    log.info("%s: %s snapshot=%s rows=%s", way.written_as, work.where, head.snapshot_id, work.staged.counts.staged)
    head = publish_head(swap, head)
    position = compute_end_position(work, resolve_position(ports.pipeline, work.table, state))
    log.info("published: %s position=%s", work.where, position.offsets)
    return work.staged, build_result(work, head, position, PublishOutcome.PUBLISHED)


def _describe_swap(work: MergeContext, state: TableState, way: write_mode.WritePlan, branch: str, attempt: str) -> Swap:
    """The attempt to publish, with the position as far as it is known: its times are counted by the job."""
    ports, name = work.ports, work.ports.pipeline.name
    position = compute_end_position(work, resolve_position(ports.pipeline, work.table, state))
    properties = replace(position, batch=max(work.staged.batch, state.highest_batch)).to_properties(name)
    return Swap(
        ports=ports,
        where=work.where,
        table=work.table.name,
        state=state,
        branch=branch,
        attempt=attempt,
        properties={**properties, **build_key_property(ports.pipeline, work.table)},
        guard=partial(check_fits, work),
        summary={**properties, "tidegate.pipeline": name, **write_mode.describe_write(work.staged, way)},
        tag=resource_names.name_tag(name),
    )


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
    counted = outcome.counted
    if counted is None:
        raise _MustBeStaged("the server lost the counts")
    counts = counted.count_records(direct.ranges.span)
    odd = {"bad": counted.bad, "dead_lettered": counted.dead_lettered, "unusual": outcome.unusual}
    odd |= {"kept": counted.kept or 0, "unexplained": int(counts.unexplained() is not None)}
    if any(odd.values()) or not counts.staged:
        told = " ".join(f"{name}={number}" for name, number in {**odd, "staged": counts.staged}.items())
        raise _MustBeStaged(told)
    return replace(direct, counts=counts, timestamps=counted.timestamps, stage_seconds=round(took_ms / 1000, 2))


def _describe_head(swap: Swap, head: Head, values: MergeInput) -> Head:
    """The branch's snapshot with the summary of `swap`: Spark wrote it before the times were counted.

    Where its files were not only added (copy-on-write) it stays as it is: then the table's properties alone tell the
    times. `CommitRefused` where main has moved.
    """
    told = {**swap.summary, "tidegate.attempt": swap.attempt}
    if told.items() <= head.summary.items():
        return head
    for _ in range(MAX_DESCRIPTIONS):
        try:
            onto = swap.state.snapshot_id or 0
            return swap.ports.commits.reparent(build_commit(swap, head), onto, values, told) or head
        except CommitRefused:
            current = swap.ports.tables.read_state(swap.table, swap.ports.pipeline.name)
            if current is None or current.snapshot_id != swap.state.snapshot_id:
                raise
    raise CommitRefused(f"{swap.where}: something else of the table changed {MAX_DESCRIPTIONS} times")
