"""Somebody makes the branch of an attempt main that was killed before its publish: its records are not read again."""

import pytest
from fakes import Crash, World, build_pipeline, build_table
from fakes.draining import drain
from tidegate.errors import NothingToDo
from tidegate.flush.flush import flush
from tidegate.monitoring.status import read_status

ORDERS, COPY = "lake.shop.orders", "lake.shop.copy"


@pytest.mark.parametrize("mode", ["append", "upsert_delete"])
def test_rows_of_a_branch_that_was_made_main_are_not_brought_in_again(mode: str) -> None:
    world, pipeline = World(), build_pipeline(build_table(ORDERS, mode=mode), build_table(COPY, mode=mode))
    world.broker.create("orders", 2)
    produce(world, "a", "b")
    flush(world.open_session(pipeline))
    produce(world, "c", "d")

    def die(call: str, moment: str) -> None:
        if (call, moment) == ("commits.publish", "before"):
            raise Crash(call)

    with pytest.raises(Crash):
        flush(world.open_session(pipeline, die))
    refs = world.destination.tables[ORDERS].refs
    (branch,) = set(refs) - {"main", "tidegate_shop"}
    refs["main"] = refs[branch]
    (table_status, _) = read_status(world.open_session(pipeline))["tables"]
    assert (table_status["position"], table_status["rolled_back"], table_status["problem"]) == (
        {"orders": {0: 2, 1: 2}},
        False,
        None,
    )
    produce(world, "e", "f")
    drain(world, pipeline)
    for table in (ORDERS, COPY):
        assert sorted(row["id"] for row in world.read_rows(table)) == ["a", "b", "c", "d", "e", "f"]
        assert set(world.destination.tables[table].refs) == {"main", "tidegate_shop"}
    with pytest.raises(NothingToDo):
        flush(world.open_session(pipeline))


def produce(world: World, *keys: str) -> None:
    """A record to each partition."""
    for partition, key in enumerate(keys):
        world.broker.produce("orders", {"id": key}, {"id": key, "name": "x"}, partition)
