"""The maintenance job: Iceberg's own procedures on one table that records have landed in, and what they told."""

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tidegate.failpoints import hit_failpoint
from tidegate.jobs.lasting_failures import summarize_failure
from tidegate.jobs.maintain_job import ORPHANS, MaintainJob, MaintenanceOutcome, ProcedureOutcome

from tidegate_spark.session import set_table_properties

LONGEST_REASON = 300  # characters of a procedure's failure


def run(spark: SparkSession, job: MaintainJob) -> None:
    """Run the job's statements in order and leave their outcome, with the attempt, in the table's property.

    One that fails, for example because a flush was faster, does not stop the others.
    """
    steps = {name: _run_procedure(spark, statement) for name, statement in job.statements.items()}
    if steps.get(ORPHANS, ProcedureOutcome()).rows:
        steps[ORPHANS] = _remove_what_stayed(spark, job.statements[ORPHANS], steps[ORPHANS])
    set_table_properties(spark, job.table, {job.property: MaintenanceOutcome(job.attempt, steps).to_json()})
    hit_failpoint("job.maintained")


def _run_procedure(spark: SparkSession, statement: str) -> ProcedureOutcome:
    try:
        rows = [row.asDict() for row in spark.sql(statement).collect()]
    except PySparkException as error:
        trace = getattr(error, "getStackTrace", lambda: "")() or ""
        return ProcedureOutcome(failed=summarize_failure(f"{error}\n{trace}", LONGEST_REASON))
    numbers = {k: v for k, v in (rows[0] if len(rows) == 1 else {}).items() if isinstance(v, int)}
    return ProcedureOutcome(len(rows), numbers)


def _remove_what_stayed(spark: SparkSession, statement: str, first: ProcedureOutcome) -> ProcedureOutcome:
    # Iceberg also lists those that the store did not delete
    outcome = _run_procedure(spark, statement)
    if not outcome.rows:
        return first if outcome.failed is None else outcome
    return ProcedureOutcome(
        failed=f"{outcome.rows} of {first.rows} files that nothing refers to are still there, though they were deleted "
        "twice; see that the user of the catalog's connection may delete below the table's location (s3:DeleteObject)"
    )
