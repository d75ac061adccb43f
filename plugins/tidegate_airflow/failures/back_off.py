"""What a run of the flush DAG remembers of the failed ones before it: it waits if it must, and says what is new.

The memory is Airflow's store of an asset's state, that of the pipeline's backlog. Where it cannot be read or written,
runs try, and tell, as if each were the first.
"""

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowFailException
from tidegate.monitoring.failure_streak import (
    FailedTask,
    Failure,
    FailureStreak,
    can_wait_by_table,
    extend_streak,
    identify_reason,
    needs_pause,
)
from tidegate.spec.time_text import format_utc

from tidegate_airflow import tasks
from tidegate_airflow.assets import build_backlog_asset
from tidegate_airflow.errors import ERROR_KEY, push_failure_reason
from tidegate_airflow.failures.notifiers import FAILURE_KEY, notify_of_recovery
from tidegate_airflow.operators.step import REFUSED_TABLES_KEY

Data = dict[str, Any]
log = logging.getLogger(__name__)
# of the asset's state
FLUSH_KEY = "flush_failures"
FRESHNESS_KEY = "freshness_failures"
INPUTS_KEY = "inputs"  # a result of plan: what would have to change for a try to end otherwise
POSTPONED_KEY = "postponed"  # a result of plan: records wait, and this run leaves them alone
PLANNED_AT_KEY = "planned_at"  # a result of plan, behind a failure and in a run that was cleared: Unix time in seconds
AUTOMATIC_RUN_TYPES = {"scheduled", "asset_triggered"}
WAITING = "Waiting"  # the class of the error of a run that does not try


def wait_if_nothing_changed(name: str, context: Context, planned: Data) -> Data:
    """The plan without what has failed before, while nothing was changed since and it is too early to try again.

    Tables that have other work go on: those that failed in `stage` are left out, listed under `refused`. Where there
    is none the run fails. A run that a person or another DAG triggers tries all, and so does a task that a person has
    cleared.
    """
    streak = _read_streak(name, context, FLUSH_KEY)
    if streak is None:
        return planned
    note_planned_at(context)
    try:
        inputs = tasks.read_inputs(name, streak.tables)
        context["ti"].xcom_push(key=INPUTS_KEY, value=inputs)
    except Exception as fault:  # a file that cannot be read, a catalog that does not answer: the run tries
        log.warning("what was changed since the last failure is not known: %s", type(fault).__name__)
        return planned
    if is_asked_for(context) or not streak.must_wait(inputs, time.time()):
        return planned
    if has_other_work(planned, streak):
        return leave_out(planned, streak)
    waiting = build_waiting_reason(streak)
    push_failure_reason(waiting)
    raise AirflowFailException(waiting["message"])


def is_asked_for(context: Context) -> bool:
    """Whether a person, or another DAG, wants this run: it tries all."""
    return context["dag_run"].run_type not in AUTOMATIC_RUN_TYPES or context["ti"].try_number > 1


def has_other_work(planned: Data, streak: FailureStreak) -> bool:
    """Whether the plan has tables that have not failed before."""
    return bool(streak.tables) and any(batch["table"] not in streak.tables for batch in planned["tables"])


def build_waiting_reason(streak: FailureStreak) -> Data:
    """Why a run does not try, as the result `error` of the task that fails for it."""
    message = _describe_wait(streak, streak.reason)
    tasks_before = sorted({task.task for task in streak.failed})
    return {"error": WAITING, "message": message, "tasks": tasks_before}


def leave_out(planned: Data, streak: FailureStreak) -> Data:
    """The plan of the other tables. One whose merge failed stays: what is staged for it does not expire in Kafka."""
    left_out = [batch["table"] for batch in planned["tables"] if batch["table"] in streak.unstaged_tables]
    reasons = {table: task.message for task in streak.failed for table in task.tables}
    waiting = [
        {"table": table, "kind": WAITING, "message": _describe_wait(streak, reasons[table])} for table in left_out
    ]
    tables = [batch for batch in planned["tables"] if batch["table"] not in left_out]
    return {**planned, "tables": tables, "refused": [*planned["refused"], *waiting]}


