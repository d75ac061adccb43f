"""Calls Airflow's REST API: waits for the flush DAGs, unpauses them, and finds failed tasks."""

import json
import time
import urllib.request
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote

from local.errors import StackError

DAG_TIMEOUT_SECONDS = 120.0
DIRECT_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class AirflowApi:
    """Airflow's REST API as its all-admins user, who needs no password."""

    def __init__(self, url: str, home: Path) -> None:
        self._url, self._home = url, home
        self._token = ""

    @property
    def page_url(self) -> str:
        """The operator's page."""
        return f"{self._url}/tidegate"

    def switch_on(self, dag: str) -> None:
        """Wait until the DAG processor has found the DAG, then unpause it; StackError with the import errors if not."""
        deadline = time.monotonic() + DAG_TIMEOUT_SECONDS
        while True:
            try:
                self._call("PATCH", f"/api/v2/dags/{dag}", {"is_paused": False})
                return
            except HTTPError as error:
                if error.code != 404:
                    raise StackError(f"airflow refused to unpause dag={dag}: {error}") from error
            if time.monotonic() > deadline:
                raise StackError(
                    f"dag={dag} did not appear within {DAG_TIMEOUT_SECONDS:.0f} s; {self._describe_import_errors()}"
                )
            time.sleep(1)

    def list_failures(self, dag: str) -> list[str]:
        """Each failed task instance of a DAG's latest runs, with the path of its log; newest first."""
        query = "state=failed&state=up_for_retry&order_by=-start_date&limit=5"
        tasks = self._call("GET", f"/api/v2/dags/{dag}/dagRuns/~/taskInstances?{query}")["task_instances"]
        return [self._describe_failure(task) for task in tasks]

    def list_tasks(self, dag: str) -> list[dict[str, Any]]:
        """Every task instance of all runs of a DAG, oldest first."""
        tasks: list[dict[str, Any]] = []
        while True:
            query = f"order_by=start_date&limit=100&offset={len(tasks)}"
            page = self._call("GET", f"/api/v2/dags/{dag}/dagRuns/~/taskInstances?{query}")["task_instances"]
            tasks += page
            if not page:
                return tasks

    def describe_runs(self, dag: str) -> str:
        """The states of the latest runs, in words."""
        runs = self._call("GET", f"/api/v2/dags/{dag}/dagRuns?order_by=-run_after&limit=3")["dag_runs"]
        return ", ".join(f"{run['dag_run_id']} {run['state']}" for run in runs) or "no run yet"

    def _describe_failure(self, task: dict[str, Any]) -> str:
        place = self._home / "logs" / f"dag_id={task['dag_id']}" / f"run_id={task['dag_run_id']}"
        mapped = [f"map_index={task['map_index']}"] if task["map_index"] >= 0 else []
        log = place.joinpath(f"task_id={task['task_id']}", *mapped, f"attempt={task['try_number']}.log")
        return f"task {task['task_id']} of {task['dag_id']} is {task['state']} (run {task['dag_run_id']}): {log}"

    def _describe_import_errors(self) -> str:
        errors = self._call("GET", "/api/v2/importErrors")["import_errors"]
        lines = [f"{error['filename']}: {error['stack_trace'].strip().splitlines()[-1]}" for error in errors]
        return "; ".join(lines) or "no import errors either"

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """One request, with a new token when the old one is no longer taken."""
        for needs_new_token in (False, True):
            if needs_new_token or not self._token:
                self._token = self._send("GET", "/auth/token", None)["access_token"]
            try:
                return self._send(method, path, body)
            except HTTPError as error:
                if error.code not in (401, 403) or needs_new_token:
                    raise
        raise AssertionError("unreachable")

    def _send(self, method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        data = json.dumps(body).encode() if body is not None else None
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        target = self._url + quote(path, safe="/?&=~-.%")
        request = urllib.request.Request(target, data, {**headers, "Content-Type": "application/json"}, method=method)
        with DIRECT_OPENER.open(request, timeout=30) as response:
            answer: dict[str, Any] = json.load(response)
            return answer
