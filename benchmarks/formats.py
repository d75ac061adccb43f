"""Part h: what decoding a format costs, beside Spark's own decoding of the same records.

The product stages an append-only table: it reads, decodes strictly, counts every record's fate and writes the
intermediate rows. The plain side reads the same topic and appends what ``from_json`` or ``from_avro`` make of it: no
check, no count, no batch.
"""

import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import fastavro
import yaml
from confluent_kafka import Producer

from benchmarks import product
from benchmarks.product import OWN, Lake, name_table
from benchmarks.result import Bench, Result, Table, format_number, format_ratio, format_verdict
from benchmarks.spark_server import SparkServer, start_spark_server
from benchmarks.work import COLUMNS, FLUSH_SECONDS, create_topic, generate_records, send

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


def _encode_json(row: dict[str, Any]) -> bytes:
    return json.dumps(row).encode()


def _encode_debezium(row: dict[str, Any]) -> bytes:
    source = {"db": "shop", "schema": "public", "table": "orders", "ts_ms": row["updated_at"]}
    return json.dumps({"before": None, "after": row, "source": source, "op": "c", "ts_ms": row["updated_at"]}).encode()


def _encode_avro(row: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, _PARSED, row)
    return buffer.getvalue()


# format -> how a row is written, and the value section of its pipeline
FORMATS: dict[str, tuple[Callable[[dict[str, Any]], bytes], dict[str, Any]]] = {
    "json": (_encode_json, {"format": "json", "schema": COLUMNS}),
    "debezium-json": (_encode_debezium, {"format": "debezium-json", "schema": COLUMNS}),
    "avro": (_encode_avro, {"format": "avro", "avro": {"schema": json.dumps(AVRO)}}),
}


def measure(bench: Bench) -> Result:
    """CPU seconds of the Spark server per million records, for each format: the product's stage, and plain Spark."""
    count, lake, costs = bench.sizes.formats, Lake(bench.folder), dict[str, tuple[float, float, bool]]()
    with start_spark_server(bench.stack, bench.folder / "spark") as server:
        for name, (_, value) in FORMATS.items():
            bench.say(f"{name}: {count:,} records, staged by the product and appended by plain Spark ...")
            for suffix, records_ in (("_warm", bench.sizes.warm_up), ("", count)):
                produce(bench.stack.kafka_bootstrap, name, _name_file(name) + suffix, records_)
                _write_pipeline(lake, _name_file(name) + suffix, value, max(count, bench.sizes.warm_up))
            product.flush(server, lake, f"{_name_file(name)}_warm")
            flushed = product.flush(server, lake, _name_file(name))
            _read_plainly(server, lake, name, f"{_name_file(name)}_warm")
            plain = _read_plainly(server, lake, name, _name_file(name))
            stage, plain_seconds = (
                cpu_seconds / count * 1e6 for cpu_seconds in (flushed.steps["stage"]["server_cpu"], plain["cpu"])
            )
            is_correct = flushed.batches[0]["staged"] == plain["rows"] == count
            costs[name] = round(stage, 2), round(plain_seconds, 2), is_correct
    header = ("CPU s of the server per million records", "product", "plain Spark", "ratio", "right?")
    lines = [
        (n, format_number(a), format_number(b), format_ratio(a, b), format_verdict(is_equal))
        for n, (a, b, is_equal) in costs.items()
    ]
    return Result(
        tables=[Table(f"h. Formats, {count:,} records that are appended", header, lines)],
        figures={name: product_seconds for name, (product_seconds, _, _) in costs.items()},
        goals=[],
        right=all(is_equal for _, _, is_equal in costs.values()),
        details={
            name: {"product": product_seconds, "plain": plain_cost}
            for name, (product_seconds, plain_cost, _) in costs.items()
        },
    )


def _write_pipeline(lake: Lake, name: str, value: dict[str, Any], max_records: int) -> None:
    """A table of its own that is only appended to."""
    pipeline = {
        "source": {"topics": [name], "value": value},
        "tables": [{"name": name_table(name)}],
        "merge": {"max_records": max_records},
    }
    (lake.include / "pipelines" / f"{name}.yaml").write_text(yaml.safe_dump(pipeline))


def produce(bootstrap: str, name: str, into: str, count: int) -> None:
    """Create the topic and send `count` rows in the format."""
    create_topic(bootstrap, into)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "compression.type": "lz4", "log_level": 2})
    write = FORMATS[name][0]
    for row in _list_rows(count):
        send(producer, into, None, write(row))
    if queue_length := producer.flush(FLUSH_SECONDS):
        raise RuntimeError(f"the broker did not take every record: topic={into} left={queue_length}")


def _list_rows(count: int) -> Iterator[dict[str, Any]]:
    """Rows of the main bench, tombstones left out."""
    rows = (json.loads(record.value) for record in generate_records(2 * count, count) if record.value is not None)
    for row, _ in zip(rows, range(count), strict=False):
        yield row


def _read_plainly(server: SparkServer, lake: Lake, name: str, topic: str) -> dict[str, Any]:
    request = {
        "format": name,
        "topic": topic,
        "bootstrap": server.stack.kafka_bootstrap,
        "table": f"{OWN}.plain.{topic}",
        "columns": COLUMNS,
        "avro": json.dumps(AVRO),
    }
    answer: dict[str, Any] = lake.ask(server, "plain_worker", request, f"plain-{topic}").said
    return answer


def _name_file(name: str) -> str:
    return name.replace("-", "_")
