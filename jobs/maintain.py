"""Spark entry point: ``spark-submit maintain.py ['<MaintainJob as JSON>']``."""

from tidegate.jobs import MaintainJob
from tidegate_spark import maintain
from tidegate_spark.sessions import given, leave_failure, submitted

if __name__ == "__main__":
    with leave_failure():
        job = MaintainJob.from_json(given())
        maintain.run(submitted(f"tidegate maintain {job.pipeline} {job.table}"), job)
