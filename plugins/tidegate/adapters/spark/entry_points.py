"""How a worker meets the job code: a job by its verb, and the configuration that may hold secrets beside it."""

import json
from collections.abc import Mapping

from tidegate.jobs.job import Job
from tidegate.jobs.maintain_job import MaintainJob
from tidegate.jobs.merge_job import MergeJob
from tidegate.jobs.publish_job import PublishJob
from tidegate.jobs.stage_job import KAFKA_CONF, StageJob
from tidegate.redaction import redact_in_session
from tidegate.settings import find_product_folder

MODULES = {
    StageJob: "stage.job",
    MergeJob: "merge.job",
    MaintainJob: "merge.maintain_job",
    PublishJob: "publish.job",
}
VERBS = {StageJob: "stage", MergeJob: "merge", MaintainJob: "maintain", PublishJob: "publish"}
JOBS_FOLDER = find_product_folder() / "jobs"


def get_verb(job: Job) -> str:
    """``stage``, ``merge``, ``maintain`` or ``publish``: the file in ``jobs/``, and the word for messages."""
    return VERBS[type(job)]


def format_table(job: Job) -> str:
    """The table of a job that is no batch's, for a message that tells where it failed; nothing for others."""
    return f" table={job.table}" if isinstance(job, MaintainJob) else ""


def get_module(job: Job) -> str:
    """The module of `tidegate_spark` whose `run` does the job."""
    return f"tidegate_spark.{MODULES[type(job)]}"


def build_private_conf(catalogs: Mapping[str, str], kafka: Mapping[str, str]) -> dict[str, str]:
    """Session configuration that the job needs and nobody may see, and the names that Spark hides for it."""
    consumer = {f"kafka.{name}": value for name, value in kafka.items()}
    return redact_in_session({**catalogs, KAFKA_CONF: json.dumps(consumer)})
