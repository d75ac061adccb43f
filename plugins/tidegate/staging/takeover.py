"""Taking over the complete files that an earlier stage job has left, so that Spark reads nothing again.

A load job can be refused for hours, by a quota for instance. Without this, each retry of the task and each later run
would stage the batch again.
"""

import hashlib
import json
import logging
from collections.abc import Callable
from dataclasses import replace

from tidegate.jobs.stage_job import StageJob, StageTable
from tidegate.model import resource_names
from tidegate.model.offsets import Offsets, Ranges, get_offset
from tidegate.model.table_state import SignedAttempt
from tidegate.ports.context import Ports
from tidegate.spec.table import Table

log = logging.getLogger(__name__)


def run_or_take_over(ports: Ports, job: StageJob, check: Callable[[], None] = lambda: None) -> tuple[StageTable, ...]:
    """Run a stage job, unless an earlier one that was asked the same has left all of its files.

    `check` raises where the log is not the planned one: before a job is run, and once it has read, ahead of all that
    lets its attempts count. What is taken over was read, and checked, before.
    Returns the job's tables, each with the attempt whose files count. Tables that Spark writes itself are always
    staged: then the job runs for all of them. The records of a range do not change, so the same request gives the same
    rows; an attempt with a bad record, or whose records do not add up, is not taken over.
    """
    if job.finder is None and job.letters is None and all(table.folder for table in job.tables):
        candidates = [_take_over(ports, job, table) for table in job.tables]
        stage_tables = tuple(table for table in candidates if table is not None)
        if len(stage_tables) == len(job.tables):
            log.info(
                "taken over: pipeline=%s batch=%s attempts=%s", job.pipeline, job.batch, _replace_attempts(stage_tables)
            )
            return stage_tables
    check()
    ports.engine.run(job)
    check()  # also of what it read: nothing of the job counts yet
    for table in job.tables:
        if table.folder:
            signed = SignedAttempt(job.batch, table.attempt, compute_request_digest(job, table), job.ranges)
            ports.staging.sign_attempt(table.intermediate, signed)
    return job.tables


def find_unfinished_batch(
    ports: Ports, table: Table, ahead: Offsets, log_end: Offsets, above: int
) -> tuple[int, Ranges] | None:
    """Number and ranges of a batch that an earlier run staged as files from `ahead` on and did not load.

    A plan that asks for this batch again takes its files over. Looks at numbers above `above` alone; of several batches
    takes the one that reaches farthest. None in a pipeline whose records name tables: their jobs are never taken over.
    """
    if ports.pipeline.template is not None:
        return None
    signed = ports.staging.list_signed_attempts(resource_names.name_intermediate_table(ports.pipeline, table))
    fit = [
        unfinished
        for unfinished in signed
        if not unfinished.is_landed and unfinished.batch > above and unfinished.ranges.continues(ahead)
    ]
    fit = [
        unfinished
        for unfinished in fit
        if all(end <= (get_offset(log_end, t, p) or 0) for t, p, _, end in unfinished.ranges)
    ]
    best = max(fit, key=lambda unfinished: (unfinished.ranges.span, unfinished.batch), default=None)
    return None if best is None else (best.batch, best.ranges)


def _take_over(ports: Ports, job: StageJob, table: StageTable) -> StageTable | None:
    request = compute_request_digest(job, table)
    signed = ports.staging.list_signed_attempts(table.intermediate)
    attempt = next(
        (unfinished.attempt for unfinished in signed if (unfinished.batch, unfinished.request) == (job.batch, request)),
        None,
    )
    folder = None if attempt is None else ports.staging.find_landing_folder(table.intermediate, job.batch, attempt)
    outcome = None if attempt is None else ports.staging.read_job_outcome(table.intermediate, job.batch, attempt)
    if (
        attempt is None
        or folder is None
        or outcome is None
        or outcome.count_records(job.ranges.span).explain_imbalance()
    ):
        return None
    return replace(table, attempt=attempt, folder=folder, summary={**table.summary, "tidegate.attempt": attempt})


def compute_request_digest(job: StageJob, table: StageTable) -> str:
    """What is asked of Spark for one table, whichever attempt asks."""
    summary = {key: value for key, value in table.summary.items() if key != "tidegate.attempt"}
    normalized_table = replace(table, attempt="", property="", folder="", create=(), summary=summary)
    text = replace(job, tables=(normalized_table,), finder=None).to_json()
    return hashlib.sha256(json.dumps(json.loads(text), sort_keys=True).encode()).hexdigest()


def _replace_attempts(tables: tuple[StageTable, ...]) -> str:
    return ",".join(table.attempt for table in tables)
