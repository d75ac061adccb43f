"""Spark entry point: ``spark-submit maintain.py '<MaintainJob as JSON>'``."""

import sys

from tidegate.jobs import MaintainJob
from tidegate_spark import maintain
from tidegate_spark.sessions import submitted

if __name__ == "__main__":
    job = MaintainJob.from_json(sys.argv[1])
    maintain.run(submitted(f"tidegate maintain {job.pipeline} {job.table}"), job)
