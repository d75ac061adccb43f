"""Spark entry point: ``spark-submit stage.py '<StageJob as JSON>'``."""

import sys

from tidegate.jobs import StageJob
from tidegate_spark import stage
from tidegate_spark.sessions import submitted

if __name__ == "__main__":
    job = StageJob.from_json(sys.argv[1])
    stage.run(submitted(f"tidegate stage {job.pipeline} {job.batch}"), job)
