"""What Airflow knows of the pipelines: paused or not, the last and the next run, and what failed.

The pipelines of a fleet share one DAG: each has its mapped tasks there, and its own failures in the fleet's memory.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from airflow.models.asset import AssetModel
from airflow.models.asset_state_store import AssetStateStoreModel
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance as Instance
from airflow.utils.session import create_session
from sqlalchemy import select
from tidegate.errors import PositionLost
from tidegate.monitoring.failure_streak import FailureStreak
from tidegate.monitoring.health import ScheduleState
from tidegate.spec.time_text import format_moment

from tidegate_airflow.assets import build_backlog_asset
from tidegate_airflow.dag_ids import DAG_ID_PREFIX
from tidegate_airflow.failures.keeper import MEMBERS_KEY
from tidegate_airflow.web.runs_under_way import (
    find_last_commit,
    find_last_tries,
    find_newest_runs,
    find_stalled,
    read_successes,
)
from tidegate_airflow.web.task_errors import describe_failures, find_refused_position, is_fixed, query_errors

MEMBER_TASKS = ("stage", "merge")
MAX_RUNS = 20
UNDER_WAY = ("queued", "scheduled", "running", "deferred", "up_for_retry", "restarting")
Data = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class DagStatus(ScheduleState):
    """One DAG. `failed`: what failed in the last finished run, or is being tried again in the one under way."""

    dag_id: str
    next_run: datetime | None
    last: Data | None


def join_clocks(flush: DagStatus, stage: DagStatus | None) -> DagStatus:
    if stage is None:
        return flush
    # nothing is read then, whatever the merges do: Airflow pauses a DAG that is new to it
    flush = replace(flush, paused=flush.paused or stage.paused)
    if stage.failed is None or flush.failed is not None:
        return flush
    return replace(flush, failed=stage.failed, refused_at=stage.refused_at, is_fixed=stage.is_fixed)


def describe_dag(dag: DagStatus | None) -> Data:
    """Return the DAG's part of a row; unknown while Airflow has not read its file."""
    return {
        "dag_id": dag.dag_id if dag else None,
        "paused": dag.paused if dag else None,
        "next_run": format_moment(dag.next_run) if dag else None,
    }


def read_dag_statuses(dag_ids: Collection[str]) -> dict[str, DagStatus]:
    """Read the DAGs of these ids that Airflow has, with a handful of queries however many there are."""
    with create_session() as session:
        query = select(DagModel).where(DagModel.dag_id.in_(list(dag_ids)), DagModel.is_stale.is_(False))
        dags = {dag.dag_id: dag for dag in session.scalars(query)}
        newest = {run.dag_id: _to_run_row(run) for run in find_newest_runs(session, dags)}
        finished_runs = [_to_run_row(run) for run in find_last_tries(session, dags)]
        # the newest may wait behind it
        under_way = [_to_run_row(run) for run in find_newest_runs(session, dags, "running")]
        suspects = [run for run in finished_runs if run["state"] == "failed"] + under_way
        errors = query_errors(session, [run["dag_id"] for run in suspects], suspects)
        failure_texts = describe_failures(suspects, errors)
        succeeded = read_successes(session, under_way)
        stalled = find_stalled(session, under_way, datetime.now(UTC))
        return {
            name: DagStatus(
                dag_id=name,
                paused=bool(dag.is_paused),
                next_run=None if dag.is_paused else dag.next_dagrun_create_after,
                last=newest.get(name),
                failed=failure_texts.get(name),
                running=name in newest and newest[name]["state"] in ("running", "queued"),
                refused_at=find_refused_position(name, errors),
                is_fixed=is_fixed(name, errors, succeeded.get(name, {})),
                stalled=stalled.get(name),
            )
            for name, dag in dags.items()
        }


def _to_run_row(run: Any) -> Data:
    return {
        "dag_id": run.dag_id,
        "run_id": run.run_id,
        "state": str(run.state),
        "started": format_moment(run.start_date or run.queued_at),
        "ended": format_moment(run.end_date),
    }