def _describe_wait(streak: FailureStreak, reason: str) -> str:
    return (
        f"{reason}; the same failure in {streak.runs} runs since {_format_time(streak.since)}; it is tried again at "
        f"{_format_time(streak.retry_at)}, or at once when include/ or the table changes or when you trigger the DAG"
    )


def note_postponed_work(context: Context) -> None:
    """Note that the run skips what waits: its success says nothing of the failed runs before it."""
    context["ti"].xcom_push(key=POSTPONED_KEY, value=True)


def note_planned_at(context: Context) -> None:
    """Note when the run has looked at what is to be done: a person may clear its last task alone, months later."""
    context["ti"].xcom_push(key=PLANNED_AT_KEY, value=time.time())


def was_cleared(context: Context) -> bool:
    """Whether a person has cleared tasks of the run, some or all."""
    return bool(context["dag_run"].clear_number)


def remember_failure(name: str, context: Context, message: str, states: Mapping[str, str]) -> None:
    """Note why the run fails. `states` are those of its other tasks, with a mapped task's index in its name."""
    planned = context["ti"].xcom_pull(task_ids="plan") or {"tables": [], "refused": []}
    names = sorted(task for task, state in states.items() if state == "failed")
    is_merge = any(task.startswith("merge") for task in names)
    queues = (context["ti"].xcom_pull(task_ids="stage") if is_merge else None) or []  # once: it may be a megabyte
    failed = [_read_failed_task(context, task, planned, queues) for task in names]
    refused_by_stage = context["ti"].xcom_pull(task_ids="stage", key=REFUSED_TABLES_KEY) or []
    failed += [to_failed_task("stage", refusal) for refusal in refused_by_stage]
    blocked = [to_failed_task("plan", refusal) for refusal in planned["refused"] if refusal["kind"] != WAITING]
    waiting = {refusal["table"] for refusal in planned["refused"] if refusal["kind"] == WAITING}
    streak = _read_streak(name, context, FLUSH_KEY)
    if streak is not None:
        if any(task.kind == WAITING for task in failed) or (waiting and not failed and not blocked):
            _push_failure(context, streak, is_new=False)
            return
        failed += [task for task in streak.failed if waiting & set(task.tables)]
    inputs = _read_tried_inputs(name, context, states, failed, streak)
    reason = "\n".join(task.message for task in (*failed, *blocked) if task.message) or message
    failure = Failure(identify_reason(message, [*failed, *blocked]), reason, inputs, tuple(failed))
    _extend_streak(name, context, FLUSH_KEY, failure)


def _read_tried_inputs(
    name: str,
    context: Context,
    states: Mapping[str, str],
    failed: Collection[FailedTask],
    streak: FailureStreak | None,
) -> str:
    """The digest of what was tried, where the next try needs a pause; empty where it does not, or it is of others."""
    published = any(task.partition("_")[0] == "merge" and state == "success" for task, state in states.items())
    if tasks.read_pipeline(name).has_several:
        waits = can_wait_by_table(failed)
    else:
        waits = needs_pause(failed, has_published=published)
    if not waits or streak is None or streak.tables != {table for task in failed for table in task.tables}:
        return ""
    return str(context["ti"].xcom_pull(task_ids="plan", key=INPUTS_KEY) or "")


def remember_lateness(name: str, context: Context, message: str) -> None:
    """Note that the run is red because records wait too long, by the task `freshness`."""
    _extend_streak(name, context, FRESHNESS_KEY, Failure(FRESHNESS_KEY, message))


