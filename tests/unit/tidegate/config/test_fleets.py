"""Pipelines of a fleet: where the name stands, what members share, and what a fleet cannot do for one."""

from pathlib import Path

from pipeline_files import CATALOGS, MINIMAL, find_problems, load, render_source
from tidegate.config.pipeline_file import find_fleet, load_all_pipelines
from tidegate.errors import ConfigurationError
from tidegate.spec.pipeline import Pipeline

FLEET = "fleet: shop\n"
OTHER_CATALOG = "other: {type: iceberg, properties: {type: sql, uri: 'sqlite:////y/c.db', warehouse: 'file:///y'}}\n"


def test_fleet_stands_in_the_file_or_in_the_defaults_and_a_file_can_leave_it(include: Path) -> None:
    assert load(include, MINIMAL).fleet is None
    assert load(include, MINIMAL + FLEET).fleet == "shop"
    (include / "defaults.yaml").write_text("fleet: all\n")
    assert load(include, MINIMAL).fleet == find_fleet(include, "orders") == "all"
    assert load(include, MINIMAL + FLEET).fleet == find_fleet(include, "orders") == "shop"
    assert load(include, MINIMAL + "fleet: null\n").fleet is None
    assert find_fleet(include, "orders") is None


def test_fleet_of_a_file_that_is_wrong_is_known_all_the_same(include: Path) -> None:
    find_problems(include, MINIMAL + FLEET + "colour: red\n")
    assert find_fleet(include, "orders") == "shop"
    (include / "pipelines" / "orders.yaml").write_text("fleet: [")
    assert find_fleet(include, "orders") is None
    assert find_fleet(include, "nowhere") is None


def test_fleet_is_a_name_as_a_pipeline_s(include: Path) -> None:
    [problem] = find_problems(include, MINIMAL + "fleet: My Shop\n")
    assert problem.startswith("pipelines/orders.yaml:3: fleet=My Shop: ")


def test_what_a_fleet_cannot_do_is_refused_in_one_line_with_the_way_out(include: Path) -> None:
    [problem] = find_problems(include, MINIMAL + FLEET + "spark: {mode: submit}\n")
    assert problem == (
        "pipelines/orders.yaml:4: spark.mode=submit: fleet=shop: a fleet submits no jobs, as each would start a "
        "driver; write mode: connect, or leave fleet out"
    )
    [problem] = find_problems(include, render_source("key: {fields: [id]}") + FLEET + "complete: hour\n")
    assert problem.startswith("pipelines/orders.yaml:4: complete=hour: fleet=shop: ")
    assert problem.endswith("; leave complete or fleet out")
    assert load(include, MINIMAL + FLEET + "spark: {master: 'local[2]', mode: submit}\n").fleet == "shop"


def test_member_may_stage_on_a_clock_of_its_own(include: Path) -> None:
    member = load(include, MINIMAL + FLEET + "stage: {interval: 10s}\n")
    assert (member.fleet, member.stage.interval_seconds) == ("shop", 10)


def test_fleet_whose_dag_would_have_the_id_of_a_pipeline_s_is_refused(include: Path) -> None:
    load(include, MINIMAL, "fleet_shop.yaml")
    [problem] = find_problems(include, MINIMAL + FLEET)
    assert "pipeline=fleet_shop has a DAG tidegate_fleet_shop; give the fleet another name" in problem
    [problem] = find_problems(include, MINIMAL + "fleet: shop_backfill\n")
    assert "pipeline=fleet_shop has a DAG tidegate_fleet_shop_backfill" in problem


def test_members_share_the_catalog_of_their_first_table_and_a_broken_file_takes_no_other_down(include: Path) -> None:
    (include / "catalogs.yaml").write_text(CATALOGS + OTHER_CATALOG)
    for name, table in (("a", "lake.shop.a"), ("b", "other.shop.b"), ("c", "lake.shop.c"), ("d", "lake.shop.d")):
        text = render_source("key: {fields: [id]}", tables=f"[{{name: {table}}}]") + (FLEET if name != "d" else "")
        (include / "pipelines" / f"{name}.yaml").write_text(text)
    (include / "pipelines" / "b2.yaml").write_text(FLEET + "colour: red\n")
    pipelines_by_name = dict(load_all_pipelines(include))
    assert [name for name, value in pipelines_by_name.items() if isinstance(value, Pipeline)] == ["a", "c", "d"]
    error = pipelines_by_name["b"]
    assert isinstance(error, ConfigurationError)
    for words in (
        "b.yaml: fleet=shop",
        "catalog=lake of pipeline a",
        "other.shop.b lies in another",
        "another fleet",
    ):
        assert words in str(error)
