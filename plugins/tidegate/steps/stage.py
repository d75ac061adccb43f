"""stage: read exactly the planned offsets once and put their rows into the intermediate tables."""

import logging
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from tidegate.errors import GiveUp, RetryLater
from tidegate.jobs.stage_job import StageJob, StageTable
from tidegate.model import resource_names as names
from tidegate.model.batch import Plan, PlannedBatch, Refusal, StagedBatch
from tidegate.planning.blocked_tables import Failure, isolate_failure, join_failures, note_refusals
from tidegate.ports.context import Ports
from tidegate.progress.position_checks import check_not_overtaken
from tidegate.progress.topic_log import check_same_topics
from tidegate.staging.discover_tables import advance_registry, build_name_finder, discover_tables
from tidegate.staging.stage_outcome import find_staged, read_staged_batch
from tidegate.staging.stage_request import build_direct_batch, build_stage_table, drops_queue
from tidegate.staging.takeover import run_or_take_over
from tidegate.tables.lookup import find_table, keep_known_tables
from tidegate.tables.templated_tables import expand_template

log = logging.getLogger(__name__)


class StageResult(NamedTuple):
    """The batches that can be merged, each table's in the order of its queue; and the tables that cannot go on."""

    batches: list[StagedBatch]
    refused: tuple[Refusal, ...]


def stage(ports: Ports, plan: Plan) -> list[StagedBatch]:
    """Stage the plan as `stage_tables` does; a table that fails raises its reason, with the others staged."""
    batches, failures = _stage_plan(ports, plan)
    if failures:
        raise join_failures(failures)
    return batches


def stage_tables(ports: Ports, plan: Plan) -> StageResult:
    """Stage the plan; a table that fails is in `refused`, and the others go on. Raises where nothing is staged.

    Tables that the file does not name any more are left out; TableRemoved, where it names none of the plan's.

    1. A batch that is already staged is used as it is. A direct batch is not staged: merge reads its records.
    2. Tables whose ranges are the same share one job, and so one read of Kafka.
    3. Each job overwrites batch N under a new attempt; what it left behind is found by that attempt.
    4. A topic that was created again since the plan fails its tables, also if the job was reading it then; a bad
       record, or records that do not add up, fail theirs behind the job: nothing of such a batch can be merged.
    5. A batch for which the intermediate table must be made anew waits until the rows that wait there are published.
    6. Tables that records name for the first time are staged over the same ranges, from where the batch starts.

    A repeat call uses what is staged for the plan's queue, and stages its new batches again under the same numbers.
    """
    batches, failures = _stage_plan(ports, plan)
    if failures and not batches:
        raise join_failures(failures)
    return StageResult(batches, note_refusals(failures))


def _stage_plan(ports: Ports, plan: Plan) -> tuple[list[StagedBatch], list[Failure]]:
    ports = expand_template(ports)
    plan = keep_known_tables(ports, plan)
    staged = [_resume_batch(ports, table) for table in plan.tables if table.resumed]
    staged += [build_direct_batch(ports, plan, table) for table in plan.tables if table.direct]
    new, failures = _list_new_batches(ports, plan, staged)
    for _, group in groupby(new, key=_get_group_key):
        done, failed = _stage_group(ports, plan, tuple(group))
        staged, failures = staged + done, failures + failed
    order = {table.table: place for place, table in enumerate(plan.tables)}
    return sorted(staged, key=lambda batch: (order.get(batch.table, len(order)), batch.table, batch.batch)), failures


def _list_new_batches(ports: Ports, plan: Plan, resumed: list[StagedBatch]) -> tuple[list[PlannedBatch], list[Failure]]:
    """The batches to stage, sorted by group; not those that would drop waiting rows, which Kafka may have lost."""
    waiting, new = {batch.table for batch in resumed if batch.counts.to_write}, list[PlannedBatch]()
    failures = list[Failure]()
    for planned in sorted((t for t in plan.tables if not t.resumed and not t.direct), key=_get_group_key):
        with isolate_failure(planned.table, failures):
            if planned.table in waiting and drops_queue(ports, planned):
                log.info("not staged before what waits is published: table=%s batch=%s", planned.table, planned.batch)
                continue
            new.append(planned)
    return new, failures


def _get_group_key(planned: PlannedBatch) -> tuple[int, str]:
    return planned.batch, str(planned.ranges.to_dict())


def _resume_batch(ports: Ports, planned: PlannedBatch) -> StagedBatch:
    intermediate = names.name_intermediate_table(ports.pipeline, find_table(ports, planned.table))
    return find_staged(ports, intermediate, planned, planned.attempt or "")


