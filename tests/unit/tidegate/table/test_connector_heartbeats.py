"""A pipeline that reads what several change-data connectors write vouches for what the slowest of them has seen."""

from dataclasses import replace

import pytest
from fakes import World, build_pipeline, build_table
from tidegate.ports.session import Session
from tidegate.spec.pipeline import Heartbeat
from tidegate.table.pipeline_progress import read_connector_heartbeat_ms

EU, US, OWN = "__debezium-heartbeat.EU", "__debezium-heartbeat.us", "tidegate.heartbeat"


@pytest.fixture
def world() -> World:
    world = World()
    for topic in ("orders", EU, US, OWN):
        world.broker.create(topic, 2)
    return world


def open_session(world: World) -> Session:
    source = {"topics": ("orders", EU, US, OWN)}
    pipeline = build_pipeline(build_table(topics=("orders",)), source=source)
    heartbeat = Heartbeat(produce=True, topic=OWN, ignore_topics=("__debezium-heartbeat[.].*",))
    return world.open_session(replace(pipeline, heartbeat=heartbeat))


def beat(world: World, topic: str, partition: int, timestamp: int) -> None:
    world.broker.produce(topic, {"server": topic}, {"ts": timestamp}, partition, timestamp)


def test_connector_that_has_sent_nothing_yet_leaves_the_time_unknown(world: World) -> None:
    """That of the other says nothing of its changes."""
    session = open_session(world)
    assert read_connector_heartbeat_ms(session) is None
    beat(world, EU, 0, 5_000)
    assert read_connector_heartbeat_ms(session) is None
    beat(world, US, 1, 3_000)
    assert read_connector_heartbeat_ms(session) == 3_000


def test_oldest_of_the_connectors_newest_heartbeats_counts_and_the_pipelines_own_does_not(world: World) -> None:
    session = open_session(world)
    for topic, partition, timestamp in ((EU, 0, 5_000), (EU, 1, 9_000), (US, 0, 8_000), (US, 1, 2_000), (OWN, 0, 1)):
        beat(world, topic, partition, timestamp)
    assert read_connector_heartbeat_ms(session) == 8_000
    beat(world, US, 1, 20_000)
    assert read_connector_heartbeat_ms(session) == 9_000


def test_topic_of_a_connector_that_is_gone_leaves_the_time_unknown(world: World) -> None:
    session = open_session(world)
    for topic in (EU, US):
        beat(world, topic, 0, 5_000)
    assert read_connector_heartbeat_ms(session) == 5_000
    del world.broker.partitions[US]
    assert read_connector_heartbeat_ms(session) is None
