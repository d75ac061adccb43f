"""Spark entry point: ``spark-submit merge.py ['<StatementsJob as JSON>']``."""

from tidegate.jobs.statements_job import StatementsJob
from tidegate_spark.merge import job as merge
from tidegate_spark.session import open_submitted_session, read_job_argument, record_failure

if __name__ == "__main__":
    with record_failure():
        job = StatementsJob.from_json(read_job_argument())
        merge.run(open_submitted_session(f"tidegate merge {job.pipeline} {job.batch}"), job)
