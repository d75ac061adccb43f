"""A table was replaced by an empty one, which has no snapshot yet: a person moves its position, and that may die."""

import pytest
from fakes import Crash, World, build_pipeline, build_table
from tidegate.errors import PositionLost
from tidegate.flush.flush import flush
from tidegate.model.table_state import TableState
from tidegate.reprocess.rebase import propose_moves, propose_rebase, rebase_position
from tidegate.reprocess.rollback import propose_answer
from tidegate.spec.pipeline import RollbackPolicy
from tidegate.table.coverage import read_coverage

NAME = "lake.shop.orders"
PIPELINE = build_pipeline(build_table(NAME))


@pytest.fixture
def world() -> World:
    """Two partitions are in the table, then it is replaced by an empty one, which keeps its properties and the tag."""
    world = World()
    world.broker.create("orders", 2)
    for key, partition in (("a", 0), ("b", 1)):
        produce(world, key, partition)
    flush(world.open_session(PIPELINE))
    del world.destination.tables[NAME].refs["main"]
    return world


def produce(world: World, key: str, partition: int) -> None:
    world.broker.produce("orders", {"id": key}, {"id": key, "name": "1"}, partition)


def read_ids(world: World) -> list[str]:
    return [row["id"] for row in world.read_rows(NAME)]


def read_table(world: World) -> TableState:
    state = world.destination.read_state(NAME, "shop")
    assert state is not None
    return state


def test_move_of_an_empty_table_that_dies_leaves_the_rollback_without_an_answer(world: World) -> None:
    def die(call: str, moment: str) -> None:
        if (call, moment) == ("commits.start_branch", "before"):
            raise Crash

    session = world.open_session(PIPELINE)
    (move,) = propose_moves(session, "earliest")
    with pytest.raises(Crash):
        rebase_position(world.open_session(PIPELINE, die), move, "ann")
    produce(world, "c", 0)
    with pytest.raises(PositionLost, match="was rolled back or replaced"):
        flush(world.open_session(PIPELINE))
    propose_rebase(session, "earliest").perform("ann")
    flush(world.open_session(PIPELINE))
    assert read_ids(world) == ["a", "b", "c"]


@pytest.mark.parametrize("by_file", [False, True])
def test_what_is_left_out_of_an_empty_table_is_not_covered(world: World, by_file: bool) -> None:
    pipeline = PIPELINE
    if by_file:
        pipeline = build_pipeline(build_table(NAME), on_rollback=RollbackPolicy.KEEP)
    else:
        session = world.open_session(PIPELINE)
        propose_answer(session, "keep").perform("ann")
    produce(world, "c", 0)
    flush(world.open_session(pipeline))
    assert read_ids(world) == ["c"]
    covered = read_coverage("shop", read_table(world))
    assert covered is not None
    assert covered.start == {"orders": {0: 1, 1: 1}}
