"""The runs that tell how a DAG is: the last that tried its work, the one under way, and the last that committed."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from airflow.jobs.job import Job
from airflow.models.dagrun import DagRun
from airflow.models.pool import Pool
from airflow.models.taskinstance import TaskInstance as Instance
from airflow.models.trigger import Trigger
from airflow.models.xcom import XComModel
from sqlalchemy import func, or_, select

from tidegate_airflow.errors import COMMITTED_KEY

HEARTBEAT = "heartbeat"
WAITING_STATES = ("scheduled", "queued")
# at a time, of one DAG
MIN_RUNS_READ = 10
MAX_RUNS_READ = 500
DEFERRED_STATE = "deferred"
MOVING_STATES = ("running", "up_for_retry", "up_for_reschedule", "restarting")
RECENT_RUNS = 20_000  # of all DAGs: the newest run of one that is not quiet is among them
STALLED_SECONDS = 300.0  # a task that nobody has begun after so long waits for more than the scheduler's next look
Data = dict[str, Any]


def find_newest_runs(session: Any, dag_ids: Collection[str], *states: str, filters: Collection[Any] = ()) -> list[Any]:
    """Return the newest run of each DAG, of those in one of these states, if any, that the filters let through."""
    newest_runs = dict[str, Any]()
    newest_id = session.scalar(select(func.max(DagRun.id))) or 0
    # first among the newest runs of all DAGs: Airflow may keep a million of each, and the page asks often
    for above_id in (newest_id - RECENT_RUNS, 0):
        missing = [name for name in dag_ids if name not in newest_runs]
        newest_ids = select(func.max(DagRun.id)).where(DagRun.dag_id.in_(missing), DagRun.id > above_id, *filters)
        if states:
            newest_ids = newest_ids.where(DagRun.state.in_(states))
        runs = session.scalars(select(DagRun).where(DagRun.id.in_(newest_ids.group_by(DagRun.dag_id))))
        newest_runs |= {run.dag_id: run for run in runs}
    return list(newest_runs.values())


def find_last_tries(session: Any, dag_ids: Collection[str]) -> list[Any]:
    """Return the newest finished run of each DAG that tried its work: no dry run, and no backfill of Airflow's."""
    may_try = or_(DagRun.run_type != "backfill", DagRun.state == "failed")
    dry = set[int]()
    while True:
        filters = may_try, DagRun.id.not_in(list(dry))
        runs = find_newest_runs(session, dag_ids, "success", "failed", filters=filters)
        dry_run_ids = {run.id for run in runs if run.state == "success" and (run.conf or {}).get("dry_run") is True}
        if not dry_run_ids:
            return runs
        dry |= dry_run_ids


def read_successes(session: Any, runs: Collection[Data]) -> dict[str, dict[str, set[str]]]:
    task_ids: dict[str, dict[str, set[str]]] = {run["dag_id"]: {run["run_id"]: set()} for run in runs}
    query = _select_tasks(runs, Instance.dag_id, Instance.run_id, Instance.task_id)
    for row in session.execute(query.where(Instance.state == "success", Instance.map_index < 0)):
        if row.run_id in task_ids[row.dag_id]:
            task_ids[row.dag_id][row.run_id].add(row.task_id)
    return task_ids


def iterate_newest_runs(session: Any, dag_ids: Collection[str]) -> Iterator[list[Any]]:
    """Yield the runs of these DAGs as rows of id, DAG and run id, newest first: some at a time, and then more."""
    of_dags = select(DagRun.id, DagRun.dag_id, DagRun.run_id).where(DagRun.dag_id.in_(list(dag_ids)))
    newest_runs = of_dags.order_by(DagRun.id.desc())
    query = newest_runs
    limit = MIN_RUNS_READ
    while runs := list(session.execute(query.limit(limit))):
        yield runs
        query = newest_runs.where(DagRun.id < runs[-1].id)
        limit = min(2 * limit, MAX_RUNS_READ)


def find_last_commit(session: Any, dag_id: str) -> datetime | None:
    """Return when one of the DAG's newest runs committed offsets; None if none has.

    A cleared run counts where it was created.
    """
    for runs in iterate_newest_runs(session, [dag_id]):
        ended = select(Instance.end_date).where(
            Instance.dag_id == dag_id,
            Instance.run_id.in_([run.run_id for run in runs]),
            Instance.task_id.in_((HEARTBEAT, "commit_offsets")),
            Instance.state == "success",
            Instance.end_date.is_not(None),
        )
        noted = select(XComModel.timestamp).where(
            XComModel.dag_run_id.in_([run.id for run in runs]),
            XComModel.task_id == HEARTBEAT,
            XComModel.key == COMMITTED_KEY,
        )
        moments: list[datetime] = [*session.scalars(ended), *session.scalars(noted)]
        if moments:
            return max(moments)
    return None


