"""A type of destination is checked by what its description says that it can do, whatever it is called."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from pipeline_files import find_problems, load, render_source
from tidegate.adapters.catalog_routing import OpenedDestination
from tidegate.config.destinations.bigquery import BIGQUERY
from tidegate.config.destinations.destination import CatalogModel, DestinationType
from tidegate.config.destinations.registry import DESTINATIONS
from tidegate.config.publication_file import load_publication
from tidegate.errors import ConfigurationError
from tidegate.ports.destination import Destination
from tidegate.wiring.pipeline import assemble_pipeline, build_spark_conf

LAKE = "lake: {type: iceberg, properties: {type: sql, uri: 'sqlite:////tmp/c.db', warehouse: 'file:///tmp/w'}}"
CATALOGS = f"{LAKE}\npond: {{type: pond, depth: deep}}\n"
Describe = Callable[..., None]


class PondModel(CatalogModel):
    type: Literal["pond"]
    depth: str

    def to_shared_properties(self) -> dict[str, Any]:
        return {"depth": self.depth}


@pytest.fixture
def describe(include: Path, monkeypatch: pytest.MonkeyPatch) -> Describe:
    """Registers a type that can do nothing, but for what it is given."""
    (include / "catalogs.yaml").write_text(CATALOGS)

    def register(**can: Any) -> None:
        nothing = {"check_table": lambda *_: None, "check_pipeline": lambda *_: None, "partition_columns": ("_SHORE",)}
        description: DestinationType = replace(
            BIGQUERY, name="pond", title="Pond", model=PondModel, **(nothing | can))  # fmt: skip
        monkeypatch.setitem(DESTINATIONS, "pond", description)

    return register


def render_file(options: str, name: str = "pond.shop.orders") -> str:
    key = "key: {fields: [id], schema: id BIGINT}, value: {schema: 'id BIGINT, day DATE'}"
    return render_source(key, tables=f"[{{name: {name}, {options}}}]")


def test_table_of_a_registered_type_may_be_written(describe: Describe, include: Path) -> None:
    describe()
    assert load(include, render_file("delete: true")).tables[0].name == "pond.shop.orders"


def test_unknown_type_is_refused_with_those_that_are_registered(describe: Describe, include: Path) -> None:
    describe()
    (include / "catalogs.yaml").write_text(f"{LAKE}\nsea: {{type: sea}}\n")
    (line,) = find_problems(include, render_file("delete: true", "sea.shop.orders"))
    assert "unknown type of catalog" in line
    assert all(name in line for name in ("iceberg", "bigquery", "pond")), line


@pytest.mark.parametrize(
    ("options", "name", "message"),
    [
        ("branch: wip", "pond.shop.orders", "not available for a pond catalog; write to an Iceberg table"),
        ("create: {partition_by: [days(_SHORE)]}", "lake.shop.orders", "Pond's own column; name one of the table's"),
        ("create: {partition_by: [days(_PARTITIONTIME)]}", "pond.shop.orders", "BigQuery's own column"),
        ("select: 'SELECT o.*, d.a FROM record o LEFT JOIN pond.shop.d d ON o.id = d.id'", "lake.shop.orders",
         "joins pond.shop.d, which is in no Iceberg catalog of catalogs.yaml"),
    ],
)  # fmt: skip
def test_what_a_type_cannot_do_is_refused(
    describe: Describe, include: Path, options: str, name: str, message: str
) -> None:
    describe()
    problems = find_problems(include, render_file(options, name))
    assert any(message in line for line in problems), problems


def test_what_a_type_can_do_is_taken(describe: Describe, include: Path) -> None:
    describe(has_named_branches=True, keeps_letters_of_others=True)
    assert load(include, render_file("branch: wip, create: {partition_by: [days(_SHORE)]}")).tables[0].branch == "wip"


@pytest.mark.parametrize("keeps", [True, False])
def test_dead_letters_of_several_types_need_one_that_keeps_those_of_others(
    describe: Describe, include: Path, keeps: bool
) -> None:
    describe(keeps_letters_of_others=keeps)
    key = "key: {fields: [id], schema: id BIGINT}, value: {schema: id BIGINT}, errors: {tolerance: all}"
    text = render_source(key, tables="[{name: pond.shop.orders}, {name: lake.shop.orders}]")
    if keeps:
        assert len(load(include, text).tables) == 2
    else:
        assert "all needs every table in catalogs of one type" in "\n".join(find_problems(include, text))


def test_publication_of_a_type_without_snapshots_is_refused(describe: Describe, include: Path) -> None:
    describe()
    (include / "publications").mkdir()
    file = include / "publications" / "orders.yaml"
    file.write_text("table: pond.shop.orders\ntopic: out\nkey: {fields: [id]}\n")
    with pytest.raises(ConfigurationError, match="a Pond table cannot be published; let the pipeline write an Iceberg"):
        load_publication(file)
    describe(open_snapshots=lambda *_: None)
    assert load_publication(file).table == "pond.shop.orders"


def test_ports_of_each_catalog_are_those_that_its_type_opens(describe: Describe, include: Path) -> None:
    session: Any = [object() for _ in range(5)]
    engine, sql = Any, Any
    destination = OpenedDestination(Destination(*session), engines={"pond": engine}, dialects={"pond": sql})
    describe(
        open=lambda *_: destination, build_spark_conf=lambda catalog, _: {"spark.pond": catalog.properties["depth"]}
    )  # fmt: skip
    kafka = "kafka: {bootstrap.servers: 'localhost:1'}"
    text = render_source(f"{kafka}, key: {{fields: [id]}}, value: {{schema: id BIGINT}}", "[{name: pond.shop.orders}]")
    pipeline = load(include, text)
    pipeline_session = assemble_pipeline(include, "orders", lambda _: None, engine=engine)
    assert [
        pipeline_session.tables,
        pipeline_session.commits,
        pipeline_session.staging,
        pipeline_session.dead_letters,
        pipeline_session.history,
    ] == session
    assert pipeline_session.dialects == {"pond": sql}
    assert build_spark_conf(include, pipeline, lambda _: None)["spark.pond"] == "deep"
