"""Which data files two snapshots may differ in, told from manifests; and tables of a format that is not supported."""

from pathlib import Path
from typing import Any

import pytest
from fakes import format_3
from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.manifest import (
    MANIFEST_ENTRY_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType
from tidegate.adapters.iceberg import snapshots
from tidegate.adapters.iceberg.catalog import Catalogs
from tidegate.adapters.iceberg.commit import FOREVER_MS
from tidegate.adapters.iceberg.files import FILE_PATH_FIELD_ID
from tidegate.adapters.iceberg.snapshots import IcebergSnapshots
from tidegate.adapters.iceberg.table import IcebergTables
from tidegate.errors import RetryLater
from tidegate.jobs.publish_job import RowIdentity, TouchedFiles

NAME, REGIONS = "lake.shop.orders", ("de", "fr", "it", "pl")
SETTINGS = MANIFEST_ENTRY_SCHEMAS[3]


@pytest.fixture
def catalogs(tmp_path: Path) -> Catalogs:
    return Catalogs({"lake": {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}})


@pytest.fixture
def table(catalogs: Catalogs) -> Table:
    """One data file in each of four partitions."""
    catalog = catalogs.catalog("lake")
    catalog.create_namespace("shop")
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "region", StringType()))
    by_region = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"))
    iceberg_table = catalog.create_table("shop.orders", schema, partition_spec=by_region)
    with iceberg_table.transaction() as change, change.update_snapshot().fast_append() as files:
        for region in REGIONS:
            files.append_data_file(build_file(iceberg_table, region))
    with iceberg_table.transaction() as change, change.update_snapshot().fast_append():
        pass
    return catalog.load_table("shop.orders")


def build_path(table: Table, region: str) -> str:
    return f"{table.location()}/data/{region}.parquet"


def build_file(table: Table, region: str, partition: Record | None = None) -> DataFile:
    return DataFile.from_args(
        content=DataFileContent.DATA, file_path=build_path(table, region), file_format=FileFormat.PARQUET,
        partition=Record(region) if partition is None else partition, record_count=10, file_size_in_bytes=1,
    )  # fmt: skip


def add_deletes(table: Table, monkeypatch: pytest.MonkeyPatch, vectors: dict[int, list[tuple[str, str, int]]]) -> None:
    """Deletion vectors by snapshot: each with its Puffin file, the region whose file it is of, and its place in it."""
    list_manifests = Snapshot.manifests
    own = {snapshot: write_manifest(table, snapshot, vector) for snapshot, vector in vectors.items()}

    def manifests(snapshot: Snapshot, io: Any) -> list[ManifestFile]:
        known = own.get(snapshot.snapshot_id)
        return [*list_manifests(snapshot, io), *([known] if known else [])]

    monkeypatch.setattr(Snapshot, "manifests", manifests)


def write_manifest(table: Table, snapshot: int, vectors: list[tuple[str, str, int]]) -> ManifestFile:
    target = table.io.new_output(f"{table.location()}/metadata/deletes-{snapshot}.avro")
    schema = Schema(*SETTINGS.fields)
    with AvroOutputFile[ManifestEntry](target, schema, "manifest_entry", metadata={"format-version": "3"}) as avro_file:
        for puffin, region, offset in vectors:
            file = DataFile.from_args(
                _table_format_version=3, content=DataFileContent.POSITION_DELETES, file_path=puffin,
                file_format=FileFormat.PUFFIN if hasattr(FileFormat, "PUFFIN") else FileFormat.PARQUET,
                partition=Record(), record_count=1, file_size_in_bytes=1,
                referenced_data_file=build_path(table, region), content_offset=offset, content_size_in_bytes=40,
            )  # fmt: skip
            entry = ManifestEntry.from_args(
                _table_format_version=3, status=ManifestEntryStatus.ADDED, snapshot_id=snapshot, data_file=file
            )
            avro_file.write_block([entry])
    return ManifestFile.from_args(
        manifest_path=target.location, manifest_length=1, partition_spec_id=1, content=ManifestContent.DELETES,
        sequence_number=3, min_sequence_number=3, added_snapshot_id=snapshot,
    )  # fmt: skip


def find_regions(table: Table, paths: tuple[str, ...]) -> set[str]:
    return {region for region in REGIONS if build_path(table, region) in paths}


