"""Runs the Spark peer in its own JVM, with the settings of the product's Spark server."""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from benchmarks.measure import run
from benchmarks.work import COLUMNS, Assignment
from local import spark
from local.layout import RunDir
from local.server import build_clean_environment

SERVERS_OWN = "spark.connect."


@dataclass(frozen=True)
class Moment:
    """Seconds and CPU seconds since the start."""

    wall: float
    cpu: float

    def __sub__(self, start: "Moment") -> "Moment":
        return Moment(self.wall - start.wall, self.cpu - start.cpu)


@dataclass(frozen=True)
class Run:
    """One run of the peer: until its session answered, until it was warm, and until the table was done."""

    ready: Moment
    warm: Moment
    done: Moment
    peak_mb: int

    @property
    def work(self) -> Moment:
        """The work alone: without the JVM's start and the warm-up."""
        return self.done - self.warm


def consume(assignment: Assignment, warm_up: str, per_batch: int = 0, *, merges_once: bool = False) -> Run:
    """Bring the topic into ``shop.orders`` of the catalog named like its folder; RuntimeError when it fails.

    `per_batch` caps what one batch reads, 0 for one batch of everything. `merges_once` stages the batches in a table
    beside, and merges them as one.
    """
    settings = spark.build_server(RunDir(assignment.place), 0)
    settings.prepare()
    request = {
        "conf": {**_read_conf(settings.command), **_build_catalog_conf(assignment.place)},
        "catalog": assignment.place.name,
        "topic": assignment.topic,
        "warm_up": warm_up,
        "bootstrap": assignment.bootstrap,
        "folder": str(assignment.place),
        "columns": COLUMNS,
        "per_batch": per_batch,
        "merges_once": merges_once,
    }
    answer = run("benchmarks.peer_foreach_batch", request, build_clean_environment(), assignment.log, assignment.limit)
    marks = {mark: Moment(**times) for mark, times in answer.said.items()}
    return Run(marks["ready"], marks["warm"], marks["done"], answer.peak_mb)


def _read_conf(command: tuple[str, ...]) -> dict[str, str]:
    """The `--conf` words of the server's command, without those of its service."""
    words = [word for flag, word in pairwise(command) if flag == "--conf"]
    return dict(word.split("=", 1) for word in words if not word.startswith(SERVERS_OWN))


def _build_catalog_conf(place: Path) -> dict[str, str]:
    """An Iceberg catalog in Spark's words."""
    prefix = f"spark.sql.catalog.{place.name}"
    return {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.type": "jdbc",
        f"{prefix}.jdbc.schema-version": "V1",
        f"{prefix}.uri": f"jdbc:sqlite:{place}/catalog.db",
        f"{prefix}.warehouse": f"file://{place}/warehouse",
    }
