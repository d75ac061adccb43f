"""An upgrade of the format: what is shown, who did it, and which readers forbid it."""

from dataclasses import replace

import pytest
from fakes import World, build_pipeline, build_table
from tidegate.errors import ConfigurationError, GiveUp, NothingToDo
from tidegate.flush.flush import flush
from tidegate.monitoring.status import read_status
from tidegate.reprocess.upgrade import propose_upgrade

ORDERS, RETURNS = "lake.shop.Orders", "lake.shop.returns"
PIPELINE = build_pipeline(build_table(ORDERS, topics=("orders",)), build_table(RETURNS, topics=("returns",)))


@pytest.fixture
def world() -> World:
    """Two topics of two partitions each, and their tables."""
    world = World()
    for topic in ("orders", "returns"):
        world.broker.create(topic, 2)
        for partition in (0, 1):
            world.broker.produce(topic, {"id": f"{topic}{partition}"}, {"id": f"{topic}{partition}"}, partition)
    flush(world.open_session(PIPELINE))
    return world


def list_formats(world: World) -> list[int]:
    return [world.destination.tables[name].format_version for name in (ORDERS, RETURNS)]


def test_each_table_is_upgraded_once_and_notes_by_whom(world: World) -> None:
    session = world.open_session(PIPELINE)
    one = propose_upgrade(session, RETURNS)
    assert "lake.shop.returns: format 2 -> 3" in one.preview
    assert "not by: athena (reads no vectors of deletes), bigquery" in one.preview
    assert "cannot go back" in one.preview
    assert list_formats(world) == [2, 2]
    one.perform("ann")
    assert list_formats(world) == [2, 3]
    both = propose_upgrade(session)
    assert [part.table for part in both.parts] == [ORDERS]
    both.perform("bob")
    assert list_formats(world) == [3, 3]
    with pytest.raises(NothingToDo):
        propose_upgrade(session)
    tables = {row["table"]: row["actions"] for row in read_status(session)["tables"]}
    told = {name: [(action["action"], action["by"], action["details"]) for action in tables[name]] for name in tables}
    words = ("upgrade-format", "format 2 to 3")
    assert told == {
        ORDERS: [(words[0], "bob", words[1])], RETURNS: [(words[0], "ann", words[1])]
    }  # fmt: skip


def test_reader_that_cannot_read_it_forbids_it(world: World) -> None:
    session = world.open_session(replace(PIPELINE, readers=("spark", "bigquery")))
    with pytest.raises(ConfigurationError, match="readers names bigquery, which reads format 3 in a preview only"):
        propose_upgrade(session)
    assert list_formats(world) == [2, 2]


def test_table_of_format_1_is_left_to_spark(world: World) -> None:
    session = world.open_session(PIPELINE)
    world.destination.tables[RETURNS].format_version = 1
    with pytest.raises(GiveUp, match="format-version=1: only Spark raises this format"):
        propose_upgrade(session)
    assert list_formats(world) == [2, 1]


def test_other_table_of_the_same_name_is_not_upgraded(world: World) -> None:
    session = world.open_session(PIPELINE)
    action = propose_upgrade(session, ORDERS)
    world.destination.tables[ORDERS].uuid = "another"
    with pytest.raises(GiveUp, match="another one than was shown"):
        action.perform("ann")
    assert list_formats(world) == [2, 2]
