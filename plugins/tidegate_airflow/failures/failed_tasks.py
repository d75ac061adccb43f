"""What the failed tasks of a DAG's last runs say of it: which failure counts, and whether it is fixed by now."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from tidegate.errors import PositionLost

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
