"""Owns Airflow's four services as servers of the stack: API server, scheduler, DAG processor and triggerer.

Four processes and not `airflow standalone`: the supervisor sees each of them die, and restarts that one alone.
"""

import json
import os
import shutil
import subprocess
import threading
import urllib.request
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from local.airflow import settings
from local.errors import StackError, find_relevant_line
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


def build_servers(run: RunDir, port: int, include: Path, connections: Mapping[str, str]) -> list[Server]:
    """The services, over one metadata database in the run folder, with the stack's connections in their environment."""
    home = run.airflow_home
    env = {
        **build_clean_environment(),
        **connections,
        "AIRFLOW_HOME": str(home),
        "PYTHONPATH": os.pathsep.join([str(ROOT / "plugins"), str(ROOT / "jobs")]),
        "TIDEGATE_INCLUDE": str(include),
    }
    database = _Database(home, port, env, create_log(run, "airflow-database"))
    return [_build_service(run, name, port, env, database) for name in SERVICES]


def _build_service(run: RunDir, name: str, port: int, env: Mapping[str, str], database: "_Database") -> Server:
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


class _Database:
    """The metadata database, created by whichever service comes first; fresh each time the stack comes up."""

    def __init__(self, home: Path, port: int, env: Mapping[str, str], log: Path) -> None:
        self._home, self._port, self._env, self._log = home, port, env, log
        self._lock = threading.Lock()
        self._created = False

    def create_once(self) -> None:
        """Create it unless that was done; callers from other threads wait. StackError when it fails."""
        with self._lock:
            if not self._created:
                self._create()
                self._created = True

    def _create(self) -> None:
        shutil.rmtree(self._home, ignore_errors=True)
        settings.write_settings(self._home, self._port)
        prepare = [str(PYTHON), "-m", "local.airflow.prepare"]
        path = os.pathsep.join([str(ROOT), self._env["PYTHONPATH"]])
        with self._log.open("ab") as output:
            result = subprocess.run(
                prepare,
                env={**self._env, "PYTHONPATH": path},
                cwd=self._home,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                check=False,
            )
        if result.returncode:
            raise StackError(f"airflow: no metadata database: {find_relevant_line(self._log)} (log: {self._log})")


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
