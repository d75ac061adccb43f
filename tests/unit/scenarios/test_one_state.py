"""One state per step: every step and every report reads each table once, and they agree on what they read."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from fakes import FailsToMerge, World, build_pipeline, build_table
from tidegate.errors import TidegateError
from tidegate.flush.flush import flush
from tidegate.flush.heartbeat import commit_offsets, heartbeat
from tidegate.flush.plan import plan
from tidegate.monitoring.details import find_warnings
from tidegate.monitoring.overview import build_overview, measure_pipeline
from tidegate.monitoring.status import read_status
from tidegate.ports.session import Session
from tidegate.spec.pipeline import Heartbeat
from tidegate.table.pipeline_progress import read_pipeline_progress

ORDERS, COPY = "lake.shop.orders", "lake.shop.copy"
TWO = build_pipeline(build_table(ORDERS), build_table(COPY), heartbeat=Heartbeat(60, produce=True, topic="beats"))
READERS: dict[str, Callable[[Session], Any]] = {
    "plan": plan,
    "commit_offsets": commit_offsets,
    "heartbeat": heartbeat,
    "status": read_status,
    "overview": lambda session: build_overview(read_pipeline_progress(session)),
    "warnings": find_warnings,
    "metrics": measure_pipeline,
}


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders")
    for name in ("1", "2"):
        produce(world, name)
        with suppress(TidegateError):
            flush(world.open_session(TWO, engine=FailsToMerge(world.engine, COPY) if name == "2" else world.engine))
    world.clock.tick(3_600_000)  # a heartbeat is due
    return world


def produce(world: World, name: str) -> None:
    world.broker.produce("orders", {"id": "a"}, {"id": "a", "name": name}, 0)


def count_calls(read_once: Callable[[Session], Any], world: World) -> Counter[str]:
    calls: Counter[str] = Counter()
    read_once(world.open_session(TWO, lambda call, moment: calls.update([call] if moment == "before" else [])))
    return calls


@pytest.mark.parametrize("name", READERS)
def test_each_table_is_read_once(world: World, name: str) -> None:
    produce(world, "3")
    calls = count_calls(READERS[name], world)
    assert (calls["tables.read_state"], calls["staging.list_staged"]) == (2, 2)


@pytest.mark.parametrize("name", READERS)
def test_table_that_was_rolled_back_is_not_read_twice_either(world: World, name: str) -> None:
    table = world.destination.tables[COPY]
    world.destination.rollback(COPY, table.ancestors()[1].id)
    produce(world, "3")
    calls = count_calls(READERS[name], world)
    assert calls["tables.read_state"] == 2
    assert calls["staging.list_staged"] == (2 if name == "status" else 1)  # what is staged for it does not count


def test_status_finds_no_fault_with_a_table_whose_queue_plan_publishes(world: World) -> None:
    """The log has forgotten what is staged already: nothing is lost, and nobody has to act."""
    world.broker.retain_from("orders", 2)
    (batch,) = plan(world.open_session(TWO)).tables
    assert (batch.table, batch.ranges.by_topic, batch.is_resumed) == (COPY, {"orders": {0: (1, 2), 1: (0, 0)}}, True)
    assert [table["problem"] for table in read_status(world.open_session(TWO))["tables"]] == [None, None]
    assert [table["problem"] for table in READERS["overview"](world.open_session(TWO))["tables"]] == [None, None]


def test_heartbeat_tells_the_tables_as_they_were_when_it_committed(world: World) -> None:
    """What another run publishes in between belongs to the next heartbeat: no record runs ahead of the commit."""
    runs: list[object] = []

    def publish_meanwhile(call: str, moment: str) -> None:
        if call == "broker.commit" and not runs:
            runs.append(flush(world.open_session(replace(TWO, heartbeat=Heartbeat(0)))))
            world.clock.tick(60_000)  # its heartbeat has begun an interval

    beat = heartbeat(world.open_session(TWO, publish_meanwhile))
    assert beat.committed == {"orders": {0: 1, 1: 0}}
    assert [(record.table, record.position) for record in beat.tables] == [
        (ORDERS, {"orders": {0: 2, 1: 0}}), (COPY, {"orders": {0: 1, 1: 0}}),
    ]  # fmt: skip
