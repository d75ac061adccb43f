"""Spark entry point: ``spark-submit publish.py ['<PublishJob as JSON>']``."""

from tidegate.jobs.publish_job import PublishJob
from tidegate_spark.publish import job as publish
from tidegate_spark.session import open_submitted_session, read_job_argument, record_failure

if __name__ == "__main__":
    with record_failure():
        job = PublishJob.from_json(read_job_argument())
        publish.run(open_submitted_session(f"tidegate publish {job.publication} {job.position.to}"), job)
