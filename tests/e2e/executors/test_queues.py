"""Celery's queue, each of the two that Airflow's users have: it dies with tasks in it, and a worker dies beside it."""

import os
import signal
from collections.abc import Iterator

import pytest
from e2e.airflow_client import wait_until
from e2e.executors.land import PATIENCE, Land
from e2e.executors.opening import open_land

from local.airflow import rabbitmq, redis

pytestmark = pytest.mark.real
QUEUES = {"redis": ("celery",), "rabbitmq": ("celery", "rabbitmq")}
FIND_PROGRAM = {"redis": redis.find_program, "rabbitmq": rabbitmq.find_program}
UNFINISHED = "SELECT count(*) FROM task_instance WHERE state = 'queued' AND queued_dttm < now() - interval '5 minutes'"


@pytest.fixture(scope="module", params=QUEUES)
def land(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Land]:
    if FIND_PROGRAM[request.param]() is None:
        pytest.skip(f"{request.param} is not on this machine: run make test-setup")
    with open_land("CeleryExecutor", tmp_path_factory.mktemp(request.param), *QUEUES[request.param]) as land:
        yield land


def test_queue_that_is_killed_with_tasks_in_it_loses_no_row(land: Land) -> None:
    """Records come on; it is there again at once, with what was sent to it, or the tasks are sent again."""
    name = next(name for name in ("RABBITMQ_PID", "REDIS_PID") if name in land.stack.variables)
    with land.records_keep_coming():
        with land.caught_in("orders", "merge") as task:
            before = land.stack.variables[name]
            os.kill(int(before), signal.SIGKILL)
            wait_until(lambda: land.stack.variables[name] != before, "the queue's new process", PATIENCE)
        wait_until(lambda: land.metadata.read_state(task) in ("success", "failed"), f"the end of {task}", PATIENCE)
        assert land.metadata.read_state(task) == "success"
    wait_until(lambda: land.metadata.ask(UNFINISHED) == [(0,)], "no task that nobody takes", PATIENCE)


def test_task_of_a_lost_worker_is_tried_again_whatever_the_queue_is(land: Land) -> None:
    with land.records_keep_coming():
        with land.caught_in("orders", "merge") as task:
            land.kill_worker(task)
        wait_until(lambda: land.metadata.count_tries(task) > task.try_number, "the next try", PATIENCE)
        wait_until(lambda: land.metadata.read_state(task) == "success", f"the end of {task}", PATIENCE)
