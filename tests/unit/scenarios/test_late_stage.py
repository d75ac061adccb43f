"""A stage that is repeated long after its plan, as by clearing its task in Airflow, takes nothing from what waits."""

from contextlib import suppress
from dataclasses import replace

import pytest
from fakes import FailsToMerge, World, build_pipeline, build_table
from fakes.draining import drain
from tidegate.errors import TidegateError
from tidegate.flush.flush import flush, stage_new_batches
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage_tables
from tidegate.model.batch import PlanScope
from tidegate.spec.pipeline import Stage

ORDERS, COPY = "lake.shop.Orders", "lake.shop.copy"
CLOCKS = build_pipeline(build_table(ORDERS), source={"topics": ("orders",)}, stage=Stage(10))
TWO = build_pipeline(build_table(ORDERS), build_table(COPY), source={"topics": ("orders",)})


@pytest.fixture
def world() -> World:
    """Two partitions, of which one row each was published."""
    world = World()
    world.broker.create("orders", 2)
    produce(world, "a", "b")
    drain(world, TWO)
    return world


def produce(world: World, *keys: str) -> None:
    for key in keys:
        world.broker.produce("orders", {"id": key}, {"id": key, "name": key}, int(key in "bdfh"))


def forget_records(world: World) -> None:
    for partition, log in enumerate(world.broker.partitions["orders"]):
        world.broker.retain_from("orders", log.end, partition)


def read_ids(world: World, table: str = ORDERS) -> list[str]:
    return [row["id"] for row in world.read_rows(table)]


def test_old_plan_does_not_write_over_a_waiting_batch_of_its_number(world: World) -> None:
    produce(world, "c")
    old_plan = plan(world.open_session(CLOCKS), scope=PlanScope.NEW)
    produce(world, "d")
    for keys in ("e", "f"):
        stage_new_batches(world.open_session(CLOCKS))
        produce(world, keys)
    assert stage_tables(world.open_session(CLOCKS), old_plan, may_be_late=True) == ([], ())
    stage_new_batches(world.open_session(CLOCKS))
    forget_records(world)
    drain(world, CLOCKS)
    assert read_ids(world) == ["a", "b", "c", "d", "e", "f"]


def test_old_plan_puts_nothing_before_a_waiting_batch_of_a_later_number(world: World) -> None:
    """The other table had taken its number, so the next plan took another one."""
    produce(world, "c")
    old_plan = plan(world.open_session(TWO))
    stage_tables(world.open_session(TWO), replace(old_plan, tables=old_plan.tables[:1]))  # and dies
    produce(world, "d")
    with suppress(TidegateError):
        flush(world.open_session(TWO, engine=FailsToMerge(world.engine, COPY)))
    batches, refusals = stage_tables(world.open_session(TWO), old_plan, may_be_late=True)
    assert ([batch.table for batch in batches], refusals) == ([ORDERS], ())
    forget_records(world)
    drain(world, TWO)
    assert read_ids(world) == read_ids(world, COPY) == ["a", "b", "c", "d"]


def test_repeat_of_a_stage_whose_batch_waits_stages_it_again(world: World) -> None:
    produce(world, "c", "d")
    same_plan = plan(world.open_session(CLOCKS), scope=PlanScope.NEW)
    (first,), _ = stage_tables(world.open_session(CLOCKS), same_plan, may_be_late=True)
    (second,), _ = stage_tables(world.open_session(CLOCKS), same_plan, may_be_late=True)
    assert (first.batch, first.ranges) == (second.batch, second.ranges)
    drain(world, CLOCKS)
    assert read_ids(world) == ["a", "b", "c", "d"]
