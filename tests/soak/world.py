"""The servers of the soak, the two processes that flush, and their counts of open resources."""

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import yaml
from background_server import tie_to_test
from confluent_kafka.admin import AdminClient, NewTopic
from conftest import ROOT, wait_until
from fault_proxy import FaultProxy, run_fault_proxy
from lake_servers import LakeCatalog, LakeServers, list_objects
from pyiceberg.catalog import Catalog
from spark_counts import Counts, SparkServer

from local.lake import s3
from local.lake.catalog import VARIABLE
from local.stack import Stack, start_stack
from soak.pipelines import CATALOGS, PARTITIONS, SoakPipeline

PARTS = {"kafka", "brokers", "secure", "spark", "postgres", "rest", "s3"}
DEADLINE_SECONDS = 1800.0
FLUSHES_AT_ONCE = 4
OF_SPARK = "application_name = 'PostgreSQL JDBC Driver'"


class Runner:
    """`tidegate run` in its own process: it is started again after each kill, and ends with the test."""

    def __init__(self, world: "World", name: str, *pipelines: str) -> None:
        self._world, self._words = world, pipelines
        self.events_path, self.log_path = world.folder / f"{name}.json", world.folder / f"{name}.log"
        self.start()

    def start(self) -> None:
        command = [str(ROOT / "bin" / "tidegate"), "run", "--json", "--flushes-at-once", str(FLUSHES_AT_ONCE)]
        with self.events_path.open("a") as output, self.log_path.open("a") as errors:
            self.process = subprocess.Popen(
                tie_to_test([*command, *self._words]),
                env=self._world.environment,
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )

    def kill(self) -> None:
        """Kill the process with SIGKILL, as if its machine had failed."""
        self.process.kill()
        self.process.wait(60)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(DEADLINE_SECONDS)

    def read_events(self) -> Iterator[dict[str, Any]]:
        """The events that it has written, without a last line that a kill has cut off."""
        for line in self.events_path.read_text().splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                continue


@dataclass(frozen=True)
class Look:
    """What was open and kept at one moment, beside what `Counts` says of the Spark server."""

    flushes: int
    spark_pid: int
    spark: Counts
    runner_pid: int
    runner_megabytes: int
    runner_threads: int
    runner_descriptors: int
    database_connections: int
    objects: int
    object_megabytes: int

    def __str__(self) -> str:
        figures = " ".join(f"{name}={value}" for name, value in asdict(self).items() if name != "spark")
        return f"{figures} | Spark: {self.spark}"


