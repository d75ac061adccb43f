"""What a stage job left behind for one table, and whether it may be merged."""

from typing import Any

from tidegate.errors import BadRecord, GiveUp, RetryLater
from tidegate.jobs.stage_job import StageTable
from tidegate.model.batch import Counts, PlannedBatch, StagedBatch
from tidegate.ports.context import Ports


def read_outcome(ports: Ports, planned: PlannedBatch, asked: StageTable) -> StagedBatch:
    """What the job left behind for one table; a bad record, or records that do not add up, are errors.

    Files in a folder are first brought into the table.
    """
    if asked.folder:
        ports.staging.load_staged_files(asked.intermediate, planned.batch, asked.attempt, asked.summary)
    where = f"pipeline={ports.pipeline.name} table={planned.table} batch={planned.batch}"
    found = ports.staging.read_staged_outcome(asked.intermediate, asked.attempt)
    if found is None:
        raise RetryLater(f"{where}: the stage job ended without a result: attempt={asked.attempt}; stage again")
    if found.get("bad"):
        raise BadRecord(f"{where}: {_describe_bad_records(found, asked.set_aside)}")
    counts = Counts.of(planned.ranges.span, found)
    problem = counts.unexplained()
    if problem:
        raise GiveUp(f"{where}: {problem}")
    return find_staged(ports, asked.intermediate, planned, asked.attempt)


def _describe_bad_records(found: dict[str, Any], set_aside: int | None) -> str:
    first = found["first_bad"]
    place = f"topic={first['topic']} partition={first['partition']} offset={first['offset']}"
    limit = "" if set_aside is None else f", more than errors.max_per_batch={set_aside}"
    return (
        f"{found['bad']} records cannot be decoded{limit}; the first: {place} "
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
