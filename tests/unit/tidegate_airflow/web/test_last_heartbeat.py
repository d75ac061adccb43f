"""When offsets were last committed, from which the page counts when brokers forget them."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from airflow_users import run_auth_manager

FLEET, OWN, OTHER = "tidegate_fleet_beats", "tidegate_beaten", "tidegate_unbeaten"
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
    with run_auth_manager(tmp_path_factory.mktemp("airflow"), FLEET, OWN, OTHER):
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


def test_heartbeat_that_is_red_for_another_task_has_committed_all_the_same() -> None:
    from tidegate_airflow.web.airflow_runs import read_last_commit

    assert read_last_commit(OWN) == NOON + timedelta(hours=1)
    assert read_last_commit(OTHER) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [("orders", NOON + timedelta(minutes=1)), ("users", NOON + timedelta(hours=2)), ("new", None)],
)
def test_of_a_fleet_each_member_s_own_heartbeat_counts(name: str, expected: datetime | None) -> None:
    from tidegate_airflow.web.fleet_runs import read_last_beat

    assert read_last_beat(FLEET, name) == expected
