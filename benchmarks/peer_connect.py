"""Owns the Kafka Connect peer: Iceberg's own sink in a standalone worker, which appends and cannot upsert.

So it does less than the others: tombstones are dropped, and the table holds every record.
"""

import time

from confluent_kafka.admin import AdminClient, NewTopic
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

from benchmarks.jars import build_classpath
from benchmarks.measure import Spent, follow
from benchmarks.work import ADMIN_SECONDS, Assignment
from local import ports
from local.layout import LOG4J
from local.server import build_clean_environment

TASKS = 2
COMMIT_MS = 10_000
LOOK_SECONDS = 0.5
COLUMNS = (("id", LongType()), ("customer", StringType()), ("amount", DoubleType()), ("status", StringType()),
           ("updated_at", LongType()), ("note", StringType()))  # fmt: skip


def consume(assignment: Assignment, catalog: Catalog, rows: int) -> Spent:
    """Append the topic to ``shop.orders`` of the catalog named like its folder, until that holds so many rows."""
    _create(catalog)
    control = f"{assignment.place.name}-control"
    admin = AdminClient({"bootstrap.servers": assignment.bootstrap, "log_level": 2})
    admin.create_topics([NewTopic(control, 1, 1)])[control].result(timeout=ADMIN_SECONDS)
    worker, sink = assignment.place / "worker.properties", assignment.place / "sink.properties"
    worker.write_text(_write_worker(assignment))
    sink.write_text(_write_sink(assignment, control))
    command = ["java", "-Xmx2g", f"-Dlog4j2.configurationFile={LOG4J}", "-cp", build_classpath("connect")]
    command += ["org.apache.kafka.connect.cli.ConnectStandalone", str(worker), str(sink)]
    usage = follow(command, build_clean_environment(), assignment.log, assignment.limit, _Done(catalog, rows))
    if usage.code:
        raise RuntimeError(f"the Connect worker exited with code={usage.code} (log: {assignment.log})")
    return usage


class _Done:
    """Whether the table holds so many rows; looked at twice a second."""

    def __init__(self, catalog: Catalog, rows: int) -> None:
        self._catalog, self._rows, self._looked = catalog, rows, 0.0

    def __call__(self) -> bool:
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return False
        self._looked = time.monotonic()
        snapshot = self._catalog.load_table("shop.orders").current_snapshot()
        summary = snapshot.summary if snapshot else None
        return summary is not None and int(summary["total-records"] or 0) >= self._rows


def _create(catalog: Catalog) -> None:
    catalog.create_namespace("shop")
    fields = (NestedField(n, name, kind, required=n == 1) for n, (name, kind) in enumerate(COLUMNS, 1))
    catalog.create_table("shop.orders", Schema(*fields, identifier_field_ids=[1]), properties={"format-version": "2"})


def _write_worker(assignment: Assignment) -> str:
    port = ports.choose_ports(["bench_connect"])["bench_connect"]
    converters = "".join(
        f"{part}.converter=org.apache.kafka.connect.json.JsonConverter\n{part}.converter.schemas.enable=false\n"
        for part in ("key", "value")
    )
    return (
        f"bootstrap.servers={assignment.bootstrap}\n{converters}offset.storage.file.filename={assignment.place}/offsets\n"
        f"offset.flush.interval.ms=10000\nlisteners=http://{ports.HOST}:{port}\n"
        "plugin.discovery=only_scan\nconsumer.max.poll.records=5000\n"
    )


def _write_sink(assignment: Assignment, control: str) -> str:
    return (
        f"name={assignment.place.name}-{assignment.topic}\nconnector.class=org.apache.iceberg.connect.IcebergSinkConnector\n"
        f"tasks.max={TASKS}\ntopics={assignment.topic}\niceberg.tables=shop.orders\niceberg.tables.auto-create-enabled=false\n"
        f"iceberg.control.topic={control}\niceberg.control.commit.interval-ms={COMMIT_MS}\n"
        f"iceberg.control.commit.timeout-ms=30000\niceberg.catalog={assignment.place.name}\n"
        "iceberg.catalog.catalog-impl=org.apache.iceberg.jdbc.JdbcCatalog\n"
        f"iceberg.catalog.uri=jdbc:sqlite:{assignment.place}/catalog.db?busy_timeout=30000\n"
        f"iceberg.catalog.warehouse=file://{assignment.place}/warehouse\niceberg.catalog.jdbc.schema-version=V1\n"
    )
