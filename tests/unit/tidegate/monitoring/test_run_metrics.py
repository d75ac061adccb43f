"""What a run measures of its pipeline, for metrics and for the freshness target."""

from collections.abc import Callable
from typing import Any

import pytest
from fakes import World, build_pipeline, build_table
from tidegate.flush.flush import flush
from tidegate.flush.heartbeat import heartbeat
from tidegate.model.kafka_log import Retention
from tidegate.monitoring.overview import measure_pipeline, to_merge_metrics
from tidegate.monitoring.status import read_status
from tidegate.ports.session import Session

PIPELINE_SOURCE = {"topics": ("orders",)}
PIPELINE = build_pipeline(build_table(topics=()), source=PIPELINE_SOURCE)


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders", 1)
    world.broker.produce("orders", {"id": "a"}, {"id": "a", "name": "x"})
    return world


def measure_world(world: World) -> dict[str, Any]:
    return vars(measure_pipeline(world.open_session(PIPELINE)))


def test_a_current_pipeline_is_behind_by_nothing(world: World) -> None:
    flush(world.open_session(PIPELINE))
    metrics = measure_world(world)
    assert (metrics["lag"], metrics["behind"], metrics["open_batches"], metrics["dead_letters"]) == (0, 0.0, 0, 0)


def test_behind_is_the_age_of_the_oldest_record_that_waits(world: World) -> None:
    flush(world.open_session(PIPELINE))
    world.broker.produce("orders", {"id": "b"}, {"id": "b", "name": "x"})
    world.clock.tick(90_000)
    world.broker.produce("orders", {"id": "c"}, {"id": "c", "name": "x"})
    assert (measure_world(world)["lag"], round(measure_world(world)["behind"])) == (2, 90)
    assert round(measure_world(world)["valid_through_age"]) == 90


@pytest.mark.parametrize("look", [measure_pipeline, read_status, heartbeat])
def test_ages_of_the_records_of_many_partitions_are_asked_for_together(
    world: World, look: Callable[[Session], Any]
) -> None:
    """Each by itself takes a client of its own: of thousands the heartbeat would not end in its time."""
    pipeline = build_pipeline(
        build_table("lake.shop.a", topics=()), build_table("lake.shop.b", topics=()), source=PIPELINE_SOURCE
    )
    world.broker.create("orders", 300)
    for name in ("first", "second"):
        for partition in range(300):
            world.broker.produce("orders", {"id": name}, {"id": name, "name": "x"}, partition=partition)
        if name == "first":
            flush(world.open_session(pipeline))
    world.broker.retentions["orders"] = Retention(records_ms=1_000)
    world.clock.tick(3_600_000)
    before = world.broker.timestamp_reads
    look(world.open_session(pipeline))
    assert 1 <= world.broker.timestamp_reads - before <= 2


def test_what_nobody_can_tell_is_not_sent(world: World) -> None:
    known = measure_pipeline(world.open_session(PIPELINE)).to_values()
    assert "valid_through_age" not in known
    assert known["lag"] == 1.0


def test_lag_of_a_topic_that_is_not_there_is_not_sent(world: World) -> None:
    source = {"topics": ("Gone",)}
    gone = measure_pipeline(world.open_session(build_pipeline(build_table(topics=()), source=source)))
    assert (gone.problems, gone.to_values().keys() & {"lag", "behind"}) == (1, set())


def test_a_table_that_cannot_go_on_is_counted(world: World) -> None:
    flush(world.open_session(PIPELINE))
    world.broker.create("orders", 1)
    assert measure_world(world)["problems"] == 1


def test_a_merge_is_measured_by_rows_and_seconds(world: World) -> None:
    [published] = flush(world.open_session(PIPELINE)).published
    assert to_merge_metrics(published.to_dict()).keys() == {
        "batch.seconds", "batch.staged", "batch.inserted", "batch.updated", "batch.deleted",
    }  # fmt: skip
    assert to_merge_metrics({**published.to_dict(), "bytes_written": 7})["batch.bytes_written"] == 7.0
