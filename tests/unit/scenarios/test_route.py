"""Routing by a field: each record goes to the tables whose pattern or name its text matches, deletes to all."""

from collections import Counter
from pathlib import Path

import pytest
from fakes import World, a_pipeline, a_table
from tidegate.config.pipeline_file import load_pipeline
from tidegate.spec.catalog import Catalog
from tidegate.spec.table import Route
from tidegate.steps.flush import flush
from tidegate.tables.columns import compute_shape

ORDERS, LINES = "lake.shop.orders", "lake.shop.lines"


@pytest.fixture
def world() -> World:
    made = World()
    made.broker.create("orders")
    return made


def produce(world: World, key: str, name: str | None) -> None:
    world.broker.produce("orders", {"id": key}, {"id": key, "name": name})


def routed(*routes: Route):
    names = (ORDERS, LINES)[: len(routes)]
    return a_pipeline(*(a_table(name, route=route) for name, route in zip(names, routes, strict=True)))


def keys(world: World, table: str) -> list[str]:
    return [row["id"] for row in world.rows(table)]


def test_record_goes_to_the_tables_whose_pattern_matches_the_whole_text(world: World) -> None:
    for key, name in [("1", "order"), ("2", "order_new"), ("3", "line"), ("4", "reorder"), ("5", None), ("6", "")]:
        produce(world, key, name)
    flush(world.ports(routed(Route("name", "order.*"), Route("name", "line|order"))))
    assert (keys(world, ORDERS), keys(world, LINES)) == (["1", "2"], ["1", "3"])


def test_record_of_no_route_is_counted_as_filtered(world: World) -> None:
    produce(world, "1", "order")
    produce(world, "2", "elsewhere")
    flush(world.ports(routed(Route("name", "order"))))
    (row,) = world.destination.read_history("lake.shop.tidegate_shop_batches", 9)
    assert (row["read"], row["staged"], row["filtered"]) == (2, 1, 1)


def test_tombstone_goes_to_every_table(world: World) -> None:
    pipeline = routed(Route("name", "order"), Route("name", "line"))
    produce(world, "1", "order")
    produce(world, "2", "line")
    flush(world.ports(pipeline))
    for key in ("1", "2"):
        world.broker.produce("orders", {"id": key}, None)
    flush(world.ports(pipeline))
    assert (keys(world, ORDERS), keys(world, LINES)) == ([], [])


def test_tables_of_several_routes_share_one_read(world: World) -> None:
    produce(world, "1", "order")
    flush(world.ports(routed(Route("name", "order"), Route("name", "line"))))
    assert Counter(len(job.tables) for job in world.engine.stages) == {2: 1}


def test_changed_route_is_another_shape() -> None:
    one, other = a_table(route=Route("name", "a")), a_table(route=Route("name", "b"))
    assert len({compute_shape(table, {}) for table in (one, other, a_table())}) == 3


def loaded(tmp_path: Path, route: str) -> Route | None:
    path = tmp_path / "include" / "pipelines" / "p.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(f"source: {{topics: [t]}}\ntables: [{{name: lake.shop.orders, route: {route}}}]\n")
    return load_pipeline(path, {"lake": Catalog("lake", "iceberg")}).tables[0].route


def test_route_without_a_pattern_is_the_tables_name_with_or_without_its_namespace(tmp_path: Path) -> None:
    assert loaded(tmp_path, "{field: type}") == Route("type", None, ("shop.orders", "orders"))


def test_route_with_a_pattern_takes_no_name(tmp_path: Path) -> None:
    assert loaded(tmp_path, "{field: type, pattern: 'or.*'}") == Route("type", "or.*")
