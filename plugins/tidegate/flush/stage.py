"""stage: read exactly the planned offsets once and put their rows into the intermediate tables."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from tidegate.errors import GiveUp, RetryLater, join_errors
from tidegate.flush.discover import advance_registry, build_name_finder, discover_tables
from tidegate.flush.plan import note_refusals
from tidegate.flush.stage_request import build_stage_job, build_stage_table, drops_queue, has_waiting_rows, list_waiting
from tidegate.flush.staged import find_lacking_columns, find_staged, read_staged_batch, run_or_take_over
from tidegate.jobs.stage_job import StageTable
from tidegate.model.batch import Plan, PlannedBatch, Refusal, StagedBatch
from tidegate.model.offsets import format_offsets
from tidegate.ports.session import Session
from tidegate.table.log import check_same_log
from tidegate.table.position import check_not_overtaken
from tidegate.table.session import expand_template, find_table, keep_known_tables, open_table

log = logging.getLogger(__name__)
Failure = tuple[str, GiveUp]  # a table that cannot be staged, and why


class StageResult(NamedTuple):
    """The batches that can be merged, each table's in the order of its queue; and the tables that cannot go on."""

    batches: list[StagedBatch]
    refusals: tuple[Refusal, ...]


def stage(session: Session, plan: Plan) -> list[StagedBatch]:
    """Stage as `stage_tables` does, but raise a table's error once the others are staged."""
    batches, failures = _stage_plan(session, plan)
    if failures:
        raise join_errors([error for _, error in failures])
    return batches


def stage_tables(session: Session, plan: Plan, *, may_be_late: bool = False) -> StageResult:
    """Stage the plan. A table that fails is listed in `refusals`, and the others go on. Raises if nothing is staged.

    1. A batch that is already staged is used as it is.
    2. If a batch needs a new intermediate table, it waits until the rows in the present one are published. With
       `may_be_late`, a batch is left out whose number or offsets a later run has given to batches that wait.
    3. Tables with equal ranges share one job, and so one read of Kafka. Each job overwrites batch N under a new
       attempt.
    4. A table fails if its topic was created again or its log was cut since the plan, for a bad record, or for counts
       that do not add up.
    5. Tables whose records make columns (`value.unknown_fields: add`) are staged once more, with these.
    6. Tables that records name for the first time are staged over equal ranges.

    Tables that the pipeline file no longer names are left out; `TableRemoved` if it names none. A repeat call uses what
    is staged, and stages its new batches again under their numbers, unless that would drop later ones.
    """
    batches, failures = _stage_plan(session, plan, may_be_late=may_be_late)
    if failures and not batches:
        raise join_errors([error for _, error in failures])
    return StageResult(batches, note_refusals(failures))


def _stage_plan(session: Session, plan: Plan, *, may_be_late: bool = False) -> tuple[list[StagedBatch], list[Failure]]:
    session = expand_template(session)
    plan = keep_known_tables(session, plan)
    # 1.
    staged_batches = list[StagedBatch]()
    for table, queue in groupby((batch for batch in plan.tables if batch.is_resumed), key=lambda batch: batch.table):
        staged_batches += find_staged(session, open_table(session, table).intermediate, tuple(queue))
    # 2.
    new, failures = _list_new_batches(session, plan, may_be_late=may_be_late)
    # 3.
    for _, group in groupby(new, key=_get_group_key):
        group_batches, group_failures = _stage_group(session, plan, tuple(group))
        staged_batches += group_batches
        failures += group_failures
    order = {table.table: place for place, table in enumerate(plan.tables)}
    return sorted(
        staged_batches, key=lambda batch: (order.get(batch.table, len(order)), batch.table, batch.batch)
    ), failures


def _list_new_batches(session: Session, plan: Plan, *, may_be_late: bool) -> tuple[list[PlannedBatch], list[Failure]]:
    new = list[PlannedBatch]()
    failures = list[Failure]()
    for planned_batch in sorted((t for t in plan.tables if not t.is_resumed), key=_get_group_key):
        with isolate_failure(planned_batch.table, failures):
            # Kafka may have deleted the records of the rows that either would drop
            if drops_queue(session, planned_batch) and has_waiting_rows(session, planned_batch):
                log.info(
                    "not staged in this run: table=%s batch=%s: it needs a new intermediate table, and the present one "
                    "has rows that are not published; they are merged first",
                    planned_batch.table,
                    planned_batch.batch,
                )
                continue
            if not may_be_late or not _is_planned_anew(session, planned_batch):
                new.append(planned_batch)
    return new, failures


def _is_planned_anew(session: Session, planned_batch: PlannedBatch) -> bool:
    newer = next((b for b in list_waiting(session, planned_batch.table) if b.batch >= planned_batch.batch), None)
    if newer is None or (newer.batch, newer.ranges) == (planned_batch.batch, planned_batch.ranges):
        return False
    log.info(
        "not staged: table=%s batch=%s start=%s: a later run has staged batch=%s start=%s, which waits; nothing is "
        "written over it, and the next merge publishes it",
        planned_batch.table,
        planned_batch.batch,
        format_offsets(planned_batch.ranges.start),
        newer.batch,
        format_offsets(newer.ranges.start),
    )
    return True


def _get_group_key(planned_batch: PlannedBatch) -> tuple[int, str]:
    return planned_batch.batch, str(planned_batch.ranges.to_dict())


class _Request(NamedTuple):
    planned: PlannedBatch
    stage_table: StageTable


