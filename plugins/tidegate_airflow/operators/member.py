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
MERGED_KEY = "merged"  # of a merge that went to wait: the tables that are done, and parts of those that failed


def run_member_stage(context: Context, fleet: str, given: Data, memory: Mapping[str, Any]) -> Data:
    """stage, of one pipeline: `given` is its entry in the fleet's plan. Returns a queue for each table.

    An entry with a `failure` fails: the pipeline waits. One without a plan could not be planned together with the
    others: it is planned here, so that its failure and its retries are its own. `left` counts the offsets that no batch
    reached, 0 where a table is refused: such a run calls for no next one.
    """
    require_result(given, "plan")
    if given["failure"]:
        push_failure_reason(given["failure"])
        raise AirflowFailException(given["failure"]["message"])
    planned = given["plan"] or _plan_alone(context, given, memory)
    queues = run_stage_step(context, given["pipeline"], planned, memory)
    return {"pipeline": given["pipeline"], "queues": queues, "left": _count_left(context, planned)}


def _count_left(context: Context, planned: Data) -> int:
    if not planned["left"] or planned["refused"]:
        return 0
    task_instance = context["ti"]
    refused = task_instance.xcom_pull(key=REFUSED_TABLES_KEY, map_indexes=task_instance.map_index)
    return 0 if refused else int(planned["left"])


def _plan_alone(context: Context, given: Data, memory: Mapping[str, Any]) -> Data:
    task_instance = context["ti"]
    if memory:  # the task went to wait behind its plan
        return dict(task_instance.xcom_pull(key=PLANNED_KEY, map_indexes=task_instance.map_index))
    planned = tasks.run_plan(given["pipeline"], given["max_records"])
    task_instance.xcom_push(key=PLANNED_KEY, value=planned)
    return planned


class MergeWatcher(DeferringWatcher):
    """Keeps beside the checkpoint of a table's merge what became of the tables before it."""

    def __init__(self, context: Context, payload: Mapping[str, Any], merged: Data) -> None:
        super().__init__(context, payload)
        self._merged = merged

    def set_checkpoint_source(self, read_checkpoint: Callable[[], dict[str, Any]]) -> None:
        """See the base class."""
        super().set_checkpoint_source(lambda: {**read_checkpoint(), MERGED_KEY: self._merged})


def run_member_merge(context: Context, fleet: str, given: Data, memory: Mapping[str, Any]) -> Data:
    """merge, of one pipeline: its tables one after the other. One that fails leaves the others to go on."""
    require_result(given, "stage")
    merged: Data = {"published": [], "failed": [], "parts": [], **memory.get(MERGED_KEY, {})}
    done = {one["table"] for one in (*merged["published"], *merged["failed"])}
    other_memory = {key: value for key, value in memory.items() if key != MERGED_KEY}
    for queue in given["queues"]:
        if queue["table"] in done:
            continue
        watcher, other_memory = MergeWatcher(context, other_memory, merged), {}
        try:
            published = tasks.run_merge(given["pipeline"], queue, watcher=watcher, keep_part=merged["parts"].append)
            merged["published"].append(published)
        except AirflowException as problem:
            merged["failed"].append({"table": queue["table"], **_describe_problem(problem)})
    changed = [*merged["published"], *merged["parts"]]
    if changed and _list_own_failures(merged["failed"]):
        context["ti"].xcom_push(key=UNREPORTED_KEY, value={"pipeline": given["pipeline"], "tables": changed})
    _raise_failures(merged["failed"], has_published=bool(changed))
    for published in changed:
        emit_asset_event(context, published, fleet)
    return {"pipeline": given["pipeline"], "tables": merged["published"]}


def _describe_problem(problem: AirflowException) -> Data:
    """`kind` is the class of the core's error; `passing`: a try may succeed."""
    is_passing = not isinstance(problem, AirflowFailException | AirflowSkipException)
    return {"message": str(problem), "kind": type(problem.__cause__ or problem).__name__, "passing": is_passing}


def _list_own_failures(failed: list[Data]) -> list[Data]:
    return [one for one in failed if one["kind"] not in HARMLESS_ERRORS]


def _raise_failures(failed: list[Data], *, has_published: bool) -> None:
    """Red where a table failed for itself. One that another run published, or that the file names no more, skips the
    task, where no other failed and none was published.
    """
    own = _list_own_failures(failed)
    if not own:
        if failed and not has_published:
            raise AirflowSkipException(failed[0]["message"])
        return
    is_passing, kind = any(one["passing"] for one in own), own[0]["kind"]
    if len(own) > 1:
        kind = (SomeTablesDelayed if is_passing else SomeTablesFailed).__name__
    message, tables = "\n".join(one["message"] for one in own), [one["table"] for one in own]
    push_failure_reason({"error": kind, "message": message[:MAX_MESSAGE_CHARACTERS], "tables": tables})
    raise (AirflowException if is_passing else AirflowFailException)(message)


def run_member_compact(context: Context, fleet: str, given: Data, memory: Mapping[str, Any]) -> list[Data]:
    """compact, of the tables of one pipeline that clean_up found due."""
    require_result(given, "clean_up")
    return tasks.run_compact(given["pipeline"], given["tables"])


MEMBER_STEPS = {"stage": run_member_stage, "merge": run_member_merge, "compact": run_member_compact}


class MemberOperator(ReportsLineage, BaseOperator):
    """One step of one pipeline of a fleet; `given` names it. `fleet` is what the fleet's alias is called by."""

    template_fields = ("given",)
    operator_extra_links = (JobLink(),)

    def __init__(self, *, verb: str, fleet: str, given: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.verb, self.fleet, self.given = verb, fleet, given

    def execute(self, context: Context) -> Any:
        """Run the step; returns what the step returns."""
        return self.resume_step(context, {})

    def resume_step(self, context: Context, memory: Mapping[str, Any], event: Any = None) -> Any:
        """Go on when the job has ended that the step went to wait for; `memory` is what the task kept."""
        return MEMBER_STEPS[self.verb](context, self.fleet, self.given, memory)

    def trace_lineage(self) -> TaskLineage:
        """See the mixin: of stage nothing, as what it writes is the product's own."""
        if self.verb != "merge":
            return TaskLineage()
        topics = {
            table: read for queue in self.given["queues"] for table, read in lineage.find_topics_of_queue(queue).items()
        }
        return lineage.trace_flushed_tables(self.given["pipeline"], topics)
