"""Spark entry point: ``spark-submit publish.py ['<PublishJob as JSON>']``."""

from tidegate.publications.job import PublishJob
from tidegate_spark import publish
from tidegate_spark.sessions import given, leave_failure, submitted

if __name__ == "__main__":
    with leave_failure():
        job = PublishJob.from_json(given())
        publish.run(submitted(f"tidegate publish {job.publication} {job.position.to}"), job)
