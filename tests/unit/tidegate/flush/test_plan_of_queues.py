"""plan: what is staged is published before its table is refused for a log that does not lead on from there."""

import json
import re
from collections.abc import Callable

import pytest
from fakes import FailsToMerge, World, build_pipeline, build_table
from tidegate.errors import PositionLost, SomeTablesFailed, TidegateError
from tidegate.flush.flush import flush
from tidegate.reprocess.rebase import propose_rebase
from tidegate.spec.pipeline import Pipeline

ORDERS, COPY = "lake.shop.orders", "lake.shop.copy"
ONE, TWO = build_pipeline(), build_pipeline(build_table(ORDERS), build_table(COPY))


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders", 1)
    return world


def produce(world: World, *keys: str) -> None:
    for key in keys:
        world.broker.produce("orders", {"id": key}, {"id": key, "name": "x"})


def leave_staged(world: World, pipeline: Pipeline, table: str) -> None:
    """Two records are published; two more are staged, and their merge into that table failed."""
    produce(world, "a", "b")
    flush(world.open_session(pipeline))
    produce(world, "c", "d")
    with pytest.raises(TidegateError):
        flush(world.open_session(pipeline, engine=FailsToMerge(world.engine, table)))


def read_keys(world: World, table: str) -> str:
    return "".join(sorted(row["id"] for row in world.read_rows(table)))


def retain(world: World) -> None:
    produce(world, "e", "f", "g")
    world.broker.retain_from("orders", 5)


def recreate(world: World) -> None:
    world.broker.create("orders", 1)
    produce(world, "f", "g")


def cut(world: World) -> None:
    world.broker.elect("orders", has=3)
    produce(world, "f", "g")


def delete(world: World) -> None:
    world.broker.delete("orders")


def take_leader_away(world: World) -> None:
    world.broker.leaderless_topics.add("orders")


DAMAGES = [
    (retain, "position=4: the log starts at offset=5, so 1 offset is gone"),
    (recreate, "was deleted and created again"),
    (cut, "position=4: the log was cut at offset=3"),
]
UNREADABLE = [
    (delete, "topic=orders does not exist"),
    (take_leader_away, "no offset is known now"),
]


@pytest.mark.parametrize(("damage", "message"), [*DAMAGES, *UNREADABLE])
def test_staged_rows_of_the_only_table_are_published_before_a_damage_to_the_log_is_told(
    world: World, damage: Callable[[World], None], message: str
) -> None:
    leave_staged(world, ONE, ORDERS)
    damage(world)
    flushed = flush(world.open_session(ONE))
    assert ([batch.batch for batch in flushed.published], read_keys(world, ORDERS)) == ([2], "abcd")
    with pytest.raises(TidegateError, match=message):
        flush(world.open_session(ONE))


@pytest.mark.parametrize(("damage", "message"), DAMAGES)
def test_of_several_tables_each_is_refused_behind_its_own_queue(
    world: World, damage: Callable[[World], None], message: str
) -> None:
    leave_staged(world, TWO, COPY)
    damage(world)
    with pytest.raises(SomeTablesFailed, match=f"table={ORDERS}.*{message}") as error_info:
        flush(world.open_session(TWO))
    assert f"table={COPY}" not in str(error_info.value)
    assert (read_keys(world, ORDERS), read_keys(world, COPY)) == ("abcd", "abcd")
    with pytest.raises(PositionLost, match=message):
        flush(world.open_session(TWO))


@pytest.mark.guard(
    "staged batches are published before their log is refused",
    file="plugins/tidegate/flush/plan.py",
    text="        table_batches = _list_table_batches(logged_table, fresh, scope)\n",
    off="        table_batches = [] if error is not None else _list_table_batches(logged_table, fresh, scope)\n",
)
def test_way_out_that_is_told_behind_the_queue_loses_no_record_that_was_staged_or_is_in_the_log(world: World) -> None:
    leave_staged(world, ONE, ORDERS)
    cut(world)
    flush(world.open_session(ONE))
    session = world.open_session(ONE)
    propose_rebase(session, json.dumps({"orders": {"0": 3}})).perform("ann")
    flush(world.open_session(ONE))
    assert read_keys(world, ORDERS) == "abcdfg"


@pytest.mark.parametrize("damage", [retain, recreate, cut])
def test_way_out_that_a_table_is_told_leaves_what_another_one_has_staged(
    world: World, damage: Callable[[World], None]
) -> None:
    leave_staged(world, TWO, COPY)
    damage(world)
    engine = FailsToMerge(world.engine, COPY)
    with pytest.raises(TidegateError) as error_info:
        flush(world.open_session(TWO, engine=engine))
    match = re.search(
        rf"table={ORDERS}: .*tidegate rebase shop --table ({ORDERS}) --to '?([^'\n;]*)", str(error_info.value)
    )
    assert match, str(error_info.value)
    propose_rebase(world.open_session(TWO), match[2], match[1]).perform("ann")
    flush(world.open_session(TWO))
    assert (read_keys(world, ORDERS)[:4], read_keys(world, COPY)) == ("abcd", "abcd")
    assert read_keys(world, ORDERS).endswith("fg")
