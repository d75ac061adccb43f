"""Manifests of a partition spec over a column that was dropped: PyIceberg cannot write them again."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform, VoidTransform
from pyiceberg.types import LongType, NestedField, StringType
from tidegate.adapters.iceberg.catalog import Catalogs
from tidegate.adapters.iceberg.commit import append_snapshot_without_rows
from tidegate.adapters.iceberg.reparent import NewParent, ReparentedSnapshot, WrittenFiles
from tidegate.adapters.iceberg.table_state import build_state

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "part", StringType()))
BY_PART = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Three files of two partitions, in a manifest each, under a spec over a column that is gone since."""
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/lake"}
    catalog = Catalogs({"lake": properties}).catalog("lake")
    catalog.create_namespace("shop")
    merging = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}
    iceberg_table = catalog.create_table("shop.old", SCHEMA, partition_spec=BY_PART, properties={"format-version": "2"})
    for number in range(3):
        rows = [{"id": number, "part": f"p{number % 2}"}]
        iceberg_table.append(pa.Table.from_pylist(rows, schema=SCHEMA.as_arrow()))
    with iceberg_table.update_spec() as update:
        update.remove_field("part")
    with iceberg_table.update_schema() as update:
        update.delete_column("part")
    with iceberg_table.transaction() as change:  # of a hundred they would be merged by default
        change.set_properties(merging)
    return catalog.load_table("shop.old")


def test_snapshot_without_rows_leaves_them_as_they_are(table) -> None:
    before = {manifest.manifest_path for manifest in table.current_snapshot().manifests(table.io)}
    append_snapshot_without_rows(table, "main", {"told": "yes"})
    newest = table.refresh().current_snapshot()
    assert newest.summary["told"] == "yes"
    assert {manifest.manifest_path for manifest in newest.manifests(table.io)} == before
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, 1, 2]


def test_rows_that_are_put_onto_a_newer_main_leave_them_as_they_are(table) -> None:
    head = table.current_snapshot()
    producer = ReparentedSnapshot(table, head, NewParent(head.snapshot_id), WrittenFiles({}))
    manifest_paths = [manifest.manifest_path for manifest in producer._manifests()]
    assert sorted(manifest_paths) == sorted(manifest.manifest_path for manifest in head.manifests(table.io))


def test_partition_whose_column_is_gone_is_told_and_one_that_was_taken_away_is_not(table) -> None:
    assert build_state(table, "shop").dropped_partition == "part"
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "part", StringType()))
    new_table = table.catalog.create_table(
        "shop.new", schema, partition_spec=BY_PART, properties={"format-version": "2"}
    )
    with new_table.update_spec() as update:
        update.remove_field("part")
    assert build_state(table.catalog.load_table("shop.new"), "shop").dropped_partition == ""


def test_partition_that_holds_nothing_needs_no_column(table) -> None:
    """Format 1 keeps a field that was taken away as `void`, whose type Iceberg knows without the column."""
    voided = PartitionSpec(
        PartitionField(1, 1000, IdentityTransform(), "Id"), PartitionField(2, 1001, VoidTransform(), "part")
    )
    new_table = table.catalog.create_table("shop.void", SCHEMA, partition_spec=voided)
    with new_table.update_schema() as update:
        update.delete_column("part")
    void_table = table.catalog.load_table("shop.void")
    assert [field.name for field in void_table.schema().fields] == ["id"]
    assert build_state(void_table, "shop").dropped_partition == ""


@pytest.mark.parametrize(("mode", "is_kept"), [("merge-on-read", False), ("copy-on-write", True)])
def test_names_that_iceberg_keeps_for_itself_are_told_by_how_it_merges(table, mode: str, is_kept: bool) -> None:
    with table.transaction() as change:
        change.set_properties({"write.merge.mode": mode})
    names = build_state(table, "shop").reserved_columns
    assert ("_pos" in names, "_deleted" in names) == (True, is_kept)


@pytest.mark.parametrize(("value", "takes_any"), [("True", True), ("false", False), (None, False)])
def test_table_that_takes_any_schema_is_told(table, value: str | None, takes_any: bool) -> None:
    if value is not None:
        with table.transaction() as change:
            change.set_properties({"write.spark.accept-any-schema": value})
    assert build_state(table, "shop").takes_any_schema is takes_any
