"""Flushes of several pipelines outlive what happens to Airflow: workers, schedulers, database and DAGs under way.

Records keep coming meanwhile. At the end of each test every table equals what was sent, no batch or offset stands twice
in a history, and no branch or staged batch is left.
"""

import os
import signal
import time
from contextlib import ExitStack

import pytest
from e2e.airflow_client import wait_until
from e2e.executors.land import DEADLINE_SECONDS, Land
from e2e.executors.metadata import RunningTask

pytestmark = pytest.mark.real
OUTAGE_SECONDS = float(os.environ.get("OUTAGE_SECONDS", "60"))  # make test-long takes more


# the demo's parts: its events and its verdict in unit tests, its stack and its DAGs in every other end-to-end test
@pytest.mark.repeats("e2e/test_airflow.py::test_the_schedule_flushes_by_itself_and_a_run_without_work_is_skipped")
def test_two_schedulers_and_their_workers_share_the_flushes(land: Land) -> None:
    with land.keep_producing():
        wait_until(
            lambda: len(land.metadata.list_schedulers_of_tasks()) == 2, "tasks of both schedulers", DEADLINE_SECONDS
        )
        assert land.metadata.count_schedulers() == 2
        if land.executor == "CeleryExecutor":
            logs = [land.stack.run_dir / "logs" / f"airflow-worker-{number}.log" for number in (1, 2)]
            wait_until(
                lambda: all("succeeded" in log.read_text() for log in logs), "tasks of both workers", DEADLINE_SECONDS
            )


@pytest.mark.repeats("integration/test_faults.py::test_flush_killed_by_the_operating_system_is_finished_by_the_next")
@pytest.mark.parametrize("with_task", [True, False], ids=["with the task", "and the task lives on"])
def test_task_of_a_lost_worker_is_tried_again(land: Land, with_task: bool) -> None:
    with land.keep_producing():
        with land.catch_task("orders", "merge") as task:
            land.kill_worker(task, with_task=with_task)
        expect_retry(land, task)


@pytest.mark.repeats("integration/test_faults.py::test_flush_killed_by_the_operating_system_is_finished_by_the_next")
def test_tasks_of_a_lost_scheduler_are_taken_over(land: Land) -> None:
    with land.keep_producing():
        with land.catch_task("orders", "merge") as task:
            land.kill_scheduler(task)
        if land.executor == "LocalExecutor":
            expect_retry(land, task)
        expect_success(land, task)
        wait_until(lambda: land.metadata.count_schedulers() == 2, "the scheduler is back", DEADLINE_SECONDS)


@pytest.mark.repeats("integration/test_faults.py::test_flush_killed_by_the_operating_system_is_finished_by_the_next")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["restarted", "crashed"])
def test_database_that_goes_away_under_running_flushes_loses_no_row(land: Land, how: signal.Signals) -> None:
    with land.keep_producing():
        with land.catch_task("orders", "merge") as task:
            land.restart_database(how)
        expect_success(land, task)
        wait_until(lambda: land.metadata.count_schedulers() == 2, "both schedulers", DEADLINE_SECONDS)


@pytest.mark.repeats("integration/test_faults.py::test_flush_killed_by_the_operating_system_is_finished_by_the_next")
def test_database_that_is_away_for_minutes_under_running_flushes_loses_no_row(land: Land) -> None:
    """Only the services are started again. The next run recovers what this one could not do."""
    with land.keep_producing():
        with ExitStack() as outage:
            with land.catch_task("orders", "merge") as task:
                outage.enter_context(land.stop_database())
            end_time = time.monotonic() + OUTAGE_SECONDS
            wait_until(lambda: time.monotonic() > end_time, "the end of the outage", OUTAGE_SECONDS + 60)
        expect_end(land, task)
        wait_until(lambda: land.metadata.count_schedulers() == 2, "both schedulers", DEADLINE_SECONDS)


@pytest.mark.repeats(
    "unit/scenarios/test_changed_tables.py::test_tables_that_change_before_any_step_lose_no_row_and_the_run_goes_on"
)
@pytest.mark.parametrize("task_id", ["stage", "merge"])
def test_pipeline_whose_tables_change_under_a_running_flush_goes_on_with_those_of_its_file(
    land: Land, task_id: str
) -> None:
    """With a second table the one merge becomes a task per table; without it there is one merge again."""
    with land.keep_producing():
        with land.catch_task("orders", task_id) as task:
            land.change_tables("orders", ["orders", "orders_upper"])
        expect_end(land, task)
        with land.catch_task("orders", task_id) as task:
            land.change_tables("orders", ["orders"])
        expect_end(land, task)


def expect_retry(land: Land, task: RunningTask) -> None:
    wait_until(lambda: land.metadata.count_tries(task) > task.try_number, "the next try", DEADLINE_SECONDS)
    expect_success(land, task)


def expect_success(land: Land, task: RunningTask) -> None:
    expect_end(land, task)
    assert land.metadata.read_state(task) == "success"


def expect_end(land: Land, task: RunningTask) -> None:
    """A run that never ends would keep all later ones of its pipeline waiting."""
    wait_until(lambda: land.metadata.read_state(task) in ("success", "failed"), f"the end of {task}", DEADLINE_SECONDS)
