"""A running stack whose version of the product can be replaced, and the hands that hold its runs in their middle."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Producer
from e2e.airflow_client import AirflowClient, wait_until
from e2e.executors import verdict
from e2e.executors.land import build_lake
from e2e.executors.metadata import Metadata
from e2e.versions.pipelines import DATASET, PIPELINES, TABLES, WAREHOUSE, describe
from fault_proxy import FaultProxy
from pyiceberg.catalog import load_catalog
from warehouse import build_client

from local.stack import Stack

DEADLINE_SECONDS = 900.0
SERVICES = ("AIRFLOW_PID", "AIRFLOW_API_PID", "AIRFLOW_DAG_PROCESSOR_PID", "AIRFLOW_TRIGGERER_PID")
STOP_SECONDS = 60
LAKE_SLOTS = 4
NAMED_JOB = re.compile(r"tidegate_[0-9a-f]{40}(_\d+)?")  # a job that a task may wait for elsewhere
STATES = "SELECT state FROM task_instance WHERE dag_id = %s AND run_id = %s AND task_id = %s"
Rows = dict[int, str]


@dataclass
class Land:
    """The stack, what was sent, and the link behind which the running version lies."""

    stack: Stack
    airflow: AirflowClient
    metadata: Metadata
    proxy: FaultProxy  # before BigQuery's server
    product: Path
    folder: Path
    rows: dict[str, Rows] = field(default_factory=lambda: {name: {} for name in PIPELINES})
    held_jobs: set[str] = field(default_factory=set)  # kinds of jobs that do not end: load, query

    def __post_init__(self) -> None:
        self.proxy.rewrite = self._hold_jobs

    # what comes

    def send(self, topic: str, values: dict[int, str | None]) -> None:
        producer = Producer({"bootstrap.servers": self.stack.kafka_bootstrap})
        for key, name in values.items():
            value = None if name is None else json.dumps({"id": key, "name": name})
            producer.produce(topic, key=json.dumps({"id": key}), value=value)
            self.rows[topic].pop(key, None)
            if name is not None:
                self.rows[topic][key] = name
        assert producer.flush(60) == 0

    def send_bad_record(self, topic: str) -> None:
        producer = Producer({"bootstrap.servers": self.stack.kafka_bootstrap})
        producer.produce(topic, key='{"id": 1000000}', value="nonsense")
        assert producer.flush(60) == 0

    # what is held

    def _hold_jobs(self, content: bytes) -> bytes:
        """A job of the kinds that are held runs on, as far as BigQuery's clients are told."""
        try:
            job = json.loads(content)
            is_held = self.held_jobs & set(job["configuration"]) and NAMED_JOB.fullmatch(job["jobReference"]["jobId"])
        except (ValueError, TypeError, KeyError):
            return content
        if not is_held:
            return content
        return json.dumps({**job, "status": {"state": "RUNNING"}}).encode()

    def wait_for_state(self, dag: str, run: str, task: str, state: str) -> None:
        wait_until(
            lambda: set(self.read_states(dag, run, task)) == {state}, f"{state}: {task} of {dag}", DEADLINE_SECONDS
        )

    def read_states(self, dag: str, run: str, task: str) -> list[str]:
        return [str(row[0]) for row in self.metadata.ask(STATES, dag, run, task)]

    def list_triggers(self) -> set[str]:
        """The class paths of what waits in the triggerer."""
        return {str(row[0]) for row in self.metadata.ask("SELECT classpath FROM trigger")}

    # what is replaced

    def install(self, tree: Path) -> None:
        """Another version in the place of the one that runs, and Airflow's services started again."""
        point_link(self.product, tree)
        before = {name: int(self.stack.variables[name]) for name in SERVICES}
        services = [psutil.Process(pid) for pid in before.values()]
        for service in services:
            service.terminate()
        for service in psutil.wait_procs(services, timeout=STOP_SECONDS)[1]:
            service.kill()
        wait_until(
            lambda: all(int(self.stack.variables[name]) != pid for name, pid in before.items()),
            "services",
            DEADLINE_SECONDS,
        )

    # what must be so

    def find_differences(self) -> list[str]:
        """A line for each table that does not equal what was sent."""
        lake = load_catalog("lake", **build_lake(self.folder))
        differences = verdict.compare_rows(lake, self, TABLES)  # type: ignore[arg-type]
        for name in WAREHOUSE:
            differ = self._read_warehouse(name).items() ^ self.rows[name].items()
            differences += [f"{name}: {len(differ)} rows differ"] if differ else []
        return differences

    def _read_warehouse(self, table: str) -> Rows:
        from google.api_core.exceptions import NotFound

        try:
            rows = self.ask_warehouse(f"SELECT id, name FROM `{table}`")
        except NotFound:
            return {}
        assert len({row["id"] for row in rows}) == len(rows), f"{table}: a key stands twice"
        return {row["id"]: row["name"] for row in rows}

    def find_leftovers(self) -> list[str]:
        """Branches, staged rows, repeats in a history, and groups that are not at the end."""
        lake = load_catalog("lake", **build_lake(self.folder))
        leftovers = verdict.find_leftovers(lake, TABLES)
        for name in TABLES:
            leftovers += verdict.find_repeats(lake, name)
        for name in WAREHOUSE:
            staged = self.ask_warehouse(f"SELECT COUNT(*) AS rows FROM `{name}_{name}_tmp`")[0]["rows"]
            leftovers += [f"{name}: {staged} staged rows"] if staged else []
            leftovers += verdict.list_repeats(self.ask_warehouse(f"SELECT * FROM `tidegate_{name}_batches`"))
        lag = {name: verdict.find_lag(self.stack.kafka_bootstrap, name) for name in PIPELINES}
        return leftovers + [f"{name}: {places}" for name, places in lag.items() if places]

    def ask_warehouse(self, statement: str) -> list[dict[str, Any]]:
        from google.cloud.bigquery import QueryJobConfig

        client = build_client(self.stack.bigquery_endpoint)
        config = QueryJobConfig(default_dataset=f"{client.project}.{DATASET}")
        return [dict(row) for row in client.query(statement, job_config=config).result()]


def write_pipeline(folder: Path, name: str, **words: str) -> None:
    (folder / "include" / "pipelines" / f"{name}.yaml").write_text(describe(name, **words))


def point_link(link: Path, target: Path) -> None:
    """Replace the link in one step: it always exists."""
    fresh = link.with_name(f"{link.name}.new")
    fresh.symlink_to(target)
    fresh.replace(link)
