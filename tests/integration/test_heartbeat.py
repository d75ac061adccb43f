"""Heartbeats on real brokers: records that other programs can read, proof of freshness, and what topics keep."""

import json
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer
from tidegate.flush.flush import flush
from tidegate.monitoring.status import read_status

KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, name STRING"}


@pytest.fixture
def other_broker(tmp_path) -> Iterator[Any]:
    """A cluster beside the one of the source."""
    from local.stack import start_stack

    running = start_stack(tmp_path / "run", parts={"kafka"}, tied_to=os.getpid())
    try:
        yield running
    finally:
        running.stop()


def read_records(bootstrap: str, topic: str, count: int) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The first records of a topic, key and value."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    try:
        for _ in range(count):
            message = consumer.poll(60)
            assert message is not None
            assert message.error() is None
            yield json.loads(message.key()), json.loads(message.value())
    finally:
        consumer.close()


def test_a_heartbeat_record_tells_position_and_the_time_that_a_connector_vouches_for(workbench) -> None:
    topic = workbench.topic(2)
    connector = workbench.topic(1, name=f"__debezium-heartbeat.{topic}")
    beats = f"beats-{topic}"
    workbench.pipeline(
        "beating", [topic, connector], key=KEY, value=VALUE, heartbeat={"produce": True, "topic": beats},
        source={"group": f"g-{topic}"}, table={"disjoint_keys": True},
    )  # fmt: skip
    source_ms = int(time.time() * 1000) - 5000
    workbench.produce(topic, ({"id": 1}, {"id": 1, "name": "a"}))
    workbench.produce(connector, (None, {"ts_ms": source_ms}, {"timestamp": source_ms}))
    workbench.flush("beating")
    [(key, value)] = read_records(workbench.stack.kafka_bootstrap, beats, 1)
    assert key == {"pipeline": "beating", "table": "lake.shop.beating"}
    assert value["position"] == {topic: {"0": 1, "1": 0}}
    assert (value["group"], value["batch"], value["lag"], value["valid_through_ms"]) == (f"g-{topic}", 1, 0, source_ms)
    assert workbench.committed("beating") == {topic: {0: 1, 1: 0}, connector: {0: 1}}


@pytest.mark.repeats(
    "unit/tidegate/flush/test_heartbeat.py::test_heartbeats_of_another_cluster_go_there_and_hold_the_sources_offsets"
)
def test_heartbeats_go_to_the_cluster_that_the_file_names_also_where_its_topic_has_a_sources_name(
    workbench, other_broker
) -> None:
    topic = workbench.topic(2)
    beats = {"produce": True, "topic": topic, "kafka": {"bootstrap.servers": other_broker.kafka_bootstrap}}
    workbench.pipeline("elsewhere", [topic], key=KEY, value=VALUE, heartbeat=beats)
    workbench.produce(topic, ({"id": 1}, {"id": 1, "name": "a"}), ({"id": 2}, {"id": 2, "name": "b"}))
    workbench.flush("elsewhere")
    [(_, value)] = read_records(other_broker.kafka_bootstrap, topic, 1)
    assert (value["table"], sum(value["position"][topic].values())) == ("lake.shop.elsewhere", 2)
    assert sum(sum(parts.values()) for parts in workbench.read_ends(topic).values()) == 2, "the source got none"


@pytest.mark.repeats(
    "unit/tidegate/flush/test_heartbeat.py::test_records_that_wait_for_half_of_what_they_are_kept_are_warned_of"
)
def test_status_warns_of_records_that_are_nearly_as_old_as_their_topic_keeps_them(workbench) -> None:
    topic = workbench.topic(**{"retention.ms": "7200000"})
    workbench.pipeline("late", [topic], key=KEY, value=VALUE)
    workbench.produce(topic, ({"id": 1}, {"id": 1, "name": "a"}, {"timestamp": int(time.time() * 1000) - 5_400_000}))
    [warning] = read_status(workbench.open_session("late"))["warnings"]
    assert "more than half of retention.ms=7200000" in warning
    flush(workbench.open_session("late"))
    assert read_status(workbench.open_session("late"))["warnings"] == []