def find_stalled(session: Any, runs: Collection[Data], now: datetime) -> dict[str, str]:
    columns = (Instance.task_id, Instance.state, Instance.pool, Instance.queued_dttm, Instance.scheduled_dttm)
    query = _select_tasks(runs, Instance.dag_id, Instance.run_id, Instance.end_date, *columns, Trigger.created_date)
    tasks = defaultdict[tuple[str, str], list[Any]](list)
    for row in session.execute(query.outerjoin(Trigger, Trigger.id == Instance.trigger_id)):
        tasks[row.dag_id, row.run_id].append(row)
    triggerer_at: datetime | None = None
    if any(task.state == DEFERRED_STATE for dag_tasks in tasks.values() for task in dag_tasks):
        running = Job.job_type == "TriggererJob", Job.state == "running"
        triggerer_at = session.scalar(select(func.max(Job.latest_heartbeat)).where(*running))
    waits = {run["dag_id"]: _find_wait(run, tasks[run["dag_id"], run["run_id"]], now, triggerer_at) for run in runs}
    slots: dict[str, int] = {}
    if pools := {wait.pool for wait in waits.values() if wait and wait.pool}:
        rows = session.execute(select(Pool.pool, Pool.slots).where(Pool.pool.in_(pools)))
        slots = {row.pool: row.slots for row in rows}
    return {dag: _describe_wait(wait, slots) for dag, wait in waits.items() if wait is not None}


class _Wait(NamedTuple):
    """A run in which nothing moves; `task` and `pool` are those of a task that waits for a worker, or empty.

    Without a pool the task waits for a triggerer.
    """

    run: str
    seconds: float
    task: str = ""
    pool: str = ""


def _select_tasks(runs: Collection[Data], *columns: Any) -> Any:
    of_runs = Instance.dag_id.in_([run["dag_id"] for run in runs]), Instance.run_id.in_([run["run_id"] for run in runs])
    return select(*columns).where(*of_runs)


def _find_wait(run: Data, tasks: Collection[Any], now: datetime, triggerer_at: datetime | None) -> _Wait | None:
    # None if a task is at work, or something moved a moment ago
    if any(task.state in MOVING_STATES for task in tasks):
        return None
    deferred = [task for task in tasks if task.state == DEFERRED_STATE]
    if deferred:
        asleep = [task.created_date for task in deferred]
        seconds = (now - max(filter(None, (*asleep, triggerer_at)), default=now)).total_seconds()
        return None if seconds < STALLED_SECONDS else _Wait(run["run_id"], seconds, deferred[0].task_id)
    waiting_tasks = [task for task in tasks if task.state in WAITING_STATES]
    moments = [task.queued_dttm or task.scheduled_dttm for task in waiting_tasks] or [task.end_date for task in tasks]
    begin_times = [] if run["started"] is None else [datetime.fromisoformat(run["started"])]
    seconds = (now - max((*begin_times, *filter(None, moments)), default=now)).total_seconds()
    if seconds < STALLED_SECONDS:
        return None
    return _Wait(run["run_id"], seconds, *((waiting_tasks[0].task_id, waiting_tasks[0].pool) if waiting_tasks else ()))


def _describe_wait(wait: _Wait, slots: Mapping[str, int]) -> str:
    if not wait.task:
        words = f"no task of the run {wait.run} has begun for {wait.seconds:.0f} s"
        return f"{words}; check that the scheduler and the DAG processor run"
    if not wait.pool:
        words = f"task={wait.task} of the run {wait.run} waits for a job of BigQuery"
        return f"{words}, and no triggerer has looked after it for {wait.seconds:.0f} s; start `airflow triggerer`"
    slot_count = slots.get(wait.pool)
    place = f"pool={wait.pool} slots={'none' if slot_count is None else slot_count}"
    words = f"task={wait.task} of the run {wait.run} has waited for a worker for {wait.seconds:.0f} s"
    remedy = "wait for the tasks that hold its slots, enlarge it, or start workers" if slot_count else "give it slots"
    return f"{words}: {place}; {remedy}"
