"""When offsets were last committed, from which the page counts when brokers forget them."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from airflow_users import run_auth_manager

FLEET, OWN, OTHER = "tidegate_fleet_beats", "tidegate_beaten", "tidegate_unbeaten"
YOUNG, OLD, BROKEN = "tidegate_young", "tidegate_old", "tidegate_broken"
TASKS = ("plan", "stage", "merge", "clean_up", "compact", "freshness", "commit_offsets", "heartbeat")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
BEATS = {"orders": NOON.timestamp() + 60, "users": NOON.timestamp() + 7200}
# DAG, hours after noon, state of its heartbeat, and whether that had committed
RUNS = [
    (OWN, 0, "success", True),
    (OWN, 1, "failed", True),
    (OWN, 2, "failed", False),
    (OTHER, 5, "failed", False),
    (FLEET, 0, "success", True),
    (FLEET, 3, "failed", True),
]


@pytest.fixture(scope="module", autouse=True)
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Runs of each DAG, and what the fleet's runs noted of its members."""
    with run_auth_manager(tmp_path_factory.mktemp("airflow"), FLEET, OWN, OTHER, YOUNG, OLD, BROKEN):
        from airflow.models.asset import AssetModel
        from airflow.models.asset_state_store import AssetStateStoreModel
        from airflow.models.dagrun import DagRun
        from airflow.models.taskinstance import TaskInstance
        from airflow.models.xcom import XComModel
        from airflow.utils.session import create_session
        from sqlalchemy import insert

        with create_session() as session:
            for dag, hours, state, has_committed in RUNS:
                at = NOON + timedelta(hours=hours)
                run = {"dag_id": dag, "run_id": f"r{hours}", "run_after": at, "run_type": "scheduled"}
                run_id = session.execute(insert(DagRun).values(state=state, **run)).inserted_primary_key
                place = {"dag_id": dag, "run_id": f"r{hours}", "task_id": "heartbeat"}
                task = {"id": uuid4(), "state": state, "end_date": at, "try_number": 1, "pool": "default_pool"}
                session.execute(insert(TaskInstance).values(pool_slots=1, **place, **task))
                if has_committed:
                    xcom_values = {"dag_run_id": run_id[0], "key": "committed", "value": True, "timestamp": at}
                    session.execute(insert(XComModel).values(**place, **xcom_values))
            asset = AssetModel(name=f"{FLEET}_backlog", uri=f"{FLEET}_backlog", group="asset")
            session.add(asset)
            session.flush()
            noted = json.dumps({"beats": BEATS, "streaks": {}})
            session.execute(
                insert(AssetStateStoreModel).values(asset_id=asset.id, key="members", value=noted, updated_at=NOON)
            )
        yield


def add_runs(dag_id: str, count: int, commits: str) -> None:
    """Runs of eight tasks each, one a minute, oldest first; `commits` says of the newest whether each has committed."""
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import insert, select

    times = {f"m{minute}": NOON + timedelta(minutes=minute) for minute in range(count)}
    red = {run_id for run_id, mark in zip(list(times)[-len(commits) :], commits, strict=True) if mark == "0"}
    run = {"dag_id": dag_id, "run_type": "scheduled", "state": "success"}
    task = {"dag_id": dag_id, "try_number": 1, "pool": "default_pool", "pool_slots": 1}
    result = {"dag_id": dag_id, "task_id": "plan", "key": "return_value", "value": 1, "timestamp": NOON}
    with create_session() as session:
        runs = [{**run, "run_id": run_id, "run_after": at} for run_id, at in times.items()]
        session.execute(insert(DagRun.__table__), runs)
        instances = [
            {
                **task,
                "id": uuid4(),
                "run_id": run_id,
                "task_id": task_id,
                "end_date": at,
                "state": "failed" if run_id in red and task_id in TASKS[-2:] else "success",
            }
            for run_id, at in times.items()
            for task_id in TASKS
        ]
        session.execute(insert(TaskInstance.__table__), instances)
        ids = session.execute(select(DagRun.id, DagRun.run_id).where(DagRun.dag_id == dag_id)).all()
        results = [{**result, "dag_run_id": row.id, "run_id": row.run_id} for row in ids]
        session.execute(insert(XComModel.__table__), results)


def count_steps(dag_id: str) -> tuple[datetime | None, int]:
    """When the DAG last committed, and how many steps SQLite took to find that, in hundreds."""
    from airflow.utils.session import create_session
    from tidegate_airflow.web.runs_under_way import find_last_commit

    steps = 0

    def count() -> None:
        nonlocal steps
        steps += 1

    with create_session() as session:
        connection = session.connection().connection.driver_connection
        connection.set_progress_handler(count, 100)
        try:
            return find_last_commit(session, dag_id), steps
        finally:
            connection.set_progress_handler(None, 0)


def test_what_is_read_does_not_grow_with_the_history_of_a_dag() -> None:
    add_runs(YOUNG, 10, "1")
    add_runs(OLD, 1000, "0110")
    (young, few_steps), (old, steps) = count_steps(YOUNG), count_steps(OLD)
    assert (young, old) == (NOON + timedelta(minutes=9), NOON + timedelta(minutes=998))
    assert 0 < steps <= few_steps * 1.5, "for a hundred times as many runs"


def test_commit_behind_many_runs_that_did_not_commit_is_found() -> None:
    add_runs(BROKEN, 300, "1" + 250 * "0")
    assert count_steps(BROKEN)[0] == NOON + timedelta(minutes=49)


def test_heartbeat_that_is_red_for_another_task_has_committed_all_the_same() -> None:
    from tidegate_airflow.web.airflow_runs import read_last_commit

    assert read_last_commit(OWN) == NOON + timedelta(hours=1)
    assert read_last_commit(OTHER) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [("orders", NOON + timedelta(minutes=1)), ("users", NOON + timedelta(hours=2)), ("new", None)],
)
def test_of_a_fleet_each_member_s_own_heartbeat_counts(name: str, expected: datetime | None) -> None:
    from tidegate_airflow.web.airflow_runs import read_last_beat

    assert read_last_beat(FLEET, name) == expected
