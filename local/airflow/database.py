"""Owns Airflow's metadata database: a SQLite file in its home, or a database of the stack's PostgreSQL server."""

import os
import shutil
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from local.errors import StackError, find_relevant_line
from local.layout import PYTHON, ROOT
from local.server import run_logged


def build_sqlite_uri(home: Path) -> str:
    """The file in Airflow's home."""
    return f"sqlite:///{home / 'airflow.db'}"


class Database:
    """The metadata database, created by whichever service comes first; fresh each time the stack comes up."""

    def __init__(self, home: Path, write_settings: Callable[[], None], env: Mapping[str, str], log: Path) -> None:
        self._home, self._write_settings, self._env, self._log = home, write_settings, env, log
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
        self._write_settings()
        prepare = [str(PYTHON), "-m", "local.airflow.prepare"]
        path = os.pathsep.join([str(ROOT), self._env["PYTHONPATH"]])
        if run_logged(prepare, self._home, self._log, {**self._env, "PYTHONPATH": path}):
            raise StackError(f"airflow: no metadata database: {find_relevant_line(self._log)} (log: {self._log})")
