"""A table whose columns follow its records: made and widened before rows are staged, whatever kills the run."""

from typing import Any

import pytest
from fakes import World, build_pipeline, build_table
from fakes.clock import Crash
from tidegate.errors import GiveUp
from tidegate.flush.flush import flush
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage_tables
from tidegate.schema.data_types import Column
from tidegate.schema.inferred_types import Infer
from tidegate.spec.table import Create

ORDERS = "lake.shop.orders"
KEYS = (Column("id", "STRING"),)
FIRST = [("a", {"Name": "x", "n": 1}), ("b", {"Name": None, "gone": None}), ("c", {"price": 1.5})]
SECOND = [("a", {"Name": "y", "open": True}), ("d", None)]
ROWS = [
    {"id": "a", "Name": "y", "n": None, "price": None, "open": True},
    {"id": "b", "Name": None, "n": None, "price": None, "open": None},
    {"id": "c", "Name": None, "n": None, "price": 1.5, "open": None},
]


def build_growing(**settings: Any) -> Any:
    known = {"columns": None, "key_columns": KEYS, "unknown_fields": "add", **settings}
    return build_pipeline(build_table(ORDERS, **known))


def produce(world: World, records: list[tuple[str, Any]]) -> None:
    for number, (key, fields) in enumerate(records):
        value = None if fields is None else {"id": key, **fields}
        world.broker.produce("orders", {"id": key}, value, number % 2)


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders", 2)
    return world


def read_rows(world: World) -> list[dict[str, Any]]:
    return [{name: row.get(name) for name in ROWS[0]} for row in world.read_rows(ORDERS)]


def list_columns(world: World) -> list[str]:
    state = world.destination.read_state(ORDERS, "shop")
    return sorted(f"{column.name} {column.type}" for column in state.columns)


COLUMNS = ["Name STRING", "id STRING", "n BIGINT", "open BOOLEAN", "price DOUBLE"]


@pytest.mark.parametrize("cuts", [(5,), (3, 2), (1, 1, 1, 1, 1), (2, 3)])
def test_table_is_made_of_its_records_however_batches_are_cut(world: World, cuts: tuple[int, ...]) -> None:
    records = [*FIRST, *SECOND]
    for size in cuts:
        produce(world, records[:size])
        records = records[size:]
        flush(world.open_session(build_growing()))
    assert list_columns(world) == COLUMNS
    assert [row["id"] for row in read_rows(world)] == ["a", "b", "c"]
    if cuts in ((5,), (3, 2)):
        assert read_rows(world) == ROWS


def test_declared_columns_stay_as_they_are_declared(world: World) -> None:
    pipeline = build_growing(columns=(*KEYS, Column("n", "INT")))
    produce(world, [*FIRST])
    flush(world.open_session(pipeline))
    produce(world, [*SECOND])
    flush(world.open_session(pipeline))
    assert list_columns(world) == [*COLUMNS[:2], "n INT", *COLUMNS[3:]]


def list_calls(world: World) -> list[tuple[str, str]]:
    calls: list[tuple[str, str]] = []
    flush(world.open_session(build_growing(), lambda *call: calls.append(call)))
    return calls


def test_run_that_dies_anywhere_leaves_a_table_that_the_next_run_completes() -> None:
    """At each call of a port, before and after it took effect."""
    untouched = World()
    untouched.broker.create("orders", 2)
    produce(untouched, [*FIRST, *SECOND])
    calls = list_calls(untouched)
    assert len(calls) > 40
    for number in range(len(calls)):
        world = World()
        world.broker.create("orders", 2)
        produce(world, [*FIRST, *SECOND])
        passed: list[Any] = []

        def stop(*call: str, passed: list[Any] = passed, number: int = number) -> None:
            passed.append(call)
            if len(passed) > number:
                raise Crash

        with pytest.raises(Crash):
            flush(world.open_session(build_growing(), stop))
        for _ in range(2):
            flush_if_due(world)
        assert (list_columns(world), world.read_rows(ORDERS)) == (COLUMNS, untouched.read_rows(ORDERS)), calls[number]


def flush_if_due(world: World) -> None:
    from tidegate.errors import NothingToDo

    try:
        flush(world.open_session(build_growing()))
    except NothingToDo:
        return


def test_columns_wait_until_rows_of_earlier_batches_are_published(world: World) -> None:
    """A new intermediate table would take those rows away."""
    session = world.open_session(build_growing())
    produce(world, FIRST)
    first = stage_tables(session, plan(session)).batches
    produce(world, SECOND)
    both = stage_tables(session, plan(session))
    assert [batch.attempt for batch in both.batches] == [batch.attempt for batch in first]
    assert both.refusals == ()
    flush(session)
    flush(session)
    assert (list_columns(world), read_rows(world)) == (COLUMNS, ROWS)


def test_topic_of_made_up_names_adds_nothing(world: World) -> None:
    produce(world, [("a", {f"n{number}": number for number in range(4)})])
    with pytest.raises(GiveUp, match=r"new_fields=4, more than value\.infer\.max_new_columns=3, in n0, n1, n2, n3"):
        flush(world.open_session(build_growing(infer=Infer(max_new_columns=3))))
    assert ORDERS not in world.destination.tables


def test_table_that_may_not_be_made_is_not_made(world: World) -> None:
    produce(world, FIRST)
    with pytest.raises(GiveUp, match=r"create\.enabled=false"):
        flush(world.open_session(build_growing(create=Create(enabled=False))))
    assert ORDERS not in world.destination.tables
