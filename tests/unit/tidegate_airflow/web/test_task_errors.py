"""The failed tasks that one pipeline's page shows, of a pipeline whose name begins as the DAG of a fleet does."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from airflow_users import run_auth_manager

FLEET, OWN, MAINTENANCE = "tidegate_fleet_shop", "tidegate_fleet_trucks", "tidegate_fleet_trucks_maintenance"
YOUNG, OLD = "tidegate_young_maintenance", "tidegate_old_maintenance"
LATE, WELL = "tidegate_late", "tidegate_well"
FEW_FAILURES, MANY_FAILURES = "tidegate_few", "tidegate_many"
ONCE_FAILED, LONG_FAILED, ALWAYS_FAILED = "tidegate_once", "tidegate_long", "tidegate_always"
FEW_RESULTS, MANY_RESULTS = "tidegate_few_maintenance", "tidegate_many_maintenance"
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
    dags = (FLEET, OWN, MAINTENANCE, YOUNG, OLD, LATE, WELL, FEW_RESULTS, MANY_RESULTS, FEW_FAILURES, MANY_FAILURES)
    with run_auth_manager(tmp_path_factory.mktemp("airflow"), *dags, ONCE_FAILED, LONG_FAILED, ALWAYS_FAILED):
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
    from tidegate_airflow.web.task_errors import read_errors

    assert show(read_errors([OWN, MAINTENANCE], 8)) == {
        (OWN, "merge", 0),
        (OWN, "merge", 1),
        (MAINTENANCE, "maintain", 2),
    }


@pytest.mark.usefixtures("failures")
def test_of_its_fleet_only_its_own_part_is_shown_and_what_runs_for_all() -> None:
    from tidegate_airflow.web.task_errors import FleetPart, read_errors

    errors = read_errors([FLEET, MAINTENANCE], 8, FleetPart(FLEET, "fleet_trucks"))
    assert show(errors) == {(FLEET, "stage", 1), (FLEET, "plan", -1), (MAINTENANCE, "maintain", 2)}


def count_steps(newest: str) -> int:
    """How many hundreds of steps the database takes to tell the statuses of all three DAGs."""
    from tidegate_airflow.web.airflow_runs import read_dag_statuses

    dag_statuses, steps = count_database_steps(lambda: read_dag_statuses([FLEET, OWN, MAINTENANCE]))
    assert {name: dag_status.last and dag_status.last["run_id"] for name, dag_status in dag_statuses.items()} == {
        FLEET: newest,
        OWN: newest,
        MAINTENANCE: "r",
    }
    return steps


def count_database_steps(read: Callable[[], Any]) -> tuple[Any, int]:
    """What was read, and how many hundreds of steps the database took for it."""
    from airflow import settings
    from sqlalchemy import event

    steps = [0]

    def note() -> int:
        steps[0] += 1
        return 0

    def watch(connection: Any, *_: Any) -> None:
        connection.set_progress_handler(note, 100)

    event.listen(settings.engine, "checkout", watch)
    try:
        return read(), steps[0]
    finally:
        event.remove(settings.engine, "checkout", watch)


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


def add_maintenance(dag_id: str, count: int) -> None:
    """Runs that maintained two tables each, one a day, oldest first; each run has a large result of another task."""
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import insert, select

    days = {f"d{day}": datetime(2020, 1, 1, tzinfo=UTC) + timedelta(days=day) for day in range(count)}
    run = {"dag_id": dag_id, "run_type": "scheduled", "state": "success"}
    task = {"dag_id": dag_id, "try_number": 1, "pool": "default_pool", "pool_slots": 1, "state": "success"}
    places = [("tables", -1), ("maintain", 0), ("maintain", 1)]
    with create_session() as session:
        session.execute(
            insert(DagRun.__table__), [{**run, "run_id": run_id, "run_after": at} for run_id, at in days.items()]
        )
        run_numbers = dict(session.execute(select(DagRun.run_id, DagRun.id).where(DagRun.dag_id == dag_id)).all())
        instances, results = [], []
        for run_id, at in days.items():
            for task_id, index in places:
                place = {"run_id": run_id, "task_id": task_id, "map_index": index}
                instances.append({**task, **place, "id": uuid4(), "end_date": at})
                value = ["x" * 1000] if index < 0 else {"table": f"lake.shop.t{index}", "day": run_id}
                result = {"dag_id": dag_id, "dag_run_id": run_numbers[run_id], "key": "return_value", "timestamp": at}
                results.append({**result, **place, "value": json.dumps(value)})
        session.execute(insert(TaskInstance.__table__), instances)
        session.execute(insert(XComModel.__table__), results)


@pytest.mark.usefixtures("failures")
def test_run_of_another_dag_at_the_same_time_brings_no_old_failure_back() -> None:
    """Runs at the times of a cron expression have one id in each DAG."""
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import insert
    from tidegate_airflow.web.airflow_runs import read_dag_statuses

    runs = [(LATE, "noon", "failed"), (WELL, "noon", "failed"), (WELL, "one", "success"), (WELL, "two", "running")]
    fixed = {"run_type": "scheduled", "run_after": datetime(2026, 1, 1, tzinfo=UTC)}
    task = {"task_id": "merge", "state": "failed", "try_number": 1, "pool": "default_pool", "pool_slots": 1}
    with create_session() as session:
        for dag, run, state in runs:
            session.execute(insert(DagRun).values(dag_id=dag, run_id=run, state=state, **fixed))
        for dag in (LATE, WELL):
            session.execute(insert(TaskInstance).values(id=uuid4(), dag_id=dag, run_id="noon", **task))
    statuses = read_dag_statuses([LATE, WELL])
    failures = {name: status.failed for name, status in statuses.items()}
    assert failures == {LATE: "merge failed: see the log of the task", WELL: None}


@pytest.mark.usefixtures("failures")
def test_reason_of_the_last_failure_is_found_as_fast_behind_years_of_results() -> None:
    """The page asks for it every few seconds."""
    from airflow.models.taskinstance import TaskInstance
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import insert, update
    from tidegate_airflow.web.task_errors import read_errors

    steps = {}
    for dag, count in ((FEW_RESULTS, 20), (MANY_RESULTS, 2000)):
        add_maintenance(dag, count)
        last = {"dag_id": dag, "run_id": f"d{count - 1}", "task_id": "tables", "map_index": -1}
        with create_session() as session:
            session.execute(update(TaskInstance).filter_by(**last).values(state="failed"))
            row = session.execute(select_result(XComModel, last)).one()
            reason = json.dumps({"error": "GiveUp", "message": "somebody must act"})
            values = {**last, "dag_run_id": row.dag_run_id, "timestamp": row.timestamp, "key": "error", "value": reason}
            session.execute(insert(XComModel.__table__), [values])
        errors, steps[dag] = count_database_steps(lambda dag=dag: read_errors([dag], 8))
        assert [(error["run_id"], error["message"]) for error in errors] == [(last["run_id"], "somebody must act")]
    assert steps[MANY_RESULTS] < 5 * steps[FEW_RESULTS] + 5, "for a hundred times as many runs"


def add_failures(dag_id: str, count: int, good: int = 0) -> None:
    """Runs in which two tasks failed, one a day, and behind them so many good ones."""
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import insert

    days = [datetime(2000, 1, 1, tzinfo=UTC) + timedelta(days=day) for day in range(count + good)]
    run = {"dag_id": dag_id, "run_type": "scheduled"}
    task = {"dag_id": dag_id, "try_number": 1, "pool": "default_pool", "pool_slots": 1, "map_index": -1}
    states = ["failed"] * count + ["success"] * good
    with create_session() as session:
        session.execute(
            insert(DagRun.__table__),
            [
                {**run, "run_id": f"d{day}", "state": state, "run_after": at}
                for day, (at, state) in enumerate(zip(days, states, strict=True))
            ],
        )
        session.execute(
            insert(TaskInstance.__table__),
            [
                {**task, "run_id": f"d{day}", "task_id": name, "state": state, "id": uuid4(), "start_date": at}
                for day, (at, state) in enumerate(zip(days, states, strict=True))
                for name in ("plan", "stage", "merge")
                if state == "success" or name != "merge"
            ],
        )


@pytest.mark.usefixtures("failures")
def test_newest_failures_are_found_as_fast_behind_years_of_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page asks for them every few seconds."""
    from tidegate_airflow.web import task_errors
    from tidegate_airflow.web.task_errors import read_errors

    monkeypatch.setattr(task_errors, "MAX_SORTED_TASKS", 100)
    steps = {}
    for dag, count in ((FEW_FAILURES, 20), (MANY_FAILURES, 2000)):
        add_failures(dag, count)
        errors, steps[dag] = count_database_steps(lambda dag=dag: read_errors([dag], 5))
        found = [(error["run_id"], error["task_id"]) for error in errors]
        assert {*found[:4]} == {(f"d{count - day}", task) for day in (1, 2) for task in ("plan", "stage")}
        assert [run_id for run_id, _ in found] == [f"d{count - day}" for day in (1, 1, 2, 2, 3)]
    assert steps[MANY_FAILURES] < 5 * steps[FEW_FAILURES], "for a hundred times as many failures"


