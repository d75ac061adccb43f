"""Spark entry point: ``spark-submit merge.py ['<MergeJob as JSON>']``."""

from tidegate.jobs.merge_job import MergeJob
from tidegate_spark.merge import job as merge
from tidegate_spark.session import open_submitted_session, read_job_argument, record_failure

if __name__ == "__main__":
    with record_failure():
        job = MergeJob.from_json(read_job_argument())
        merge.run(open_submitted_session(f"tidegate merge {job.pipeline} {job.batch}"), job)
