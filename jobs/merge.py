"""Spark entry point: ``spark-submit merge.py ['<MergeJob as JSON>']``."""

from tidegate.jobs.merge_job import MergeJob
from tidegate_spark.merge import job as merge
from tidegate_spark.session import given, leave_failure, submitted

if __name__ == "__main__":
    with leave_failure():
        job = MergeJob.from_json(given())
        merge.run(submitted(f"tidegate merge {job.pipeline} {job.batch}"), job)
