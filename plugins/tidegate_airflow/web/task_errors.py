"""What failed tasks say: of each DAG's last runs, of one pipeline's page, and whether it is fixed by now."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance as Instance
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from sqlalchemy import func, or_, select, tuple_
from tidegate.errors import ConfigurationError, PositionLost
from tidegate.monitoring.health import split_reason
from tidegate.monitoring.runbook import find_page
from tidegate.spec.time_text import format_moment

from tidegate_airflow.errors import ERROR_KEY
from tidegate_airflow.web.runs_under_way import iterate_newest_runs

UNFINISHED_STATES = ("failed", "up_for_retry")
MAX_SORTED_TASKS = 1000
MAX_RUNS_WITH_ERRORS = 1000
VARYING_PATTERN = re.compile(r"\b[0-9a-f]{8}-[0-9a-f-]{27}\b|\d+(\.\d+)?")  # attempts, seconds, and numbers of batches
ECHO_TASKS = ("heartbeat", "finish", "complete")  # red because another task is, or for the same reason
Data = dict[str, Any]


@dataclass(frozen=True)
class FleetPart:
    """One pipeline's part of the DAG of its fleet: the mapped tasks whose index Airflow shows as its name."""

    dag_id: str
    pipeline: str


def read_errors(dag_ids: Collection[str], limit: int, member: FleetPart | None = None) -> list[Data]:
    """Read the newest failed tasks of these DAGs with their reasons, newest first.

    Of a fleet's DAG only the mapped tasks of the `member`.
    """
    with create_session() as session:
        failed = select(Instance.id).where(Instance.dag_id.in_(list(dag_ids)), Instance.state.in_(UNFINISHED_STATES))
        failed_count = session.scalar(select(func.count()).select_from(failed.limit(MAX_SORTED_TASKS + 1).subquery()))
        if (failed_count or 0) <= MAX_SORTED_TASKS:
            return query_errors(session, dag_ids, None, limit, member)
        errors = list[Data]()
        run_count = 0
        for runs in iterate_newest_runs(session, dag_ids):
            newest = [{"dag_id": run.dag_id, "run_id": run.run_id} for run in runs]
            errors += query_errors(session, dag_ids, newest, limit - len(errors), member)
            run_count += len(runs)
            if len(errors) == limit or run_count >= MAX_RUNS_WITH_ERRORS:
                break
        return errors


def query_errors(
    session: Any,
    dag_ids: Collection[str],
    runs: Collection[Data] | None,
    limit: int | None = None,
    member: FleetPart | None = None,
) -> list[Data]:
    """Query the failed tasks of these runs, or of all; newest first."""
    query = select(Instance).where(Instance.dag_id.in_(list(dag_ids)))
    if runs is None:
        query = query.where(Instance.state.in_(UNFINISHED_STATES))
    else:  # by the index of runs: lower() keeps the database from looking at each task of the DAG that ever failed
        query = query.where(
            Instance.run_id.in_([run["run_id"] for run in runs]),
            # of two DAGs that are due at the same times the runs may have the same ids
            tuple_(Instance.dag_id, Instance.run_id).in_([(run["dag_id"], run["run_id"]) for run in runs]),
            func.lower(Instance.state).in_(UNFINISHED_STATES),
        )
    if member is not None:
        is_own = Instance._rendered_map_index == member.pipeline
        query = query.where(or_(Instance.dag_id != member.dag_id, Instance.map_index < 0, is_own))
    instances = list(session.scalars(query.order_by(Instance.start_date.desc()).limit(limit)))
    keys = select(XComModel).where(XComModel.dag_id.in_(list(dag_ids)), XComModel.key == ERROR_KEY)
    run_ids, task_ids = ({getattr(instance, name) for instance in instances} for name in ("run_id", "task_id"))
    xcoms = session.scalars(keys.where(XComModel.run_id.in_(run_ids), XComModel.task_id.in_(task_ids)))
    error_values = {_get_task_key(xcom): XComModel.deserialize_value(xcom) for xcom in xcoms}
    return [_to_error_row(instance, error_values.get(_get_task_key(instance))) for instance in instances]


def _get_task_key(row: Any) -> tuple[str, str, str, int]:
    return row.dag_id, row.run_id, row.task_id, row.map_index


def _describe_task(instance: Any) -> Data:
    return {name: getattr(instance, name) for name in ("dag_id", "run_id", "task_id", "map_index")}


def _to_error_row(instance: Any, error_value: Any) -> Data:
    reason = error_value if isinstance(error_value, dict) else {}
    return {
        **_describe_task(instance),
        "try_number": instance.try_number,
        "state": str(instance.state),
        "at": format_moment(instance.end_date or instance.start_date),
        "error": reason.get("error"),
        "message": reason.get("message"),
        "tasks": reason.get("tasks"),
        "runbook": find_page(str(reason.get("message") or ""), reason.get("error")),
    }


def read_newest_results(dag_id: str, task_id: str, *, result_key: str, limit: int) -> list[Data]:
    """Read what a task last returned for each value of its field `result_key`, newest first.

    Reads no more than the newest `limit` runs, and so many of their tasks: a DAG may have thousands.
    """
    with create_session() as session:
        newest_runs = select(DagRun.run_id).where(DagRun.dag_id == dag_id).order_by(DagRun.id.desc()).limit(limit)
        place = (
            Instance.dag_id == dag_id,
            Instance.task_id == task_id,
            Instance.run_id.in_(session.scalars(newest_runs).all()),
        )
        ended_instances = select(Instance).where(*place, Instance.state == "success")
        successes = list(session.scalars(ended_instances.order_by(Instance.end_date.desc()).limit(limit)))
        query = select(XComModel).where(
            XComModel.dag_id == dag_id,
            XComModel.task_id == task_id,
            XComModel.key == "return_value",
            XComModel.run_id.in_({instance.run_id for instance in successes}),
        )
        results = {_get_task_key(xcom): XComModel.deserialize_value(xcom) for xcom in session.scalars(query)}
    newest: dict[Any, Data] = {}
    for instance in successes:
        result = results.get(_get_task_key(instance))
        if isinstance(result, dict) and result_key in result:
            shown = {**result, **_describe_task(instance), "at": format_moment(instance.end_date)}
            newest.setdefault(result[result_key], shown)
    return list(newest.values())


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
        kind = f"{error['task_id']} {error['error']}"
        if fact:  # each bad record is a cause of its own
            kind = fact if " · " in fact else VARYING_PATTERN.sub("#", fact)
        key = error["dag_id"], kind
        cause = causes.setdefault(
            key, {"error": error["error"], "fact": fact, "advice": advice, "runbook": error["runbook"], "tasks": []}
        )
        cause["tasks"].append(error)
        if error["dag_id"] in failing_dag_ids and last_runs[error["dag_id"]] == error["run_id"]:
            cause["is_over"] = False
    return [{"is_over": True, **cause} for cause in causes.values()]