def read_runs(dag_ids: Collection[str]) -> list[Data]:
    """Read the newest runs of these DAGs, at most `MAX_RUNS` in all."""
    with create_session() as session:
        newest = select(DagRun).where(DagRun.dag_id.in_(list(dag_ids))).order_by(DagRun.id.desc()).limit(MAX_RUNS)
        return [_to_run_row(run) for run in session.scalars(newest)]


def read_last_commit(dag_id: str) -> datetime | None:
    """Return when a run last committed the group's offsets, in UTC, also by a red heartbeat; None if none did."""
    with create_session() as session:
        return find_last_commit(session, dag_id)


def read_asset_ids(tables: Collection[str]) -> dict[str, int]:
    with create_session() as session:
        rows = session.execute(select(AssetModel.name, AssetModel.id).where(AssetModel.name.in_(list(tables))))
        return {row.name: row.id for row in rows}


def read_member_statuses(dag_of: Mapping[str, str], statuses: Mapping[str, DagStatus]) -> dict[str, DagStatus]:
    """Narrow the statuses of fleets' DAGs to each pipeline's part; `dag_of` are the DAGs by pipeline."""
    fleets = set(dag_of.values()) & statuses.keys()
    if not fleets:
        return {}
    streaks = {dag_id: _read_memory(dag_id, "streaks") for dag_id in fleets}
    with create_session() as session:
        query = select(Instance.dag_id, Instance._rendered_map_index).where(
            Instance.dag_id.in_(list(fleets)), Instance.task_id.in_(MEMBER_TASKS), Instance.state.in_(UNDER_WAY)
        )
        busy = {(row[0], row[1]) for row in session.execute(query)}
    return {
        name: narrow_status(statuses[dag_id], streaks[dag_id].get(name, {}), is_busy=(dag_id, name) in busy)
        for name, dag_id in dag_of.items()
        if dag_id in fleets
    }


def narrow_status(dag: DagStatus, streaks: Mapping[str, object], *, is_busy: bool) -> DagStatus:
    """Narrow the fleet's status to one member: red for its own failures, and for a plan that failed for all.

    `streaks` are by kind of failure.
    """
    member_streaks = [streak for streak in map(FailureStreak.from_dict, streaks.values()) if streak is not None]
    own_text = "; ".join(streak.reason for streak in member_streaks)
    is_plan_failed = not dag.is_fixed and (dag.failed or "").startswith("plan failed")
    failure_text = own_text or (dag.failed if is_plan_failed else None)
    failures = {(task.task, task.kind) for streak in member_streaks for task in streak.failed}
    run_end = (dag.last or {}).get("ended")
    is_refused = failures == {("plan", PositionLost.__name__)}
    refused_at = datetime.fromisoformat(run_end).timestamp() if is_refused and run_end else None
    return replace(dag, failed=failure_text, running=is_busy, refused_at=refused_at, is_fixed=False)


def read_last_beat(dag_id: str, pipeline: str) -> datetime | None:
    beat = _read_memory(dag_id, "beats").get(pipeline)
    return datetime.fromtimestamp(beat, UTC) if isinstance(beat, int | float) else None


def _read_memory(dag_id: str, part: str) -> Data:
    name = build_backlog_asset(dag_id.removeprefix(DAG_ID_PREFIX)).name
    with create_session() as session:
        query = select(AssetStateStoreModel.value).join(AssetModel, AssetModel.id == AssetStateStoreModel.asset_id)
        text = session.scalar(query.where(AssetModel.name == name, AssetStateStoreModel.key == MEMBERS_KEY))
    try:
        value = json.loads(text or "{}").get(part, {})
    except (AttributeError, ValueError):  # a store of somebody's own, or what another version has left
        return {}
    return value if isinstance(value, dict) else {}
