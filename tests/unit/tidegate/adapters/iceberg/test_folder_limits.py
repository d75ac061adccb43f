"""How long a value may be that names a folder: told by the table's spec and place, or by the file of a new one."""

from pathlib import Path

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform, TruncateTransform
from pyiceberg.types import NestedField, StringType, StructType
from tidegate.adapters.iceberg.catalog import Catalogs
from tidegate.adapters.iceberg.schema import list_limits_of_new
from tidegate.adapters.iceberg.table import IcebergTables
from tidegate.model.table_state import FolderLimit

INNER = StructType(NestedField(3, "b.c", StringType()))
SCHEMA = Schema(NestedField(1, "Country", StringType()), NestedField(2, "a", INNER), NestedField(4, "é", StringType()))
SPEC = PartitionSpec(
    PartitionField(1, 1000, IdentityTransform(), "Country"), PartitionField(3, 1001, TruncateTransform(40), "inner"),
    PartitionField(4, 1002, TruncateTransform(5), "short"), PartitionField(1, 1003, BucketTransform(4), "bucket"),
    PartitionField(4, 1004, IdentityTransform(), "é"),
)  # fmt: skip


@pytest.fixture
def tables(tmp_path: Path) -> IcebergTables:
    catalogs = Catalogs(
        {"lake": {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}"}}
    )
    catalogs.catalog("lake").create_namespace("shop")
    return IcebergTables(catalogs)


def test_limit_is_that_of_a_folder_without_the_partitions_own_name(tables: IcebergTables) -> None:
    catalog = tables.catalogs.catalog("lake")
    catalog.create_table("shop.orders", SCHEMA, partition_spec=SPEC)
    catalog.create_table("shop.flat", SCHEMA, partition_spec=SPEC, properties={
        "write.object-storage.partitioned-paths": "false"})  # fmt: skip
    catalog.create_table("shop.moved", SCHEMA, partition_spec=SPEC, properties={"write.data.path": "s3://b/orders"})
    assert tables.list_folder_limits("lake.shop.orders", ("ignored",)) == (
        FolderLimit(("Country",), None, 247), FolderLimit(("a", "b.c"), 40, 249), FolderLimit(("é",), None, 248),
    )  # fmt: skip
    assert tables.list_folder_limits("lake.shop.flat", ()) == ()
    assert [limit.max_bytes for limit in tables.list_folder_limits("lake.shop.moved", ())] == [879, 880]


def test_limits_of_a_new_table_are_those_of_its_file(tables: IcebergTables) -> None:
    partition_by = ("Country", "bucket(4, id)", "days(at)", " truncate( 300 ,`a b`)", "`x``y`")
    limits = (FolderLimit(("Country",), None, 247), FolderLimit(("a b",), 300, 245), FolderLimit(("x`y",), None, 249))
    assert tables.list_folder_limits("lake.shop.new", partition_by) == limits
    assert next(iter(list_limits_of_new("s3://bucket/w/shop.new", partition_by))).max_bytes == 870
