"""What is measured of a table's files is added up as they go by, partition by partition; nothing of them is kept."""

import gc
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fakes.delete_files import DELETES_BYTES, delete_equal, delete_positions
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate
from tidegate.adapters.iceberg import files
from tidegate.adapters.iceberg.catalog import Catalogs
from tidegate.adapters.iceberg.commit import commit
from tidegate.adapters.iceberg.files import measure_files
from tidegate.adapters.iceberg.table import MAX_CACHED_TABLES, IcebergTables
from tidegate.model.table_state import TableFiles

COLUMNS = pa.schema([("id", pa.int64()), ("day", pa.string())])


@pytest.fixture
def properties(tmp_path: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}


@pytest.fixture
def catalog(properties: dict[str, str]) -> Catalog:
    catalog = load_catalog("lake", **properties)
    catalog.create_namespace("shop")
    return catalog


def append(table: Table, **days: int) -> None:
    rows = [{"id": n, "day": day} for day, count in days.items() for n in range(count)]
    table.append(pa.Table.from_pylist(rows, schema=COLUMNS))


def read_sizes(table: Table) -> dict[str, int]:
    return {task.file.file_path: task.file.file_size_in_bytes for task in table.scan().plan_files()}


def test_small_files_are_counted_by_partition(catalog: Catalog) -> None:
    table = catalog.create_table("shop.orders", COLUMNS)
    with table.update_spec() as spec:
        spec.add_identity("day")
    append(table, monday=3, tuesday=2)
    append(table, monday=1)
    append(table, monday=500, wednesday=5_000)
    file_sizes, largest = read_sizes(table), max(read_sizes(table).values())
    with table.transaction() as change:
        change.set_properties({"write.target-file-size-bytes": str(largest)})
    files = measure_files(table.refresh())
    assert files == TableFiles(
        data_files=5,
        data_bytes=sum(file_sizes.values()),
        rows=5_506,
        small_files=4,
        max_small_files_per_partition=3,
        manifests=3,
        snapshots=3,
    )


def test_delete_files_are_counted_beside_the_rows_that_they_take(catalog: Catalog) -> None:
    table = catalog.create_table("shop.orders", COLUMNS)
    append(table, monday=7)
    ((path, size),) = read_sizes(table).items()
    delete_positions(table, (path, 1), (path, 2))
    delete_equal(table, 3)
    files = measure_files(table)
    assert (files.data_files, files.data_bytes, files.rows) == (1, size + 2 * DELETES_BYTES, 7)
    assert (files.delete_files, files.deleted_rows, files.manifests) == (2, 5, 3)


