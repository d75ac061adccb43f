"""What happens to a land of servers in two hours: each fault hurts it once, and returns when its cause is over."""

import os
import signal
import threading
from collections.abc import Callable
from functools import partial

from fault_proxy import CUT_OFF, LOST_ANSWER, Request, answer_after_commit, delay, refuse

from soak.world import World

FROZEN_SECONDS = 20.0
BROKERS = ("KAFKA_PID", "KAFKA_2_PID", "KAFKA_3_PID")
Fault = Callable[[World], None]


def kill_runner(world: World) -> None:
    """The process that flushes everything, in the middle of whatever it does."""
    world.runners[0].kill()
    world.runners[0].start()


def kill_both_runners(world: World) -> None:
    """At once; then nobody cleans up behind the other."""
    for runner in world.runners:
        runner.kill()
    for runner in world.runners:
        runner.start()


def freeze_runner(world: World) -> None:
    """It sleeps while the other one publishes batches of the same pipelines, and wakes up with old plans."""
    _freeze(world.runners[0].process.pid)


def kill_server(variable: str, world: World) -> None:
    """SIGKILL; the stack starts it again."""
    before = world.stack.variables[variable]
    os.kill(int(before), signal.SIGKILL)
    world.wait_for_new_process(variable, before)


def crash_database(world: World) -> None:
    """PostgreSQL ends at once and recovers; the REST catalog and half of the tables lie in it."""
    before = world.stack.variables["POSTGRES_PID"]
    os.kill(int(before), signal.SIGQUIT)
    world.wait_for_new_process("POSTGRES_PID", before)


def freeze_server(variable: str, world: World) -> None:
    """The server accepts connections and does not answer."""
    _freeze(int(world.stack.variables[variable]))


def lose_answers_of_commits(world: World) -> None:
    """The catalog carries out the request, and its answer is lost."""
    world.rest.on(_is_commit, LOST_ANSWER, times=2)
    world.rest.on(_is_commit, answer_after_commit(502), times=2)


def refuse_requests(world: World) -> None:
    """Catalog and store have too much to do."""
    world.rest.on(_is_any, refuse(429, ("Retry-After", "1")), times=10)
    world.store.on(_is_any, refuse(503), times=10)


def cut_off_store(world: World) -> None:
    """Uploads and reads end in the middle."""
    world.store.on(_is_any, CUT_OFF, times=40)


def slow_down_uploads(world: World) -> None:
    """Each of some uploads takes seconds."""
    world.store.on(lambda request: request.method in ("PUT", "POST"), delay(5), times=20)


def _is_commit(request: Request) -> bool:
    return bool(request.updates)


def _is_any(_: Request) -> bool:
    return True


def _freeze(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    try:
        threading.Event().wait(FROZEN_SECONDS)  # the fault's own length: nothing is waited for
    finally:
        os.kill(pid, signal.SIGCONT)


FAULTS: dict[str, Fault] = {
    "the runner is killed": kill_runner,
    "both runners are killed": kill_both_runners,
    "the runner sleeps": freeze_runner,
    "Spark is killed": partial(kill_server, "SPARK_PID"),
    "Spark sleeps": partial(freeze_server, "SPARK_PID"),
    **{f"broker {number} is killed": partial(kill_server, name) for number, name in enumerate(BROKERS, 1)},
    "a broker sleeps": partial(freeze_server, BROKERS[1]),
    "the database crashes": crash_database,
    "the REST catalog is killed": partial(kill_server, "REST_PID"),
    "the REST catalog sleeps": partial(freeze_server, "REST_PID"),
    "answers of commits are lost": lose_answers_of_commits,
    "requests are refused": refuse_requests,
    "the store cuts off": cut_off_store,
    "the store is slow": slow_down_uploads,
}
