"""swap: what an attempt wrote beside its branch is an error, and a failed attempt leaves no branch behind."""

from collections.abc import Callable

import pytest
from fakes import AnswerLostBeforePublish, FailsToMerge, RefusesPublish, World, a_pipeline, a_table
from fakes.faults import WritesBesideTheBranch, WritesNothing
from tidegate.errors import GiveUp, RetryLater, TidegateError
from tidegate.flush import flush
from tidegate.pipeline import Pipeline

NAME = "lake.shop.orders"
APPEND = a_pipeline(a_table(mode="append"))
UPSERT = a_pipeline()


@pytest.fixture
def world() -> World:
    made = World()
    made.broker.create("orders")
    produce(made, "a", "x")
    return made


def produce(world: World, key: str, name: str | None) -> None:
    world.broker.produce("orders", {"id": key}, None if name is None else {"id": key, "name": name})


def offsets(world: World) -> dict:
    state = world.destination.state(NAME, "shop")
    assert state is not None
    assert state.position is not None
    return state.position.offsets


@pytest.mark.parametrize("pipeline", [APPEND, UPSERT], ids=["append", "upsert_delete"])
def test_rows_that_landed_beside_the_branch_do_not_move_the_position(world: World, pipeline: Pipeline) -> None:
    flush(world.ports(pipeline))
    produce(world, "b", "y")
    with pytest.raises(GiveUp, match=r"spark\.wap"):
        flush(world.ports(pipeline, engine=WritesBesideTheBranch(world.engine)))
    assert offsets(world) == {"orders": {0: 1}}
    flush(world.ports(pipeline))
    assert world.rows(NAME) == [{"id": "a", "name": "x"}, {"id": "b", "name": "y"}]


def test_append_that_writes_nothing_does_not_move_the_position(world: World) -> None:
    flush(world.ports(APPEND))
    produce(world, "b", "y")
    with pytest.raises(RetryLater, match="staged=1"):
        flush(world.ports(APPEND, engine=WritesNothing(world.engine)))
    assert offsets(world) == {"orders": {0: 1}}


def test_deletes_of_keys_that_are_not_there_write_nothing_and_move_the_position(world: World) -> None:
    flush(world.ports(UPSERT))
    produce(world, "gone", None)
    flush(world.ports(UPSERT))
    assert offsets(world) == {"orders": {0: 2}}
    assert world.rows(NAME) == [{"id": "a", "name": "x"}]


Fault = Callable[[World], dict]
FAULTS: dict[str, Fault] = {
    "Spark fails": lambda world: {"engine": FailsToMerge(world.engine, NAME)},
    "the catalog refuses": lambda world: {"destination": RefusesPublish(world.destination, times=99)},
    "no answer, ever": lambda world: {"destination": AnswerLostBeforePublish(world.destination, times=99)},
    "rows land elsewhere": lambda world: {"engine": WritesBesideTheBranch(world.engine)},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_failed_attempt_leaves_no_branch_behind(world: World, fault: str) -> None:
    flush(world.ports(UPSERT))
    produce(world, "b", "y")
    before = dict(world.destination.tables[NAME].refs)
    for _ in range(3):
        with pytest.raises(TidegateError):
            flush(world.ports(UPSERT, **FAULTS[fault](world)))
    assert world.destination.tables[NAME].refs == before
    flush(world.ports(UPSERT))
    assert world.rows(NAME) == [{"id": "a", "name": "x"}, {"id": "b", "name": "y"}]
