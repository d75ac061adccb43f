"""A snapshot without rows, which carries a position, can be made of any table that Spark opens."""

from pathlib import Path

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import FixedType, ListType, LongType, MapType, NestedField, StringType, StructType, UUIDType
from tidegate.adapters.iceberg.table.catalogs import Catalogs
from tidegate.adapters.iceberg.table.commit import append_empty, seed

PARTS = StructType(NestedField(11, "u", UUIDType()), NestedField(12, "f", FixedType(4)))
SCHEMAS = {
    "a UUID in a list": Schema(NestedField(1, "id", LongType()), NestedField(2, "us", ListType(10, PARTS))),
    "a UUID in a map": Schema(
        NestedField(1, "id", LongType()), NestedField(2, "m", MapType(10, StringType(), 13, UUIDType()))
    ),
}


@pytest.fixture
def catalogs(tmp_path: Path) -> Catalogs:
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/lake"}
    catalogs = Catalogs({"lake": properties})
    catalogs.catalog("lake").create_namespace("shop")
    return catalogs


@pytest.mark.parametrize("type_name", SCHEMAS)
def test_table_with_types_that_arrow_has_no_rows_of_gets_its_position(catalogs, type_name) -> None:
    iceberg_table = catalogs.catalog("lake").create_table(
        "shop.parts", SCHEMAS[type_name], properties={"format-version": "2"}
    )
    seed(iceberg_table, "shop", {"tidegate.shop.position": "{}"})
    table = catalogs.table("lake.shop.parts")
    append_empty(table, "main", {"told": "yes"})
    newest = catalogs.table("lake.shop.parts").current_snapshot()
    assert newest.summary["told"] == "yes"
    assert newest.summary["total-records"] == "0"
    assert newest.parent_snapshot_id == table.current_snapshot().snapshot_id
