"""What the tasks of a DAG do, each by its verb; and how they wait for a job that BigQuery runs.

A task that would wait long for one gives its slot back and wakes when it ends. A job gets its name before it is sent.
If anything is lost, no second job is sent: the step runs again, finds the job by its name, and reads its result from
BigQuery.
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
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException, TaskDeferred
from tidegate.adapters.open_clients import SentJob
from tidegate.errors import HeldForApproval, PublishedElsewhere, SomeTablesDelayed, SomeTablesFailed, TableRemoved
from tidegate.lineage.dataset import TaskLineage
from tidegate.ports.session import Engine

from tidegate_airflow import tasks
from tidegate_airflow.assets import call_for_merge, emit_asset_event
from tidegate_airflow.dag_ids import name_flush
from tidegate_airflow.errors import push_failure_reason, raise_joined, read_form_params, require_result
from tidegate_airflow.failures.keeper import FLUSH_KEY, read_memory
from tidegate_airflow.failures.notifiers import HoldNotifications
from tidegate_airflow.operators import lineage
from tidegate_airflow.operators.action import run_action, run_replay_form, run_verify_form
from tidegate_airflow.operators.job import maintain_tables, run_slice

Data = dict[str, Any]
log = logging.getLogger(__name__)
MAX_IN_PLACE_SECONDS = 10.0  # seconds that a task waits on the worker; deferring and waking it takes seconds too
DEFERRAL_TIMEOUT = timedelta(hours=6)  # BigQuery ends a query then
RESUME_METHOD = "resume_step"
REFUSED_TABLES_KEY = "refused"  # the result of stage beside its queues
# of a merge that failed: what it published all the same; Airflow drops the events of such a task
UNREPORTED_KEY = "untold"
MEMBER_PLAN_KEY = "planned"  # the result of a stage that had to plan by itself
HARMLESS_ERRORS = {PublishedElsewhere.__name__, TableRemoved.__name__, HeldForApproval.__name__}  # no failures
MERGED_KEY = "merged"  # of a deferred merge: the tables that are done, and those that failed


class JobLink(BaseOperatorLink):
    """Leads from a task to the job that it sent last."""

    @property
    def name(self) -> str:
        return "BigQuery job"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the address that the task left when it sent the job; empty for a task that sent none."""
        return str(BaseXCom.get_value(ti_key=ti_key, key=self.xcom_key) or "")


class DeferringWatcher:
    """A `Watcher` that leaves each job's address for people, and defers the task for one that takes long.

    `payload`: what an earlier run of the task has stored: the step's checkpoint, and the job: `job_id`, `job` (its
    name) and `since` (Unix time in seconds).
    """

    def __init__(self, context: Context, payload: Mapping[str, Any]) -> None:
        self._context = context
        self.payload = payload
        self._read_checkpoint: Callable[[], Data] = dict
        self.deferred_job_id: str = payload.get("job_id", "")

    def set_checkpoint_source(self, read_checkpoint: Callable[[], Data]) -> None:
        self._read_checkpoint = read_checkpoint

    def report_sent(self, job: SentJob) -> None:
        try:
            self._context["ti"].xcom_push(key=JobLink().xcom_key, value=job.address)
        except Exception as failure:  # a link must not fail a publish
            log.warning("no link to the job: job=%s: %s", job, failure)

    def report_running(self, job: SentJob, seconds: float) -> None:
        if seconds < MAX_IN_PLACE_SECONDS:
            return
        try:
            from tidegate_airflow.triggers.bigquery_job import JobTrigger
        except ImportError:  # without Google's provider, which brings the trigger
            return
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
    """Run the step stage, or resume it; the tables that it refuses colour the run in the end."""
    require_result(flush_plan, "plan")
    if not isinstance(flush_plan, Mapping):
        raise AirflowSkipException(
            f"pipeline={pipeline}: this run planned merges alone, as the file had a clock of staging; the next stages"
        )
    queues, refusals = tasks.run_stage(pipeline, flush_plan, engine, DeferringWatcher(context, memory))
    context["ti"].xcom_push(key=REFUSED_TABLES_KEY, value=refusals)
    return queues


