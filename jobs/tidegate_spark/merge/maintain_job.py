"""The maintenance job: Iceberg's own procedures on one table that records have landed in, and what they told."""

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tidegate.failpoints import hit_failpoint
from tidegate.jobs.maintain_job import MaintainJob, MaintenanceOutcome, ProcedureOutcome
from tidegate.sql.spark import quote_name, render_literal


def run(spark: SparkSession, job: MaintainJob) -> None:
    """Run the job's statements in order and leave their outcome, with the attempt, in the table's property.

    One that fails, as when a flush was faster, does not stop those behind it: its reason stands in the outcome.
    """
    steps = {name: _run_procedure(spark, statement) for name, statement in job.statements.items()}
    literal = render_literal(MaintenanceOutcome(job.attempt, steps).to_json())
    spark.sql(f"ALTER TABLE {quote_name(job.table)} SET TBLPROPERTIES ({render_literal(job.property)} = {literal})")
    hit_failpoint("job.maintained")


def _run_procedure(spark: SparkSession, statement: str) -> ProcedureOutcome:
    """The procedure's own numbers, and how many rows it returned: one for each file, where it lists files."""
    try:
        rows = [row.asDict() for row in spark.sql(statement).collect()]
    except PySparkException as error:
        return ProcedureOutcome(failed=str(error).strip().splitlines()[0][:300])
    numbers = {k: v for k, v in (rows[0] if len(rows) == 1 else {}).items() if isinstance(v, int)}
    return ProcedureOutcome(len(rows), numbers)
