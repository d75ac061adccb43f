"""Reads that end somewhere: never beyond it, never twice, and the next flush without an end goes on behind it."""

from contextlib import suppress

import pytest
from fakes import World, build_pipeline
from tidegate.errors import ConfigurationError, NothingToDo
from tidegate.flush.batch_size import resolve_stop_offsets
from tidegate.flush.flush import flush
from tidegate.monitoring.status import read_status
from tidegate.spec.source import Start

ORDERS = "lake.shop.orders"


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders", partitions=2)
    for number in range(6):
        world.broker.produce("orders", {"id": f"k{number}"}, {"id": f"k{number}", "name": "x"}, number % 2)
    return world


def read_ids(world: World) -> list[str]:
    return sorted(row["id"] for row in world.read_rows(ORDERS))


def flush_until(world: World, stop: str) -> list[str]:
    session = world.open_session(build_pipeline())
    end = resolve_stop_offsets(session, stop)
    with suppress(NothingToDo):
        flush(session, stop_offsets=end)
    with pytest.raises(NothingToDo, match="end that was asked for"):
        flush(session, stop_offsets=end)
    return read_ids(world) if ORDERS in world.destination.tables else []


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        ("latest", ["k0", "k1", "k2", "k3", "k4", "k5"]),
        ('{"orders": {"0": 2, "1": 1}}', ["k0", "k1", "k2"]),
        ('{"orders": {"0": 3}}', ["k0", "k2", "k4"]),
        ('{"orders": {"0": 99}, "others": {"0": 5}}', ["k0", "k2", "k4"]),
        ("group:readers", ["k1"]),
        ("group", []),
    ],
)
def test_bounded_read_stops_exactly_there(world: World, stop: str, expected: list[str]) -> None:
    world.broker.groups["readers"] = {"orders": {1: 1}}
    assert flush_until(world, stop) == expected
    with suppress(NothingToDo):
        flush(world.open_session(build_pipeline()))
    assert read_ids(world) == ["k0", "k1", "k2", "k3", "k4", "k5"], "a flush without an end goes on behind it"


def test_partition_that_the_end_leaves_out_begins_where_start_says(world: World) -> None:
    pipeline = build_pipeline(source={"start": Start("offsets", offsets={"orders": {0: 1, 1: 2}})})
    session = world.open_session(pipeline)
    flush(session, stop_offsets=resolve_stop_offsets(session, '{"orders": {"0": 2}}'))
    assert read_ids(world) == ["k2"]
    flush(session)
    assert read_ids(world) == ["k2", "k4", "k5"]


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        ('{"orders": {"0": -1, "1": 2}}', "until=.*: not offsets: offset -1 is none that a log can have; write latest"),
        (
            '{"orders": {"0": 2, "1": 9223372036854775808}}',
            "not offsets: offset 9223372036854775808 is none that a log",
        ),
        ('{"orders": {"0": 2, "2147483648": 2}}', "not offsets: partition 2147483648 is none that a topic can have"),
        ('{"order": {"0": 2}, "orders": {"7": 2}}', "until=.*: the pipeline reads none of these partitions;"),
        ("{}", "until={}: the pipeline reads none of these partitions;"),
        ("group:readrs", "until=group:readrs: the group has committed nothing for the pipeline's topics;"),
        ("group: ", "until=group: : no group is named;"),
        ("group:", "until=group:: no group is named;"),
    ],
)
def test_end_that_names_nothing_to_read_is_refused(world: World, stop: str, reason: str) -> None:
    """A bounded load that ends well and has read nothing would pass for one that is complete."""
    world.broker.groups["readers"] = {"orders": {1: 1}}
    with pytest.raises(ConfigurationError, match=reason):
        resolve_stop_offsets(world.open_session(build_pipeline()), stop)


def test_end_that_lies_before_what_is_published_reads_nothing_and_takes_nothing_back(world: World) -> None:
    flush(world.open_session(build_pipeline()))
    world.broker.produce("orders", {"id": "new"}, {"id": "new", "name": "x"}, 0)
    assert len(flush_until(world, '{"orders": {"0": 1}}')) == 6
    assert read_status(world.open_session(build_pipeline()))["lag"] == 1


def test_what_comes_after_the_end_was_asked_for_is_not_chased(world: World) -> None:
    session = world.open_session(build_pipeline())
    end = resolve_stop_offsets(session, "latest")
    world.broker.produce("orders", {"id": "late"}, {"id": "late", "name": "x"}, 0)
    flush(session, stop_offsets=end)
    assert "late" not in read_ids(world)


NO_OFFSETS = ('{"orders": {"0": 1.9}}', '{"orders": {"0": 1e999}}', '{"orders": {"0": 1, "0": 2}}')


@pytest.mark.parametrize("wrong", ["soon", "{", '{"orders": 5}', *NO_OFFSETS, "2026-01-01T00:00:00", "latest-offset"])
def test_other_words_are_refused_with_those_that_may_stand_there(world: World, wrong: str) -> None:
    with pytest.raises(ConfigurationError, match="until="):
        resolve_stop_offsets(world.open_session(build_pipeline()), wrong)
