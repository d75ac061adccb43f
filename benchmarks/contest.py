"""Owns one system's way through one topic: the product's or a peer's, with what it cost and whether it was right."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog

from benchmarks import jars, peer, peer_connect, peer_flink, product
from benchmarks.measure import Spent
from benchmarks.product import Lake
from benchmarks.result import Bench
from benchmarks.spark_server import start_spark_server
from benchmarks.work import Assignment, Produced, Truth

WARM = "warm_up"
IDLE = "idle"
PRODUCT = "product"
ONE_MERGE = "product, one merge"
SPARK, FLINK, CONNECT = "Spark foreachBatch", "Flink upsert", "Connect append"
SPARK_ONCE = "Spark, one merge"  # stages by hand, too: the least that staging can cost
PEERS = (SPARK, FLINK, CONNECT)
JARS = {FLINK: "flink", CONNECT: "connect"}


@dataclass(frozen=True)
class Topic:
    """A topic's name, and the records in it. `per_batch` caps batches; `merges_once` merges all of them as one."""

    name: str
    records: int
    produced: Produced
    per_batch: int = 0
    merges_once: bool = False


@dataclass(frozen=True)
class Entry:
    """One way through one topic. `read` is what `read_worker` says of its table, once that was read."""

    system: str
    table: str
    wall: float
    cpu: float
    peak_mb: int
    truth: Truth
    flush: product.Flush | None = None
    read: dict[str, Any] | None = None

    @property
    def right(self) -> bool:
        """Whether the table equals the truth."""
        return self.read is not None and product.is_right(self.truth, self.read)


def fetch_peers(systems: Sequence[str]) -> dict[str, str]:
    """Fetch the jars of the peers; return the peers that cannot run, with the reason."""
    reasons = {system: jars.fetch_jars(JARS[system]) for system in systems if system in JARS}
    return {system: reason for system, reason in reasons.items() if reason}


def compete(bench: Bench, lake: Lake, topic: Topic, systems: Sequence[str], before: Topic | None = None) -> list[Entry]:
    """Let the product and the peers consume the topic one after the other; read what they wrote.

    The product's server is new and warmed up by a flush of other records; so is Spark's. `before` is a topic that both
    consume as well, in the same way, so that their JVMs are as warm as after so many batches.
    """
    entries = []
    place = f"{topic.name}-once" if topic.merges_once else topic.name
    run = _run_one_merge if topic.merges_once else _run_product
    with start_spark_server(bench.stack, bench.folder / f"spark-{place}") as server:
        warm = _warm_up(bench, server, lake, f"{WARM}_{place.replace('-', '_')}")
        if before:
            run(server, lake, before)
        bench.say(f"{topic.name}: {ONE_MERGE if topic.merges_once else PRODUCT} ...")
        entries.append(run(server, lake, topic))
        for system in systems:
            bench.say(f"{topic.name}: {system} ...")
            entries.append(_run_peer(bench, lake, topic, system, before.name if before else WARM))
        reads = product.read(server, lake, [entry.table for entry in entries], product.name_table(warm))
    return [replace(entry, read=reads[entry.table]) for entry in entries]


def _warm_up(bench: Bench, server: Any, lake: Lake, name: str) -> str:
    """A flush of other records by the pipeline `name`."""
    lake.write_pipeline(name, WARM, bench.sizes.warm_up)
    product.flush(server, lake, name)
    return name


def _run_product(server: Any, lake: Lake, topic: Topic) -> Entry:
    per_batch = topic.per_batch
    table = lake.write_pipeline(topic.name, topic.name, per_batch or topic.records)
    times = -(-topic.records // per_batch) + 1 if per_batch else 1
    flushed = product.flush(server, lake, topic.name, times)
    peak = flushed.worker_mb + flushed.server_mb
    return Entry(PRODUCT, table, flushed.wall, flushed.cpu, peak, topic.produced.truth, flushed)


def _run_one_merge(server: Any, lake: Lake, topic: Topic) -> Entry:
    """A table that reads on while its batches wait has another one beside it, which has nothing to do."""
    name = f"{topic.name}_once"
    batches = -(-topic.records // topic.per_batch)
    table = lake.write_pipeline(name, topic.name, topic.per_batch, idle_topic=IDLE, max_pending=batches + 1)
    staged = product.stage(server, lake, name, batches)
    lake.write_pipeline(name, topic.name, topic.records, idle_topic=IDLE, max_pending=batches + 1)
    merged = product.flush(server, lake, name)
    flushed = replace(merged, steps={**staged.steps, **merged.steps, "staging": staged.steps["stage"]})
    return Entry(
        ONE_MERGE,
        table,
        staged.wall + merged.wall,
        staged.cpu + merged.cpu,
        max(flush.worker_mb + flush.server_mb for flush in (staged, merged)),
        topic.produced.truth,
        flushed,
    )


def _run_peer(bench: Bench, lake: Lake, topic: Topic, system: str, warm_up: str) -> Entry:
    name = f"{'sparkonce' if system == SPARK_ONCE else system.partition(' ')[0].lower()}_{topic.name}"
    place, log = lake.declare_catalog(name), lake.logs / f"{name}.log"
    assignment = Assignment(bench.stack.kafka_bootstrap, place, topic.name, log, bench.sizes.peer_seconds)
    truth, table, catalog = topic.produced.truth, product.name_peer_table(name), _create_catalog(place)
    if system in (SPARK, SPARK_ONCE):
        run = peer.consume(assignment, warm_up, topic.per_batch, merges_once=system == SPARK_ONCE)
        return Entry(system, table, run.work.wall, run.work.cpu, run.peak_mb, truth)
    usage: Spent
    if system == FLINK:
        usage = peer_flink.consume(assignment, "1s" if topic.per_batch else "10s")
    else:
        truth = topic.produced.appended
        usage = peer_connect.consume(assignment, catalog, truth.rows)
    return Entry(system, table, usage.wall, usage.cpu, usage.peak_mb, truth)


def _create_catalog(place: Path) -> Catalog:
    """The peer's catalog, its own tables made, in WAL mode: first users at once collide, and readers block commits."""
    properties = {"uri": f"sqlite:///{place}/catalog.db?timeout=60", "warehouse": f"file://{place}/warehouse"}
    catalog = load_catalog(place.name, type="sql", **properties)
    with sqlite3.connect(place / "catalog.db") as database:
        database.execute("PRAGMA journal_mode=WAL")
    database.close()
    return catalog
