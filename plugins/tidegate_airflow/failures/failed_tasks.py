"""What the failed tasks of a DAG's last runs say of it: which failure counts, and whether it is fixed by now."""

import re
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from tidegate.errors import ConfigurationError, PositionLost
from tidegate.monitoring.health import split_reason

VARYING_PATTERN = re.compile(r"\b[0-9a-f]{8}-[0-9a-f-]{27}\b|\d+(\.\d+)?")  # attempts, seconds, and numbers of batches
ECHO_TASKS = ("heartbeat", "finish", "complete")  # red because another task is, or for the same reason
Data = dict[str, Any]


def _is_echo(task_id: str) -> bool:
    return task_id.startswith(ECHO_TASKS)


def describe_failures(suspects: list[Data], errors: list[Data]) -> dict[str, str]:
    """Describe by DAG what failed in these runs; the newest wins, and tasks that only follow another come last."""
    failure_texts = {run["dag_id"]: f"run {run['run_id']} failed" for run in suspects if run["state"] == "failed"}
    oldest_first = errors[::-1]
    for error in sorted(oldest_first, key=lambda error: not _is_echo(error["task_id"])):
        consequence = "failed" if error["state"] == "failed" else "failed and will be tried again"
        failure_texts[error["dag_id"]] = (
            f"{error['task_id']} {consequence}: {error['message'] or 'see the log of the task'}"
        )
    return failure_texts


def find_refused_position(dag_id: str, errors: list[Data]) -> float | None:
    """Return when the DAG's last run refused the position in `plan`, if no other task failed by itself."""
    own_errors = [error for error in errors if error["dag_id"] == dag_id and not _is_echo(error["task_id"])]
    if not own_errors or any(
        (error["task_id"], error["error"]) != ("plan", PositionLost.__name__) for error in own_errors
    ):
        return None
    return max(datetime.fromisoformat(error["at"]).timestamp() for error in own_errors)


def is_fixed(dag_id: str, errors: list[Data], succeeded: Mapping[str, Collection[str]]) -> bool:
    """Whether each task that failed in the last finished run has succeeded in the one under way, without a new failure.

    `succeeded`: the tasks of the DAG by the run under way.
    """
    own_errors = [error for error in errors if error["dag_id"] == dag_id]
    if not succeeded or not own_errors or any(error["run_id"] in succeeded for error in own_errors):
        return False
    awaited = {
        task for error in own_errors if not _is_echo(error["task_id"]) for task in error["tasks"] or [error["task_id"]]
    }
    return bool(awaited) and all(awaited <= set(tasks) for tasks in succeeded.values())


def group_causes(errors: list[Data], failing_dag_ids: Collection[str], form_dag_ids: Collection[str]) -> list[Data]:
    """Group the tasks that failed for one cause, newest first; `is_over` if the DAG's last try met it no more.

    `errors` come newest first. A task that only follows another one of its run is left out, and so is a form that
    somebody has filled in wrong.
    """
    own_failures = {(error["dag_id"], error["run_id"]) for error in errors if not _is_echo(error["task_id"])}
    last_runs: dict[str, str] = {}
    causes: dict[tuple[str, str], Data] = {}
    for error in errors:
        place = error["dag_id"], error["run_id"]
        last_runs.setdefault(*place)
        if error["dag_id"] in form_dag_ids and error["error"] == ConfigurationError.__name__:
            continue
        if _is_echo(error["task_id"]) and place in own_failures:
            continue
        fact, advice = split_reason(error["message"] or "")
        key = error["dag_id"], _normalize(fact) if fact else f"{error['task_id']} {error['error']}"
        cause = causes.setdefault(
            key, {"error": error["error"], "fact": fact, "advice": advice, "runbook": error["runbook"], "tasks": []}
        )
        cause["tasks"].append(error)
        if error["dag_id"] in failing_dag_ids and last_runs[error["dag_id"]] == error["run_id"]:
            cause["is_over"] = False
    return [{"is_over": True, **cause} for cause in causes.values()]


def _normalize(fact: str) -> str:
    # each bad record is a cause of its own
    return fact if " · " in fact else VARYING_PATTERN.sub("#", fact)