def test_entries_of_one_manifest_are_let_go_before_the_next_is_read(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Watched:
        """An entry that can be referred to weakly."""

        def __init__(self, entry: Any) -> None:
            self.data_file = entry.data_file

    table, references, most = catalog.create_table("shop.orders", COLUMNS), list[weakref.ref[Watched]](), []
    for _ in range(4):
        append(table, monday=1)
    fetch = ManifestFile.fetch_manifest_entry

    def fetch_and_watch(self: ManifestFile, *arguments: Any, **options: Any) -> list[Watched]:
        most.append(sum(entry() is not None for entry in references))
        entries = [Watched(entry) for entry in fetch(self, *arguments, **options)]
        references.extend(map(weakref.ref, entries))
        return entries

    monkeypatch.setattr(ManifestFile, "fetch_manifest_entry", fetch_and_watch)
    assert measure_files(table).data_files == 4
    assert max(most) <= 1, "the last one seen may still be in the hand"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the manifests that are opened, in order."""
    fetch, paths = ManifestFile.fetch_manifest_entry, list[str]()

    def fetch_and_note(self: ManifestFile, *arguments: Any, **options: Any) -> Any:
        paths.append(self.manifest_path)
        return fetch(self, *arguments, **options)

    monkeypatch.setattr(ManifestFile, "fetch_manifest_entry", fetch_and_note)
    return paths


def fill(table: Table, flushes: int) -> None:
    """A manifest in each flush, with a small file in each of two partitions."""
    for _ in range(flushes):
        append(table, monday=2, tuesday=1)


def measure_and_count(table: Table, opened_paths: list[str], **options: bool) -> tuple[TableFiles, int]:
    opened_paths.clear()
    return measure_files(table.refresh(), **options), len(opened_paths)


def test_tenth_and_twentieth_flush_open_as_many_manifests_of_a_table_that_has_many(
    catalog: Catalog, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_MANIFESTS", 25)
    table = catalog.create_table("shop.orders", COLUMNS)
    with table.update_spec() as spec:
        spec.add_identity("day")
    for _ in range(31):
        append(table, wednesday=5_000)
    with table.transaction() as change:
        change.set_properties({"write.target-file-size-bytes": str(max(read_sizes(table).values()))})
    counts = list[int]()
    for _ in range(2):
        fill(table, 10)
        table_files, count = measure_and_count(table, opened)
        exact, everything = measure_and_count(table, opened, exact=True)
        assert (table_files, everything) == (exact, table_files.manifests)
        counts.append(count)
    assert counts == [25, 25]
    assert (
        table_files.data_files,
        table_files.rows,
        table_files.small_files,
        table_files.max_small_files_per_partition,
    ) == (
        71,
        31 * 5_000 + 20 * 3,
        40,
        20,
    )
    assert table_files.data_bytes == sum(read_sizes(table).values())


def test_what_the_newest_snapshots_added_is_read_whatever_its_number(
    catalog: Catalog, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_OLD_FILES", 3)
    monkeypatch.setattr(files, "NEWEST_SNAPSHOTS", 5)
    table = catalog.create_table("shop.orders", COLUMNS)
    with table.update_spec() as spec:
        spec.add_identity("day")
    fill(table, 12)
    table_files, count = measure_and_count(table, opened)
    assert (count, table_files.max_small_files_per_partition, table_files.small_files) == (5 + 2, 7, 14), (
        "two old ones, of two files each, pass three files"
    )
    assert (table_files.data_files, table_files.manifests) == (24, 12)
    assert measure_files(table, exact=True).max_small_files_per_partition == 12


@pytest.mark.parametrize(
    "totals", [{}, {"total-data-files": "5", "total-delete-files": "1", "total-files-size": "7"}], ids=["none", "other"]
)
def test_bytes_are_counted_where_the_summary_does_not_tell_them(
    catalog: Catalog, opened: list[str], totals: dict[str, str]
) -> None:
    table = catalog.create_table("shop.orders", COLUMNS)
    append(table, monday=7)
    ((path, size),) = read_sizes(table).items()
    delete_positions(table, (path, 1))
    first_files, manifests = measure_and_count(table, opened)
    assert (first_files.data_bytes, first_files.data_files, first_files.delete_files, manifests) == (
        size + DELETES_BYTES,
        1,
        1,
        1,
    )
    current = table.current_snapshot()
    untold = current.model_copy(
        update={
            "snapshot_id": 1,
            "parent_snapshot_id": current.snapshot_id,
            "summary": Summary(Operation.APPEND, **totals),
        }
        | {"sequence_number": current.sequence_number + 1}
    )
    main_update = SetSnapshotRefUpdate(ref_name="main", type=SnapshotRefType.BRANCH, snapshot_id=1)
    commit(table, (AddSnapshotUpdate(snapshot=untold), main_update))
    table_files, manifests = measure_and_count(table, opened)
    assert (table_files, manifests) == (replace(first_files, snapshots=3), 2)


def test_metadata_of_the_tables_last_read_is_kept_and_no_more(
    catalog: Catalog, properties: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3 * MAX_CACHED_TABLES):
        append(catalog.create_table(f"shop.orders_{number}", COLUMNS), monday=1)
    load, references = Catalogs.table, list[weakref.ref[Table]]()

    def load_and_watch(self: Catalogs, name: str) -> Table | None:
        table = load(self, name)
        references.extend([weakref.ref(table)] if table else [])
        return table

    monkeypatch.setattr(Catalogs, "table", load_and_watch)
    destination = IcebergTables(Catalogs({"lake": properties}))
    for number in [*range(3 * MAX_CACHED_TABLES), 0, 0]:
        assert destination.read_state(f"lake.shop.orders_{number}", "sales") is not None
    gc.collect()
    assert [reference() is not None for reference in references].count(True) == MAX_CACHED_TABLES
    assert references[-1]() is not None
