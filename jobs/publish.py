"""Spark entry point: ``spark-submit publish.py ['<PublishJob as JSON>']``."""

from tidegate.jobs.publish_job import PublishJob
from tidegate_spark.publish import job as publish
from tidegate_spark.session import given, leave_failure, submitted

if __name__ == "__main__":
    with leave_failure():
        job = PublishJob.from_json(given())
        publish.run(submitted(f"tidegate publish {job.publication} {job.position.to}"), job)
