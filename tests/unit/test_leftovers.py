"""What the janitor finds of pipelines whose file is gone, in a real catalog; and what it leaves alone."""

from pathlib import Path

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from tidegate.adapters.iceberg_catalogs import Catalogs
from tidegate.adapters.leftovers import leftovers

SCHEMA = Schema(NestedField(1, "id", LongType()))


@pytest.fixture
def catalogs(tmp_path: Path) -> Catalogs:
    """Pipelines shop and shop_copy write lake.a.orders; the first one's file is gone."""
    place = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    made = Catalogs({"lake": {"type": "sql", **place}})
    lake = made.catalog("lake")
    lake.create_namespace("a")
    lake.create_namespace("b")
    for table in (
        "a.orders", "a.orders_shop_tmp", "a.orders_shop_backfill_1f_tmp", "a.orders_shop_copy_tmp",
        "a.tidegate_shop_batches", "a.tidegate_shop_dead_letters", "a.tidegate_shop_copy_batches", "b.lines_shop_tmp",
        "b.lines", "b.untouched",
    ):  # fmt: skip
        lake.create_table(table, SCHEMA)
    for table in ("a.orders", "b.lines"):
        with lake.load_table(table).transaction() as change:
            change.set_properties({"tidegate.shop.position": "{}", "tidegate.shop_copy.position": "{}"})
    return made


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


def test_what_removes_them_never_names_a_destination_or_anothers_table(catalogs: Catalogs) -> None:
    [found] = leftovers(catalogs, "lake", {"shop_copy"})
    dropped = [word for word in found["remove"] if word.startswith("DROP TABLE")]
    assert not any("shop_copy" in word or "`orders`" in word or "`lines`" in word for word in dropped)
