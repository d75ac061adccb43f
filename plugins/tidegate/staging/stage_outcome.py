"""What a stage job left behind for one table, and whether it may be merged."""

from typing import Any

from tidegate.errors import BadRecord, GiveUp, RetryLater
from tidegate.jobs.stage_job import StageTable
from tidegate.model.batch import Counts, PlannedBatch, StagedBatch
from tidegate.ports.context import Ports


def read_outcome(ports: Ports, planned: PlannedBatch, stage_table: StageTable) -> StagedBatch:
    """What the job left behind for one table; a bad record, or records that do not add up, are errors.

    Files in a folder are first brought into the table.
    """
    if stage_table.folder:
        ports.staging.load_staged_files(
            stage_table.intermediate, planned.batch, stage_table.attempt, stage_table.summary
        )
    where = f"pipeline={ports.pipeline.name} table={planned.table} batch={planned.batch}"
    outcome = ports.staging.read_staged_outcome(stage_table.intermediate, stage_table.attempt)
    if outcome is None:
        raise RetryLater(f"{where}: the stage job ended without a result: attempt={stage_table.attempt}; stage again")
    if outcome.get("bad"):
        raise BadRecord(f"{where}: {_describe_bad_records(outcome, stage_table.set_aside)}")
    counts = Counts.of(planned.ranges.span, outcome)
    problem = counts.unexplained()
    if problem:
        raise GiveUp(f"{where}: {problem}")
    return find_staged(ports, stage_table.intermediate, planned, stage_table.attempt)


def _describe_bad_records(outcome: dict[str, Any], set_aside: int | None) -> str:
    first = outcome["first_bad"]
    place = f"topic={first['topic']} partition={first['partition']} offset={first['offset']}"
    limit = "" if set_aside is None else f", more than errors.max_per_batch={set_aside}"
    return (
        f"{outcome['bad']} records cannot be decoded{limit}; the first: {place} "
        f"reason={first['reason']}; nothing was merged; "
        "correct the schema in the pipeline file, or the producer"
    )


def find_staged(ports: Ports, intermediate: str, planned: PlannedBatch, attempt: str) -> StagedBatch:
    """The staged batch of one attempt, as its snapshot of the intermediate table has it.

    `RetryLater` where it is not there any more: another run has published or cleaned it up, and a new plan sees that.
    """
    for staged in ports.staging.list_staged(intermediate, planned.table):
        if staged.attempt == attempt:
            return staged
    raise RetryLater(
        f"pipeline={ports.pipeline.name} table={planned.table} batch={planned.batch}: the staged attempt={attempt} "
        "is no longer there; run the flush again, it will plan anew"
    )