def run_mapped_stage_step(
    context: Context, pipeline: str, flush_plan: Any, memory: Mapping[str, Any], engine: Engine | None = None
) -> list[Data]:
    """Stage, with at most as many queues as Airflow maps tasks over; the others stay staged for the next run."""
    return limit_queues(
        run_stage_step(context, pipeline, flush_plan, memory, engine), conf.getint("core", "max_map_length")
    )


def run_stage_ahead_step(
    context: Context, pipeline: str, flush_plan: Any, memory: Mapping[str, Any], engine: Engine | None = None
) -> list[Data]:
    """Stage beside the merges; a queue that is long enough calls for the next merge at once.

    Of merges that fail each staging would call for one more that fails: such a call waits for a pause.
    """
    require_result(flush_plan, "plan")
    watcher = DeferringWatcher(context, memory)
    staged_batches, refusals, calls_merge = tasks.run_stage_ahead(pipeline, flush_plan, engine, watcher)
    context["ti"].xcom_push(key=REFUSED_TABLES_KEY, value=refusals)
    if calls_merge:
        own = tasks.read_pipeline(pipeline)
        memory_of_merges = read_memory(name_flush(pipeline, own.fleet), context)
        merge_failures = memory_of_merges.streaks.get(pipeline, FLUSH_KEY)
        if merge_failures is None or not merge_failures.rests(time.time()):
            call_for_merge(context, own)
    return staged_batches


def limit_queues(queues: list[Data], limit: int) -> list[Data]:
    if len(queues) <= limit:
        return queues
    log.warning("tables=%s have a batch; [core] max_map_length=%s of them are merged in this run", len(queues), limit)
    return sorted(queues, key=lambda queue: queue["batches"][0]["batch"])[:limit]


