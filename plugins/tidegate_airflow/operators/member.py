"""The steps of one pipeline in a fleet: a mapped task for each, which knows its pipeline from what it is given."""

from collections.abc import Callable, Mapping
from typing import Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from tidegate.errors import PublishedElsewhere, SomeTablesDelayed, SomeTablesFailed, TableRemoved
from tidegate.lineage.dataset import TaskLineage

from tidegate_airflow import tasks
from tidegate_airflow.assets import emit_asset_event
from tidegate_airflow.errors import MAX_MESSAGE_CHARACTERS, push_failure_reason, require_result
from tidegate_airflow.operators import lineage
from tidegate_airflow.operators.lineage import ReportsLineage
from tidegate_airflow.operators.step import (
    REFUSED_TABLES_KEY,
    UNREPORTED_KEY,
    DeferringWatcher,
    JobLink,
    run_stage_step,
)

Data = dict[str, Any]
PLANNED_KEY = "planned"  # the result of a stage that had to plan by itself
HARMLESS_ERRORS = {PublishedElsewhere.__name__, TableRemoved.__name__}  # no failures
MERGED_KEY = "merged"  # of a deferred merge: the tables that are done, and those that failed


def run_member_stage(context: Context, fleet: str, entry: Data, memory: Mapping[str, Any]) -> Data:
    """stage, of one pipeline: `entry` is its entry in the fleet's plan. Returns a queue for each table.

    An entry with a `failure` fails: the pipeline waits. One without a plan could not be planned together with the
    others: it is planned here, so that its failure and its retries are its own. `left` counts the offsets that no batch
    reached, 0 where a table is refused: such a run calls for no next one.
    """
    require_result(entry, "plan")
    if entry["failure"]:
        push_failure_reason(entry["failure"])
        raise AirflowFailException(entry["failure"]["message"])
    flush_plan = entry["plan"] or _plan_alone(context, entry, memory)
    queues = run_stage_step(context, entry["pipeline"], flush_plan, memory)
    return {"pipeline": entry["pipeline"], "queues": queues, "left": _count_left(context, flush_plan)}


def _count_left(context: Context, flush_plan: Data) -> int:
    if not flush_plan["left"] or flush_plan["refused"]:
        return 0
    task_instance = context["ti"]
    refusals = task_instance.xcom_pull(key=REFUSED_TABLES_KEY, map_indexes=task_instance.map_index)
    return 0 if refusals else int(flush_plan["left"])


def _plan_alone(context: Context, entry: Data, memory: Mapping[str, Any]) -> Data:
    task_instance = context["ti"]
    if memory:  # the task went to wait behind its plan
        return dict(task_instance.xcom_pull(key=PLANNED_KEY, map_indexes=task_instance.map_index))
    flush_plan = tasks.run_plan(entry["pipeline"], entry["max_records"])
    task_instance.xcom_push(key=PLANNED_KEY, value=flush_plan)
    return flush_plan


class MergeWatcher(DeferringWatcher):
    """Stores the results of the tables before it beside the checkpoint of a table's merge."""

    def __init__(self, context: Context, payload: Mapping[str, Any], merged: Data) -> None:
        super().__init__(context, payload)
        self._merged = merged

    def set_checkpoint_source(self, read_checkpoint: Callable[[], dict[str, Any]]) -> None:
        """See the base class."""
        super().set_checkpoint_source(lambda: {**read_checkpoint(), MERGED_KEY: self._merged})


def run_member_merge(context: Context, fleet: str, stage_result: Data, memory: Mapping[str, Any]) -> Data:
    """merge, of one pipeline: its tables one after the other. One that fails leaves the others to go on."""
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
                stage_result["pipeline"], queue, watcher=watcher, keep_part=merge_report["parts"].append
            )
            merge_report["published"].append(published_batch)
        except AirflowException as problem:
            merge_report["failed"].append({"table": queue["table"], **_describe_problem(problem)})
    changed_tables = [*merge_report["published"], *merge_report["parts"]]
    if changed_tables and _list_own_failures(merge_report["failed"]):
        context["ti"].xcom_push(
            key=UNREPORTED_KEY, value={"pipeline": stage_result["pipeline"], "tables": changed_tables}
        )
    _raise_failures(merge_report["failed"], has_published=bool(changed_tables))
    for published_batch in changed_tables:
        emit_asset_event(context, published_batch, fleet)
    return {"pipeline": stage_result["pipeline"], "tables": merge_report["published"]}


def _describe_problem(problem: AirflowException) -> Data:
    """`kind` is the class of the core's error; `passing`: a try may succeed."""
    is_passing = not isinstance(problem, AirflowFailException | AirflowSkipException)
    return {"message": str(problem), "kind": type(problem.__cause__ or problem).__name__, "passing": is_passing}


def _list_own_failures(failures: list[Data]) -> list[Data]:
    return [failure for failure in failures if failure["kind"] not in HARMLESS_ERRORS]


def _raise_failures(failures: list[Data], *, has_published: bool) -> None:
    """Fail the task if a table failed. Skip it if no table was published and none failed.

    No failure are tables that another run has published, and tables that the file no longer names.
    """
    own_failures = _list_own_failures(failures)
    if not own_failures:
        if failures and not has_published:
            raise AirflowSkipException(failures[0]["message"])
        return
    is_passing = any(failure["passing"] for failure in own_failures)
    kind = own_failures[0]["kind"]
    if len(own_failures) > 1:
        kind = (SomeTablesDelayed if is_passing else SomeTablesFailed).__name__
    message = "\n".join(failure["message"] for failure in own_failures)
    tables = [failure["table"] for failure in own_failures]
    push_failure_reason({"error": kind, "message": message[:MAX_MESSAGE_CHARACTERS], "tables": tables})
    raise (AirflowException if is_passing else AirflowFailException)(message)


def run_member_compact(context: Context, fleet: str, compaction: Data, memory: Mapping[str, Any]) -> list[Data]:
    """compact, of the tables of one pipeline that clean_up found due."""
    require_result(compaction, "clean_up")
    return tasks.run_compact(compaction["pipeline"], compaction["tables"])


MEMBER_STEPS = {"stage": run_member_stage, "merge": run_member_merge, "compact": run_member_compact}


class MemberOperator(ReportsLineage, BaseOperator):
    """One step of one pipeline of a fleet; `given` names it. `fleet` is what the fleet's alias is called by."""

    template_fields = ("given",)
    operator_extra_links = (JobLink(),)

    def __init__(self, *, verb: str, fleet: str, given: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.verb = verb
        self.fleet = fleet
        self.given = given

    def execute(self, context: Context) -> Any:
        """Run the step; returns what the step returns."""
        return self.resume_step(context, {})

    def resume_step(self, context: Context, memory: Mapping[str, Any], event: Any = None) -> Any:
        """Resume after the job has ended for which the task was deferred. `memory`: what the task stored."""
        return MEMBER_STEPS[self.verb](context, self.fleet, self.given, memory)

    def trace_lineage(self) -> TaskLineage:
        """See the mixin: of stage nothing, as what it writes is the product's own."""
        if self.verb != "merge":
            return TaskLineage()
        topics = {
            table: read for queue in self.given["queues"] for table, read in lineage.find_topics_of_queue(queue).items()
        }
        return lineage.trace_flushed_tables(self.given["pipeline"], topics)
