"""Deletes by equality, as Flink writes them beside us: what is put onto a newer main leaves them as Java reads them.

PyIceberg writes their field ids as 64-bit numbers, and Iceberg's Java library opens no table with such a manifest.
"""

from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from fakes.delete_files import delete_equal, delete_positions
from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField
from tidegate.adapters.iceberg.catalog import Catalogs
from tidegate.adapters.iceberg.reparent import NewParent, ReparentedSnapshot, WrittenFiles


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Two data files, deletes by place in each, and deletes by equality, as others have left them: five manifests."""
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/lake"}
    catalog = Catalogs({"lake": properties}).catalog("lake")
    catalog.create_namespace("shop")
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "n", LongType()))
    merging = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}
    iceberg_table = catalog.create_table("shop.orders", schema, properties={"format-version": "2", **merging})
    for start in (0, 10):
        ids = list(range(start, start + 3))
        iceberg_table.append(pa.table({"id": ids, "n": ids}))
    for task in iceberg_table.scan().plan_files():
        delete_positions(iceberg_table, (task.file.file_path, 1))
    delete_equal(iceberg_table, 2, field_ids=(1,))
    delete_equal(iceberg_table, 3, field_ids=(1, 2))
    return catalog.load_table("shop.orders")


def put_onto_newest(table: Table, replaced: frozenset[str] = frozenset()) -> list[ManifestFile]:
    """The manifests of deletes that a merge's files come with."""
    head = table.current_snapshot()
    assert head is not None
    manifests = ReparentedSnapshot(table, head, NewParent(head.snapshot_id), WrittenFiles({}, replaced))._manifests()
    return [manifest for manifest in manifests if manifest.content == ManifestContent.DELETES]


def read_as_others_do(table: Table, manifest: ManifestFile) -> tuple[Any, list[Any]]:
    """The type of equality ids that a manifest declares, and those of its live files."""
    with table.io.new_input(manifest.manifest_path).open() as file:
        reader = fastavro.reader(BytesIO(file.read()))
    rows = [row for row in reader if row["status"] != 2]
    data_file = next(field["type"] for field in reader.writer_schema["fields"] if field["name"] == "data_file")
    ids = next(field["type"] for field in data_file["fields"] if field["name"] == "equality_ids")
    return ids[1]["items"], [row["data_file"]["equality_ids"] for row in rows]


def test_manifests_that_are_merged_keep_the_ids_as_java_reads_them(table: Table) -> None:
    [merged] = put_onto_newest(table)
    kind, ids = read_as_others_do(table, merged)
    assert kind == "int"
    assert sorted(ids, key=str) == [None, None, [1, 2], [1]]


def test_manifest_of_a_file_that_is_replaced_keeps_the_ids_of_the_others(table: Table) -> None:
    [merged] = put_onto_newest(table)  # one manifest of all four, as Java's writers make it too
    replaced = {entry.data_file.file_path for entry in merged.fetch_manifest_entry(table.io)}
    removed_path = min(path for path in replaced if "positions" in path)
    producer = ReparentedSnapshot(
        table, table.current_snapshot(), NewParent(0), WrittenFiles({}, frozenset({removed_path}))
    )
    kind, ids = read_as_others_do(table, producer._remove_replaced(merged))
    assert kind == "int"
    assert sorted(ids, key=str) == [None, [1, 2], [1]]
