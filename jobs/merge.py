"""Spark entry point: ``spark-submit merge.py ['<MergeJob as JSON>']``."""

from tidegate.jobs import MergeJob
from tidegate_spark import merge
from tidegate_spark.sessions import given, leave_failure, submitted

if __name__ == "__main__":
    with leave_failure():
        job = MergeJob.from_json(given())
        merge.run(submitted(f"tidegate merge {job.pipeline} {job.batch}"), job)
