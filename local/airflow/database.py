"""Owns Airflow's metadata database: a SQLite file in its home, or a database of the stack's PostgreSQL server."""

import os
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path

from local.airflow import settings
from local.errors import StackError, find_relevant_line
from local.layout import PYTHON, ROOT
from local.server import run_logged


def build_sqlite_uri(home: Path) -> str:
    """The file in Airflow's home."""
    return f"sqlite:///{home / 'airflow.db'}"


class Database:
    """The metadata database, created by whichever service comes first; fresh each time the stack comes up."""

    def __init__(  # noqa: PLR0913, PLR0917 - what Airflow is told of itself
        self, home: Path, port: int, uri: str, shape: settings.Shape, env: Mapping[str, str], log: Path
    ) -> None:
        self._home, self._port, self._uri, self._shape, self._env, self._log = home, port, uri, shape, env, log
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
        settings.write_settings(self._home, self._port, self._uri, self._shape)
        prepare = [str(PYTHON), "-m", "local.airflow.prepare"]
        path = os.pathsep.join([str(ROOT), self._env["PYTHONPATH"]])
        if run_logged(prepare, self._home, self._log, {**self._env, "PYTHONPATH": path}):
            raise StackError(f"airflow: no metadata database: {find_relevant_line(self._log)} (log: {self._log})")
