"""A staged batch keeps its size: without its intermediate table, and only that, its records come in smaller ones."""

from contextlib import suppress

import pytest
from fakes import FailsToMerge, World, build_pipeline, build_table
from tidegate.errors import NothingToDo, RetryLater, SomeTables
from tidegate.flush.flush import flush
from tidegate.spec.pipeline import Pipeline
from tidegate.table.observed_table import observe_tables

LOG, ORDERS = "lake.shop.log", "lake.shop.orders"


def make_pipeline(max_records: int) -> Pipeline:
    """One table that would show a record that came twice, and one that keeps the last of each key."""
    return build_pipeline(build_table(LOG, mode="append"), build_table(ORDERS), max_records=max_records)


LARGE, SMALL = make_pipeline(100), make_pipeline(4)


@pytest.fixture(params=[True, False], ids=["a later batch", "the first batch"])
def world(request: pytest.FixtureRequest) -> World:
    """Two partitions with six records each in one staged batch, which Spark cannot merge into the first table."""
    return make_world(is_later=request.param)


def make_world(*, is_later: bool) -> World:
    world = World()
    world.broker.create("orders", 2)
    if is_later:
        produce(world, 0, 2)
        flush(world.open_session(LARGE))
    produce(world, 2, 8)
    with pytest.raises(SomeTables):
        flush(world.open_session(LARGE, engine=FailsToMerge(world.engine, LOG)))
    return world


def produce(world: World, begin: int, end: int) -> None:
    for number in range(begin, end):
        for partition in (0, 1):
            name = f"{partition}-{number}"
            world.broker.produce("orders", {"id": f"{partition}"}, {"id": f"{partition}", "name": name}, partition)


def list_waiting(world: World, pipeline: Pipeline) -> list[int]:
    """The spans of the batches that wait for the first table."""
    return [staged.ranges.span for staged in observe_tables(world.open_session(pipeline))[0].queue]


def drain(world: World) -> None:
    with suppress(NothingToDo):
        while True:
            flush(world.open_session(SMALL))


def test_lower_cap_changes_no_batch_that_is_staged(world: World) -> None:
    before = list_waiting(world, LARGE)
    with pytest.raises((RetryLater, SomeTables)):
        flush(world.open_session(SMALL, engine=FailsToMerge(world.engine, LOG)))
    assert list_waiting(world, SMALL)[: len(before)] == before == [12]


def test_dropped_intermediate_table_has_the_records_read_again_in_smaller_batches(world: World) -> None:
    staged, orders = len(world.engine.stages), world.read_rows(ORDERS)
    names = sorted(f"{p}-{n}" for p in (0, 1) for n in (range(8) if world.read_rows(LOG) else range(2, 8)))
    del world.destination.tables[f"{LOG}_shop_tmp"]
    drain(world)
    assert sorted(row["name"] for row in world.read_rows(LOG)) == names
    assert world.read_rows(ORDERS) == orders
    later_jobs = [
        (job.ranges.span, [table.intermediate for table in job.tables]) for job in world.engine.stages[staged:]
    ]
    assert later_jobs == [(4, [f"{LOG}_shop_tmp"])] * 3
    assert world.broker.groups["tidegate-shop"]["orders"] == dict.fromkeys((0, 1), len(names) // 2)


def test_dropped_rows_that_the_log_has_lost_are_not_left_out_silently() -> None:
    world = make_world(is_later=True)
    del world.destination.tables[f"{LOG}_shop_tmp"]
    world.broker.retain_from("orders", 5)
    with pytest.raises(SomeTables, match=r"so 3 offsets are gone before being read"):
        flush(world.open_session(SMALL))
    assert sorted(row["name"] for row in world.read_rows(LOG)) == ["0-0", "0-1", "1-0", "1-1"]