@pytest.mark.guard(
    "publication: each of the deletion vectors in one file counts",
    file="plugins/tidegate/adapters/iceberg/snapshots.py",
    text="(file.file_path, file[CONTENT_OFFSET]): file",
    off="(file.file_path, None): file",
)
def test_each_of_the_deletion_vectors_in_one_file_touches_its_data_file(
    catalogs: Catalogs, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = (snapshot.snapshot_id for snapshot in table.metadata.snapshots)
    vectors = [("all.puffin", region, 4 + 40 * number) for number, region in enumerate(REGIONS)]
    add_deletes(table, monkeypatch, {old: [("first.puffin", "de", 4)], new: vectors})
    iceberg_snapshots = IcebergSnapshots(catalogs).find_touched_files(NAME, old, new)
    assert iceberg_snapshots is not None
    assert (find_regions(table, iceberg_snapshots.old), find_regions(table, iceberg_snapshots.new)) == (
        set(REGIONS),
        set(REGIONS),
    )


@pytest.mark.guard(
    "publication: keys that a delete file reaches in an unchanged manifest are compared",
    file="plugins/tidegate/adapters/iceberg/snapshots.py",
    text="{*touched_files, *elsewhere}",
    off="{*touched_files}",
)
def test_vector_that_stays_where_it_is_touches_nothing_beside_one_that_goes(
    catalogs: Catalogs, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = (snapshot.snapshot_id for snapshot in table.metadata.snapshots)
    add_deletes(
        table, monkeypatch, {old: [("a.puffin", "de", 4), ("a.puffin", "fr", 44)], new: [("a.puffin", "de", 4)]}
    )
    iceberg_snapshots = IcebergSnapshots(catalogs).find_touched_files(NAME, old, new)
    assert iceberg_snapshots is not None
    assert (find_regions(table, iceberg_snapshots.old), find_regions(table, iceberg_snapshots.new)) == ({"fr"}, {"fr"})


def test_table_of_format_3_is_read_and_pinned_like_any_other(catalogs: Catalogs, table: Table) -> None:
    format_3.upgrade(catalogs, NAME)
    iceberg_snapshots = IcebergSnapshots(catalogs)
    head = iceberg_snapshots.read_table(NAME)
    assert head is not None
    assert head.snapshot_id is not None
    for _ in range(2):
        iceberg_snapshots.pin(NAME, head.snapshot_id, "tidegate-publication-out-1")
    assert iceberg_snapshots.list_pins(NAME, "tidegate-publication") == ["tidegate-publication-out-1"]
    iceberg_snapshots.unpin(NAME, ["tidegate-publication-out-1"])
    assert iceberg_snapshots.list_pins(NAME, "tidegate-publication") == []
    assert IcebergTables(catalogs).read_state(NAME, "orders") is not None


def test_pin_is_kept_whatever_age_the_table_gives_to_tags(catalogs: Catalogs, table: Table) -> None:
    with table.transaction() as change:
        change.set_properties({"history.expire.max-ref-age-ms": "1000"})
    snapshot = table.metadata.snapshots[0].snapshot_id
    for _ in range(2):
        IcebergSnapshots(catalogs).pin(NAME, snapshot, "tidegate-publication-out-1")
    (pin,) = [ref for name, ref in table.refresh().metadata.refs.items() if name != "main"]
    assert (pin.snapshot_id, pin.max_ref_age_ms) == (snapshot, FOREVER_MS)


def test_snapshot_that_goes_before_it_is_pinned_is_looked_for_again(catalogs: Catalogs, table: Table) -> None:
    old = table.metadata.snapshots[0].snapshot_id
    table.maintenance.expire_snapshots().by_id(old).commit()
    with pytest.raises(
        RetryLater, match=f"table={NAME} snapshot={old}: it expired before it could be tagged; run it again"
    ):
        IcebergSnapshots(catalogs).pin(NAME, old, "tidegate-publication-out-1")
    assert set(table.refresh().metadata.refs) == {"main"}


def append_file(table: Table, region: str) -> None:
    table.refresh()
    with table.transaction() as change, change.update_snapshot().fast_append() as files:
        files.append_data_file(build_file(table, region))


def note_read_manifests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The manifests that are opened from now on."""
    read_paths, read = list[str](), snapshots.read_manifest_files

    def note(manifest: ManifestFile, io: Any) -> Any:
        read_paths.append(manifest.manifest_path)
        return read(manifest, io)

    monkeypatch.setattr(snapshots, "read_manifest_files", note)
    return read_paths


def test_manifests_that_both_snapshots_have_are_not_opened(
    catalogs: Catalogs, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run publishes what one batch has changed: it must not cost more with each batch that the table ever had."""
    for region in ("a", "b", "c"):
        append_file(table, region)
    *_, old, new = (snapshot.snapshot_id for snapshot in table.refresh().metadata.snapshots)
    add_deletes(table, monkeypatch, {new: [("all.puffin", "de", 4)]})
    read_paths = note_read_manifests(monkeypatch)
    touched_files = IcebergSnapshots(catalogs).find_touched_files(NAME, old, new)
    assert touched_files == TouchedFiles(
        (build_path(table, "de"),), (build_path(table, "c"), build_path(table, "de")), RowIdentity.NONE
    )
    assert len(read_paths) == 2


@pytest.mark.guard(
    "publication: rows of another schema are compared",
    file="plugins/tidegate/adapters/iceberg/snapshots.py",
    text="    if len(schemas) != 1 or None in schemas:\n",
    off="    if False:\n",
)
def test_rows_are_the_same_by_their_place_or_id_only_while_the_schema_is(
    catalogs: Catalogs, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "SMALL_TABLE_ROWS", 40)
    append_file(table, "a")
    *_, before, after = (snapshot.snapshot_id for snapshot in table.refresh().metadata.snapshots)
    assert read_identity(catalogs, before, after) == RowIdentity.POSITION
    format_3.upgrade(catalogs, NAME)
    append_rows(table, 1)
    before_column = append_rows(table, 2)
    with table.refresh().update_schema() as change:
        change.add_column("More", LongType())
    after_column = append_rows(table, 3)
    newest = append_rows(table, 4)
    *_, first, _, _, _, _ = (snapshot.snapshot_id for snapshot in table.refresh().metadata.snapshots)
    pairs = [(first, before_column), (before_column, after_column), (after_column, newest), (newest, newest)]
    identities = [RowIdentity.ROW_ID, RowIdentity.NONE, RowIdentity.ROW_ID, RowIdentity.NONE]
    assert [read_identity(catalogs, *pair) for pair in pairs] == identities
    assert IcebergSnapshots(catalogs).find_touched_files(NAME, newest, newest) == TouchedFiles()
    monkeypatch.setattr(snapshots, "SMALL_TABLE_ROWS", 55)
    assert read_identity(catalogs, *pairs[0]) == RowIdentity.NONE, "so few rows are compared faster"


def read_identity(catalogs: Catalogs, old: int, new: int) -> RowIdentity:
    touched_files = IcebergSnapshots(catalogs).find_touched_files(NAME, old, new)
    assert touched_files is not None
    return touched_files.identity


def append_rows(table: Table, id: int) -> int:
    format_3.append_rows(table.refresh(), "main", [{"id": id, "region": "de"}])
    newest = table.refresh().current_snapshot()
    assert newest is not None
    return newest.snapshot_id


def test_files_are_not_named_to_spark_where_a_column_hides_its_own(catalogs: Catalogs, table: Table) -> None:
    with table.update_schema() as change:
        change.add_column("_FILE", StringType())
    append_file(table, "a")
    *_, old, new = (snapshot.snapshot_id for snapshot in table.refresh().metadata.snapshots)
    assert IcebergSnapshots(catalogs).find_touched_files(NAME, old, new) is None


@pytest.mark.guard(
    "publication: keys that a delete file reaches are compared",
    file="plugins/tidegate/adapters/iceberg/snapshots.py",
    text="place not in other_files or delete_scope.covers(file)",
    off="place not in other_files",
    case="several",
)
@pytest.mark.parametrize(
    ("upper", "touched"),
    [("de.parquet", {"de"}), ("fr.parquet", {"de", "fr"}), ("d", {"de", "fr"})],
    ids=["one file", "several", "cut short"],
)
def test_deletes_whose_one_data_file_is_not_certain_touch_all_of_their_partition(
    catalogs: Catalogs, monkeypatch: pytest.MonkeyPatch, upper: str, touched: set[str]
) -> None:
    catalog = catalogs.catalog("lake")
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.orders", Schema(NestedField(1, "id", LongType())))
    for name in ("de", "fr", "it"):
        with table.transaction() as change, change.update_snapshot().fast_append() as files:
            files.append_data_file(build_file(table, name, Record()))
    (*_, old), new = (snapshot.snapshot_id for snapshot in table.metadata.snapshots[:2]), table.current_snapshot()
    assert new is not None
    low = f"{table.location()}/data/{'d' if upper == 'd' else 'de.parquet'}"
    bounds = {FILE_PATH_FIELD_ID: low.encode()}, {FILE_PATH_FIELD_ID: f"{table.location()}/data/{upper}".encode()}
    delete = DataFile.from_args(
        _table_format_version=3,
        content=DataFileContent.POSITION_DELETES, file_path="d.parquet", file_format=FileFormat.PARQUET,
        partition=Record(), record_count=1, file_size_in_bytes=1, lower_bounds=bounds[0], upper_bounds=bounds[1],
    )  # fmt: skip
    read = snapshots.read_manifest_files

    def read_with_delete(manifest: ManifestFile, io: Any) -> Any:
        yield from read(manifest, io)
        if manifest.added_snapshot_id == new.snapshot_id:
            delete.spec_id = manifest.partition_spec_id
            yield delete

    monkeypatch.setattr(snapshots, "read_manifest_files", read_with_delete)
    found = IcebergSnapshots(catalogs).find_touched_files(NAME, old, new.snapshot_id)
    assert found is not None
    assert {name for name in REGIONS if build_path(table, name) in found.old} == touched
    assert {name for name in REGIONS if build_path(table, name) in found.new} == touched | {"it"}