def remember_success(name: str, context: Context) -> None:
    """Forget the failures; tell of the recovery where an earlier run failed.

    Not where the run has left the work that failed to a later one: nothing is known of it then. Nor where a person has
    cleared the last task of a run that is older than the failures.
    """
    if context["ti"].xcom_pull(task_ids="plan", key=POSTPONED_KEY):
        return
    streak = _read_streak(name, context, FLUSH_KEY)
    if streak is None:
        return
    known_at = context["ti"].xcom_pull(task_ids="plan", key=PLANNED_AT_KEY) if was_cleared(context) else None
    _forget_streak(
        name, context, FLUSH_KEY, streak, known_at or None
    )  # Airflow answers with a list where there is none


def remember_timeliness(name: str, context: Context, measured_at: float | None) -> None:
    """The same of records that no longer wait too long, as was measured at a Unix time in seconds."""
    streak = _read_streak(name, context, FRESHNESS_KEY)
    if streak is not None:
        _forget_streak(name, context, FRESHNESS_KEY, streak, measured_at)


def _forget_streak(name: str, context: Context, key: str, streak: FailureStreak, known_at: float | None) -> None:
    run_id = context["dag_run"].run_id
    if was_cleared(context) and not streak.is_ended_by(run_id, known_at):
        log.info("this run is older than the failures since %s: they stay", _format_time(streak.since))
        return
    try:
        _open_store(name, context).delete(key)
    except Exception as fault:
        log.warning("the failures of earlier runs were not deleted: %s", type(fault).__name__)
        return
    if streak.run_id != run_id or streak.has_earlier:
        notify_of_recovery(tasks.read_pipeline(name).on_recovery, context, to_failure(streak, is_new=False))


def _extend_streak(name: str, context: Context, key: str, failure: Failure) -> None:
    before = _read_streak(name, context, key)
    streak = extend_streak(before, failure, context["dag_run"].run_id, time.time())
    _push_failure(context, streak, is_new=streak.is_new)
    try:
        _open_store(name, context).set(key, streak.to_dict())
    except Exception as fault:
        log.warning("the failure was not stored for the next run: %s", type(fault).__name__)


def _read_failed_task(context: Context, task: str, planned: Data, queues: Sequence[Data]) -> FailedTask:
    """What a failed task left of its reason, and of which tables; a mapped task's name ends in its index."""
    base, _, index = task.rpartition("_")
    mapped: dict[str, Any] = {"map_indexes": int(index)} if base and index.isdigit() else {}
    name = base if mapped else task
    error = context["ti"].xcom_pull(task_ids=name, key=ERROR_KEY, **mapped)
    found = error if isinstance(error, dict) else {}
    tables = [batch["table"] for batch in planned["tables"]] if name == "stage" else []
    if name == "merge":
        number = mapped.get("map_indexes", 0)
        tables = [queues[number]["table"]] if number < len(queues) else []
    return FailedTask(name, str(found.get("error", "")), str(found.get("message", "")), tuple(tables))


def to_failed_task(task: str, refused: Mapping[str, str]) -> FailedTask:
    """A table that a task refused, as its failure."""
    return FailedTask(task, refused["kind"], refused["message"], (refused["table"],))


def _push_failure(context: Context, streak: FailureStreak, *, is_new: bool) -> None:
    context["ti"].xcom_push(key=FAILURE_KEY, value=to_failure(streak, is_new=is_new))


def to_failure(streak: FailureStreak, *, is_new: bool) -> dict[str, Any]:
    """What notifiers' templates see as `failure`."""
    return {"reason": streak.reason, "since": _format_time(streak.since), "runs": streak.runs, "is_new": is_new}


def _read_streak(name: str, context: Context, key: str) -> FailureStreak | None:
    try:
        return FailureStreak.from_dict(_open_store(name, context).get(key))
    except Exception as fault:  # whatever the store does, the run goes on
        log.warning("the failures of earlier runs cannot be read: %s", type(fault).__name__)
        return None


def _open_store(name: str, context: Context) -> Any:
    return context["asset_state_store"][build_backlog_asset(name)]


def _format_time(moment: float) -> str:
    return format_utc(datetime.fromtimestamp(moment, UTC), "seconds")
