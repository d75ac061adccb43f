"""The run of a DAG that is under way: which of its tasks have succeeded, and what it waits for where nothing moves."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, NamedTuple

WAITING_STATES = ("scheduled", "queued")
MOVING_STATES = ("running", "deferred", "up_for_retry", "up_for_reschedule", "restarting")
STALLED_SECONDS = 300.0  # a task that nobody has begun after so long waits for more than the scheduler's next look
Data = dict[str, Any]


def read_successes(session: Any, runs: Collection[Data]) -> dict[str, dict[str, set[str]]]:
    """By DAG and run: the tasks that succeeded, without those of which there is one for each table."""
    from airflow.models.taskinstance import TaskInstance as Instance

    found: dict[str, dict[str, set[str]]] = {run["dag_id"]: {run["run_id"]: set()} for run in runs}
    query = _select_tasks(runs, Instance.dag_id, Instance.run_id, Instance.task_id)
    for row in session.execute(query.where(Instance.state == "success", Instance.map_index < 0)):
        if row.run_id in found[row.dag_id]:
            found[row.dag_id][row.run_id].add(row.task_id)
    return found


def find_stalled(session: Any, runs: Collection[Data], now: datetime) -> dict[str, str]:
    """By DAG: what its run waits for, of runs in which no task is at work and nothing has moved for minutes."""
    from airflow.models.taskinstance import TaskInstance as Instance

    columns = (Instance.task_id, Instance.state, Instance.pool, Instance.queued_dttm, Instance.scheduled_dttm)
    query = _select_tasks(runs, Instance.dag_id, Instance.run_id, Instance.end_date, *columns)
    tasks = defaultdict[tuple[str, str], list[Any]](list)
    for row in session.execute(query):
        tasks[row.dag_id, row.run_id].append(row)
    waits = {run["dag_id"]: _find_wait(run, tasks[run["dag_id"], run["run_id"]], now) for run in runs}
    slots = _read_slots(session, {wait.pool for wait in waits.values() if wait and wait.pool})
    return {dag: _describe_wait(wait, slots) for dag, wait in waits.items() if wait is not None}


class _Wait(NamedTuple):
    """A run in which nothing moves; `task` and `pool` are those of a task that waits for a worker, or empty."""

    run: str
    seconds: float
    task: str = ""
    pool: str = ""


def _select_tasks(runs: Collection[Data], *columns: Any) -> Any:
    from airflow.models.taskinstance import TaskInstance as Instance
    from sqlalchemy import select

    of_runs = Instance.dag_id.in_([run["dag_id"] for run in runs]), Instance.run_id.in_([run["run_id"] for run in runs])
    return select(*columns).where(*of_runs)


def _find_wait(run: Data, tasks: Collection[Any], now: datetime) -> _Wait | None:
    """What a run waits for since when; None where a task is at work, or has ended or begun to wait a moment ago."""
    if any(task.state in MOVING_STATES for task in tasks):
        return None
    waiting = [task for task in tasks if task.state in WAITING_STATES]
    moments = [one.queued_dttm or one.scheduled_dttm for one in waiting] or [one.end_date for one in tasks]
    begun = [] if run["started"] is None else [datetime.fromisoformat(run["started"])]
    seconds = (now - max((*begun, *filter(None, moments)), default=now)).total_seconds()
    if seconds < STALLED_SECONDS:
        return None
    return _Wait(run["run_id"], seconds, *((waiting[0].task_id, waiting[0].pool) if waiting else ()))


def _read_slots(session: Any, pools: Collection[str]) -> dict[str, int]:
    from airflow.models.pool import Pool
    from sqlalchemy import select

    if not pools:
        return {}
    return {row.pool: row.slots for row in session.execute(select(Pool.pool, Pool.slots).where(Pool.pool.in_(pools)))}


def _describe_wait(wait: _Wait, slots: Mapping[str, int]) -> str:
    if not wait.task:
        words = f"no task of the run {wait.run} has begun for {wait.seconds:.0f} s"
        return f"{words}: are the scheduler and the DAG processor running?"
    found = slots.get(wait.pool)
    place = f"pool={wait.pool} slots={'none' if found is None else found}"
    words = f"task={wait.task} of the run {wait.run} has waited for a worker for {wait.seconds:.0f} s"
    return f"{words}: {place}: {'give the pool slots' if not found else 'are its slots held, or the workers gone?'}"
