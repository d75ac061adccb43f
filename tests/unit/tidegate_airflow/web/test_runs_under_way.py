"""Runs in which nothing moves: a pool without slots, workers or a scheduler that are gone; and those that only wait."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from airflow_users import run_auth_manager
from tidegate.monitoring.health import Health, describe_pipeline_state

# the DAG of each run, its tasks as (task, state, pool), and seconds since they began to wait, or ended
RUNS: dict[str, tuple[list[tuple[str, str | None, str]], float]] = {
    "tidegate_empty_pool": ([("plan", "success", "default_pool"), ("stage", "scheduled", "tidegate_pond")], 1200.0),
    "tidegate_lost_pool": ([("stage", "scheduled", "tidegate_gone")], 1200.0),
    "tidegate_no_worker": ([("stage", "queued", "tidegate_lake"), ("merge", None, "tidegate_lake")], 1200.0),
    "tidegate_no_scheduler": ([("plan", "success", "default_pool"), ("stage", None, "tidegate_lake")], 1200.0),
    "tidegate_soon": ([("stage", "queued", "tidegate_lake")], 20.0),
    "tidegate_at_work": ([("merge", "running", "tidegate_lake"), ("merge2", "scheduled", "tidegate_lake")], 1200.0),
    "tidegate_deferred": ([("merge", "deferred", "tidegate_lake")], 20.0),
    "tidegate_no_triggerer": ([("stage", "success", "tidegate_lake"), ("merge", "deferred", "tidegate_lake")], 1200.0),
}


@pytest.fixture(scope="module")
def statuses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What the page reads of one run of each DAG that is under way."""
    with run_auth_manager(tmp_path_factory.mktemp("airflow"), *RUNS):
        from airflow.models.dagrun import DagRun
        from airflow.models.pool import Pool
        from airflow.models.taskinstance import TaskInstance
        from airflow.models.trigger import Trigger
        from airflow.utils.session import create_session
        from sqlalchemy import insert
        from tidegate_airflow.web.airflow_runs import read_dag_statuses

        now = datetime.now(UTC)
        with create_session() as session:
            for name, slots in (("tidegate_lake", 4), ("tidegate_pond", 0)):
                session.add(Pool(pool=name, slots=slots, description="", include_deferred=False))
            for dag, (tasks, seconds) in RUNS.items():
                since = now - timedelta(seconds=seconds)
                run = {"run_id": "r", "state": "running", "run_type": "scheduled", "run_after": since}
                session.execute(insert(DagRun).values(dag_id=dag, start_date=since, **run))
                for task, state, pool in tasks:
                    moment = "end_date" if state == "success" else "scheduled_dttm"
                    task_values: dict[str, Any] = {"task_id": task, "state": state, "pool": pool}
                    task_values |= {} if state is None else {moment: since}
                    if state == "deferred":
                        session.add(trigger := Trigger("a.trigger.that.is.not.There", {}, since))
                        session.flush()
                        task_values["trigger_id"] = trigger.id
                    fixed = {"id": uuid4(), "run_id": "r", "map_index": -1, "try_number": 1, "pool_slots": 1}
                    session.execute(insert(TaskInstance).values(dag_id=dag, **task_values, **fixed))
        yield read_dag_statuses(list(RUNS))


@pytest.fixture(scope="module")
def statuses_with_triggerer(statuses: dict[str, Any]) -> dict[str, Any]:
    """The same once a triggerer runs."""
    from airflow.jobs.job import Job
    from airflow.utils.session import create_session
    from sqlalchemy import insert
    from tidegate_airflow.web.airflow_runs import read_dag_statuses

    with create_session() as session:
        beat = {"state": "running", "latest_heartbeat": datetime.now(UTC)}
        session.execute(insert(Job).values(job_type="TriggererJob", **beat))
    return read_dag_statuses(["tidegate_no_triggerer"])


@pytest.mark.parametrize(
    ("dag", "parts"),
    [
        ("tidegate_empty_pool", ("task=stage of the run r", "pool=tidegate_pond slots=0; give it slots")),
        ("tidegate_lost_pool", ("task=stage of the run r", "pool=tidegate_gone slots=none; give it slots")),
        ("tidegate_no_worker", ("task=stage of the run r", "pool=tidegate_lake slots=4; wait for the tasks")),
        ("tidegate_no_triggerer", ("task=merge of the run r", "no triggerer has looked after it for 12", "triggerer`")),
        ("tidegate_no_scheduler", ("no task of the run r has begun for 12", "check that the scheduler and the DAG")),
    ],
)
def test_run_in_which_nothing_moves_makes_its_pipeline_stuck_and_says_what_it_waits_for(
    statuses: dict[str, Any], dag: str, parts: tuple[str, ...]
) -> None:
    row: Any = {"lag": 5, "lag_seconds": 2000.0, "open_batches": 0, "published_ms": 1, "tables": []}
    state, reason = describe_pipeline_state(row, statuses[dag], 60, 2_000_000)
    assert state == Health.STUCK
    assert reason.startswith("5 records wait, the oldest for 33 min, and nothing was published meanwhile: ")
    assert all(part in reason for part in parts)


@pytest.mark.parametrize("dag", ["tidegate_soon", "tidegate_at_work", "tidegate_deferred"])
def test_run_that_is_at_work_or_has_just_begun_to_wait_is_not_stalled(statuses: dict[str, Any], dag: str) -> None:
    assert statuses[dag].running
    assert statuses[dag].stalled is None


def test_task_that_waits_for_a_job_while_a_triggerer_runs_is_not_stalled(
    statuses_with_triggerer: dict[str, Any],
) -> None:
    assert statuses_with_triggerer["tidegate_no_triggerer"].stalled is None
