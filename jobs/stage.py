"""Spark entry point: ``spark-submit stage.py ['<StageJob as JSON>']``."""

from tidegate.jobs import StageJob
from tidegate_spark import stage
from tidegate_spark.sessions import given, leave_failure, submitted

if __name__ == "__main__":
    with leave_failure():
        job = StageJob.from_json(given())
        stage.run(submitted(f"tidegate stage {job.pipeline} {job.batch}"), job)
