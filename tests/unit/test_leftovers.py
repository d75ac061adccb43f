"""What the janitor finds of pipelines whose file is gone, in a real catalog; and what it leaves alone."""

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType
from tidegate.adapters import iceberg_history
from tidegate.adapters.iceberg_catalogs import Catalogs
from tidegate.adapters.leftovers import leftovers
from tidegate.ownership import DEAD_LETTERS, SHAPE, Ownership

SCHEMA = Schema(NestedField(1, "id", LongType()))
LETTERS = Schema(*(NestedField(n, name, StringType()) for n, name in enumerate(sorted(DEAD_LETTERS), 1)))


def marked(kind: str, pipeline: str, table: str = "") -> dict[str, str]:
    return Ownership(kind, pipeline, table).properties


@pytest.fixture
def catalogs(tmp_path: Path) -> Catalogs:
    """Pipelines shop and shop_copy write lake.a.orders; the first one has no file. Users have tables of like names."""
    place = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    made = Catalogs({"lake": {"type": "sql", **place}})
    lake = made.catalog("lake")
    lake.create_namespace("a")
    lake.create_namespace("b")
    for table, properties in {
        "a.orders": {}, "b.lines": {}, "b.untouched": {},
        "a.orders_shop_tmp": marked("intermediate", "shop", "a.orders"),
        "a.orders_shop_backfill_1f_tmp": marked("intermediate", "shop", "a.orders"),
        "a.orders_shop_copy_tmp": marked("intermediate", "shop_copy", "a.orders"),
        "a.orders_deletes": marked("deletes", "", "a.orders"),
        "b.lines_shop_tmp": {SHAPE: "0af3"},  # as version 0.1 made it
        "a.orders_shop_report": {}, "a.orders_shop_tmp_kept": {}, "b.lines_shop_copy_of_march": {},
        "b.tidegate_shop_batches": {}, "b.tidegate_gone_batches": {}, "b.tidegate_shop_dead_letters": {},
    }.items():  # fmt: skip
        lake.create_table(table, SCHEMA, properties=properties)
    lake.create_table("a.tidegate_shop_batches", iceberg_history.COLUMNS, properties=marked("batches", "shop"))
    lake.create_table("a.tidegate_shop_copy_batches", iceberg_history.COLUMNS)
    lake.create_table("a.tidegate_shop_dead_letters", LETTERS)
    for table in ("a.orders", "b.lines"):
        with lake.load_table(table).transaction() as change:
            change.set_properties({"tidegate.shop.position": "{}", "tidegate.shop_copy.position": "{}"})
    return made


def dropped(found: dict[str, Any]) -> list[str]:
    return [word for word in found["remove"] if word.startswith("DROP TABLE")]


def test_tables_and_marks_of_a_pipeline_without_a_file_are_told(catalogs: Catalogs) -> None:
    [found] = leftovers(catalogs, "lake", {"shop_copy"})
    assert found["pipeline"] == "shop"
    assert found["tables"] == [
        "lake.a.orders_shop_backfill_1f_tmp", "lake.a.orders_shop_tmp", "lake.a.tidegate_shop_batches",
        "lake.a.tidegate_shop_dead_letters", "lake.b.lines_shop_tmp",
    ]  # fmt: skip
    assert sorted(found["destinations"]) == ["lake.a.orders", "lake.b.lines"]
    assert "DROP TABLE `lake`.`a`.`orders_shop_tmp` PURGE" in found["remove"]
    assert "ALTER TABLE `lake`.`a`.`orders` UNSET TBLPROPERTIES ('tidegate.shop.position')" in found["remove"]


def test_nothing_is_told_while_every_pipeline_has_its_file(catalogs: Catalogs) -> None:
    assert leftovers(catalogs, "lake", {"shop", "shop_copy"}) == []


def test_no_statement_drops_a_table_of_the_users_or_of_another_pipeline(catalogs: Catalogs) -> None:
    """Not even one whose name reads like a table of ours: only a mark, or what version 0.1 made, is ours."""
    [found] = leftovers(catalogs, "lake", {"shop_copy"})
    assert sorted(dropped(found)) == [f"DROP TABLE {_quoted(name)} PURGE" for name in found["tables"]]
    names = "orders lines untouched orders_shop_report orders_shop_tmp_kept lines_shop_copy_of_march orders_deletes"
    users = {f"`{name}`" for name in (*names.split(), "orders_shop_copy_tmp", "tidegate_gone_batches")}
    assert not [word for word in dropped(found) if any(user in word for user in users) or "`b`.`tidegate" in word]


def test_both_pipelines_are_told_each_with_its_own(catalogs: Catalogs) -> None:
    shop, copy = leftovers(catalogs, "lake", set())
    assert [shop["pipeline"], copy["pipeline"]] == ["shop", "shop_copy"]
    assert copy["tables"] == ["lake.a.orders_shop_copy_tmp", "lake.a.tidegate_shop_copy_batches"]
    assert not set(shop["tables"]) & set(copy["tables"])


def _quoted(name: str) -> str:
    return ".".join(f"`{part}`" for part in name.split("."))
