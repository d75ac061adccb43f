"""The merge job: the statements that the worker rendered, one after the other, in a session of their own."""

from pyspark.sql import SparkSession
from tidegate.failpoints import hit_failpoint
from tidegate.jobs.merge_job import AuditAnswers, Audits, MergeJob
from tidegate.sql.spark import quote_name, render_literal

from tidegate_spark.session import configure
from tidegate_spark.table_creation import execute


def run(spark: SparkSession, job: MergeJob) -> None:
    """Run the job's statements, then its audits. What they did is read from the snapshots they made."""
    configure(spark, job.conf)
    for statement in job.statements:
        execute(spark, statement)
        hit_failpoint("job.statement")
    if job.audits is not None:
        _run_audits(spark, job.audits)


def _run_audits(spark: SparkSession, audits: Audits) -> None:
    broken = tuple(spark.sql(question).collect()[0][0] for question in audits.questions)
    answers = AuditAnswers(audits.attempt, broken).to_json()
    spark.sql(
        f"ALTER TABLE {quote_name(audits.table)} "
        f"SET TBLPROPERTIES ({render_literal(audits.property)} = {render_literal(answers)})"
    )
    hit_failpoint("job.audited")
