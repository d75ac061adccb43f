"""What Airflow knows of the pipelines: paused or not, the last and the next run, what failed and why."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from tidegate.monitoring.health import ScheduleState
from tidegate.monitoring.runbook import find_page
from tidegate.spec.time_text import format_utc

from tidegate_airflow.errors import ERROR_KEY
from tidegate_airflow.failures.failed_tasks import describe_failures, find_refused_position, is_fixed
from tidegate_airflow.web.runs_under_way import (
    find_last_commit,
    find_last_tries,
    find_newest_runs,
    find_stalled,
    iterate_newest_runs,
    read_successes,
)

UNFINISHED_STATES = ("failed", "up_for_retry")
MAX_SORTED_TASKS = 1000
MAX_RUNS_WITH_ERRORS = 1000
Data = dict[str, Any]


@dataclass(frozen=True)
class DagStatus:
    """One DAG. `failed`: what failed in the last finished run, or is being tried again in the one under way."""

    dag_id: str
    paused: bool
    next_run: datetime | None
    last: Data | None
    failed: str | None
    running: bool
    refused_at: float | None = None
    is_fixed: bool = False
    stalled: str | None = None


def to_schedule_state(dag: DagStatus | None) -> ScheduleState:
    if dag is None:
        return ScheduleState()
    return ScheduleState(
        paused=dag.paused,
        failed=dag.failed,
        running=dag.running,
        refused_at=dag.refused_at,
        is_fixed=dag.is_fixed,
        stalled=dag.stalled,
    )


def join_clocks(flush: DagStatus, stage: DagStatus | None) -> DagStatus:
    if stage is None or stage.failed is None or flush.failed is not None:
        return flush
    return replace(flush, failed=stage.failed, refused_at=stage.refused_at, is_fixed=stage.is_fixed)


def describe_dag(dag: DagStatus | None) -> Data:
    """Return the DAG's part of a row; unknown while Airflow has not read its file."""
    return {
        "dag_id": dag.dag_id if dag else None,
        "paused": dag.paused if dag else None,
        "next_run": format_time(dag.next_run) if dag else None,
    }


def read_dag_statuses(dag_ids: Collection[str]) -> dict[str, DagStatus]:
    """Read the DAGs of these ids that Airflow has, with a handful of queries however many there are."""
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        query = select(DagModel).where(DagModel.dag_id.in_(list(dag_ids)), DagModel.is_stale.is_(False))
        dags = {dag.dag_id: dag for dag in session.scalars(query)}
        newest = _to_run_rows(find_newest_runs(session, dags))
        finished_runs = _to_run_rows(find_last_tries(session, dags))
        under_way = _to_run_rows(find_newest_runs(session, dags, "running"))  # the newest may wait behind it
        suspects = [run for run in finished_runs.values() if run["state"] == "failed"] + list(under_way.values())
        errors = _query_errors(session, [run["dag_id"] for run in suspects], suspects, None)
        failure_texts = describe_failures(suspects, errors)
        succeeded = read_successes(session, list(under_way.values()))
        stalled = find_stalled(session, list(under_way.values()), datetime.now(UTC))
        statuses = {name: _to_dag_status(dag, newest.get(name), failure_texts.get(name)) for name, dag in dags.items()}
        return {
            name: replace(
                status,
                refused_at=find_refused_position(name, errors),
                is_fixed=is_fixed(name, errors, succeeded.get(name, {})),
                stalled=stalled.get(name),
            )
            for name, status in statuses.items()
        }


def _to_dag_status(dag: Any, newest: Data | None, failure_text: str | None) -> DagStatus:
    return DagStatus(
        dag_id=dag.dag_id,
        paused=bool(dag.is_paused),
        next_run=None if dag.is_paused else dag.next_dagrun_create_after,
        last=newest,
        failed=failure_text,
        running=newest is not None and newest["state"] in ("running", "queued"),
    )


def _to_run_rows(runs: Collection[Any]) -> dict[str, Data]:
    return {run.dag_id: _to_run_row(run) for run in runs}


