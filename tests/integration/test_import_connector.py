"""Iceberg's own sink in a real Kafka Connect worker is switched off under live data, and a pipeline goes on."""

import json
import threading
from typing import Any

import pytest
from conftest import wait_until
from connect_worker import ConnectWorker
from control_events import TABLE
from iceberg_sink import IcebergSink

from benchmarks import jars

FIRST = 50
TRIES = 5  # to stop the sink when all files that it has announced are in its table


class RunningSink(IcebergSink):
    """The same, of which the connector itself writes table, control topic and offsets."""

    def settings(self) -> dict[str, str]:
        return {
            **super().settings(),
            "tasks.max": "2",
            "iceberg.catalog.uri": f"jdbc:sqlite:{self.bench.folder}/catalog.db?busy_timeout=30000",
            "iceberg.catalog.warehouse": f"file://{self.bench.warehouse}",
            "iceberg.catalog.jdbc.schema-version": "V1",
            "iceberg.control.commit.interval-ms": "2000",
            "iceberg.control.commit.timeout-ms": "10000",
            "key.converter.schemas.enable": "false",
            "consumer.override.auto.offset.reset": "earliest",
        }

    def run_until(self, count: int) -> None:
        """Let a worker write until the table holds `count` rows, then stop it."""
        worker = ConnectWorker(
            self.bench.folder / "connect", self.bench.stack.kafka_bootstrap, {"events": self.settings()},
            jars.find_folder("connect"),
        )  # fmt: skip

        def has_all_rows() -> bool:
            worker.check()
            return len(self.read_places()) >= count

        try:
            wait_until(has_all_rows, f"the sink has written {count} rows")
        finally:
            worker.close()


# what the sink leaves is made by hand there; here by the connector itself
@pytest.mark.repeats("integration/test_import.py::test_iceberg_sink_is_switched_under_live_data")
def test_real_sink_is_switched_under_live_data(workbench: Any) -> None:
    """Two topics with two partitions each; each record is in the table once, whoever wrote it."""
    missing = jars.fetch_jars("connect")
    assert not missing, missing
    sink = RunningSink(workbench)
    sink.produce(FIRST)
    stop = threading.Event()

    def produce_on() -> None:
        while not stop.wait(0.2):  # some records between any two commits of the sink
            sink.produce(1)

    live = threading.Thread(target=produce_on)
    live.start()
    try:
        answer: dict[str, Any] = {}
        for turn in range(1, TRIES + 1):
            sink.run_until(turn * FIRST)
            process = workbench.run_cli("import", sink.config(), "--write", "--json")
            if process.returncode == 0:
                answer = json.loads(process.stdout)
                break
            assert "not committed" in process.stderr, process.stderr
        assert answer, "the sink never stopped with all of its files in the table"
        assert answer["position"]["state"] == "exact"
        written = sink.read_places()
        begun = {
            topic: {int(p): at for p, at in parts.items()} for topic, parts in answer["position"]["offsets"].items()
        }
        assert written == sorted(
            (t, p, n) for t, parts in begun.items() for p, end in parts.items() for n in range(end)
        )
        workbench.flush("events")
    finally:
        stop.set()
        live.join()
    workbench.drain("events")
    assert sink.read_places() == sorted((t, p, n) for (t, p), end in sink.sent.items() for n in range(end))
    assert len(sink.read_places()) > len(written)
    by_place = {
        tuple(row[f"_kafka_metadata_{word}"] for word in ("topic", "partition", "offset")): row["name"]
        for row in workbench.read_rows(TABLE)
    }
    assert all(name == f"{topic}-{partition}" for (topic, partition, _), name in by_place.items())
