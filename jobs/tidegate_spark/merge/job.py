"""The merge job: the statements that the worker rendered, one after the other, in a session of their own."""

import json

from pyspark.sql import SparkSession
from tidegate.failpoints import reached
from tidegate.jobs.merge_job import Audits, MergeJob
from tidegate.sql.spark import literal, quoted_name

from tidegate_spark.session import configure
from tidegate_spark.table_creation import execute


def run(spark: SparkSession, job: MergeJob) -> None:
    """Run the job's statements, then its audits. What they did is read from the snapshots they made."""
    configure(spark, job.conf)
    for statement in job.statements:
        execute(spark, statement)
        reached("job.statement")
    if job.audits is not None:
        _answer(spark, job.audits)


def _answer(spark: SparkSession, asked: Audits) -> None:
    broken = [spark.sql(question).collect()[0][0] for question in asked.questions]
    answers = json.dumps({"attempt": asked.attempt, "broken": broken})
    spark.sql(
        f"ALTER TABLE {quoted_name(asked.table)} SET TBLPROPERTIES ({literal(asked.property)} = {literal(answers)})"
    )
    reached("job.audited")
