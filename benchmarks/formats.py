"""Owns `make bench ARGS=--formats`: what decoding a format costs, beside Spark's own decoding of the same records.

The product stages an append-only table: it reads, decodes strictly, counts every record's fate and writes the
intermediate rows. The plain side reads the same topic and appends what ``from_json`` or ``from_avro`` make of it: no
check, no count, no batch.
"""

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import product
from benchmarks.measure import run
from benchmarks.work import ADMIN_SECONDS, COLUMNS, FLUSH_SECONDS, PARTITIONS, records, send
from local.stack import Stack

CATALOG = "formats"
WARM_UP = 20_000
AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "status", "type": "string"},
        {"name": "updated_at", "type": "long"},
        {"name": "note", "type": "string"},
    ],
}
_PARSED = fastavro.parse_schema(AVRO)


def _json(row: dict[str, Any]) -> bytes:
    return json.dumps(row).encode()


def _debezium(row: dict[str, Any]) -> bytes:
    source = {"db": "shop", "schema": "public", "table": "orders", "ts_ms": row["updated_at"]}
    return json.dumps({"before": None, "after": row, "source": source, "op": "c", "ts_ms": row["updated_at"]}).encode()


def _avro(row: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, _PARSED, row)
    return buffer.getvalue()


# format -> how a row is written, and the value section of its pipeline
FORMATS: dict[str, tuple[Callable[[dict[str, Any]], bytes], dict[str, Any]]] = {
    "json": (_json, {"format": "json", "schema": COLUMNS}),
    "debezium-json": (_debezium, {"format": "debezium-json", "schema": COLUMNS}),
    "avro": (_avro, {"format": "avro", "avro": {"schema": json.dumps(AVRO)}}),
}


def measure(stack: Stack, folder: Path, count: int) -> list[dict[str, Any]]:
    """CPU seconds of the Spark server per million records, for each format: the product's stage, and plain Spark."""
    include, logs = write_include(folder, max(count, WARM_UP)), folder / "logs"
    logs.mkdir(exist_ok=True)
    found = []
    for name in FORMATS:
        produce(stack.kafka_bootstrap, name, f"{name}-warm", WARM_UP)
        produce(stack.kafka_bootstrap, name, name, count)
        product.flush(stack, include, f"{_file(name)}_warm", logs / f"{name}-warm.log")
        flushed = product.flush(stack, include, _file(name), logs / f"{name}.log")
        _plain(stack, include, name, f"{name}-warm", logs / f"{name}-plain-warm.log")
        plain = _plain(stack, include, name, name, logs / f"{name}-plain.log")
        rows = flushed.batches[0]["staged"]
        stage = flushed.steps["stage"]["server_cpu"] / count * 1e6
        other = plain["cpu"] / count * 1e6
        right = rows == plain["rows"] == count
        found.append({"format": name, "product": round(stage, 2), "plain": round(other, 2), "right": right})
    return found


def table(found: list[dict[str, Any]]) -> str:
    """The figures as text; ratio = product / plain."""
    lines = [f"{'format':16}{'product':>10}{'plain':>10}{'ratio':>8}  right?"]
    for row in found:
        ratio = row["product"] / max(row["plain"], 0.01)
        right = "yes" if row["right"] else "NO"
        lines.append(f"{row['format']:16}{row['product']:10.2f}{row['plain']:10.2f}{ratio:8.2f}  {right}")
    return "\n".join(lines)


def write_include(folder: Path, max_records: int) -> Path:
    """A pipeline for each format, and one for its warm-up, each with a table of its own that is only appended to."""
    include, lake = folder / "formats", folder / "lakes" / CATALOG
    (include / "pipelines").mkdir(parents=True)
    lake.mkdir(parents=True)
    properties = {"type": "sql", "uri": f"sqlite:///{lake}/catalog.db", "warehouse": f"file://{lake}/warehouse"}
    (include / "catalogs.yaml").write_text(yaml.safe_dump({CATALOG: {"type": "iceberg", "properties": properties}}))
    for name, (_, value) in FORMATS.items():
        for suffix in ("", "_warm"):
            pipeline = {
                "source": {"topics": [name + suffix.replace("_", "-")], "value": value},
                "tables": [{"name": f"{CATALOG}.shop.{_file(name)}{suffix}"}],
                "merge": {"max_records": max_records},
            }
            (include / "pipelines" / f"{_file(name)}{suffix}.yaml").write_text(yaml.safe_dump(pipeline))
    return include


def produce(bootstrap: str, name: str, topic: str, count: int) -> None:
    """Create the topic and send `count` rows in the format."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(timeout=ADMIN_SECONDS)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "compression.type": "lz4", "log_level": 2})
    write = FORMATS[name][0]
    for row in _rows(count):
        send(producer, topic, None, write(row))
    if left := producer.flush(FLUSH_SECONDS):
        raise RuntimeError(f"the broker did not take every record: topic={topic} left={left}")


def _rows(count: int) -> Iterator[dict[str, Any]]:
    """Rows of the main bench, tombstones left out."""
    wanted = (json.loads(record.value) for record in records(2 * count, count) if record.value is not None)
    for row, _ in zip(wanted, range(count), strict=False):
        yield row


def _plain(stack: Stack, include: Path, name: str, topic: str, log: Path) -> dict[str, Any]:
    request = {
        "format": name,
        "topic": topic,
        "bootstrap": stack.kafka_bootstrap,
        "remote": stack.spark_remote,
        "server": int(stack.variables["SPARK_PID"]),
        "table": f"{CATALOG}.plain.{_file(topic)}",
        "columns": COLUMNS,
        "avro": json.dumps(AVRO),
    }
    return run("benchmarks.plain_worker", request, {**stack.environment(), "TIDEGATE_INCLUDE": str(include)}, log).said


def _file(name: str) -> str:
    return name.replace("-", "_")
