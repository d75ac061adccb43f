"""The ends of a run: what it was asked to do, and the heartbeat, whose colour the whole run takes."""

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from airflow.sdk import Context, get_current_context
from airflow.sdk.bases.xcom import BaseXCom
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
    DownstreamTasksSkipped,
)
from tidegate.errors import TooFewRecords

from tidegate_airflow import tasks
from tidegate_airflow.assets import emit_asset_event
from tidegate_airflow.dag_ids import list_dag_ids
from tidegate_airflow.dags.flush_params import check_run_words, read_run_params
from tidegate_airflow.dags.schedule import compute_min_records, trigger_next_run
from tidegate_airflow.errors import COMMITTED_KEY, ERROR_KEY, MAX_MESSAGE_CHARACTERS, require_result
from tidegate_airflow.failures.back_off import (
    note_planned_at,
    note_postponed_work,
    remember_failure,
    remember_lateness,
    remember_success,
    remember_timeliness,
    wait_if_nothing_changed,
    was_cleared,
)
from tidegate_airflow.operators.complete import report_complete_periods
from tidegate_airflow.operators.step import REFUSED_TABLES_KEY, UNREPORTED_KEY

COMPACT_TASK_ID = "compact"
OWN_COLOUR = ("heartbeat", "complete")  # tasks beside each other: none speaks of another


def plan_as_requested(name: str) -> dict[str, Any]:
    """plan, of as many records as the run was asked for, as plain data.

    A dry run ends here: AirflowSkipException, with the plan as the result `planned`.
    """
    context = get_current_context()
    check_run_words(context)
    words = read_run_params(context)
    if was_cleared(context):
        note_planned_at(context)
    if context["dag_run"].run_type == "backfill":
        note_postponed_work(context)
        raise AirflowSkipException(
            "Airflow's own backfill repeats a DAG for past dates; a flush reads what waits, whatever the date, so this "
            f"run does nothing; to apply offsets or times again trigger the DAG {list_dag_ids(name)['backfill']}"
        )
    try:
        flush_plan = tasks.run_plan(name, words["max_records"], partial(compute_min_records, context=context))
    except AirflowSkipException as skip:
        if isinstance(skip.__cause__, TooFewRecords):
            note_postponed_work(context)
        raise
    if words["dry_run"]:
        context["ti"].xcom_push(key="planned", value=flush_plan)
        raise AirflowSkipException("a dry run: the plan stands in the result `planned`; nothing was read or written")
    return wait_if_nothing_changed(name, context, flush_plan)


def clean_up_unless_dry(name: str) -> list[dict[str, Any]]:
    """clean_up, in every run that may write; what it found of each table.

    `compact`, which follows it, is skipped where no table is due: DownstreamTasksSkipped, with the same result kept.
    Tables that a merge published before it failed are events of their assets here.
    """
    from tidegate.flush.clean_up import list_tables_to_compact

    context = get_current_context()
    _skip_if_dry(context)
    cleaned = tasks.run_clean_up(name)
    for published_batch in _pull_unreported(context):
        emit_asset_event(context, published_batch, name)
    follows = COMPACT_TASK_ID in context["task"].downstream_task_ids
    if follows and not list_tables_to_compact(cleaned):
        context["ti"].xcom_push(key=BaseXCom.XCOM_RETURN_KEY, value=cleaned)
        raise DownstreamTasksSkipped(tasks=[COMPACT_TASK_ID])
    return cleaned


def _pull_unreported(context: Context) -> list[dict[str, Any]]:
    """What merges have published that failed behind it: one merge, or one for each table."""
    value = context["ti"].xcom_pull(task_ids="merge", key=UNREPORTED_KEY)
    return [value] if isinstance(value, dict) else [item for item in value or [] if item is not None]


def report_complete_unless_dry(name: str, table: str, period: str, branch: str) -> list[str]:
    """complete, in every run that may write."""
    _skip_if_dry(get_current_context())
    return report_complete_periods(name, table, period, branch)


def finish_run(name: str) -> dict[str, Any]:
    """The heartbeat, whatever happened before; then red if a task failed, or plan or stage refused a table.

    The last task colours the run. Where the batch left records behind, the next run is called for: it begins at once,
    without waiting for its time.
    """
    context = get_current_context()
    _skip_if_dry(context)
    states = _read_task_states(context)
    try:
        result = _finish_run(name, context, states)
    except AirflowException as problem:
        remember_failure(name, context, str(problem), states)
        raise
    remember_success(name, context)
    return result


def _finish_run(name: str, context: Context, states: dict[str, str]) -> dict[str, Any]:
    beat = tasks.run_heartbeat(name)
    context["ti"].xcom_push(key=COMMITTED_KEY, value=True)
    beat["measures"], beat["measured_at"] = tasks.run_measure(name), time.time()
    flush_plan = context["ti"].xcom_pull(task_ids="plan") or {"refused": [], "left": 0}
    messages = _describe_failed_tasks(states)
    refusals = [*flush_plan["refused"], *(context["ti"].xcom_pull(task_ids="stage", key=REFUSED_TABLES_KEY) or [])]
    messages += [f"table={refusal['table']} is refused, the others go on: {refusal['message']}" for refusal in refusals]
    if messages:
        reason = "offsets are kept, but " + "\n".join(messages)
        context["ti"].xcom_push(
            key=ERROR_KEY, value={"error": "SomeTablesFailed", "message": reason[:MAX_MESSAGE_CHARACTERS]}
        )
        raise AirflowFailException(reason)
    if flush_plan["left"] and read_run_params(context)["until_current"]:
        trigger_next_run(name, context, read_run_params(context))
    return beat


def _describe_failed_tasks(states: Mapping[str, str]) -> list[str]:
    """Which tasks failed, those first that have a log; or which could not begin though none has failed."""
    failed_tasks = sorted(task for task, state in states.items() if state == "failed")
    blocked = sorted(task for task, state in states.items() if state == "upstream_failed")
    if failed_tasks:
        return [f"tasks={', '.join([*failed_tasks, *blocked])} failed in this run; see the log of the first one"]
    if blocked:
        return [
            f"tasks={', '.join(blocked)} could not begin: a task before them was marked by hand and left no result, or "
            "Airflow's database was cleaned; clear that task with what follows it, or leave the work to the next run"
        ]
    return []


def check_freshness(heard: dict[str, Any], name: str, target: int) -> float:
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
    if behind is None or behind > target:
        age = "nobody can tell how long" if behind is None else f"behind={behind:.0f}s"
        reason = (
            f"pipeline={name}: {age}, freshness_target={target}s: records wait; see the lag of its partitions with: "
            f"tidegate status {name}"
        )
        remember_lateness(name, context, reason)
        raise AirflowFailException(reason)
    remember_timeliness(name, context, heard.get("measured_at"))
    return behind


def _skip_if_dry(context: Context) -> None:
    if read_run_params(context)["dry_run"]:
        raise AirflowSkipException("a dry run: nothing was read or written")


def _read_task_states(context: Context) -> dict[str, str]:
    """The states of this run's other tasks by task id; a mapped task's id ends in its index."""
    run = context["dag_run"]
    states = context["ti"].get_task_states(dag_id=run.dag_id, run_ids=[run.run_id])[run.run_id]
    return {name: str(state) for name, state in states.items() if not name.startswith(OWN_COLOUR)}
