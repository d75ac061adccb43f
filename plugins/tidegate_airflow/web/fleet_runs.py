"""What Airflow knows of the pipelines of a fleet: each one's part of the DAG that they share."""

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from tidegate.errors import PositionLost
from tidegate.monitoring.failure_streak import FailureStreak

from tidegate_airflow.assets import build_backlog_asset
from tidegate_airflow.dag_ids import DAG_ID_PREFIX
from tidegate_airflow.web.airflow_runs import DagStatus, read_dag_statuses

MEMBERS_KEY = "members"  # of the state of the fleet's backlog
MEMBER_TASKS = ("stage", "merge")
UNDER_WAY = ("queued", "scheduled", "running", "deferred", "up_for_retry", "restarting")
Data = dict[str, Any]


def read_member_statuses(dag_of: Mapping[str, str]) -> dict[str, DagStatus]:
    """Read the status of each pipeline's part of its fleet's DAG; `dag_of` are the DAGs by pipeline."""
    statuses = read_dag_statuses(set(dag_of.values()))
    if not statuses:
        return {}
    streaks = {dag_id: _read_memory(dag_id, "streaks") for dag_id in statuses}
    busy = _read_busy_members(statuses)
    return {
        name: narrow_status(statuses[dag_id], streaks[dag_id].get(name, {}), is_busy=(dag_id, name) in busy)
        for name, dag_id in dag_of.items()
        if dag_id in statuses
    }


def narrow_status(dag: DagStatus, streaks: Mapping[str, object], *, is_busy: bool) -> DagStatus:
    """Narrow the fleet's status to one member: red for its own failures alone. `streaks` are by kind of failure."""
    member_streaks = [streak for streak in map(FailureStreak.from_dict, streaks.values()) if streak is not None]
    failure_text = "; ".join(streak.reason for streak in member_streaks) or None
    return replace(
        dag, failed=failure_text, running=is_busy, refused_at=_find_refusal(dag, member_streaks), is_fixed=False
    )


def _find_refusal(dag: DagStatus, streaks: list[FailureStreak]) -> float | None:
    failed_tasks = [task for streak in streaks for task in streak.failed]
    run_end = (dag.last or {}).get("ended")
    if (
        not failed_tasks
        or not run_end
        or any((task.task, task.kind) != ("plan", PositionLost.__name__) for task in failed_tasks)
    ):
        return None
    return datetime.fromisoformat(run_end).timestamp()


def read_last_beat(dag_id: str, pipeline: str) -> datetime | None:
    beat = _read_memory(dag_id, "beats").get(pipeline)
    return datetime.fromtimestamp(beat, UTC) if isinstance(beat, int | float) else None


def _read_memory(dag_id: str, part: str) -> Data:
    from airflow.models.asset import AssetModel
    from airflow.models.asset_state_store import AssetStateStoreModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    name = build_backlog_asset(dag_id.removeprefix(DAG_ID_PREFIX)).name
    with create_session() as session:
        query = select(AssetStateStoreModel.value).join(AssetModel, AssetModel.id == AssetStateStoreModel.asset_id)
        text = session.scalar(query.where(AssetModel.name == name, AssetStateStoreModel.key == MEMBERS_KEY))
    try:
        value = json.loads(text or "{}").get(part, {})
    except (AttributeError, ValueError):  # a store of somebody's own, or what another version has left
        return {}
    return value if isinstance(value, dict) else {}


def _read_busy_members(dag_ids: Collection[str]) -> set[tuple[str, str]]:
    from airflow.models.taskinstance import TaskInstance as Instance
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        query = select(Instance.dag_id, Instance._rendered_map_index).where(
            Instance.dag_id.in_(list(dag_ids)), Instance.task_id.in_(MEMBER_TASKS), Instance.state.in_(UNDER_WAY)
        )
        return {(row[0], row[1]) for row in session.execute(query)}
