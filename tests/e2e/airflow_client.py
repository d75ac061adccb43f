"""Airflow as a user's program sees it: its REST API, and waiting for what it says."""

import time
from collections.abc import Callable
from typing import Any

import requests

DONE = {"success", "failed"}


class AirflowClient:
    def __init__(self, url: str, user: str, password: str) -> None:
        self.url = url
        response = requests.post(f"{url}/auth/token", json={"username": user, "password": password}, timeout=60)
        token = response.json()["access_token"]
        self._session = requests.Session()
        self._session.headers["Authorization"] = f"Bearer {token}"

    def get(self, path: str, **params: Any) -> Any:
        answer = self._session.get(f"{self.url}/api/v2/{path}", params=params, timeout=60)
        answer.raise_for_status()
        return answer.json()

    def page(self, path: str) -> Any:
        """The answer of the operator's page at this path."""
        answer = self._session.get(f"{self.url}/tidegate/api/{path}", timeout=60)
        answer.raise_for_status()
        return answer.json()

    def list_dag_ids(self) -> set[str]:
        return {dag["dag_id"] for dag in self.get("dags", limit=200)["dags"]}

    def list_import_errors(self) -> list[str]:
        return [error["stack_trace"] for error in self.get("importErrors")["import_errors"]]

    def unpause(self, dag_id: str, paused: bool = False) -> None:
        url = f"{self.url}/api/v2/dags/{dag_id}"
        self._session.patch(url, json={"is_paused": paused}, timeout=60).raise_for_status()

    def resize_pool(self, pool: str, slots: int) -> None:
        settings = {"pool": pool, "slots": slots, "include_deferred": False}  # a part of it is refused
        self._session.patch(f"{self.url}/api/v2/pools/{pool}", json=settings, timeout=60).raise_for_status()

    def parse_again(self, dag_id: str) -> None:
        """Let the DAG's file be read at once, and not when its turn comes."""
        token = self.get(f"dags/{dag_id}/details")["file_token"]
        self._session.put(f"{self.url}/api/v2/parseDagFile/{token}", timeout=60).raise_for_status()

    def save_connection(self, connection: dict[str, Any]) -> None:
        """Make a connection, or change it where it is there, as Airflow's form does."""
        url = f"{self.url}/api/v2/connections"
        answer = self._session.post(url, json=connection, timeout=60)
        if answer.status_code == 409:
            answer = self._session.patch(f"{url}/{connection['connection_id']}", json=connection, timeout=60)
        answer.raise_for_status()

    def trigger(self, dag_id: str, **conf: Any) -> str:
        answer = self.post_run(dag_id, **conf)
        answer.raise_for_status()
        return str(answer.json()["dag_run_id"])

    def post_run(self, dag_id: str, **conf: Any) -> requests.Response:
        """What Airflow answers to the trigger form."""
        url = f"{self.url}/api/v2/dags/{dag_id}/dagRuns"
        return self._session.post(url, json={"logical_date": None, "conf": conf}, timeout=60)

    def run_state(self, dag_id: str, run_id: str) -> str:
        return str(self.get(f"dags/{dag_id}/dagRuns/{run_id}")["state"])

    def await_run(self, dag_id: str, run_id: str, patience: float = 300) -> str:
        wait_until(lambda: self.run_state(dag_id, run_id) in DONE, f"{dag_id} {run_id} to finish", patience)
        return self.run_state(dag_id, run_id)

    def list_runs(self, dag_id: str) -> list[dict[str, Any]]:
        return list(self.get(f"dags/{dag_id}/dagRuns", order_by="-run_after", limit=100)["dag_runs"])

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """The task instances of a run, as one answer tells them."""
        return list(self.get(f"dags/{dag_id}/dagRuns/{run_id}/taskInstances")["task_instances"])

    def read_task_states(self, dag_id: str, run_id: str) -> dict[str, list[str]]:
        states: dict[str, list[str]] = {}
        for task in self.tasks(dag_id, run_id):
            states.setdefault(task["task_id"], []).append(task["state"])
        return {name: sorted(map(str, task_states)) for name, task_states in states.items()}

    def read_mapped_states(self, dag_id: str, run_id: str, task_id: str) -> dict[str, str]:
        """The states of a mapped task by what Airflow shows as its index."""
        tasks = [task for task in self.tasks(dag_id, run_id) if task["task_id"] == task_id]
        return {str(task["rendered_map_index"]): str(task["state"]) for task in tasks}

    def count_tries(self, dag_id: str, run_id: str) -> dict[str, int]:
        """How often each task of a run was tried, of a mapped one the most."""
        tries: dict[str, int] = {}
        for task in self.tasks(dag_id, run_id):
            tries[task["task_id"]] = max(tries.get(task["task_id"], 0), task["try_number"])
        return tries

    def result(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1, key: str = "return_value") -> Any:
        path = f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/{key}"
        return self.get(path, map_index=map_index, deserialize="true")["value"]

    def log(self, dag_id: str, run_id: str, task_id: str) -> str:
        """What a task's first try wrote."""
        path = f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/logs/1"
        return str(self.get(path, full_content="true"))

    def list_asset_events(self, asset: str) -> list[dict[str, Any]]:
        events = self.get("assets/events", limit=200, order_by="-timestamp")["asset_events"]
        return [event for event in events if event["name"] == asset]


def wait_until(condition: Callable[[], bool], expectation: str, patience: float = 300, pause: float = 1.0) -> None:
    """Wait generously: the machine is shared, and only never is too late. Each look costs CPU that the stack needs."""
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {patience:.0f} s in vain for {expectation}")
        time.sleep(pause)
