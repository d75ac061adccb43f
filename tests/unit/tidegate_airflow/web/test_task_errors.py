"""The failed tasks that one pipeline's page shows, of a pipeline whose name begins as the DAG of a fleet does."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from airflow_users import run_auth_manager

FLEET, OWN, MAINTENANCE = "tidegate_fleet_shop", "tidegate_fleet_trucks", "tidegate_fleet_trucks_maintenance"
TASKS = [
    (FLEET, "stage", 0, "users"),
    (FLEET, "stage", 1, "fleet_trucks"),
    (FLEET, "plan", -1, None),
    (OWN, "merge", 0, "lake.shop.trucks"),
    (OWN, "merge", 1, "lake.shop.drivers"),
    (MAINTENANCE, "maintain", 2, "lake.shop.trucks"),
]


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One failed run of each DAG, with the index that Airflow shows of each mapped task."""
    with run_auth_manager(tmp_path_factory.mktemp("airflow"), FLEET, OWN, MAINTENANCE):
        from airflow.models.dagrun import DagRun
        from airflow.models.taskinstance import TaskInstance
        from airflow.utils.session import create_session
        from sqlalchemy import insert

        at = datetime(2026, 1, 1, tzinfo=UTC)
        with create_session() as session:
            for dag in (FLEET, OWN, MAINTENANCE):
                run = {"run_id": "r", "state": "failed", "run_type": "scheduled", "run_after": at}
                session.execute(insert(DagRun).values(dag_id=dag, **run))
            for dag, task, index, rendered_index in TASKS:
                task_values: dict[str, Any] = {
                    "task_id": task,
                    "map_index": index,
                    "_rendered_map_index": rendered_index,
                }
                fixed = {"id": uuid4(), "run_id": "r", "state": "failed", "pool": "default_pool", "pool_slots": 1}
                session.execute(insert(TaskInstance).values(dag_id=dag, try_number=1, **task_values, **fixed))
        yield


def show(task_rows: list[dict[str, Any]]) -> set[tuple[str, str, int]]:
    return {(entry["dag_id"], entry["task_id"], entry["map_index"]) for entry in task_rows}


@pytest.mark.usefixtures("failures")
def test_failed_tasks_of_its_own_dags_are_shown_whatever_their_index() -> None:
    from tidegate_airflow.web.airflow_runs import read_errors

    assert show(read_errors([OWN, MAINTENANCE], 8)) == {
        (OWN, "merge", 0),
        (OWN, "merge", 1),
        (MAINTENANCE, "maintain", 2),
    }


@pytest.mark.usefixtures("failures")
def test_of_its_fleet_only_its_own_part_is_shown_and_what_runs_for_all() -> None:
    from tidegate_airflow.web.airflow_runs import FleetPart, read_errors

    errors = read_errors([FLEET, MAINTENANCE], 8, FleetPart(FLEET, "fleet_trucks"))
    assert show(errors) == {(FLEET, "stage", 1), (FLEET, "plan", -1), (MAINTENANCE, "maintain", 2)}


def count_steps(newest: str) -> int:
    """How many hundreds of steps the database takes to tell the statuses of all three DAGs."""
    from airflow import settings
    from sqlalchemy import event
    from tidegate_airflow.web.airflow_runs import read_dag_statuses

    steps = [0]

    def note() -> int:
        steps[0] += 1
        return 0

    def watch(connection: Any, *_: Any) -> None:
        connection.set_progress_handler(note, 100)

    event.listen(settings.engine, "checkout", watch)
    try:
        dag_statuses = read_dag_statuses([FLEET, OWN, MAINTENANCE])
    finally:
        event.remove(settings.engine, "checkout", watch)
    assert {name: dag_status.last and dag_status.last["run_id"] for name, dag_status in dag_statuses.items()} == {
        FLEET: newest,
        OWN: newest,
        MAINTENANCE: "r",
    }
    return steps[0]


@pytest.mark.usefixtures("failures")
def test_statuses_cost_no_more_when_dags_have_run_for_years(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import insert
    from tidegate_airflow.web import runs_under_way

    monkeypatch.setattr(runs_under_way, "RECENT_RUNS", 50)
    fixed = {"state": "success", "run_type": "scheduled", "run_after": datetime(2026, 1, 2, tzinfo=UTC)}
    steps = []
    for runs in (100, 5000):
        names = [*(f"{runs} {number}" for number in range(runs)), f"newest of {runs}"]
        with create_session() as session:
            run_rows = [{"dag_id": dag, "run_id": name, **fixed} for name in names for dag in (FLEET, OWN)]
            session.execute(insert(DagRun.__table__), run_rows)
        steps.append(count_steps(names[-1]))
    assert steps[1] < 2 * steps[0]
