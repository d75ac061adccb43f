"""Celery's queue, each of the two that Airflow's users have: it dies with tasks in it, and a worker dies beside it."""

import os
import signal
from collections.abc import Iterator

import psutil
import pytest
from e2e.airflow_client import DONE, wait_until
from e2e.executors.land import DEADLINE_SECONDS, Land, kill_all
from e2e.executors.opening import open_land
from e2e.executors.pipelines import NAMESPACE

from local.airflow import rabbitmq, redis

pytestmark = pytest.mark.real
QUEUES = {"redis": ("celery",), "rabbitmq": ("celery", "rabbitmq")}
FIND_PROGRAM = {"redis": redis.find_program, "rabbitmq": rabbitmq.find_program}
WORKERS = ("AIRFLOW_WORKER_1_PID", "AIRFLOW_WORKER_2_PID")
QUEUED = "SELECT DISTINCT dag_id, run_id FROM task_instance WHERE state = 'queued'"
UNFINISHED = "SELECT count(*) FROM task_instance WHERE state = 'queued' AND queued_dttm < now() - interval '5 minutes'"


@pytest.fixture(scope="module", params=QUEUES)
def land(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Land]:
    if FIND_PROGRAM[request.param]() is None:
        pytest.skip(f"{request.param} is not on this machine: run make test-setup")
    with open_land("CeleryExecutor", tmp_path_factory.mktemp(request.param), *QUEUES[request.param]) as land:
        yield land


@pytest.mark.repeats("integration/test_faults.py::test_flush_killed_by_the_operating_system_is_finished_by_the_next")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["restarted", "killed"])
def test_queue_that_goes_away_in_the_middle_of_a_merge_loses_no_row(land: Land, how: signal.Signals) -> None:
    """Records keep coming. The queue is back at once, with its tasks, or Airflow sends the tasks again."""
    name = next(name for name in ("RABBITMQ_PID", "REDIS_PID") if name in land.stack.variables)
    with land.keep_producing():
        with land.catch_task("orders", "merge") as task:
            before = land.stack.variables[name]
            os.kill(int(before), how)
            wait_until(lambda: land.stack.variables[name] != before, "the queue's new process", DEADLINE_SECONDS)
        wait_until(
            lambda: land.metadata.read_state(task) in ("success", "failed"), f"the end of {task}", DEADLINE_SECONDS
        )
        assert land.metadata.read_state(task) == "success"
    wait_until(lambda: land.metadata.ask(UNFINISHED) == [(0,)], "no task that nobody takes", DEADLINE_SECONDS)


@pytest.mark.repeats("integration/test_faults.py::test_flush_killed_by_the_operating_system_is_finished_by_the_next")
def test_task_of_a_lost_worker_is_tried_again_whatever_the_queue_is(land: Land) -> None:
    with land.keep_producing():
        with land.catch_task("orders", "merge") as task:
            land.kill_worker(task)
        wait_until(lambda: land.metadata.count_tries(task) > task.try_number, "the next try", DEADLINE_SECONDS)
        wait_until(lambda: land.metadata.read_state(task) == "success", f"the end of {task}", DEADLINE_SECONDS)


@pytest.mark.repeats("integration/test_faults.py::test_flush_killed_by_the_operating_system_is_finished_by_the_next")
def test_tasks_that_wait_for_lost_workers_are_begun_by_those_that_follow(land: Land) -> None:
    """The workers are frozen when the tasks are sent, and are killed then: no worker has begun them."""
    with land.keep_producing():
        wait_until(lambda: land.open_catalog().table_exists(f"{NAMESPACE}.orders"), "the first flush", DEADLINE_SECONDS)
        workers = [psutil.Process(int(land.stack.variables[name])) for name in WORKERS]
        for worker in workers:
            worker.suspend()
        wait_until(lambda: len(land.metadata.ask(QUEUED)) > 1, "tasks that wait for a worker", DEADLINE_SECONDS)
        taken = land.metadata.ask(QUEUED)
        kill_all([process for worker in workers for process in (worker, *worker.children(recursive=True))])
        for dag, run in taken:
            wait_until(
                lambda run=(dag, run): read_state(land, *run) in DONE, f"the end of {dag} {run}", DEADLINE_SECONDS
            )
            assert read_state(land, dag, run) == "success"
    wait_until(lambda: land.metadata.ask(UNFINISHED) == [(0,)], "no task that nobody takes", DEADLINE_SECONDS)


def read_state(land: Land, dag: str, run: str) -> str:
    return str(land.metadata.ask("SELECT state FROM dag_run WHERE dag_id = %s AND run_id = %s", dag, run)[0][0])
