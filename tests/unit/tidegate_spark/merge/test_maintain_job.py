"""The maintenance job over a session that answers as Iceberg does where a store refuses to delete."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import Row
from tidegate.jobs.maintain_job import ORPHANS, MaintainJob, MaintenanceOutcome, ProcedureOutcome
from tidegate_spark.merge import maintain_job

ORPHAN_ROWS = [Row(orphan_file_location="s3://lake/a.parquet"), Row(orphan_file_location="s3://lake/b.parquet")]
STAYED = (
    "1 of 2 files that nothing refers to are still there, though they were deleted twice; see that the user of the "
    "catalog's connection may delete below the table's location (s3:DeleteObject)"
)


class Session:
    """Each call of the procedure lists the next of `answers`; the last statement is kept."""

    def __init__(self, *answers: list[Row]) -> None:
        self._answers: Iterator[list[Row]] = iter(answers)
        self.calls, self.kept = 0, ""

    def sql(self, statement: str) -> Any:
        self.kept = statement
        self.calls += statement == "CALL orphans"
        return self

    def collect(self) -> list[Row]:
        return next(self._answers)


@pytest.mark.parametrize(
    ("answers", "outcome"),
    [
        ([[]], ProcedureOutcome()),
        ([ORPHAN_ROWS, []], ProcedureOutcome(rows=2)),
        ([ORPHAN_ROWS, ORPHAN_ROWS[1:]], ProcedureOutcome(failed=STAYED)),
    ],
)
def test_orphans_that_are_listed_again_after_they_were_deleted_are_a_failure(
    answers: list[list[Row]], outcome: ProcedureOutcome
) -> None:
    session: Any = Session(*answers)
    job = MaintainJob(pipeline="p", table="lake.s.t", attempt="a", property="x", statements={ORPHANS: "CALL orphans"})
    maintain_job.run(session, job)
    assert session.calls == len(answers)
    outcome_text = session.kept.partition("= ")[2].strip("')").replace("\\'", "'").replace("''", "'")
    assert MaintenanceOutcome.from_json(outcome_text, "here").steps == {ORPHANS: outcome}
