"""A running stack with two schedulers and one of the executors, and the hands that break parts of it."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from e2e.airflow_client import AirflowClient, wait_until
from e2e.executors import verdict
from e2e.executors.metadata import Metadata, RunningTask
from e2e.executors.pipelines import DAGS, NAMESPACE, TABLES, describe_pipeline, find_dag
from e2e.executors.traffic import Traffic
from pyiceberg.catalog import Catalog, load_catalog

from local.lake import postgres
from local.layout import RunDir
from local.stack import Stack

DEADLINE_SECONDS = 900.0


@dataclass
class Land:
    """The stack, and what its tables are to hold."""

    executor: str
    stack: Stack
    airflow: AirflowClient
    metadata: Metadata
    traffic: Traffic
    folder: Path
    tables: dict[str, list[str]] = field(default_factory=lambda: {name: list(names) for name, names in TABLES.items()})

    # what runs

    @contextmanager
    def keep_producing(self) -> Iterator[None]:
        """Every DAG flushes and all topics get records; in the end every table must equal what was sent.

        The DAGs go on afterwards, without work: Airflow lets no run of a paused one come to its end.
        """
        self.traffic.begin()
        try:
            for dag in DAGS:
                self.airflow.unpause(dag)
            yield
        finally:
            self.traffic.end()
        self._come_to_rest()

    def _come_to_rest(self) -> None:
        catalog = self.open_catalog()
        verdict.wait_until_clean(
            lambda: verdict.compare_rows(catalog, self.traffic, self.tables), "every table as sent", DEADLINE_SECONDS
        )
        verdict.wait_until_clean(lambda: verdict.find_leftovers(catalog, self.tables), "the clean-up", DEADLINE_SECONDS)
        bootstrap = self.stack.kafka_bootstrap
        lag = {name: lambda name=name: verdict.find_lag(bootstrap, name) for name in self.tables}
        verdict.wait_until_clean(
            lambda: [f"{name}: {lag[name]()}" for name in lag if lag[name]()], "the groups at the end", DEADLINE_SECONDS
        )
        assert [line for name in self.tables for line in verdict.find_repeats(catalog, name)] == []

    def open_catalog(self) -> Catalog:
        return load_catalog("lake", **build_lake(self.folder))

    def has_branch(self, pipeline: str) -> bool:
        """Whether a merge of the pipeline's first table is under way."""
        refs = self.open_catalog().load_table(f"{NAMESPACE}.{self.tables[pipeline][0]}").metadata.refs
        return any(name.startswith(f"tidegate_{pipeline}_") for name in refs)

    # what breaks

    @contextmanager
    def catch_task(self, pipeline: str, task_id: str) -> Iterator[RunningTask]:
        """Catch a task while it runs: Spark is frozen until the block ends, so that the task cannot go on."""
        dag = find_dag(pipeline)
        table = f"{NAMESPACE}.{self.tables[pipeline][0]}"
        wait_until(lambda: self.open_catalog().table_exists(table), f"the first flush of {pipeline}", DEADLINE_SECONDS)
        while True:
            wait_until(lambda: self._is_in(pipeline, task_id), f"{task_id} of {pipeline}", DEADLINE_SECONDS, pause=0.05)
            with freeze_spark(self.stack):
                task = self.metadata.find_running(dag, task_id)
                if task is not None and (task_id != "merge" or self.has_branch(pipeline)):
                    yield task
                    return

    def _is_in(self, pipeline: str, task_id: str) -> bool:
        if task_id == "merge":
            return self.has_branch(pipeline)
        return self.metadata.find_running(find_dag(pipeline), task_id) is not None

    def kill_worker(self, task: RunningTask, *, with_task: bool = True) -> None:
        """SIGKILL for the worker that runs the task, at once with all that it runs, as if its machine were gone.

        Without `with_task`, the process of the task lives on, and no worker reports its end.
        """
        worker = psutil.Process(task.pid).parent()
        assert worker is not None
        if self.executor == "CeleryExecutor":
            worker = worker.parent()  # the one whose pool this is
            assert worker is not None
        kill_all(
            [process for process in (worker, *worker.children(recursive=True)) if with_task or process.pid != task.pid]
        )

    def kill_scheduler(self, task: RunningTask) -> None:
        """SIGKILL for a scheduler with all that it runs: that of the task, where the executor runs tasks itself."""
        pids = {int(self.stack.variables[name]) for name in ("AIRFLOW_PID", "AIRFLOW_2_PID")}
        above = {process.pid for process in psutil.Process(task.pid).parents()}
        scheduler = psutil.Process(min(pids & above or pids))
        kill_all([scheduler, *scheduler.children(recursive=True)])

    def restart_database(self, how: signal.Signals) -> None:
        """End PostgreSQL (SIGINT: it cuts off its clients; SIGQUIT: it crashes), and wait until it is there again."""
        before = self.stack.variables["POSTGRES_PID"]
        os.kill(int(before), how)
        wait_until(lambda: self.stack.variables["POSTGRES_PID"] != before, "PostgreSQL's new process")
        wait_until(self.metadata.is_answering, "PostgreSQL")

    @contextmanager
    def stop_database(self) -> Iterator[None]:
        """Cut off its clients, and let every start of it fail until the block ends."""
        before = self.stack.variables["POSTGRES_PID"]
        data = postgres.find_folder(RunDir(self.stack.run_dir)) / "data"
        hidden_folder = data.rename(
            data.with_name("away")
        )  # whoever keeps it starts it again at once, and finds nothing
        try:
            os.kill(int(before), signal.SIGINT)
            wait_until(lambda: not self.metadata.is_answering(), "the end of PostgreSQL")
            yield
        finally:
            hidden_folder.rename(data)
        wait_until(lambda: self.stack.variables["POSTGRES_PID"] != before, "PostgreSQL's new process", DEADLINE_SECONDS)
        wait_until(self.metadata.is_answering, "PostgreSQL")

    def change_tables(self, pipeline: str, tables: list[str]) -> None:
        """Write the pipeline's file anew, and wait until Airflow has read it as another version of the DAG."""
        dag = find_dag(pipeline)
        before = self.metadata.count_versions(dag)
        self.tables[pipeline] = tables
        write_pipeline(self.folder, pipeline, tables)
        self.airflow.parse_again(dag)
        wait_until(lambda: self.metadata.count_versions(dag) > before, f"another version of {dag}", DEADLINE_SECONDS)


def kill_all(processes: list[psutil.Process]) -> None:
    """Kill parents first: a dead parent cannot report the end of its child."""
    for process in processes:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue


def write_pipeline(folder: Path, name: str, tables: list[str]) -> None:
    (folder / "include" / "pipelines" / f"{name}.yaml").write_text(describe_pipeline(name, tables))


@contextmanager
def freeze_spark(stack: Stack) -> Iterator[None]:
    """Freeze the Spark server until the block ends, so that a task stays in its middle."""
    server = int(stack.variables["SPARK_PID"])
    os.kill(server, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server, signal.SIGCONT)


def build_lake(folder: Path) -> dict[str, str]:
    return {
        "type": "sql",
        "uri": f"sqlite:///{folder}/catalog.db?timeout=60",
        "warehouse": f"file://{folder}/warehouse",
    }
