"""The steps whose jobs BigQuery runs: a task that would wait long for one gives its slot back and wakes when it ends.

A job gets its name before it is sent. Whatever is lost between sending, waiting and waking, no second job is sent: the
step is run again, finds the job by its name, and reads its result from BigQuery.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from typing import Any

from airflow.configuration import conf
from airflow.sdk import BaseOperator, BaseOperatorLink, Context
from airflow.sdk.bases.xcom import BaseXCom
from airflow.sdk.exceptions import TaskDeferred
from tidegate.adapters.open_clients import SentJob
from tidegate.lineage.dataset import TaskLineage
from tidegate.ports.engine import Engine

from tidegate_airflow import tasks
from tidegate_airflow.assets import emit_asset_event
from tidegate_airflow.errors import require_result
from tidegate_airflow.operators.job import trace_job
from tidegate_airflow.operators.lineage import ReportsLineage

Data = dict[str, Any]
log = logging.getLogger(__name__)
MAX_IN_PLACE_SECONDS = 10.0  # seconds that a task waits on the worker; deferring and waking it takes seconds too
DEFERRAL_TIMEOUT = timedelta(hours=6)  # BigQuery ends a query then
RESUME_METHOD = "resume_step"
REFUSED_TABLES_KEY = "refused"  # the result of stage beside its queues
# of a merge that failed: what it published all the same; Airflow drops the events of such a task
UNREPORTED_KEY = "untold"


class JobLink(BaseOperatorLink):
    """Leads from a task to the job that it sent last."""

    @property
    def name(self) -> str:
        """What stands on the button."""
        return "BigQuery job"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """The address that the task left when it sent the job; empty for a task that sent none."""
        return str(BaseXCom.get_value(ti_key=ti_key, key=self.xcom_key) or "")


class DeferringWatcher:
    """A `Watcher` that leaves each job's address for people, and defers the task for one that takes long.

    `payload` is what an earlier run of the task has stored for this one: the step's checkpoint, and the job: `job_id`,
    `job` (its name for people) and `since` (Unix time in seconds).
    """

    def __init__(self, context: Context, payload: Mapping[str, Any]) -> None:
        self._context = context
        self.payload = payload
        self._read_checkpoint: Callable[[], Data] = dict
        self.deferred_job_id: str = payload.get("job_id", "")

    def set_checkpoint_source(self, read_checkpoint: Callable[[], Data]) -> None:
        """The step's checkpoint is read when the task is deferred."""
        self._read_checkpoint = read_checkpoint

    def report_sent(self, job: SentJob) -> None:
        """See the protocol."""
        try:
            self._context["ti"].xcom_push(key=JobLink().xcom_key, value=job.address)
        except Exception as failure:  # a link must not fail a publish
            log.warning("no link to the job: job=%s: %s", job, failure)

    def report_running(self, job: SentJob, seconds: float) -> None:
        """See the protocol."""
        if seconds < MAX_IN_PLACE_SECONDS:
            return
        from tidegate_airflow.triggers.bigquery_job import JobTrigger

        deferred_job = {"job_id": job.job_id, "job": str(job), "since": time.time() - seconds}
        raise TaskDeferred(
            trigger=JobTrigger(asdict(job.catalog), job.project, job.location, job.job_id),
            method_name=RESUME_METHOD,
            kwargs={"memory": {**self._read_checkpoint(), **deferred_job}},
            timeout=DEFERRAL_TIMEOUT,
        )


def run_stage_step(
    context: Context, pipeline: str, flush_plan: Any, memory: Mapping[str, Any], engine: Engine | None = None
) -> list[Data]:
    """Run the step stage, or go on with it; the tables that it refuses colour the run in the end."""
    require_result(flush_plan, "plan")
    queues, refusals = tasks.run_stage(pipeline, flush_plan, engine, DeferringWatcher(context, memory))
    context["ti"].xcom_push(key=REFUSED_TABLES_KEY, value=refusals)
    return queues


def run_mapped_stage_step(
    context: Context, pipeline: str, flush_plan: Any, memory: Mapping[str, Any], engine: Engine | None = None
) -> list[Data]:
    """The same, with at most as many queues as Airflow maps tasks over; the others stay staged for the next run."""
    return limit_queues(
        run_stage_step(context, pipeline, flush_plan, memory, engine), conf.getint("core", "max_map_length")
    )


def limit_queues(queues: list[Data], limit: int) -> list[Data]:
    """At most `limit` queues: those whose first batch has waited longest."""
    if len(queues) <= limit:
        return queues
    log.warning("tables=%s have a batch; [core] max_map_length=%s of them are merged in this run", len(queues), limit)
    return sorted(queues, key=lambda queue: queue["batches"][0]["batch"])[:limit]


def run_merge_step(
    context: Context, pipeline: str, queues: Any, memory: Mapping[str, Any], engine: Engine | None = None
) -> Data:
    """Run the step merge for one table's queue, or resume it. `memory`: empty, or what the deferred task stored.

    The asset event is sent after the publish; a repeat publishes nothing twice. Where a later batch fails, clean_up
    sends the event of those before it.
    """
    require_result(queues, "stage")
    queue = tasks.unwrap_queue(queues)
    context["table"] = queue["table"]
    published_batch = tasks.run_merge(
        pipeline, queue, engine, DeferringWatcher(context, memory), partial(_keep_unreported, context)
    )
    emit_asset_event(context, published_batch, pipeline)
    return published_batch


def _keep_unreported(context: Context, published_batch: Data) -> None:
    try:
        context["ti"].xcom_push(key=UNREPORTED_KEY, value=published_batch)
    except Exception as failure:  # a failure to store the reason must not hide the reason
        log.warning(
            "the event of table=%s was not stored: %s; DAGs that wait for the table start at its next publish",
            published_batch["table"],
            type(failure).__name__,
        )


STEPS = {"stage": run_mapped_stage_step, "merge": run_merge_step}


class StepOperator(ReportsLineage, BaseOperator):
    """stage: `given` is the plan; merge: it is a table's queue."""

    template_fields = ("given",)
    operator_extra_links = (JobLink(),)

    def __init__(self, *, verb: str, pipeline: str, given: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.verb = verb
        self.pipeline = pipeline
        self.given = given

    def execute(self, context: Context) -> Any:
        """Run the step; returns what the step returns."""
        return STEPS[self.verb](context, self.pipeline, self.given, {})

    def resume_step(self, context: Context, memory: Mapping[str, Any], event: Any = None) -> Any:
        """Resume after the job has ended for which the task was deferred. `memory`: what the task stored.

        `event` is ignored: the step asks BigQuery for the job.
        """
        return STEPS[self.verb](context, self.pipeline, self.given, memory)

    def trace_lineage(self) -> TaskLineage:
        """See the mixin: of stage nothing, as what it writes is the product's own."""
        return trace_job(self.verb, self.pipeline, self.given)