class World:
    """All of it. The first runner has every pipeline, the second some of them too, so that both flush these."""

    def __init__(
        self, stack: Stack, folder: Path, proxies: tuple[FaultProxy, FaultProxy], catalogs: dict[str, LakeCatalog]
    ) -> None:
        self.stack, self.folder = stack, folder
        self.rest, self.store = proxies
        self._catalogs, self.include = catalogs, folder / "include"
        (self.include / "pipelines").mkdir(parents=True)
        entries = {name: {**catalog.entry, "connection": name} for name, catalog in catalogs.items()}
        (self.include / "catalogs.yaml").write_text(yaml.safe_dump(entries))
        connections = {
            f"AIRFLOW_CONN_{name.upper()}": catalog.environment[VARIABLE] for name, catalog in catalogs.items()
        }
        self.environment = {**stack.build_environment(), **connections, "TIDEGATE_INCLUDE": str(self.include)}
        self.runners: list[Runner] = []

    def write_pipelines(self, pipelines: Sequence[SoakPipeline], interval_seconds: int) -> None:
        """Topics and files of all."""
        admin = AdminClient({**self.stack.kafka_admin, "log_level": 0})
        topics = [NewTopic(topic, PARTITIONS) for pipeline in pipelines for topic in pipeline.topics]
        for future in admin.create_topics(topics).values():
            future.result(60)
        for pipeline in pipelines:
            text = yaml.safe_dump(pipeline.describe(interval_seconds), sort_keys=False)
            (self.include / "pipelines" / f"{pipeline.name}.yaml").write_text(text)

    def start_runners(self, *shared: str) -> None:
        """One with every pipeline, one with those that it shares with the first."""
        self.runners = [Runner(self, "runner"), Runner(self, "second", *shared)]

    def open_catalog(self, name: str) -> Catalog:
        """By PyIceberg, past the proxies' faults: those are for the product."""
        from tidegate.adapters.iceberg.catalog import Catalogs

        catalog_servers = self._catalogs[name].through(
            self.rest.backend if name == CATALOGS[0] else "", self.store.backend
        )
        return Catalogs({name: catalog_servers.properties}).catalog(name)

    def open_session(self, pipeline: str) -> Any:
        """The real ports of a pipeline, in this process."""
        from tidegate.connections import read_connection_from_env
        from tidegate.wiring.pipeline import assemble_pipeline

        return assemble_pipeline(self.include, pipeline, partial(read_connection_from_env, environ=self.environment))

    def read_committed(self, pipeline: str) -> Any:
        """The offsets that its consumer group has committed."""
        session = self.open_session(pipeline)
        return session.broker.read_committed(session.pipeline.source.group, session.pipeline.source.topics)

    def read_ends(self, pipeline: str) -> Any:
        """Where its topics end."""
        session = self.open_session(pipeline)
        return session.broker.read_log(session.pipeline.source.topics, "read_committed").end

    def wait_for_new_process(self, variable: str, before: str) -> None:
        """Until the stack has started a server again."""
        wait_until(lambda: self.stack.variables.get(variable, before) != before, f"a new {variable}", DEADLINE_SECONDS)

    # what is counted

    def count_flushes(self) -> int:
        """The batches that a runner has reported as published."""
        return sum(event["event"] == "published" for runner in self.runners for event in runner.read_events())

    def list_flushed(self) -> set[str]:
        """The works, such as `pipeline=p00`, that have published a batch."""
        return {
            event["work"] for runner in self.runners for event in runner.read_events() if event["event"] == "published"
        }

    def count_failures(self) -> Counter[str]:
        """By their reasons' first words, without what differs from one to the next."""
        events = (event for runner in self.runners for event in runner.read_events())
        return Counter(event["reason"][:120] for event in events if event["event"] == "failed")

    def look(self) -> Look:
        """Everything at this moment; the Spark server collects its garbage for it."""
        pid = int(self.stack.variables["SPARK_PID"])
        connections = self.count_database_connections()
        runner = psutil.Process(self.runners[0].process.pid)
        sizes = [info.size for info in self._list_objects() if info.size is not None]  # a folder has none
        return Look(
            flushes=self.count_flushes(),
            spark_pid=pid,
            spark=SparkServer(pid, self.stack.run_dir / "spark").count(connections),
            runner_pid=runner.pid,
            runner_megabytes=runner.memory_info().rss // 1_000_000,
            runner_threads=runner.num_threads(),
            runner_descriptors=runner.num_fds(),
            database_connections=connections,
            objects=len(sizes),
            object_megabytes=sum(sizes) // 1_000_000,
        )

    def count_database_connections(self) -> int:
        """Of Spark's sessions to the catalog in PostgreSQL."""
        import psycopg2

        connection = psycopg2.connect(self._catalogs[CATALOGS[1]].properties["uri"].replace("+psycopg2", ""))
        try:
            with connection.cursor() as cursor:
                cursor.execute(f"SELECT count(*) FROM pg_stat_activity WHERE {OF_SPARK}")
                return int(cursor.fetchone()[0])
        finally:
            connection.close()

    def _list_objects(self) -> list[Any]:
        properties = self._catalogs[CATALOGS[0]].through(store=self.store.backend).properties
        return list_objects(properties, s3.BUCKET)


@contextmanager
def run_world(folder: Path) -> Iterator[World]:
    """The servers behind proxies; all of it ends with the block."""
    with ExitStack() as block:
        stack = start_stack(folder / "run", PARTS, tied_to=os.getpid())
        block.callback(stack.stop)
        variables = stack.variables
        servers = LakeServers(variables, lambda: "", lambda: "")
        rest_proxy = block.enter_context(run_fault_proxy(variables["REST_CATALOG_URI"]))
        store = block.enter_context(run_fault_proxy(variables["S3_ENDPOINT"]))
        catalogs = {
            CATALOGS[0]: servers.make_catalog("rest", "s3", folder).through(rest_proxy.address, store.address),
            CATALOGS[1]: servers.make_catalog("postgres", "s3", folder).through(store=store.address),
        }
        world = World(stack, folder, (rest_proxy, store), catalogs)
        try:
            yield world
        finally:
            for runner in world.runners:
                if runner.process.poll() is None:
                    runner.kill()
