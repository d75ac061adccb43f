"""Owns running the product: its catalogs and pipeline files, flushes in a worker process, and what those cost."""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from benchmarks.measure import Peak, count_cpu_seconds, measure_resident_mb, run
from benchmarks.spark_server import SparkServer
from benchmarks.work import COLUMNS, Truth

OWN = "lake"  # the product's catalog; a peer has one by its name, so that one session reads all
NAMESPACE = "shop"
CHILD_SECONDS = 7200


@dataclass(frozen=True)
class Flush:
    """One flush, or several in a row. `server_*` are the Spark server's, `worker_*` the process that ran the steps."""

    wall: float
    worker_cpu: float
    server_cpu: float
    worker_mb: int
    server_mb: int
    server_mb_before: int
    begun: float  # seconds since 1970
    ended: float
    steps: dict[str, dict[str, float]]
    batches: list[dict[str, Any]]

    @property
    def cpu(self) -> float:
        """CPU seconds of both."""
        return self.worker_cpu + self.server_cpu


@dataclass
class Lake:
    """An include folder with catalogs of its own, and the tables that were written into them."""

    folder: Path
    catalogs: dict[str, Any] = field(default_factory=dict)
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        (self.include / "pipelines").mkdir(parents=True)
        self.logs.mkdir()
        self.declare_catalog(OWN)

    @property
    def include(self) -> Path:
        """What TIDEGATE_INCLUDE names."""
        return self.folder / "include"

    @property
    def logs(self) -> Path:
        """One log for each process."""
        return self.folder / "logs"

    def declare_catalog(self, name: str) -> Path:
        """Declare a catalog, in SQLite and local files, if it is not there; its folder."""
        place = self.folder / "lakes" / name
        if name not in self.catalogs:
            place.mkdir(parents=True)
            properties = {
                "type": "sql",
                "uri": f"sqlite:///{place}/catalog.db",
                "warehouse": f"file://{place}/warehouse",
            }
            self.catalogs[name] = {"type": "iceberg", "properties": properties}
            (self.include / "catalogs.yaml").write_text(yaml.safe_dump(self.catalogs))
        return place

    def write_pipeline(self, name: str, topic: str, max_records: int, *, idle_topic: str = "", **table: Any) -> str:
        """Write a pipeline file, with defaults wherever the work does not ask for more; its table.

        `idle_topic` is read by a table beside it.
        """
        key = {"format": "json", "fields": ["id"], "schema": "id BIGINT"}
        value = {"format": "json", "schema": COLUMNS}
        content: dict[str, Any] = {
            "source": {"topics": [topic, *([idle_topic] if idle_topic else [])], "key": key, "value": value},
            "tables": [{"name": name_table(name), **table}],
            "merge": {"max_records": max_records},
        }
        if idle_topic:
            content["tables"][0]["topics"] = [topic]
            content["tables"].append({"name": f"{name_table(name)}_idle", "topics": [idle_topic]})
        (self.include / "pipelines" / f"{name}.yaml").write_text(yaml.safe_dump(content))
        return name_table(name)

    def ask(self, server: SparkServer, module: str, request: Mapping[str, Any], name: str) -> Any:
        """Run a worker of this package as a client of the server."""
        environment = {**server.build_environment(), "TIDEGATE_INCLUDE": str(self.include)}
        log = self.logs / f"{name}-{next(self.numbers)}.log"
        payload = {**request, "remote": server.remote, "server": server.pid}
        return run(f"benchmarks.{module}", payload, environment, log, CHILD_SECONDS)


def name_table(pipeline: str) -> str:
    """The destination of a pipeline."""
    return f"{OWN}.{NAMESPACE}.{pipeline}"


def name_peer_table(peer: str) -> str:
    """The table that a peer writes, in the catalog of its name."""
    return f"{peer}.{NAMESPACE}.orders"


def flush(server: SparkServer, lake: Lake, pipeline: str, times: int = 1, compacts: bool = False) -> Flush:
    """Flush the pipeline so often in one process, or until nothing is left; RuntimeError when it fails.

    `compacts` is what the flush DAG does behind a flush, and the command does not.
    """
    return _measure(server, lake, {"pipeline": pipeline, "times": times, "compacts": compacts, "stages": 0})


def stage(server: SparkServer, lake: Lake, pipeline: str, batches: int) -> Flush:
    """Stage so many batches in one process, and merge none; RuntimeError when it fails."""
    return _measure(server, lake, {"pipeline": pipeline, "times": 0, "compacts": False, "stages": batches})


def _measure(server: SparkServer, lake: Lake, request: Mapping[str, Any]) -> Flush:
    cpu, before = count_cpu_seconds(server.pid), measure_resident_mb(server.pid)
    with Peak(server.pid) as peak:
        worker = lake.ask(server, "flush_worker", request, request["pipeline"])
    return Flush(
        wall=worker.wall,
        worker_cpu=worker.cpu,
        server_cpu=count_cpu_seconds(server.pid) - cpu,
        worker_mb=worker.peak_mb,
        server_mb=peak.mb,
        server_mb_before=before,
        begun=worker.said["begun"],
        ended=worker.said["ended"],
        steps=worker.said["steps"],
        batches=worker.said["batches"],
    )


def read(server: SparkServer, lake: Lake, tables: Iterable[str], warm_up: str) -> dict[str, Any]:
    """Read time, figures and files of each table; `warm_up` is another table, which is read first."""
    answer: dict[str, Any] = lake.ask(server, "read_worker", {"tables": [*tables], "warm_up": warm_up}, "read").said
    return answer


def run_statements(server: SparkServer, lake: Lake, *texts: str) -> float:
    """Run SQL by hand; CPU seconds of the server."""
    before = count_cpu_seconds(server.pid)
    lake.ask(server, "sql_worker", {"statements": texts}, "sql")
    return count_cpu_seconds(server.pid) - before


def is_right(truth: Truth, figures: Mapping[str, Any]) -> bool:
    """Whether a table that was read equals the truth."""
    return truth.is_equal(figures["rows"], figures["amount"] or 0.0, figures["updated_at"] or 0)
