"""The tasks of a pipeline without a fleet: what a run was asked to do, and the task that colours it."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from airflow.configuration import conf
from airflow.sdk import Context, get_current_context
from airflow.sdk.bases.xcom import BaseXCom
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException, DownstreamTasksSkipped
from tidegate.errors import TooFewRecords
from tidegate.flush.complete import MAX_PERIODS, is_key, list_complete_periods
from tidegate.model.batch import PlanScope
from tidegate.monitoring.failure_streak import Failure, PipelineOutcome
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.runtime import Period

from tidegate_airflow import tasks
from tidegate_airflow.assets import build_complete_asset, emit_asset_event, emit_backlog_event
from tidegate_airflow.dag_ids import list_dag_ids, name_stage
from tidegate_airflow.dags.request import (
    PARAM_NAMES,
    build_merge_form,
    compute_min_records,
    read_run_params,
)
from tidegate_airflow.errors import COMMITTED_KEY, push_failure_reason, raise_joined, read_form_params, require_result
from tidegate_airflow.failures.keeper import (
    FLUSH_KEY,
    FRESHNESS_KEY,
    FailureKeeper,
    describe_lateness,
    read_failed_task,
    read_memory,
    was_cleared,
)
from tidegate_airflow.failures.leave_out import leave_out_failed
from tidegate_airflow.failures.notifiers import FAILURE_KEY
from tidegate_airflow.operators.step import REFUSED_TABLES_KEY, UNREPORTED_KEY, limit_queues

BEGUN_KEY = "begun_ms"


def find_last_reported_period(context: Context, asset: Any, period: Period) -> str | None:
    """Return the newest key of the last run that reported any; the events of one run have no order."""
    events = context["inlet_events"][asset].ascending(False).limit(MAX_PERIODS)
    # somebody may add an event by hand, with a key of another form or none
    return max((event.partition_key for event in events if is_key(period, event.partition_key)), default=None)


COMPACT_TASK_ID = "compact"
OWN_COLOUR = ("heartbeat", "finish", "complete")  # tasks beside each other: none speaks of another
# results of plan
INPUTS_KEY = "inputs"  # what would have to change for a try to end otherwise
POSTPONED_KEY = "postponed"  # records wait, and this run leaves them alone: its success says nothing of what failed
PLAN_KEY = "plan"  # the plan itself, where the result of the task is the queues that merges are mapped over
PLANNED_AT_KEY = "planned_at"  # behind a failure and in a run that was cleared: Unix time in seconds


def plan_as_requested(name: str) -> dict[str, Any]:
    """Plan as many records as the run was asked for. A dry run is skipped here, with the plan as result `planned`."""
    return _plan_run(name, name, PARAM_NAMES, PlanScope.ALL)


def plan_staging(name: str) -> dict[str, Any]:
    return _plan_run(name, name_stage(name), PARAM_NAMES, PlanScope.NEW)


def plan_merges(name: str) -> list[dict[str, Any]]:
    """Plan what is staged alone; return the queue of each table, at most as many as Airflow maps tasks over."""
    flush_plan = _plan_run(name, name, tuple(build_merge_form()), PlanScope.STAGED)
    get_current_context()["ti"].xcom_push(key=PLAN_KEY, value=flush_plan)
    queues, _ = tasks.run_stage(name, flush_plan)
    return limit_queues(queues, conf.getint("core", "max_map_length"))


def _plan_run(name: str, memory_name: str, known_names: Sequence[str], scope: PlanScope) -> dict[str, Any]:
    context = get_current_context()
    read_form_params(context, known_names)
    params = read_run_params(context)
    push = context["ti"].xcom_push
    if was_cleared(context):
        push(key=PLANNED_AT_KEY, value=time.time())
    if context["dag_run"].run_type == "backfill":
        push(key=POSTPONED_KEY, value=True)
        raise AirflowSkipException(
            f"pipeline={name}: Airflow's own backfill does nothing, as a flush reads what waits; to apply offsets or "
            f"times again trigger the DAG {list_dag_ids(name)['backfill']}"
        )
    try:
        count_required = partial(compute_min_records, context=context)
        flush_plan = tasks.run_plan(name, params["max_records"], count_required, scope, is_dry=params["dry_run"])
    except AirflowSkipException as skip:
        if isinstance(skip.__cause__, TooFewRecords):
            push(key=POSTPONED_KEY, value=True)
        raise
    if params["dry_run"]:
        push(key="planned", value=flush_plan)
        raise AirflowSkipException("a dry run: the plan is the result `planned`; nothing was read or written")
    streak = read_memory(memory_name, context).streaks.get(name, FLUSH_KEY)
    if streak is None:
        return flush_plan
    now = time.time()
    push(key=PLANNED_AT_KEY, value=now)
    remaining = leave_out_failed(context, streak, flush_plan, lambda: tasks.read_inputs(name, streak.tables), now)
    push(key=INPUTS_KEY, value=remaining.inputs)
    if remaining.failure is not None:
        push_failure_reason(remaining.failure)
        raise AirflowFailException(remaining.failure["message"])
    return remaining.plan or flush_plan


def clean_up_unless_dry(name: str) -> list[dict[str, Any]]:
    """Run clean_up in every run that may write; return what it found of each table.

    `compact` is skipped if no table is due. Emits the events of tables that a merge published before it failed.
    """
    from tidegate.flush.clean_up import list_tables_to_compact

    context = get_current_context()
    _skip_if_dry(context)
    cleaned = tasks.run_clean_up(name)
    for published_batch in pull_mapped(context, "merge", UNREPORTED_KEY):
        emit_asset_event(context, published_batch, name)
    follows = COMPACT_TASK_ID in context["task"].downstream_task_ids
    if follows and not list_tables_to_compact(cleaned):
        context["ti"].xcom_push(key=BaseXCom.XCOM_RETURN_KEY, value=cleaned)
        raise DownstreamTasksSkipped(tasks=[COMPACT_TASK_ID])
    return cleaned


def report_complete_unless_dry(name: str, table: str, period: str, branch: str) -> list[str]:
    """Add the keys of newly complete periods to the task's event; skipped if there is none.

    Airflow stores the event together with the task's success, so a task that dies has reported nothing.
    """
    context = get_current_context()
    _skip_if_dry(context)
    asset = build_complete_asset(table, period, branch)
    begun_ms, through_ms = tasks.run_complete(name, table)
    last = find_last_reported_period(context, asset, Period(period))
    # as the first run saw it, until there is a first event
    store = context["asset_state_store"][asset]
    known_ms = store.get(BEGUN_KEY)
    if known_ms is None:
        store.set(BEGUN_KEY, begun_ms)
    first_ms = begun_ms if known_ms is None else int(known_ms)
    keys = list_complete_periods(Period(period), last, first_ms, through_ms)
    # a skipped task makes no event
    if not keys:
        raise AirflowSkipException(f"pipeline={name} table={table}: no {period} has become complete")
    context["outlet_events"][asset].extra = {"pipeline": name, "table": table, "valid_through_ms": through_ms}
    context["outlet_events"][asset].add_partitions(keys)
    return keys


def finish_run(name: str) -> dict[str, Any]:
    """Run the heartbeat, whatever happened before; then red if a task failed, or plan or stage refused a table.

    Calls for the next run if the batch left records behind.
    """

    def beat_and_check(context: Context, states: Mapping[str, str]) -> dict[str, Any]:
        beat = tasks.run_heartbeat(name)
        context["ti"].xcom_push(key=COMMITTED_KEY, value=True)
        beat["measures"], beat["measured_at"] = tasks.run_measure(name), time.time()
        if messages := _describe_trouble(context, states):
            raise_joined("SomeTablesFailed", ["offsets are kept, but " + messages[0], *messages[1:]])
        if context["ti"].xcom_pull(task_ids="stage"):  # else the next run would come no further either
            _call_for_rest(name, context)
        return beat

    return _finish(name, name, beat_and_check)


def finish_staging(name: str) -> dict[str, Any]:
    """End a run of staging: red if a task failed, or plan or stage refused a table.

    Commits nothing, as the group's offsets move with merges. Calls for the next run if its batches left records behind.
    """

    def check(context: Context, states: Mapping[str, str]) -> dict[str, Any]:
        if messages := _describe_trouble(context, states):
            raise_joined("SomeTablesFailed", ["what is staged stays, but " + messages[0], *messages[1:]])
        if context["ti"].xcom_pull(task_ids="stage"):  # what waits for a merge is tried again at its time
            _call_for_rest(name_stage(name), context)
        return {"left": _pull_plan(context)["left"]}

    return _finish(name, name_stage(name), check)


def _finish(
    name: str, memory_name: str, end_run: Callable[[Context, Mapping[str, str]], dict[str, Any]]
) -> dict[str, Any]:
    context = get_current_context()
    _skip_if_dry(context)
    all_states = read_task_states(context)
    states = {name: state for name, state in all_states.items() if not name.startswith(OWN_COLOUR)}
    try:
        result = end_run(context, states)
    except AirflowException as problem:
        keeper = FailureKeeper(memory_name, context)
        pipeline = tasks.read_pipeline(name)
        outcome = _read_outcome(name, context, str(problem), states)
        inputs = str(context["ti"].xcom_pull(task_ids="plan", key=INPUTS_KEY) or "")
        keeper.note_outcome(outcome, has_several=pipeline.has_several, tried_inputs=inputs)
        _keep(keeper, pipeline, context)
        raise
    if not context["ti"].xcom_pull(task_ids="plan", key=POSTPONED_KEY):
        # when the run has looked at what is to be done: a person may clear its last task alone, months later
        planned_at = context["ti"].xcom_pull(task_ids="plan", key=PLANNED_AT_KEY) or None
        _note_success(name, memory_name, context, FLUSH_KEY, planned_at)
    return result


def _note_success(name: str, memory_name: str, context: Context, kind: str, known_at: float | None) -> None:
    keeper = FailureKeeper(memory_name, context)
    if keeper.memory.streaks.get(name, kind) is not None:
        keeper.note_success(name, kind, known_at if was_cleared(context) else None)
        _keep(keeper, tasks.read_pipeline(name), context)


def _keep(keeper: FailureKeeper, pipeline: Pipeline, context: Context) -> None:
    for failure in keeper.failures:
        context["ti"].xcom_push(key=FAILURE_KEY, value=failure)
    keeper.keep({pipeline.name: pipeline.on_recovery})


def _pull_plan(context: Context) -> dict[str, Any]:
    result = context["ti"].xcom_pull(task_ids="plan")
    planned = result if isinstance(result, dict) else context["ti"].xcom_pull(task_ids="plan", key=PLAN_KEY)
    return planned or {"tables": [], "refused": [], "left": 0}


def _pull_refused(context: Context, states: Mapping[str, str]) -> list[dict[str, Any]]:
    # in a run that was cleared, a stage that does not begin again keeps the results of its earlier try
    if states.get("stage") not in ("success", "failed"):
        return []
    return context["ti"].xcom_pull(task_ids="stage", key=REFUSED_TABLES_KEY) or []


def _read_outcome(name: str, context: Context, message: str, states: Mapping[str, str]) -> PipelineOutcome:
    outcome = PipelineOutcome(name, messages=[message])
    planned = _pull_plan(context)
    failed_names = sorted(task for task, state in states.items() if state == "failed")
    queues: Any = None
    if any(task.startswith("merge") for task in failed_names):  # once: it may be a megabyte
        queues = context["ti"].xcom_pull(task_ids="stage")
        queues = context["ti"].xcom_pull(task_ids="plan") if queues is None else queues
    for task in failed_names:
        base, _, index = task.rpartition("_")
        number = int(index) if base and index.isdigit() else None
        task_id = task if number is None else base
        tables = [batch["table"] for batch in planned["tables"]] if task_id == "stage" else []
        if task_id == "merge":
            tables = [queue["table"] for queue in (queues or [])[number or 0 :][:1]]
        outcome.failed_tasks.append(read_failed_task(context, task_id, number, tables))
    outcome.add_refusals(planned["refused"], _pull_refused(context, states))
    outcome.has_published = any(
        task.partition("_")[0] == "merge" and state == "success" for task, state in states.items()
    )
    return outcome


def _describe_trouble(context: Context, states: Mapping[str, str]) -> list[str]:
    messages = list[str]()
    # those with a log first; or those that could not begin though none has failed
    failed_tasks = sorted(task for task, state in states.items() if state == "failed")
    blocked = sorted(task for task, state in states.items() if state == "upstream_failed")
    if failed_tasks:
        names = ", ".join([*failed_tasks, *blocked])
        messages.append(f"tasks={names} failed in this run; see the log of the first one")
    elif blocked:
        messages.append(
            f"tasks={', '.join(blocked)} could not begin: a task before them was marked by hand and left no result, or "
            "Airflow's database was cleaned; clear that task with what follows it, or leave the work to the next run"
        )
    refusals = [*_pull_plan(context)["refused"], *_pull_refused(context, states)]
    messages += [f"table={refusal['table']} is refused, the others go on: {refusal['message']}" for refusal in refusals]
    return messages


def _call_for_rest(memory_name: str, context: Context) -> None:
    params = read_run_params(context)
    if _pull_plan(context)["left"] and params["until_current"]:
        emit_backlog_event(context, memory_name, params)


def check_freshness(heard: dict[str, Any], name: str, target: int) -> float | None:
    """How long the oldest record waits; red where that is longer than `freshness_target`.

    A task of its own, behind the heartbeat: it colours the run, and holds up nothing that catches up.
    """
    require_result(heard, "heartbeat")
    context = get_current_context()
    if not heard["measures"]:
        raise AirflowSkipException(
            "the heartbeat of this run ended before the file had a freshness_target, and measured nothing; the next "
            "run does"
        )
    behind: float | None = heard["measures"]["behind"]
    reason = describe_lateness(name, behind, target)
    if reason is not None:
        keeper = FailureKeeper(name, context)
        keeper.note_failure(name, FRESHNESS_KEY, Failure(FRESHNESS_KEY, reason))
        _keep(keeper, tasks.read_pipeline(name), context)
        raise AirflowFailException(reason)
    _note_success(name, name, context, FRESHNESS_KEY, heard.get("measured_at"))
    return behind


def _skip_if_dry(context: Context) -> None:
    if read_run_params(context)["dry_run"]:
        raise AirflowSkipException("a dry run: nothing was read or written")


def pull_mapped(context: Context, task_id: str, key: str = "return_value") -> list[dict[str, Any]]:
    value = context["ti"].xcom_pull(task_ids=task_id, key=key)
    return [value] if isinstance(value, dict) else [item for item in value or [] if item is not None]


def read_task_states(context: Context) -> dict[str, str]:
    """Return the states of this run's tasks by task id; a mapped task's id ends in its index."""
    run = context["dag_run"]
    states = context["ti"].get_task_states(dag_id=run.dag_id, run_ids=[run.run_id])[run.run_id]
    return {name: str(state) for name, state in states.items()}
