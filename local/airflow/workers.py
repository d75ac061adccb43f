"""Owns the two Celery workers of the local Airflow, and the queue through which schedulers send them tasks."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from local.airflow import environment, rabbitmq, redis
from local.airflow.database import Database
from local.errors import StackError
from local.layout import PYTHON, RunDir
from local.ports import is_answering
from local.server import Server, create_log

WORKERS = 2
START, READY = "[tasks]", " ready."  # a start lists the tasks that the worker knows, and ends when it takes some


@dataclass(frozen=True)
class Queue:
    """Where the queue is, and who may use it: Redis, or RabbitMQ where it has ports for its node."""

    port: int
    password: str
    node_ports: tuple[int, int] | None = None

    @property
    def uri(self) -> str:
        """The address that Celery is given."""
        build_uri = redis.build_uri if self.node_ports is None else rabbitmq.build_uri
        return build_uri(self.port, self.password)


def choose_queue(parts: Collection[str], port_numbers: Mapping[str, int], password: str) -> Queue | None:
    """The queue that the parts ask for, on the ports that were chosen for them."""
    if "celery" not in parts:
        return None
    if "rabbitmq" not in parts:
        return Queue(port_numbers["celery"], password)
    epmd, node = (port_numbers[name] for name in rabbitmq.NODE_PORTS)
    return Queue(port_numbers["rabbitmq"], password, (epmd, node))


def find_packages() -> Path:
    """What every service needs on its PYTHONPATH: schedulers, API server and workers load the executor."""
    if not environment.is_built():
        raise StackError("celery: its packages are not there: run make setup WITH=celery")
    return environment.FOLDER


def build_servers(run: RunDir, queue: Queue, env: Mapping[str, str], database: Database) -> list[Server]:
    """The queue, and the workers, which wait for it."""
    if queue.node_ports is None:
        server = redis.build_server(run, queue.port, queue.password)
    else:
        server = rabbitmq.build_server(run, queue.port, queue.password, queue.node_ports)
    return [server, *(_build_worker(run, number, queue, env, database) for number in range(1, WORKERS + 1))]


def _build_worker(run: RunDir, number: int, queue: Queue, env: Mapping[str, str], database: Database) -> Server:
    name = f"airflow-worker-{number}"
    log = create_log(run, name)
    words = ("--celery-hostname", f"worker-{number}@%h", "--pid", str(run.airflow_home / f"{name}.pid"))
    quick = ("--without-mingle", "--without-gossip")  # workers that ask nothing of each other start at once
    return Server(
        name=name,
        command=(str(PYTHON), str(PYTHON.parent / "airflow"), "celery", "worker", "--skip-serve-logs", *words, *quick),
        folder=run.airflow_home,
        log=log,
        probe=lambda _: is_answering(queue.port) and _is_ready(log),
        env=env,
        variable=f"AIRFLOW_WORKER_{number}_PID",
        prepare=database.create_once,
        patience=240,
    )


def _is_ready(log: Path) -> bool:
    """Whether the newest start in its log has ended."""
    return READY in log.read_text(errors="replace").rpartition(START)[2]
