"""The stack of the night: brokers, Spark, Airflow, catalogs behind doors that close, and a browser."""

import json
import os
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from conftest import ROOT, Workbench
from e2e.airflow_client import AirflowClient
from e2e.browser import log_in, run_browser
from fault_proxy import FaultProxy, run_fault_proxy
from guarded_broker import GuardedBroker, run_guarded_broker
from relay import Relay
from schema_registry import SchemaRegistry

from local.airflow.settings import LOGINS_VARIABLE
from local.ports import HOST
from local.stack import start_stack
from night.operator_hand import OperatorHand

USER, PASSWORD = "admin", "tidal-admin"
BROKER_PASSWORD = "brokers-s3cret-w0rd"
PARTS = {"kafka", "spark", "postgres", "rest", "airflow"}
SMALL_DISK_MB = 16


@dataclass(frozen=True)
class Doors:
    """Servers that a failure can take away, with their addresses before the stack is up."""

    registry: SchemaRegistry
    to_registry: Relay
    to_postgres: Relay
    rest: FaultProxy
    guarded: GuardedBroker
    small_disk: Path | None  # a file system of its own; None where this user may mount none


@dataclass
class Scene:
    """Everything that a failure may touch. `bench` has the topics, the pipeline files and the catalog `lake`."""

    bench: Workbench
    doors: Doors
    airflow: AirflowClient
    hand: OperatorHand

    def open_table(self, name: str) -> Any:
        """A fresh load by PyIceberg, past every door that a failure may close; None where there is no such table."""
        from tidegate.adapters.iceberg.catalog import Catalogs

        catalog = name.partition(".")[0]
        return Catalogs({catalog: find_properties(self, catalog)}).table(name)

    def run_printed(self, command: str, answer: str = "yes") -> str:
        """A command as it is printed, in the project's folder, with `answer` typed where it asks; what it wrote."""
        process = subprocess.run(
            shlex.split(command),
            cwd=ROOT,
            env=self.bench.build_environment(),
            input=f"{answer}\n",
            capture_output=True,
            text=True,
            check=False,
        )
        assert process.returncode == 0, f"{command}: {process.stdout}{process.stderr}"
        return process.stdout

    def set_connection(self, name: str, **fields: Any) -> None:
        """Make or change a connection as Airflow's form does."""
        self.airflow.save_connection({"connection_id": name, **fields})

    def run_sql(self, *statements: str) -> None:
        """Statements of the database server's administrator."""
        import psycopg2

        variables = self.bench.stack.variables
        place = urlsplit(variables["POSTGRES_URI"])
        login = {"user": variables["POSTGRES_USER"], "password": variables["POSTGRES_PASSWORD"]}
        connection = psycopg2.connect(host=place.hostname, port=place.port, dbname=place.path[1:], **login)
        connection.autocommit = True
        try:
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
        finally:
            connection.close()


def find_properties(scene: Scene, catalog: str) -> dict[str, str]:
    """What PyIceberg opens a catalog with, by its server's own address."""
    entry = yaml.safe_load((scene.bench.include / "catalogs.yaml").read_text())[catalog]
    properties: dict[str, str] = dict(entry["properties"])
    variables = scene.bench.stack.variables
    if catalog == "guarded_rest":
        properties["uri"] = scene.doors.rest.backend
    if "connection" in entry:
        login = f"{variables['POSTGRES_USER']}:{variables['POSTGRES_PASSWORD']}"
        place, database = urlsplit(variables["POSTGRES_URI"]), properties["uri"].rsplit("/", 1)[1]
        properties["uri"] = f"postgresql+psycopg2://{login}@{place.netloc}/{database}"
    return properties


