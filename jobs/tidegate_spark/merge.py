"""The merge job: the statements that the worker rendered, one after the other, in a session of their own."""

from pyspark.sql import SparkSession
from tidegate.crash_points import reached
from tidegate.jobs import MergeJob

from tidegate_spark.sessions import configure


def run(spark: SparkSession, job: MergeJob) -> None:
    """Run the job's statements. What they did is read from the snapshots they made."""
    configure(spark, job.conf)
    for statement in job.statements:
        spark.sql(statement)
        reached("job.statement")
