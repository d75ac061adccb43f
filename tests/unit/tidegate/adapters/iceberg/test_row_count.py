"""Rows are counted from manifests and deletes alone, whatever the deletes are: every data file is out of reach."""

from pathlib import Path

import pyarrow as pa
import pytest
from fakes import format_3
from fakes.delete_files import delete_equal, delete_positions
from pyiceberg.catalog import load_catalog
from pyiceberg.manifest import ManifestFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField
from tidegate.adapters.iceberg.catalog import Catalogs
from tidegate.adapters.iceberg.files import count_live_rows


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Three files: of 3 and 5 rows, and of 7 in a snapshot of their own."""
    catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    catalog.create_namespace("shop")
    iceberg_table = catalog.create_table(
        "shop.orders", Schema(NestedField(1, "id", LongType())), properties={"format-version": "2"}
    )
    for rows in (3, 5, 7):
        iceberg_table.append(pa.table({"id": list(range(rows))}))
    return iceberg_table


def list_files_by_rows(table: Table) -> dict[int, str]:
    """Data files by how many rows they have."""
    return {task.file.record_count: task.file.file_path for task in table.scan().plan_files()}


def take_away(table: Table, pattern: str) -> None:
    """Whoever reads a data file from now on, or a file of deletes if the pattern names them, fails."""
    folder = Path(table.location().removeprefix("file://")) / "data"
    for path in folder.glob(pattern):
        path.unlink()


def test_table_without_deletes_is_counted_from_its_list_of_manifests(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ManifestFile, "fetch_manifest_entry", None)
    assert count_live_rows(table, "main") == 15
    assert count_live_rows(table, "not yet there") == 15


def test_new_table_has_no_rows(tmp_path: Path, table: Table) -> None:
    assert count_live_rows(table.catalog.create_table("shop.new", table.schema()), "main") == 0


def test_rows_of_a_branch_are_its_own(table: Table) -> None:
    first = table.metadata.snapshots[0].snapshot_id
    table.manage_snapshots().create_branch(first, "audit").commit()
    table.append(pa.table({"id": [1, 2]}), branch="audit")
    assert (count_live_rows(table, "audit"), count_live_rows(table, "main")) == (5, 15)


def test_deletes_within_a_file_are_counted_and_no_data_is_read(table: Table) -> None:
    three, five, _ = (list_files_by_rows(table)[rows] for rows in (3, 5, 7))
    delete_positions(table, (three, 0))
    delete_positions(table, (five, 4), (five, 1))
    assert table.scan().count() == 12
    take_away(table, "*")
    assert count_live_rows(table, "main") == 12


def test_deletes_across_files_are_counted_once_and_no_data_is_read(table: Table) -> None:
    three, five, seven = (list_files_by_rows(table)[rows] for rows in (3, 5, 7))
    delete_positions(table, (three, 0), (three, 2), (five, 1))
    delete_positions(table, (five, 1), (five, 2), (seven, 6))
    assert table.scan().count() == 10
    take_away(table, "0*")
    assert count_live_rows(table, "main") == 10


def test_deletes_of_a_file_that_is_gone_take_no_rows(table: Table) -> None:
    three, five, seven = (list_files_by_rows(table)[rows] for rows in (3, 5, 7))
    delete_positions(table, (three, 0))
    delete_positions(table, (three, 1), (seven, 1))
    with table.transaction() as change, change.update_snapshot().overwrite() as overwrite:
        data_file = next(task.file for task in table.scan().plan_files() if task.file.file_path == three)
        overwrite.delete_data_file(data_file)
    assert table.scan().count() == count_live_rows(table, "main") == 11
    assert five in list_files_by_rows(table).values()


def test_rows_that_only_reading_would_tell_are_not_told(table: Table) -> None:
    delete_positions(table, (list_files_by_rows(table)[3], 0))
    delete_equal(table, 2)
    assert count_live_rows(table, "main") is None


def test_row_that_two_writers_have_deleted_is_one_row(table: Table) -> None:
    three, five, seven = (list_files_by_rows(table)[rows] for rows in (3, 5, 7))
    delete_positions(table, (three, 0))
    delete_positions(table, (three, 0), (three, 1))  # each in a file of its own
    delete_positions(table, (five, 2))
    delete_positions(table, (five, 2), (seven, 3))  # one of them in a file across files
    delete_positions(table, (seven, 6))
    assert table.scan().count() == 10
    take_away(table, "0*")
    assert count_live_rows(table, "main") == 10


def test_vector_of_deletes_is_counted_in_place_of_its_files_older_deletes(tmp_path: Path) -> None:
    place = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}
    catalogs = Catalogs({"lake": place})
    catalogs.catalog("lake").create_namespace("shop")
    schema = Schema(NestedField(1, "id", LongType()))
    catalogs.catalog("lake").create_table("shop.orders", schema, properties={"format-version": "2"})

    def load() -> Table:
        table = catalogs.table("lake.shop.orders")
        assert table is not None
        return table

    for rows in (3, 5, 7):
        load().append(pa.table({"id": list(range(rows))}))
    paths = list_files_by_rows(load())
    delete_positions(load(), (paths[5], 0), (paths[7], 1))
    delete_positions(load(), (paths[3], 2))
    format_3.upgrade(catalogs, "lake.shop.orders")
    assert count_live_rows(load(), "main") == 12
    format_3.delete_positions(load(), "main", {paths[5]: [0, 4], paths[7]: [1, 2, 3], "gone.parquet": [0]})
    assert sorted(load().scan().to_arrow()["id"].to_pylist()) == sorted([0, 1, 1, 2, 3, 0, 4, 5, 6])
    take_away(load(), "0*")
    assert count_live_rows(load(), "main") == 9


def test_vectors_alone_are_counted_without_a_look_into_their_file(tmp_path: Path) -> None:
    place = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}
    catalogs = Catalogs({"lake": place})
    catalogs.catalog("lake").create_namespace("shop")
    catalogs.catalog("lake").create_table("shop.orders", Schema(NestedField(1, "id", LongType())))
    format_3.upgrade(catalogs, "lake.shop.orders")
    for rows in (3, 5):
        table = catalogs.table("lake.shop.orders")
        assert table is not None
        format_3.append_rows(table, "main", [{"id": number} for number in range(rows)])
    table = catalogs.table("lake.shop.orders")
    assert table is not None
    paths = list_files_by_rows(table)
    format_3.delete_positions(table, "main", {paths[5]: [1, 2], paths[3]: [0]})
    table = catalogs.table("lake.shop.orders")
    assert table is not None
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, 1, 2, 3, 4]
    take_away(table, "*")
    assert count_live_rows(table, "main") == 5
