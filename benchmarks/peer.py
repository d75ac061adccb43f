"""Owns running the peer in a JVM of its own, with the very settings that the stack's Spark server gets."""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from benchmarks.measure import run
from benchmarks.product import CATALOGS, lake
from benchmarks.work import COLUMNS
from local import spark
from local.layout import RunDir
from local.server import clean_environment

SERVERS_OWN = "spark.connect."


@dataclass(frozen=True)
class Spent:
    """Seconds and CPU seconds."""

    wall: float
    cpu: float

    def __sub__(self, other: "Spent") -> "Spent":
        return Spent(self.wall - other.wall, self.cpu - other.cpu)


@dataclass(frozen=True)
class Run:
    """One run of the peer: until its session answered, until it was warm, and until the table was done."""

    ready: Spent
    warm: Spent
    done: Spent
    peak_mb: int

    @property
    def work(self) -> Spent:
        """The work alone: without the JVM's start and, where there was one, without the warm-up."""
        return self.done - self.warm


def follow(bootstrap: str, folder: Path, name: str, topic: str, warm_up: str | None) -> Run:
    """Let the peer bring the topic into a new table of the catalog of that name; RuntimeError when it fails."""
    settings = spark.server(RunDir(folder / name), 0)
    settings.prepare()
    request = {
        "conf": {**_configuration(settings.command), **_catalog(CATALOGS[name], lake(folder, name))},
        "catalog": CATALOGS[name],
        "topic": topic,
        "warm_up": warm_up,
        "bootstrap": bootstrap,
        "folder": str(folder / name),
        "columns": COLUMNS,
    }
    ended = run("benchmarks.peer_foreach_batch", request, clean_environment(), folder / "logs" / f"{name}.log")
    marks = {mark: Spent(**spent) for mark, spent in ended.said.items()}
    return Run(marks["ready"], marks.get("warm", marks["ready"]), marks["done"], ended.peak_mb)


def _configuration(command: tuple[str, ...]) -> dict[str, str]:
    """The `--conf` words of the server's command, without those of its service."""
    words = [word for flag, word in pairwise(command) if flag == "--conf"]
    return dict(word.split("=", 1) for word in words if not word.startswith(SERVERS_OWN))


def _catalog(name: str, place: Path) -> dict[str, str]:
    """An Iceberg catalog in Spark's words."""
    prefix = f"spark.sql.catalog.{name}"
    return {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.type": "jdbc",
        f"{prefix}.jdbc.schema-version": "V1",
        f"{prefix}.uri": f"jdbc:sqlite:{place}/catalog.db",
        f"{prefix}.warehouse": f"file://{place}/warehouse",
    }