def _stage_group(
    session: Session, plan: Plan, group: tuple[PlannedBatch, ...], *, is_repeated: bool = False
) -> tuple[list[StagedBatch], list[Failure]]:
    requests = list[_Request]()
    finder = None
    failures = list[Failure]()
    for planned_batch in sorted(group, key=lambda batch: find_table(session, batch.table).discovers_names):
        table = open_table(session, planned_batch.table)
        with isolate_failure(planned_batch.table, failures):
            if table.spec.discovers_names:
                finder = _Request(planned_batch, build_name_finder(table, planned_batch))
            else:
                requests.append(_Request(planned_batch, build_stage_table(session, plan, planned_batch)))
    if not requests and finder is None:
        return [], failures
    try:
        staged_batches, failed_behind = _stage_requests(session, plan, requests, finder, is_repeated=is_repeated)
        return staged_batches, failures + failed_behind
    except GiveUp as error:  # of the job itself
        failed_tables = {name for name, _ in failures}
        return [], failures + [
            (planned_batch.table, error) for planned_batch in group if planned_batch.table not in failed_tables
        ]
    except RetryLater:
        # a run that published first removes what this run stages; one that follows a batch starts at the end of the
        # queue, and the position is not there yet
        for planned_batch in group:
            if not planned_batch.follows:
                table_now = open_table(session, planned_batch.table).refresh()
                check_not_overtaken(table_now, planned_batch.batch, planned_batch.ranges, plan)
        raise


def _stage_requests(
    session: Session, plan: Plan, requests: list[_Request], finder: _Request | None, *, is_repeated: bool
) -> tuple[list[StagedBatch], list[Failure]]:
    planned_batches = [request.planned for request in (*requests, *([finder] if finder else []))]
    stage_tables, stage_seconds = _run_group(
        session, plan, planned_batches[0], [request.stage_table for request in requests], finder and finder.stage_table
    )
    staged_batches = list[StagedBatch]()
    growing = list[PlannedBatch]()
    failures = list[Failure]()
    for (planned_batch, _), stage_table in zip(requests, stage_tables, strict=True):
        with isolate_failure(planned_batch.table, failures):
            added = find_lacking_columns(session, planned_batch, stage_table)
            if added:
                growing.append(replace(planned_batch, added=added))
                continue
            # 4.
            staged_batch = read_staged_batch(session, planned_batch, stage_table)
            if staged_batch.unknown_fields is not None:
                place = f"pipeline={session.pipeline.name} table={staged_batch.table} batch={staged_batch.batch}"
                log.warning("%s: %s", place, staged_batch.unknown_fields.describe())
            staged_batches.append(replace(staged_batch, stage_seconds=stage_seconds))
    if growing and is_repeated:
        raise RetryLater(f"pipeline={session.pipeline.name}: columns were changed meanwhile; it is staged again")
    # 5.
    wider = list[PlannedBatch]()
    for planned_batch in growing:
        with isolate_failure(planned_batch.table, failures):
            wider += [] if _waits_for_merge(session, planned_batch) else [planned_batch]
    wider_batches, failed_behind = _stage_group(session, plan, tuple(wider), is_repeated=True)
    staged_batches += wider_batches
    failures += failed_behind
    if finder is not None:
        with isolate_failure(finder.planned.table, failures):
            # 6.
            staged_batches += _stage_new_tables(session, plan, *finder)
    return staged_batches, failures


def _waits_for_merge(session: Session, planned_batch: PlannedBatch) -> bool:
    place = f"table={planned_batch.table} batch={planned_batch.batch}"
    names = ", ".join(column.name for column in planned_batch.added)
    if has_waiting_rows(session, planned_batch):
        log.info(
            "not staged in this run: %s: its records make columns, so it needs a new intermediate table, and the "
            "present one has rows that are not published; they are merged first: columns=%s", place, names,
        )  # fmt: skip
        return True
    log.info("staging again: %s: its records make columns=%s", place, names)
    return False


def _run_group(
    session: Session, plan: Plan, first: PlannedBatch, tables: list[StageTable], finder: StageTable | None
) -> tuple[tuple[StageTable, ...], float]:
    place = f"pipeline={session.pipeline.name} batch={first.batch}"
    job = build_stage_job(session, first.batch, first.ranges, tables, finder=finder)
    log.info("staging: pipeline=%s batch=%s offsets=%s", session.pipeline.name, job.batch, job.ranges.span)
    started_ms = session.now_ms()

    def check(is_read: bool) -> None:
        # before the job, which drops rows of another shape first; after it: a merge does not check the log again
        check_same_log(session, place, first.ranges, plan, is_read=is_read)

    stage_tables = run_or_take_over(session, job, check)
    return stage_tables, round((session.now_ms() - started_ms) / 1000, 2)


def _stage_new_tables(
    session: Session, plan: Plan, planned_batch: PlannedBatch, stage_table: StageTable
) -> list[StagedBatch]:
    registry = open_table(session, planned_batch.table)
    new = discover_tables(registry, planned_batch, stage_table)
    staged_batches: list[StagedBatch] = []
    if new:
        wider = replace(session, pipeline=replace(session.pipeline, tables=(*session.pipeline.tables, *new)))
        group = (replace(planned_batch, table=table.name) for table in new)
        staged_batches, failures = _stage_group(wider, plan, tuple(group))
        if failures:  # a name must not be registered yet: its table would begin after this batch
            raise join_errors([error for _, error in failures])
    advance_registry(registry, plan, planned_batch)
    return staged_batches


@contextmanager
def isolate_failure(table: str, failures: list[Failure]) -> Iterator[None]:
    try:
        yield
    except GiveUp as error:
        failures.append((table, error))
