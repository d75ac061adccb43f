"""Part j in a process of its own: one run of a publication, or the rows of its table produced in a plain loop."""

import json
import sys
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from pyiceberg.catalog import load_catalog
from tidegate.connections import read_connection_from_env
from tidegate.settings import find_include_folder

from benchmarks.work import FLUSH_SECONDS, create_topic, send


def main(request: dict[str, Any]) -> None:
    """Run the action of the request; the answer has the number of changes that were produced."""
    changes = publish(request) if "publication" in request else produce_plainly(request)
    Path(request["answer"]).write_text(json.dumps({"changes": changes}))


def publish(request: dict[str, Any]) -> int:
    """One run of a publication, as `bin/tidegate publish` makes it."""
    from tidegate.publications.publish import publish as run
    from tidegate.wiring.publication import assemble_publication

    outcome = run(assemble_publication(find_include_folder(), request["publication"], read_connection_from_env))
    return outcome.inserted + outcome.updated + outcome.deleted


def produce_plainly(request: dict[str, Any]) -> int:
    """Every row of the table produced in a loop, keyed and as JSON; RuntimeError when the broker does not take all."""
    into = request["topic"]
    create_topic(request["bootstrap"], into)
    settings = {"linger.ms": 20, "enable.idempotence": True, "partitioner": "murmur2_random", "log_level": 2}
    producer = Producer({"bootstrap.servers": request["bootstrap"], **settings})
    count = 0
    catalog, _, table = request["table"].partition(".")
    for batch in load_catalog(catalog, **request["properties"]).load_table(table).scan().to_arrow_batch_reader():
        for row in batch.to_pylist():
            key = json.dumps({"id": row["id"]}, separators=(",", ":")).encode()
            send(producer, into, key, json.dumps(row, separators=(",", ":")).encode())
            count += 1
    if queue_length := producer.flush(FLUSH_SECONDS):
        raise RuntimeError(f"the broker did not take every record: topic={into} left={queue_length}")
    return count


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
