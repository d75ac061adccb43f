"""What a stage job left behind for one table, and whether it may be merged."""

from tidegate.errors import BadRecord, GiveUp, RetryLater
from tidegate.jobs.stage_job import StageTable
from tidegate.jobs.stage_outcome import FirstBadRecord, require_first_bad
from tidegate.model.batch import PlannedBatch, StagedBatch
from tidegate.model.resource_names import name_intermediate_table
from tidegate.ports.context import Ports
from tidegate.tables.lookup import find_table


def read_staged_batch(ports: Ports, planned_batch: PlannedBatch, stage_table: StageTable) -> StagedBatch:
    """What the job left behind for one table, which counts from now on; a bad record, or records that do not add up,
    are errors.

    Whatever says that the job has read other records than planned must come before.
    """
    place = f"pipeline={ports.pipeline.name} table={planned_batch.table} batch={planned_batch.batch}"
    outcome = ports.staging.complete_attempt(
        stage_table.intermediate, planned_batch.batch, stage_table.attempt, stage_table.summary
    )
    if outcome is None:
        raise RetryLater(f"{place}: the stage job ended without a result: attempt={stage_table.attempt}; stage again")
    if outcome.bad:
        first = require_first_bad(outcome, place)
        is_flush = stage_table.intermediate == name_intermediate_table(
            ports.pipeline, find_table(ports, planned_batch.table)
        )
        problem_text = _describe_bad_records(ports.pipeline.name, outcome.bad, first, stage_table, can_skip=is_flush)
        raise BadRecord(f"{place}: {problem_text}")
    problem = outcome.count_records(planned_batch.ranges.span).explain_imbalance()
    if problem:
        raise GiveUp(f"{place}: {problem}")
    return find_staged(ports, stage_table.intermediate, planned_batch, stage_table.attempt)


def _describe_bad_records(
    pipeline: str, bad: int, first: FirstBadRecord, stage_table: StageTable, *, can_skip: bool
) -> str:
    """`can_skip` says that the records lie ahead of the table: what it has passed is not set aside any more."""
    at = f"{first.topic}:{first.partition}:{first.offset}"
    is_limited = stage_table.set_aside is not None and stage_table.skips is None
    skip = (
        f"; or set exactly this record aside with: tidegate skip {pipeline} --at {at}"
        if can_skip and not is_limited
        else ""
    )
    limit = f", more than errors.max_per_batch={stage_table.set_aside}" if is_limited else ""
    return (
        f"{bad} records cannot be decoded{limit}; the first: topic={first.topic} "
        f"partition={first.partition} offset={first.offset} "
        f"reason={first.reason}; nothing was merged; "
        f"look at it with: tidegate record {pipeline} --at {at}; "
        "then correct format or schema in the pipeline file, or the producer"
        f"{skip}"
    )


def find_staged(ports: Ports, intermediate: str, planned_batch: PlannedBatch, attempt: str) -> StagedBatch:
    """The staged batch of one attempt, as its snapshot of the intermediate table has it.

    `RetryLater` where it is not there any more: another run has published or cleaned it up, and a new plan sees that.
    """
    for staged_batch in ports.staging.list_staged(intermediate, planned_batch.table):
        if staged_batch.attempt == attempt:
            return staged_batch
    raise RetryLater(
        f"pipeline={ports.pipeline.name} table={planned_batch.table} batch={planned_batch.batch}: the staged "
        f"attempt={attempt} is no longer there; run the flush again, it will plan anew"
    )
