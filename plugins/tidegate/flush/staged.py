"""What a stage job has left: a staged batch, a bad record, columns that its records make, or files of one that stopped.

Columns that records make are staged by a second job. The rows of a flush bring them along, and its merge adds them to
the table. A backfill and a replay compare what they stage with the table, so they add them first.

A stage that stopped while BigQuery loaded its files goes on at the files, without running Spark again. The step gives
each table an attempt and runs a job for it. A checkpoint keeps both. Called again with it, the step gives these
attempts again, skips the jobs that have ended, and goes on with the files.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from tidegate.errors import BadRecord, GiveUp, RetryLater
from tidegate.flush.stage_request import NO_COLUMN
from tidegate.jobs.stage_job import StageJob, StageTable
from tidegate.jobs.stage_outcome import FirstBadRecord, StageOutcome, require_first_bad
from tidegate.model.batch import PlannedBatch, StagedBatch
from tidegate.model.counts import format_count
from tidegate.model.offsets import Offsets, Ranges, get_offset
from tidegate.model.plain_data import read_plain
from tidegate.model.table_state import SignedAttempt
from tidegate.ports.session import Engine, Job, Session
from tidegate.schema.data_types import Column
from tidegate.schema.inferred_types import overlay_columns
from tidegate.sql.spark import quote
from tidegate.table.queue import is_whole, select_between
from tidegate.table.session import TableSession, open_table

log = logging.getLogger(__name__)
MAX_SHOWN_COLUMNS = 5
NOTHING_TO_MAKE = (
    "no record has a field with a value, so there is no column to make the table of; declare value.schema, or wait for "
    "other records"
)


def read_staged_batch(session: Session, planned_batch: PlannedBatch, stage_table: StageTable) -> StagedBatch:
    """Complete a job's attempt for one table and return it as a staged batch; it counts from now on.

    `BadRecord` for a bad record, `GiveUp` if the records do not add up. Check first that the job read the planned
    records.
    """
    place = f"pipeline={session.pipeline.name} table={planned_batch.table} batch={planned_batch.batch}"
    outcome = session.staging.complete_attempt(
        stage_table.intermediate, planned_batch.batch, stage_table.attempt, stage_table.summary
    )
    if outcome is None:
        raise RetryLater(
            f"{place}: the stage job ended without a result: attempt={stage_table.attempt}; it will be staged again"
        )
    if outcome.bad:
        first = require_first_bad(outcome, place)
        is_flush = stage_table.intermediate == open_table(session, planned_batch.table).intermediate
        problem_text = _describe_bad_records(session.pipeline.name, outcome.bad, first, stage_table, can_skip=is_flush)
        raise BadRecord(f"{place}: {problem_text}")
    problem = outcome.count_records(planned_batch.ranges.span).explain_imbalance()
    if problem:
        raise GiveUp(f"{place}: {problem}")
    (staged_batch,) = find_staged(
        session, stage_table.intermediate, [replace(planned_batch, attempt=stage_table.attempt)]
    )
    return staged_batch


def _describe_bad_records(
    pipeline: str, bad: int, first: FirstBadRecord, stage_table: StageTable, *, can_skip: bool
) -> str:
    at = f"{first.topic}:{first.partition}:{first.offset}"
    is_limited = stage_table.set_aside is not None and stage_table.skips is None
    # records that the table has passed are not set aside any more
    skip = (
        f"; or set exactly this record aside with: tidegate skip {pipeline} --at {at}"
        if can_skip and not is_limited
        else ""
    )
    limit = f", more than errors.max_per_batch={stage_table.set_aside}" if is_limited else ""
    return (
        f"{format_count(bad, 'record')} cannot be decoded{limit}; the first: topic={first.topic} "
        f"partition={first.partition} offset={first.offset} "
        f"reason={first.reason}; nothing was merged; "
        f"look at it with: tidegate record {pipeline} --at {at}; "
        "then correct format or schema in the pipeline file, or the producer"
        f"{_describe_made_columns(first, stage_table)}{skip}"
    )


def _describe_made_columns(first: FirstBadRecord, stage_table: StageTable) -> str:
    """The way out if a column that earlier records have made does not hold a value."""
    made = [column for column in stage_table.value_columns if column.name in first.columns]
    if not made:
        return ""
    columns = ", ".join(f"{quote(column.name)} {column.type}" for column in made)
    texts = ", ".join(f"{quote(column.name)} STRING" for column in made)
    return (
        f"; a column that earlier records have made keeps its type: {columns}; for one that holds all, drop it from "
        f"the table and write {texts} into value.schema, and a backfill fills it"
    )


def find_staged(session: Session, intermediate: str, attempted: Sequence[PlannedBatch]) -> list[StagedBatch]:
    """Return the staged batches of one table's attempts, in their order. Reads the intermediate table once.

    Of a shortened plan, also the batches between the first and the last. `RetryLater` if one is gone: another run has
    published or cleaned it up.
    """
    table = attempted[0].table
    staged_batches = session.staging.list_staged(intermediate, table)
    by_attempt = {batch.attempt: batch for batch in staged_batches}
    queue = [by_attempt[batch.attempt] for batch in attempted if batch.attempt in by_attempt]
    if len(queue) == len(attempted) and not is_whole(queue):
        queue = list(select_between(queue[0], queue[-1], staged_batches))
    found_attempts = {batch.attempt for batch in queue}
    for batch in attempted:
        if batch.attempt not in found_attempts:
            raise RetryLater(
                f"pipeline={session.pipeline.name} table={table} batch={batch.batch}: the staged "
                f"attempt={batch.attempt} is no longer there; the next flush plans again"
            )
    return queue


def find_lacking_columns(session: Session, planned: PlannedBatch, stage_table: StageTable) -> tuple[Column, ...]:
    """Return the columns with which the batch is to be staged again; none if its job had all, or found a bad record.

    The attempt must not be completed before. `GiveUp` for more new fields than `value.infer.max_new_columns`, and for
    rows of a table that has no column yet.
    """
    if not stage_table.value.adds_columns:
        return ()
    return session.recall_columns(stage_table.attempt, partial(_read_lacking_columns, session, planned, stage_table))


def _read_lacking_columns(session: Session, planned: PlannedBatch, stage_table: StageTable) -> tuple[Column, ...]:
    outcome = session.staging.read_job_result(
        stage_table.intermediate, planned.batch, stage_table.attempt, StageOutcome.from_json
    )
    if outcome is None or outcome.bad:
        return ()
    place = f"pipeline={session.pipeline.name} table={planned.table} batch={planned.batch}"
    if not outcome.lacking.fields:
        has_columns = stage_table.key_columns or stage_table.metadata or stage_table.value_columns != (NO_COLUMN,)
        if not has_columns and outcome.count_records(planned.ranges.span).to_write:
            # staged, these rows would wait for a table, and the records that make one for these rows
            raise GiveUp(f"{place}: {NOTHING_TO_MAKE}")
        return ()
    most = stage_table.value.infer.max_new_columns
    if outcome.lacking.fields > most:
        names = ", ".join(column.name for column in outcome.lacking.columns[:MAX_SHOWN_COLUMNS])
        raise GiveUp(
            f"{place}: the records have new_fields={outcome.lacking.fields}, more than "
            f"value.infer.max_new_columns={most}, in {names}; nothing was added; declare a MAP or a STRING in "
            "value.schema for the object that holds them, or raise it"
        )
    return overlay_columns(planned.added, outcome.lacking.columns)


def add_lacking_columns(table: TableSession, planned: PlannedBatch, stage_table: StageTable) -> bool:
    """Add the columns that `find_lacking_columns` returns to a table that is there; False if there are none."""
    added = find_lacking_columns(table.session, planned, stage_table)
    if added:
        table.add_columns(added).refresh().evolve()
    return bool(added)


def run_or_take_over(
    session: Session, job: StageJob, check: Callable[[bool], None] = lambda is_read: None
) -> tuple[StageTable, ...]:
    """Run a stage job, unless an earlier job with an equal request has left all of its files.

    Returns the job's tables, each with the attempt whose files count. `check` raises if the log is not the planned one,
    before the job with False and after it with True: whether the records are read.
    """
    # the records of a range do not change, so an equal request gives equal rows; tables that Spark writes are staged
    # again
    if job.finder is None and job.letters is None and all(table.folder for table in job.tables):
        candidates = [_take_over(session, job, table) for table in job.tables]
        stage_tables = tuple(table for table in candidates if table is not None)
        if len(stage_tables) == len(job.tables):
            attempts = ",".join(table.attempt for table in stage_tables)
            log.info("taken over: pipeline=%s batch=%s attempts=%s", job.pipeline, job.batch, attempts)
            return stage_tables
    check(False)
    session.engine.run(job)
    check(True)  # also of what it read: nothing of the job counts yet
    for table in job.tables:
        if table.folder:
            signed = SignedAttempt(job.batch, table.attempt, compute_request_digest(job, table), job.ranges)
            session.staging.sign_attempt(table.intermediate, signed)
    return job.tables


def find_unfinished_batch(
    table: TableSession, ahead: Offsets, log_end: Offsets, above: int
) -> tuple[int, Ranges] | None:
    """Return number and ranges of a batch that an earlier run staged as files from `ahead` on and did not load.

    A plan that asks for this batch again takes its files over. Only numbers above `above` count; of several batches,
    the one that reaches farthest.
    """
    # jobs whose records name tables are never taken over
    if table.pipeline.template is not None:
        return None
    signed = table.session.staging.list_signed_attempts(table.intermediate)
    fit = [
        unfinished
        for unfinished in signed
        if not unfinished.is_landed and unfinished.batch > above and unfinished.ranges.continues(ahead)
        if all(end <= (get_offset(log_end, t, p) or 0) for t, p, _, end in unfinished.ranges)
    ]
    best = max(fit, key=lambda unfinished: (unfinished.ranges.span, unfinished.batch), default=None)
    return None if best is None else (best.batch, best.ranges)


def _take_over(session: Session, job: StageJob, table: StageTable) -> StageTable | None:
    request = compute_request_digest(job, table)
    signed = session.staging.list_signed_attempts(table.intermediate)
    attempt = next(
        (unfinished.attempt for unfinished in signed if (unfinished.batch, unfinished.request) == (job.batch, request)),
        None,
    )
    if attempt is None:
        return None
    folder = session.staging.find_landing_folder(table.intermediate, job.batch, attempt)
    outcome = session.staging.read_job_result(table.intermediate, job.batch, attempt, StageOutcome.from_json)
    if folder is None or outcome is None or outcome.count_records(job.ranges.span).explain_imbalance():
        return None
    return replace(table, attempt=attempt, folder=folder, summary={**table.summary, "tidegate.attempt": attempt})


def compute_request_digest(job: StageJob, table: StageTable) -> str:
    summary = {key: value for key, value in table.summary.items() if key != "tidegate.attempt"}
    # whichever attempt asks
    normalized_table = replace(table, attempt="", property="", folder="", create=(), summary=summary)
    text = replace(job, tables=(normalized_table,), finder=None).to_json()
    return hashlib.sha256(json.dumps(json.loads(text), sort_keys=True).encode()).hexdigest()


@dataclass
class StageCheckpoint:
    """What a stage has done so far: the attempts that it gave, in order, and of jobs that ended the digests, attempts
    and the columns that records make: their results are gone once a table was made anew for these columns.
    """

    attempts: list[str] = field(default_factory=list)
    jobs: list[str] = field(default_factory=list)
    ended_attempts: list[str] = field(default_factory=list)
    added: dict[str, tuple[Column, ...]] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "StageCheckpoint":
        return read_plain(cls, data)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def wrap_with_checkpoint(session: Session, checkpoint: StageCheckpoint) -> Session:
    """Return a session over which a stage repeats what the checkpoint holds, and then adds to it."""
    earlier_attempts = iter(tuple(checkpoint.attempts))
    engine = _CheckpointedEngine(session.engine, checkpoint)

    def choose_attempt() -> str:
        earlier = next(earlier_attempts, None)
        if earlier is None:
            checkpoint.attempts.append(session.new_attempt())
        engine.last_attempt = earlier or checkpoint.attempts[-1]
        return engine.last_attempt

    def recall_columns(attempt: str, read: Callable[[], tuple[Column, ...]]) -> tuple[Column, ...]:
        if attempt not in checkpoint.added:
            checkpoint.added[attempt] = read()
        return checkpoint.added[attempt]

    return replace(session, new_attempt=choose_attempt, engine=engine, recall_columns=recall_columns)


class _CheckpointedEngine:
    def __init__(self, engine: Engine, checkpoint: StageCheckpoint) -> None:
        self._engine = engine
        self._checkpoint = checkpoint
        self._earlier_jobs = frozenset(checkpoint.jobs)
        self._earlier_attempts = frozenset(checkpoint.ended_attempts)
        self.last_attempt = ""

    def run(self, job: Job) -> None:
        """Run a job unless the checkpoint has it. `RetryLater` if the checkpoint has another job of its attempts.

        What is run ahead of a stage job makes the tables for it: once more, it would drop what was staged since.
        """
        if not isinstance(job, StageJob):
            if self.last_attempt not in self._earlier_attempts:
                self._engine.run(job)
            return
        # a table that was missing at first, or had other columns, is there now
        same_tables = tuple(replace(table, create=(), tries_plain=False) for table in job.tables)
        same_job = replace(job, tables=same_tables, finder=job.finder and replace(job.finder, create=()))
        digest = hashlib.sha256(same_job.to_json().encode()).hexdigest()
        if digest in self._earlier_jobs:
            return
        attempts = [table.attempt for table in (*job.tables, *([job.finder] if job.finder else []))]
        if not self._earlier_attempts.isdisjoint(attempts):
            raise RetryLater(
                f"pipeline={job.pipeline} batch={job.batch}: the pipeline, or this version, was changed while its rows "
                "were brought in; they are staged again"
            )
        self._engine.run(job)
        self._checkpoint.jobs.append(digest)
        self._checkpoint.ended_attempts += attempts
