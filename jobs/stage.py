"""Spark entry point: ``spark-submit stage.py ['<StageJob as JSON>']``."""

from tidegate.jobs.stage_job import StageJob
from tidegate_spark.session import given, leave_failure, submitted
from tidegate_spark.stage import job as stage

if __name__ == "__main__":
    with leave_failure():
        job = StageJob.from_json(given())
        stage.run(submitted(f"tidegate stage {job.pipeline} {job.batch}"), job)
