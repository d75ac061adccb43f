"""A snapshot without rows, which carries a position, can be made of any table that Spark opens."""

from pathlib import Path
from typing import Any

import pytest
from contract.test_destination import build_iceberg_kit
from contract_words import TABLE
from fakes.format_3 import upgrade
from pyiceberg.schema import Schema
from pyiceberg.types import FixedType, ListType, LongType, MapType, NestedField, StringType, StructType, UUIDType
from tidegate.adapters.iceberg import commit
from tidegate.adapters.iceberg.catalog import Catalogs
from tidegate.adapters.iceberg.commit import append_snapshot_without_rows, seed_table
from tidegate.errors import CommitRefused

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
    seed_table(iceberg_table, "shop", {"tidegate.shop.position": "{}"})
    table = catalogs.table("lake.shop.parts")
    append_snapshot_without_rows(table, "main", {"told": "yes"})
    newest = catalogs.table("lake.shop.parts").current_snapshot()
    assert newest.summary["told"] == "yes"
    assert newest.summary["total-records"] == "0"
    assert newest.parent_snapshot_id == table.current_snapshot().snapshot_id


@pytest.mark.parametrize("version", ["2", "3"])
@pytest.mark.parametrize("codec", ["snappy", "uncompressed", "ZSTD"])
def test_tables_own_compression_of_avro_files_is_none_of_its_manifests(
    catalogs: Catalogs, codec: str, version: str
) -> None:
    """Spark takes these codecs for files of rows, and PyIceberg none of them."""
    properties = {"format-version": "2", "write.avro.compression-codec": codec}
    catalogs.catalog("lake").create_table("shop.Packed", SCHEMAS["a UUID in a list"], properties=properties)
    if version == "3":
        upgrade(catalogs, "lake.shop.Packed")
    seed_table(catalogs.catalog("lake").load_table("shop.Packed"), "shop", {"tidegate.shop.position": "{}"})
    table = catalogs.table("lake.shop.Packed")
    append_snapshot_without_rows(table, "main", {"told": "yes"})
    newest = catalogs.table("lake.shop.Packed").current_snapshot()
    assert (newest.summary["told"], newest.manifests(table.io)) == ("yes", [])


@pytest.mark.parametrize(("place", "is_made"), [("tidegate_other_1_a", True), ("tidegate_shop_1_a", False)])
def test_snapshot_of_another_branch_that_came_first_does_not_stop_one_without_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, is_made: bool
) -> None:
    """Each snapshot of a table has a number of its own, whichever branch it is on. One on our branch is told."""
    kit = build_iceberg_kit(tmp_path).seed_table()
    for branch in ("tidegate_shop_1_a", "tidegate_other_1_a"):
        kit.port.commits.start_branch(TABLE, kit.state(), branch)
    send, cut = commit.commit, kit.state().snapshot_id

    def send_late(*arguments: Any) -> None:
        monkeypatch.setattr(commit, "commit", send)
        kit.append(place, [{"id": "theirs", "n": 0}], {})
        send(*arguments)

    monkeypatch.setattr(commit, "commit", send_late)
    if is_made:
        kit.port.commits.append_empty(TABLE, "tidegate_shop_1_a", {"told": "yes"})
    else:
        with pytest.raises(CommitRefused):
            kit.port.commits.append_empty(TABLE, "tidegate_shop_1_a", {"told": "yes"})
    head = kit.port.commits.read_head(TABLE, "tidegate_shop_1_a")
    assert (head.summary.get("told"), head.parent_id) == ("yes" if is_made else None, cut)