@pytest.mark.usefixtures("failures")
def test_failures_of_long_ago_are_shown_unless_there_are_thousands(monkeypatch: pytest.MonkeyPatch) -> None:
    from tidegate_airflow.web import task_errors
    from tidegate_airflow.web.task_errors import read_errors

    monkeypatch.setattr(task_errors, "MAX_SORTED_TASKS", 100)
    monkeypatch.setattr(task_errors, "MAX_RUNS_WITH_ERRORS", 100)
    add_failures(ONCE_FAILED, 3, good=200)
    assert {error["run_id"] for error in read_errors([ONCE_FAILED], 5)} == {"d2", "d1", "d0"}
    add_failures(LONG_FAILED, 60, good=200)
    assert read_errors([LONG_FAILED], 5) == []
    add_failures(ALWAYS_FAILED, 60, good=60)
    assert {error["run_id"] for error in read_errors([ALWAYS_FAILED], 2)} == {"d59"}


def select_result(model: Any, place: dict[str, Any]) -> Any:
    from sqlalchemy import select

    return select(model.dag_run_id, model.timestamp).filter_by(**place, key="return_value")


@pytest.mark.usefixtures("failures")
def test_last_maintenance_is_found_as_fast_behind_years_of_it() -> None:
    from tidegate_airflow.web.task_errors import read_newest_results

    steps = {}
    for dag, count in ((YOUNG, 20), (OLD, 2000)):
        add_maintenance(dag, count)
        results, steps[dag] = count_database_steps(
            lambda dag=dag: read_newest_results(dag, "maintain", result_key="table", limit=20)
        )
        newest = f"d{count - 1}"
        assert sorted((result["table"], result["day"], result["run_id"]) for result in results) == [
            ("lake.shop.t0", newest, newest),
            ("lake.shop.t1", newest, newest),
        ]
    assert steps[OLD] < 5 * steps[YOUNG], "for a hundred times as many runs"
