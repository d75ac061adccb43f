"""Routing by a field: each record goes to the tables whose pattern or name its text matches, deletes to all."""

from collections import Counter
from pathlib import Path

import pytest
from fakes import World, build_pipeline, build_table
from tidegate.config.pipeline_file import load_pipeline
from tidegate.flush.flush import flush
from tidegate.spec.pipeline import Catalog
from tidegate.spec.table import Route
from tidegate.table.columns import compute_shape

ORDERS, LINES = "lake.shop.orders", "lake.shop.lines"


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders")
    return world


def produce(world: World, key: str, name: str | None) -> None:
    world.broker.produce("orders", {"id": key}, {"id": key, "name": name})


def build_routed_pipeline(*routes: Route):
    names = (ORDERS, LINES)[: len(routes)]
    return build_pipeline(*(build_table(name, route=route) for name, route in zip(names, routes, strict=True)))


def read_keys(world: World, table: str) -> list[str]:
    return [row["id"] for row in world.read_rows(table)]


def test_record_goes_to_the_tables_whose_pattern_matches_the_whole_text(world: World) -> None:
    for key, name in [("1", "order"), ("2", "order_new"), ("3", "line"), ("4", "reorder"), ("5", None), ("6", "")]:
        produce(world, key, name)
    flush(world.open_session(build_routed_pipeline(Route("name", "order.*"), Route("name", "line|order"))))
    assert (read_keys(world, ORDERS), read_keys(world, LINES)) == (["1", "2"], ["1", "3"])


def test_record_of_no_route_is_counted_as_filtered(world: World) -> None:
    produce(world, "1", "order")
    produce(world, "2", "elsewhere")
    flush(world.open_session(build_routed_pipeline(Route("name", "order"))))
    (row,) = world.destination.read_history("lake.shop.tidegate_shop_batches", 9)
    assert (row["read"], row["staged"], row["filtered"]) == (2, 1, 1)


def test_tombstone_goes_to_every_table(world: World) -> None:
    pipeline = build_routed_pipeline(Route("name", "order"), Route("name", "line"))
    produce(world, "1", "order")
    produce(world, "2", "line")
    flush(world.open_session(pipeline))
    for key in ("1", "2"):
        world.broker.produce("orders", {"id": key}, None)
    flush(world.open_session(pipeline))
    assert (read_keys(world, ORDERS), read_keys(world, LINES)) == ([], [])


def test_tables_of_several_routes_share_one_read(world: World) -> None:
    produce(world, "1", "order")
    flush(world.open_session(build_routed_pipeline(Route("name", "order"), Route("name", "line"))))
    assert Counter(len(job.tables) for job in world.engine.stages) == {2: 1}


def test_changed_route_is_another_shape() -> None:
    table, second_table = build_table(route=Route("name", "a")), build_table(route=Route("name", "b"))
    assert len({compute_shape(table) for table in (table, second_table, build_table())}) == 3


def load_route(tmp_path: Path, route: str) -> Route | None:
    path = tmp_path / "include" / "pipelines" / "p.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(f"source: {{topics: [t]}}\ntables: [{{name: lake.shop.orders, route: {route}}}]\n")
    return load_pipeline(path, {"lake": Catalog("lake", "iceberg")}).tables[0].route


def test_route_without_a_pattern_is_the_tables_name_with_or_without_its_namespace(tmp_path: Path) -> None:
    assert load_route(tmp_path, "{field: type}") == Route("type", None, ("shop.orders", "orders"))


def test_route_with_a_pattern_takes_no_name(tmp_path: Path) -> None:
    assert load_route(tmp_path, "{field: type, pattern: 'or.*'}") == Route("type", "or.*")
