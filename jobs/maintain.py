"""Spark entry point: ``spark-submit maintain.py ['<MaintainJob as JSON>']``."""

from tidegate.jobs.maintain_job import MaintainJob
from tidegate_spark.merge import maintain_job
from tidegate_spark.session import given, leave_failure, submitted

if __name__ == "__main__":
    with leave_failure():
        job = MaintainJob.from_json(given())
        maintain_job.run(submitted(f"tidegate maintain {job.pipeline} {job.table}"), job)
