"""Owns Airflow's four services as servers of the stack: API server, scheduler, DAG processor and triggerer.

Four processes and not `airflow standalone`: the supervisor sees each of them die, and restarts that one alone.
"""

import json
import os
import urllib.request
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from local.airflow.database import Database, build_sqlite_uri
from local.layout import PYTHON, ROOT, RunDir
from local.ports import HOST, is_answering
from local.server import Server, build_clean_environment, create_log

# name of the service: (name in the health report, name of its process id in the env file)
SERVICES = {
    "scheduler": ("scheduler", "AIRFLOW_PID"),
    "api-server": (None, "AIRFLOW_API_PID"),
    "dag-processor": ("dag_processor", None),
    "triggerer": ("triggerer", None),
}


def build_servers(
    run: RunDir, port: int, include: Path, connections: Mapping[str, str], metadata: str | None = None
) -> list[Server]:
    """The services, with the stack's connections in their environment, over one metadata database: a file in the run
    folder, or the `metadata` of an SQLAlchemy URI.
    """
    home = run.airflow_home
    env = {
        **build_clean_environment(),
        **connections,
        "AIRFLOW_HOME": str(home),
        "PYTHONPATH": os.pathsep.join([str(ROOT / "plugins"), str(ROOT / "jobs")]),
        "TIDEGATE_INCLUDE": str(include),
    }
    database = Database(home, port, metadata or build_sqlite_uri(home), env, create_log(run, "airflow-database"))
    return [_build_service(run, name, port, env, database) for name in SERVICES]


def _build_service(run: RunDir, name: str, port: int, env: Mapping[str, str], database: Database) -> Server:
    reported, variable = SERVICES[name]
    serve_logs = ("--skip-serve-logs",) if name in ("scheduler", "triggerer") else ()  # their fixed ports would collide
    return Server(
        name=f"airflow-{name}",
        command=(str(PYTHON), str(PYTHON.parent / "airflow"), name, *serve_logs),
        folder=run.airflow_home,
        log=create_log(run, f"airflow-{name}"),
        probe=lambda since: _is_healthy(port, reported, since),
        env=env,
        variable=variable,
        prepare=database.create_once,
        patience=180,
    )


def _is_healthy(port: int, reported: str | None, since: float) -> bool:
    """Whether the API server answers, for users and for tasks; or whether another service has beaten since then."""
    if not is_answering(port):
        return False
    try:
        if reported is None:
            return bool(_get_json(port, "/execution/health"))  # the first call is slow: let it not be a task's
        health = _get_json(port, "/api/v2/monitor/health").get(reported, {})
        beat = datetime.fromisoformat(health[f"latest_{reported}_heartbeat"])
        return health["status"] == "healthy" and beat.timestamp() >= since
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _get_json(port: int, path: str) -> dict[str, dict[str, str]]:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(f"http://{HOST}:{port}{path}", timeout=30) as response:
        answer: dict[str, dict[str, str]] = json.load(response)
        return answer
