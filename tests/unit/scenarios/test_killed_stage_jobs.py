"""A stage job that is killed between its rows and their counts, run after run: one number, one batch of rows."""

import pytest
from fakes import World, build_pipeline, build_table
from fakes.clock import Crash
from tidegate.failpoints import install_visitor
from tidegate.flush.clean_up import clean_up
from tidegate.flush.flush import flush

ORDERS, ITEMS = "lake.shop.orders", "lake.shop.items"
PIPELINE = build_pipeline(build_table(ORDERS, topics=("orders",)), build_table(ITEMS, topics=("items",)))


@pytest.fixture
def world() -> World:
    world = World()
    for topic in ("orders", "items"):
        world.broker.create(topic, 2)
    return world


def produce(world: World, number: int) -> None:
    for topic in ("orders", "items"):
        world.broker.produce(topic, {"id": str(number)}, {"id": str(number), "name": "x"}, number % 2)


def die(point: str) -> None:
    if point == "job.overwritten":
        raise Crash


def test_next_run_takes_the_number_of_a_job_that_left_no_counts(world: World) -> None:
    produce(world, 0)
    flush(world.open_session(PIPELINE))
    numbers = set()
    for number in range(1, 12):
        produce(world, number)
        with install_visitor(die), pytest.raises(Crash):
            flush(world.open_session(PIPELINE))
        numbers.add(world.engine.stages[-1].batch)
        clean_up(world.open_session(PIPELINE))  # Airflow runs it also behind a stage task that was killed
        staged = [world.destination.tables[f"{table}_shop_tmp"] for table in (ORDERS, ITEMS)]
        assert sum(len({row["batch_number"] for row in table.read_rows()}) for table in staged) == 1
        assert max(len(table.snapshots) for table in staged) <= 2
    assert numbers == {2}
    flush(world.open_session(PIPELINE))
    assert [len(world.read_rows(table)) for table in (ORDERS, ITEMS)] == [12, 12]
    assert [world.destination.read_state(table, "shop").highest_batch for table in (ORDERS, ITEMS)] == [2, 2]