@contextmanager
def open_doors(folder: Path) -> Iterator[Doors]:
    """Start the proxies in front of the stack."""
    with ExitStack() as cleanup:
        registry = SchemaRegistry()
        cleanup.callback(registry.close)
        place = urlsplit(registry.url)
        broker = cleanup.enter_context(run_guarded_broker(folder / "guarded", keep_offsets_minutes=7 * 24 * 60))
        broker.add_user("tidegate", BROKER_PASSWORD)
        yield Doors(
            registry=registry,
            to_registry=Relay(HOST, place.port or 0),
            to_postgres=Relay(HOST, 1),  # where to is known when the stack is up
            rest=cleanup.enter_context(run_fault_proxy("http://127.0.0.1:1")),
            guarded=broker,
            small_disk=cleanup.enter_context(mount_small_disk(folder / "small")),
        )


@contextmanager
def mount_small_disk(folder: Path) -> Iterator[Path | None]:
    """A file system of a few megabytes, where this user may mount one."""
    folder.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK_MB}m", "tmpfs", str(folder)]
    is_mounted = os.geteuid() == 0 and subprocess.run(command, capture_output=True, check=False).returncode == 0
    try:
        yield folder if is_mounted else None
    finally:
        if is_mounted:
            subprocess.run(["umount", "-l", str(folder)], check=False)


def write_catalogs(bench: Workbench, doors: Doors) -> None:
    """The catalogs beside `lake`: each is for one kind of failure."""
    folder = bench.folder
    behind_relay = f"postgresql+psycopg2://{HOST}:{doors.to_postgres.port}"
    small = f"file://{doors.small_disk or folder / 'small'}"
    properties: dict[str, dict[str, str]] = {
        "lake": bench.properties,
        "remote": {"type": "sql", "uri": f"{behind_relay}/postgres", "warehouse": f"file://{folder}/remote"},
        "rotated": {"type": "sql", "uri": f"{behind_relay}/rotated", "warehouse": f"file://{folder}/rotated"},
        "guarded_rest": {"type": "rest", "uri": doors.rest.address},
        "small": {"type": "sql", "uri": f"sqlite:///{folder}/small.db", "warehouse": small},
        "shut": {"type": "sql", "uri": f"sqlite:///{folder}/shut.db", "warehouse": f"file://{folder}/shut"},
    }
    catalogs: dict[str, Any] = {
        name: {"type": "iceberg", "properties": options} for name, options in properties.items()
    }
    catalogs["remote"]["connection"], catalogs["rotated"]["connection"] = "remote_login", "rotated_login"
    (bench.include / "catalogs.yaml").write_text(yaml.safe_dump(catalogs))


@contextmanager
def open_scene(folder: Path, write_files: Any) -> Iterator[Scene]:
    """The stack, started and stopped here; `write_files` writes the pipeline files once the doors are known."""
    with ExitStack() as cleanup:
        doors = cleanup.enter_context(open_doors(folder))
        bench = Workbench(None, None, None, folder)
        (bench.include / "publications").mkdir()
        write_catalogs(bench, doors)
        write_files(bench, doors)
        logins = folder / "logins.json"
        logins.write_text(json.dumps({USER: PASSWORD}))
        broker = {"conn_type": "kafka", "extra": doors.guarded.settings("tidegate", BROKER_PASSWORD)}
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(LOGINS_VARIABLE, str(logins))
            patch.setenv("AIRFLOW_CONN_KAFKA_GUARDED", json.dumps(broker))
            stack = start_stack(folder / "run", parts=PARTS, include=bench.include, tied_to=os.getpid())
        cleanup.callback(stack.stop)
        server = {"bootstrap.servers": stack.kafka_bootstrap, "log_level": 0}
        bench.stack, bench.admin, bench._producer = stack, AdminClient(server), Producer(server)
        doors.rest.backend = stack.variables["REST_CATALOG_URI"]
        doors.to_postgres.target = (HOST, urlsplit(stack.variables["POSTGRES_URI"]).port or 0)
        airflow = AirflowClient(stack.airflow_url, USER, PASSWORD)
        chromium = cleanup.enter_context(run_browser())
        window = cleanup.enter_context(log_in(chromium, stack.airflow_url, USER, PASSWORD))
        yield Scene(bench, doors, airflow, OperatorHand(window, stack.airflow_url))
