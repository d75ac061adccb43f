"""Spark entry point: ``spark-submit maintain.py ['<MaintainJob as JSON>']``."""

from tidegate.jobs.maintain_job import MaintainJob
from tidegate_spark.merge import maintain_job
from tidegate_spark.session import open_submitted_session, read_job_argument, record_failure

if __name__ == "__main__":
    with record_failure():
        job = MaintainJob.from_json(read_job_argument())
        maintain_job.run(open_submitted_session(f"tidegate maintain {job.pipeline} {job.table}"), job)
