"""Spark entry point: ``spark-submit stage.py ['<StageJob as JSON>']``."""

from tidegate.jobs.stage_job import StageJob
from tidegate_spark.session import open_submitted_session, read_job_argument, record_failure
from tidegate_spark.stage import job as stage

if __name__ == "__main__":
    with record_failure():
        job = StageJob.from_json(read_job_argument())
        stage.run(open_submitted_session(f"tidegate stage {job.pipeline} {job.batch}"), job)
