"""Owns Airflow's services as servers of the stack: API server, schedulers, DAG processor, triggerer, Celery's workers.

A process each and not `airflow standalone`: the supervisor sees each of them die, and restarts that one alone.
"""

import json
import os
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from local.airflow import settings, workers
from local.airflow.database import Database, build_sqlite_uri
from local.airflow.settings import Shape
from local.errors import StackError
from local.layout import PYTHON, RunDir
from local.ports import HOST, is_answering
from local.server import Server, build_clean_environment, create_log

# name of the service: (its command, name in the health report, name of its process id in the env file)
SERVICES = {
    "scheduler": ("scheduler", "scheduler", "AIRFLOW_PID"),
    "api-server": ("api-server", None, "AIRFLOW_API_PID"),
    "dag-processor": ("dag-processor", "dag_processor", "AIRFLOW_DAG_PROCESSOR_PID"),
    "triggerer": ("triggerer", "triggerer", "AIRFLOW_TRIGGERER_PID"),
}
SECOND_SCHEDULER = {"scheduler-2": ("scheduler", "scheduler", "AIRFLOW_2_PID")}
NEEDED_PARTS = {
    **dict.fromkeys(("schedulers", "celery"), ("airflow", "postgres")),
    "rabbitmq": ("airflow", "postgres", "celery"),
}
WITHOUT_SERVERS_OF_LOGS = ("scheduler", "triggerer")  # their fixed ports would collide


@dataclass(frozen=True)
class Addresses:
    """Airflow's port, the SQLAlchemy URI of its metadata database (None: a file), and the address of its queue."""

    port: int
    metadata: str | None = None
    queue: workers.Queue | None = None


def check_parts(parts: list[str]) -> None:
    """StackError where schedulers or workers are to share what they cannot: SQLite has one writer at a time."""
    for part, needed_parts in NEEDED_PARTS.items():
        missing = [needed_part for needed_part in needed_parts if needed_part not in parts]
        if part in parts and missing:
            raise StackError(f'{part} needs {" and ".join(missing)} beside it: WITH="{" ".join(needed_parts)} {part}"')


def build_servers(
    run: RunDir, parts: list[str], addresses: Addresses, include: Path, connections: Mapping[str, str]
) -> list[Server]:
    """The services that `parts` ask for, with the stack's connections in their environment, over one metadata database:
    a file in the run folder, or that of the addresses.
    """
    home, queue, product = run.airflow_home, addresses.queue, settings.find_product_folder()
    folders = [product / "plugins", product / "jobs", *([workers.find_packages()] if queue else [])]
    env = {
        **build_clean_environment(),
        **connections,
        "AIRFLOW_HOME": str(home),
        "PYTHONPATH": os.pathsep.join(map(str, folders)),
        "TIDEGATE_INCLUDE": str(include),
    }
    shape = Shape("schedulers" in parts, queue.uri if queue else None)
    uri = addresses.metadata or build_sqlite_uri(home)
    write_settings = partial(settings.write_settings, home, addresses.port, uri, shape)
    database = Database(home, write_settings, env, create_log(run, "airflow-database"))
    services = SERVICES | (SECOND_SCHEDULER if shape.has_two_schedulers else {})
    servers = [_build_service(run, name, addresses.port, env, database) for name in services]
    return [*servers, *(workers.build_servers(run, queue, env, database) if queue else [])]


def _build_service(run: RunDir, name: str, port: int, env: Mapping[str, str], database: Database) -> Server:
    command, job_type, variable = (SERVICES | SECOND_SCHEDULER)[name]
    serve_logs = ("--skip-serve-logs",) if command in WITHOUT_SERVERS_OF_LOGS else ()
    return Server(
        name=f"airflow-{name}",
        command=(str(PYTHON), str(PYTHON.parent / "airflow"), command, *serve_logs),
        folder=run.airflow_home,
        log=create_log(run, f"airflow-{name}"),
        probe=lambda since: _is_healthy(port, job_type, since),
        env=env,
        variable=variable,
        prepare=database.create_once,
        patience=240,
    )


def _is_healthy(port: int, job_type: str | None, since: float) -> bool:
    """Whether the API server answers, for users and for tasks; or whether another service has beaten since then."""
    if not is_answering(port):
        return False
    try:
        if job_type is None:
            return bool(_get_json(port, "/execution/health"))  # the first call is slow: let it not be a task's
        health = _get_json(port, "/api/v2/monitor/health").get(job_type, {})
        beat = datetime.fromisoformat(health[f"latest_{job_type}_heartbeat"])
        return health["status"] == "healthy" and beat.timestamp() >= since
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _get_json(port: int, path: str) -> dict[str, dict[str, str]]:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(f"http://{HOST}:{port}{path}", timeout=30) as response:
        answer: dict[str, dict[str, str]] = json.load(response)
        return answer
