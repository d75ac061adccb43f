"""How a worker meets the job code: a job by its verb, and the configuration that may hold secrets beside it."""

import json
from collections.abc import Mapping
from pathlib import Path

from tidegate.jobs.job import Job
from tidegate.jobs.maintain_job import MaintainJob
from tidegate.jobs.merge_job import MergeJob
from tidegate.jobs.publish_job import PublishJob
from tidegate.jobs.stage_job import KAFKA_CONF, StageJob
from tidegate.redaction import redact_in_session

JOBS_FOLDER = Path(__file__).parents[4] / "jobs"


def get_verb(job: Job) -> str:
    """``stage``, ``merge``, ``maintain`` or ``publish``: the module of `tidegate_spark` and the file in ``jobs/``."""
    return {StageJob: "stage", MergeJob: "merge", MaintainJob: "maintain", PublishJob: "publish"}[type(job)]


def build_private_conf(catalogs: Mapping[str, str], kafka: Mapping[str, str]) -> dict[str, str]:
    """Session configuration that the job needs and nobody may see, and the names that Spark hides for it."""
    consumer = {f"kafka.{name}": value for name, value in kafka.items()}
    return redact_in_session({**catalogs, KAFKA_CONF: json.dumps(consumer)})