def _to_run_row(run: Any) -> Data:
    return {
        "dag_id": run.dag_id,
        "run_id": run.run_id,
        "state": str(run.state),
        "started": format_time(run.start_date or run.queued_at),
        "ended": format_time(run.end_date),
    }


def read_runs(dag_ids: Collection[str], limit: int) -> list[Data]:
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        newest = select(DagRun).where(DagRun.dag_id.in_(list(dag_ids))).order_by(DagRun.id.desc()).limit(limit)
        return [_to_run_row(run) for run in session.scalars(newest)]


@dataclass(frozen=True)
class FleetPart:
    """One pipeline's part of the DAG of its fleet: the mapped tasks whose index Airflow shows as its name."""

    dag_id: str
    pipeline: str


def read_errors(dag_ids: Collection[str], limit: int, member: FleetPart | None = None) -> list[Data]:
    """Read the newest failed tasks of these DAGs with their reasons, newest first.

    Of a fleet's DAG only the mapped tasks of the `member`.
    """
    from airflow.utils.session import create_session

    with create_session() as session:
        if not _has_many_failures(session, dag_ids):
            return _query_errors(session, dag_ids, None, limit, member)
        errors = list[Data]()
        run_count = 0
        for runs in iterate_newest_runs(session, dag_ids):
            newest = [{"dag_id": run.dag_id, "run_id": run.run_id} for run in runs]
            errors += _query_errors(session, dag_ids, newest, limit - len(errors), member)
            run_count += len(runs)
            if len(errors) == limit or run_count >= MAX_RUNS_WITH_ERRORS:
                break
        return errors


def _has_many_failures(session: Any, dag_ids: Collection[str]) -> bool:
    from airflow.models.taskinstance import TaskInstance as Instance
    from sqlalchemy import func, select

    failed = select(Instance.id).where(Instance.dag_id.in_(list(dag_ids)), Instance.state.in_(UNFINISHED_STATES))
    count = session.scalar(select(func.count()).select_from(failed.limit(MAX_SORTED_TASKS + 1).subquery()))
    return bool(count > MAX_SORTED_TASKS)


def _query_errors(
    session: Any,
    dag_ids: Collection[str],
    runs: Collection[Data] | None,
    limit: int | None,
    member: FleetPart | None = None,
) -> list[Data]:
    from airflow.models.taskinstance import TaskInstance as Instance
    from airflow.models.xcom import XComModel
    from sqlalchemy import func, or_, select, tuple_

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


def _to_error_row(instance: Any, error_value: Any) -> Data:
    reason = error_value if isinstance(error_value, dict) else {}
    return {
        **_describe_task(instance),
        "try_number": instance.try_number,
        "state": str(instance.state),
        "at": format_time(instance.end_date or instance.start_date),
        "error": reason.get("error"),
        "message": reason.get("message"),
        "tasks": reason.get("tasks"),
        "runbook": find_page(str(reason.get("message") or ""), reason.get("error")),
    }


def read_newest_results(dag_id: str, task_id: str, *, result_key: str, limit: int) -> list[Data]:
    """Read what a task last returned for each value of its field `result_key`, newest first.

    Reads no more than the newest `limit` runs, and so many of their tasks: a DAG may have thousands.
    """
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance as Instance
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

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
            newest.setdefault(
                result[result_key], {**result, **_describe_task(instance), "at": format_time(instance.end_date)}
            )
    return list(newest.values())


def _describe_task(instance: Any) -> Data:
    return {name: getattr(instance, name) for name in ("dag_id", "run_id", "task_id", "map_index")}


def read_last_commit(dag_id: str) -> datetime | None:
    """Return when a run last committed the group's offsets, in UTC, also by a red heartbeat; None if none did."""
    from airflow.utils.session import create_session

    with create_session() as session:
        return find_last_commit(session, dag_id)


def read_asset_ids(tables: Collection[str]) -> dict[str, int]:
    from airflow.models.asset import AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        rows = session.execute(select(AssetModel.name, AssetModel.id).where(AssetModel.name.in_(list(tables))))
        return {row.name: row.id for row in rows}


def format_time(moment: datetime | None) -> str | None:
    """Format as ISO 8601 with milliseconds, Z for UTC; None for None."""
    return None if moment is None else format_utc(moment)