def run_merge_step(
    context: Context, pipeline: str, queues: Any, memory: Mapping[str, Any], engine: Engine | None = None
) -> Data:
    """Run the step merge for one table's queue, or resume it. `memory`: empty, or what the deferred task stored.

    A repeat publishes nothing twice. If a later batch fails, clean_up sends the event of those before it.
    """
    operator = context.get("task")
    require_result(queues, next(iter(operator.upstream_task_ids if operator is not None else ()), "stage"))
    queue = tasks.unwrap_queue(queues)
    if queue is None:
        raise AirflowSkipException(
            f"pipeline={pipeline}: nothing was staged in this run; what waits is merged by the next one"
        )
    context["table"] = queue["table"]
    published_batch = tasks.run_merge(
        pipeline,
        queue,
        engine,
        DeferringWatcher(context, memory),
        keep_part=partial(_keep_unreported, context),
        holds=HoldNotifications(context),
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


def run_member_stage(context: Context, fleet: str, entry: Data, memory: Mapping[str, Any]) -> Data:
    """Stage one pipeline: `entry` is its entry in the fleet's plan. Returns a queue for each table.

    Of a pipeline with a clock of staging the plan names what is staged already, and the queues are handed on.

    An entry with a `failure` fails: the pipeline waits, unless a person has cleared the task. `left`: the offsets that
    no batch reached, 0 if a table is refused.
    """
    require_result(entry, "plan")
    task_instance = context["ti"]
    if entry["failure"] and task_instance.try_number == 1:
        push_failure_reason(entry["failure"])
        raise AirflowFailException(entry["failure"]["message"])
    pull_own = partial(task_instance.xcom_pull, map_indexes=task_instance.map_index)
    flush_plan = entry["plan"]
    if not flush_plan and memory:  # the task went to wait behind its plan
        flush_plan = dict(pull_own(key=MEMBER_PLAN_KEY))
    elif not flush_plan:
        # one that waited, or that could not be planned with the others: its failure and its retries are its own
        flush_plan = tasks.run_plan(entry["pipeline"], entry["max_records"])
        task_instance.xcom_push(key=MEMBER_PLAN_KEY, value=flush_plan)
    queues = run_stage_step(context, entry["pipeline"], flush_plan, memory)
    has_refused = flush_plan["refused"] or (flush_plan["left"] and pull_own(key=REFUSED_TABLES_KEY))
    return {"pipeline": entry["pipeline"], "queues": queues, "left": 0 if has_refused else int(flush_plan["left"])}


class MergeWatcher(DeferringWatcher):
    """Stores the results of the tables before it beside the checkpoint of a table's merge."""

    def __init__(self, context: Context, payload: Mapping[str, Any], merged: Data) -> None:
        super().__init__(context, payload)
        self._merged = merged

    def set_checkpoint_source(self, read_checkpoint: Callable[[], dict[str, Any]]) -> None:
        super().set_checkpoint_source(lambda: {**read_checkpoint(), MERGED_KEY: self._merged})


def run_member_merge(context: Context, fleet: str, stage_result: Data, memory: Mapping[str, Any]) -> Data:
    require_result(stage_result, "stage")
    merge_report: Data = {"published": [], "failed": [], "parts": [], **memory.get(MERGED_KEY, {})}
    done_tables = {table_report["table"] for table_report in (*merge_report["published"], *merge_report["failed"])}
    other_memory = {key: value for key, value in memory.items() if key != MERGED_KEY}
    for queue in stage_result["queues"]:
        if queue["table"] in done_tables:
            continue
        watcher = MergeWatcher(context, other_memory, merge_report)
        other_memory = {}
        try:
            published_batch = tasks.run_merge(
                stage_result["pipeline"],
                queue,
                watcher=watcher,
                keep_part=merge_report["parts"].append,
                holds=HoldNotifications(context),
            )
            merge_report["published"].append(published_batch)
        except AirflowException as problem:
            is_passing = not isinstance(problem, AirflowFailException | AirflowSkipException)
            kind = type(problem.__cause__ or problem).__name__
            merge_report["failed"].append(
                {"table": queue["table"], "message": str(problem), "kind": kind, "passing": is_passing}
            )
        except Exception as problem:  # its text may quote anything, and stays in the log
            log.exception("table=%s was not merged; see the reason below; it is tried again", queue["table"])
            text = f"table={queue['table']} was not merged: {type(problem).__name__}; see the log of this task"
            merge_report["failed"].append(
                {"table": queue["table"], "message": text, "kind": type(problem).__name__, "passing": True}
            )
    changed_tables = [*merge_report["published"], *merge_report["parts"]]
    if changed_tables and _list_own_failures(merge_report["failed"]):
        context["ti"].xcom_push(
            key=UNREPORTED_KEY, value={"pipeline": stage_result["pipeline"], "tables": changed_tables}
        )
    _raise_failures(merge_report["failed"], has_published=bool(changed_tables))
    for published_batch in changed_tables:
        emit_asset_event(context, published_batch, fleet)
    return {"pipeline": stage_result["pipeline"], "tables": merge_report["published"]}


def _list_own_failures(failures: list[Data]) -> list[Data]:
    return [failure for failure in failures if failure["kind"] not in HARMLESS_ERRORS]


def _raise_failures(failures: list[Data], *, has_published: bool) -> None:
    # not those that another run has published, nor those that the file no longer names
    own_failures = _list_own_failures(failures)
    if not own_failures:
        if failures and not has_published:
            raise AirflowSkipException(failures[0]["message"])
        return
    is_passing = any(failure["passing"] for failure in own_failures)
    kind = own_failures[0]["kind"]
    if len(own_failures) > 1:
        kind = (SomeTablesDelayed if is_passing else SomeTablesFailed).__name__
    tables = [failure["table"] for failure in own_failures]
    raise_joined(kind, [failure["message"] for failure in own_failures], is_passing=is_passing, tables=tables)


def run_member_compact(context: Context, fleet: str, compaction: Data, memory: Mapping[str, Any]) -> list[Data]:
    require_result(compaction, "clean_up")
    return tasks.run_compact(compaction["pipeline"], compaction["tables"])


MEMBER_STEPS = {"stage": run_member_stage, "merge": run_member_merge, "compact": run_member_compact}


# each is called with Airflow's context, the name of the pipeline or publication, the task's `given`, what the task
# stored before it was deferred, and the Spark engine
STEPS: dict[str, Callable[[Context, str, Any, Mapping[str, Any], Engine | None], Any]] = {
    "stage": run_mapped_stage_step,
    "stage_ahead": run_stage_ahead_step,
    "merge": run_merge_step,
    "compact": lambda context, name, given, memory, engine: tasks.run_compact(name, given, engine),
    "maintain": lambda context, name, given, memory, engine: maintain_tables(name, given, engine),
    "publish": lambda context, name, given, memory, engine: tasks.run_publish(
        name, read_form_params(context, ("resynchronise",)), engine
    ),
    "act": lambda context, name, given, memory, engine: run_action(context, name, engine),
    "replay": lambda context, name, given, memory, engine: run_replay_form(context, name, engine),
    "verify": lambda context, name, given, memory, engine: run_verify_form(context, name, engine),
}


class RunsVerb:
    """Mixed into an operator: it runs one verb for a pipeline or a publication.

    `given`: the plan for stage, a table's queue for merge, an entry of the plan's batches for backfill, a table's name
    for maintain, the result of clean_up for compact; None for a verb whose input is the form of its DAG. `backfill`:
    the backfill that the entry belongs to.
    """

    verb: str
    pipeline: str
    given: Any
    backfill: Any
    engine: Engine | None = None

    def execute(self, context: Context) -> Any:
        return self.resume_step(context, {})

    def resume_step(self, context: Context, memory: Mapping[str, Any], event: Any = None) -> Any:
        """Resume after the awaited job has ended. `memory`: what the task stored; `event` is ignored."""
        if self.verb == "backfill":
            return run_slice(context, self.pipeline, self.backfill, self.given, self.engine)
        return STEPS[self.verb](context, self.pipeline, self.given, memory, self.engine)

    # OpenLineage's provider asks once the task has ended, in another process, and logs any failure

    def get_openlineage_facets_on_failure(self, task_instance: Any) -> None:
        """Return nothing: without this method the provider asks as for a success."""

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        return lineage.to_operator_lineage(self.trace_lineage())

    def trace_lineage(self) -> TaskLineage:
        """Return what the task has read and written; nothing for stage: what it writes is the product's own."""
        if self.verb == "merge":
            queue = tasks.unwrap_queue(self.given)
            topics = lineage.find_topics_of_queue(queue) if queue else {}
            return lineage.trace_flushed_tables(self.pipeline, topics) if topics else TaskLineage()
        if self.verb == "backfill":
            topics = lineage.find_topics_of_slice(self.backfill, self.given["number"])
            return lineage.trace_flushed_tables(self.pipeline, topics)
        return lineage.trace_published_topics(self.pipeline) if self.verb == "publish" else TaskLineage()


class VerbOperator(RunsVerb, BaseOperator):
    """Runs one verb; its Spark is the one that the file of the pipeline or publication names."""

    template_fields = ("given", "backfill")

    def __init__(self, *, verb: str, pipeline: str, given: Any = None, backfill: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.verb = verb
        self.pipeline = pipeline
        self.given = given
        self.backfill = backfill


class StepOperator(VerbOperator):
    """Runs stage or merge, and links to the BigQuery job that it waits for."""

    operator_extra_links = (JobLink(),)


class MemberOperator(StepOperator):
    """One step of one pipeline of a fleet; `given` names it. `fleet` is the name of the fleet's alias."""

    def __init__(self, *, fleet: str, **kwargs: Any) -> None:
        super().__init__(pipeline=fleet, **kwargs)

    def resume_step(self, context: Context, memory: Mapping[str, Any], event: Any = None) -> Any:
        return MEMBER_STEPS[self.verb](context, self.pipeline, self.given, memory)

    def trace_lineage(self) -> TaskLineage:
        if self.verb != "merge":
            return TaskLineage()
        topics = {
            table: read for queue in self.given["queues"] for table, read in lineage.find_topics_of_queue(queue).items()
        }
        return lineage.trace_flushed_tables(self.given["pipeline"], topics)
