"""Spark entry point: ``spark-submit publish.py '<PublishJob as JSON>'``."""

import sys

from tidegate.publications.job import PublishJob
from tidegate_spark import publish
from tidegate_spark.sessions import submitted

if __name__ == "__main__":
    job = PublishJob.from_json(sys.argv[1])
    publish.run(submitted(f"tidegate publish {job.publication} {job.position.to}"), job)