class _Request(NamedTuple):
    """What the job is asked for one planned batch."""

    planned: PlannedBatch
    stage_table: StageTable


def _stage_group(ports: Ports, plan: Plan, group: tuple[PlannedBatch, ...]) -> tuple[list[StagedBatch], list[Failure]]:
    """Stage tables with the same ranges in one job. A table that fails does not fail the others."""
    requests, finder, failures = _build_requests(ports, plan, group)
    if not requests and finder is None:
        return [], failures
    try:
        staged, failed_behind = _stage_requests(ports, plan, requests, finder)
        return staged, failures + failed_behind
    except GiveUp as error:  # of the job itself
        failed = {name for name, _ in failures}
        return [], failures + [(planned.table, error) for planned in group if planned.table not in failed]
    except RetryLater:
        _check_group_not_overtaken(ports, group)
        raise


def _build_requests(
    ports: Ports, plan: Plan, group: tuple[PlannedBatch, ...]
) -> tuple[list[_Request], _Request | None, list[Failure]]:
    """The request for each table, the one that looks for new table names, if there is one, and what failed."""
    requests, finder, failures = list[_Request](), None, list[Failure]()
    for planned in sorted(group, key=lambda one: find_table(ports, one.table).discovers_names):
        table = find_table(ports, planned.table)
        with isolate_failure(planned.table, failures):
            if table.discovers_names:
                finder = _Request(planned, build_name_finder(ports, table, planned))
            else:
                requests.append(_Request(planned, build_stage_table(ports, plan, planned)))
    return requests, finder, failures


def _stage_requests(
    ports: Ports, plan: Plan, requests: list[_Request], finder: _Request | None
) -> tuple[list[StagedBatch], list[Failure]]:
    """Run the job and read its result for each table, new ones included."""
    planned_batches = [request.planned for request in (*requests, *([finder] if finder else []))]
    stage_tables, took = _run_group(
        ports, plan, planned_batches[0], [request.stage_table for request in requests], finder and finder.stage_table
    )
    staged, failures = list[StagedBatch](), list[Failure]()
    for (planned, _), stage_table in zip(requests, stage_tables, strict=True):
        with isolate_failure(planned.table, failures):
            staged.append(replace(read_staged_batch(ports, planned, stage_table), stage_seconds=took))
    if finder is not None:
        with isolate_failure(finder.planned.table, failures):
            staged += _stage_new_tables(ports, plan, *finder)
    return staged, failures


def _check_group_not_overtaken(ports: Ports, group: tuple[PlannedBatch, ...]) -> None:
    """`PublishedElsewhere` if another run published first: it removes what this run stages."""
    for planned in group:
        if planned.follows:
            continue  # it starts behind the queue, where the position is not yet
        state = ports.tables.read_state(planned.table, ports.pipeline.name)
        check_not_overtaken(ports.pipeline, find_table(ports, planned.table), state, planned.batch, planned.ranges)


def _run_group(
    ports: Ports, plan: Plan, first: PlannedBatch, tables: list[StageTable], finder: StageTable | None
) -> tuple[tuple[StageTable, ...], float]:
    """Stage a group of tables by one job; each with the attempt that counts, and the seconds that it took.

    Compares the topics with those of the plan before the job and behind it: a merge does not look at them again.
    """
    where = f"pipeline={ports.pipeline.name} batch={first.batch}"
    job = StageJob(
        pipeline=ports.pipeline.name,
        batch=first.batch,
        ranges=first.ranges,
        isolation=ports.pipeline.source.isolation,
        tables=tuple(tables),
        finder=finder,
    )
    log.info("staging: pipeline=%s batch=%s offsets=%s", ports.pipeline.name, job.batch, job.ranges.span)
    started_ms = ports.now_ms()
    staged = run_or_take_over(
        ports, job, lambda: check_same_topics(ports, where, first.ranges, plan.cluster_id, plan.topic_ids)
    )
    return staged, round((ports.now_ms() - started_ms) / 1000, 2)


def _stage_new_tables(ports: Ports, plan: Plan, named: PlannedBatch, stage_table: StageTable) -> list[StagedBatch]:
    """Stage what the batch holds for tables that it names first; only then are its names known."""
    new = discover_tables(ports, named, stage_table)
    staged: list[StagedBatch] = []
    if new:
        wider = replace(ports, pipeline=replace(ports.pipeline, tables=(*ports.pipeline.tables, *new)))
        group = (replace(named, table=table.name) for table in new)
        staged, failures = _stage_group(wider, plan, tuple(group))
        if failures:  # while a new table is not staged its name stays unknown; else it would begin behind this batch
            raise join_failures(failures)
    advance_registry(ports, plan, named)
    return staged
