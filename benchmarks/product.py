"""Owns running the product: its pipeline files, a flush in a worker process, and what that costs worker and server."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.measure import Peak, cpu_seconds, resident_mb, run
from benchmarks.work import COLUMNS
from local.stack import Stack

# pipeline -> the catalog that it alone writes; the peers' catalogs stand beside them, so that one session reads all
CATALOGS = {"bench": "lake", "warm_up": "warm", "peer": "peer", "peer_warm": "peer_warm"}
PIPELINES = ("bench", "warm_up")


@dataclass(frozen=True)
class Flush:
    """One flush. `server_cpu` and `server_mb` are the Spark server's, `worker_*` the process that ran the steps."""

    wall: float
    worker_cpu: float
    server_cpu: float
    worker_mb: int
    server_mb: int
    server_mb_before: int
    steps: dict[str, dict[str, float]]
    batches: list[dict[str, Any]]

    @property
    def cpu(self) -> float:
        """CPU seconds of both."""
        return self.worker_cpu + self.server_cpu


def lake(folder: Path, name: str) -> Path:
    """The folder of one catalog: its file and its warehouse."""
    return folder / "lakes" / CATALOGS[name]


def table(name: str) -> str:
    """The destination of a pipeline or a peer."""
    return f"{CATALOGS[name]}.shop.orders"


def write_include(folder: Path, max_records: int) -> Path:
    """Pipeline files and catalogs of this run, with defaults wherever the work does not ask for more."""
    include = folder / "include"
    (include / "pipelines").mkdir(parents=True)
    catalogs = {}
    for name, catalog in CATALOGS.items():
        place = lake(folder, name)
        place.mkdir(parents=True)
        properties = {"type": "sql", "uri": f"sqlite:///{place}/catalog.db", "warehouse": f"file://{place}/warehouse"}
        catalogs[catalog] = {"type": "iceberg", "properties": properties}
    (include / "catalogs.yaml").write_text(yaml.safe_dump(catalogs))
    for name in PIPELINES:
        key = {"format": "json", "fields": ["id"], "schema": "id BIGINT"}
        value = {"format": "json", "schema": COLUMNS}
        pipeline = {
            "source": {"topics": [name], "key": key, "value": value},
            "tables": [{"name": table(name)}],
            "merge": {"max_records": max_records},
        }
        (include / "pipelines" / f"{name}.yaml").write_text(yaml.safe_dump(pipeline))
    return include


def flush(stack: Stack, include: Path, pipeline: str, log: Path) -> Flush:
    """Flush the pipeline once; RuntimeError when it fails or the server was another one at the end."""
    server = int(stack.variables["SPARK_PID"])
    environment = {**stack.environment(), "TIDEGATE_INCLUDE": str(include)}
    cpu, before = cpu_seconds(server), resident_mb(server)
    with Peak(server) as peak:
        worker = run("benchmarks.flush_worker", {"pipeline": pipeline, "server": server}, environment, log)
    spent = cpu_seconds(server) - cpu
    if int(stack.variables["SPARK_PID"]) != server:
        raise RuntimeError(f"the Spark server was restarted during the flush of pipeline={pipeline}")
    return Flush(
        wall=worker.wall,
        worker_cpu=worker.cpu,
        server_cpu=spent,
        worker_mb=worker.peak_mb,
        server_mb=peak.mb,
        server_mb_before=before,
        steps=worker.said["steps"],
        batches=worker.said["batches"],
    )


def read(stack: Stack, include: Path, tables: list[str], log: Path) -> dict[str, Any]:
    """Read time, figures and files of each table, through the stack's Spark server."""
    environment = {**stack.environment(), "TIDEGATE_INCLUDE": str(include)}
    request = {"tables": tables, "warm_up": table("warm_up"), "remote": stack.spark_remote}
    return run("benchmarks.read_worker", request, environment, log).said
