"""The files behind Iceberg's snapshots: which there are, and how one goes, checksum and all."""

import logging
import sys
from collections.abc import Collection, Iterable

from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntryStatus, ManifestWriterV2
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import TableVersion
from pyiceberg.types import IntegerType, ListType, NestedField, StructType

from tidegate.adapters.iceberg.table.catalogs import format_name, is_rest

log = logging.getLogger(__name__)

FILE_PATH_FIELD_ID = 2147483546  # the field id of a position delete's file_path, as the format fixes it
DATA_FILE_ENDS = (".parquet", ".orc", ".avro")  # of a path that was not cut short

# of a manifest's entries, likewise
DATA_FILE_FIELD_ID = 2
EQUALITY_IDS_FIELD_ID = 135
EQUALITY_ID_FIELD_ID = 136


class DeleteManifestWriter(ManifestWriterV2):
    """PyIceberg writes manifests of data files only.

    The ids of the columns that deletes by equality name are 32 bits in it: Iceberg's Java library opens no other table.
    """

    def content(self) -> ManifestContent:
        """Of a manifest of deletes."""
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}

    def _with_partition(self, format_version: TableVersion) -> Schema:
        fields = super()._with_partition(format_version).fields
        return Schema(*(_narrow_ids(field) for field in fields))


def _narrow_ids(field: NestedField) -> NestedField:
    """A field of a manifest's entries, with ids of 32 bits."""
    kind = field.field_type
    if field.field_id == DATA_FILE_FIELD_ID and isinstance(kind, StructType):
        return field.model_copy(update={"field_type": StructType(*map(_narrow_ids, kind.fields))})
    if field.field_id == EQUALITY_IDS_FIELD_ID:
        ids = ListType(EQUALITY_ID_FIELD_ID, IntegerType(), element_required=True)
        return field.model_copy(update={"field_type": ids})
    return field


def find_referenced_file(delete: DataFile, data_paths: Collection[str]) -> str | None:
    """The one of `data_paths` that all positions of a delete file lie in; None where that is not certain."""
    name = _find_only_path(delete)
    return name if name in data_paths else None


def find_whole_path(delete: DataFile) -> str | None:
    """The one data file, of this or another snapshot, that all positions of a delete file lie in; None if uncertain."""
    name = _find_only_path(delete)
    return name if name is not None and name.endswith(DATA_FILE_ENDS) else None


def _find_only_path(delete: DataFile) -> str | None:
    """Equal bounds name one file, unless a writer cut them short."""
    lower = (delete.lower_bounds or {}).get(FILE_PATH_FIELD_ID)
    upper = (delete.upper_bounds or {}).get(FILE_PATH_FIELD_ID)
    return lower.decode(errors="replace") if lower is not None and lower == upper else None


def list_snapshot_files(table: Table, snapshots: Iterable[Snapshot], live_only: bool = False) -> set[str]:
    """Data files, manifests and manifest lists of some snapshots; `live_only` leaves out data files they deleted."""
    paths: set[str] = set()
    manifest_paths: set[str] = set()
    for snapshot in snapshots:
        paths.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            paths.add(manifest.manifest_path)
            if manifest.manifest_path in manifest_paths:
                continue
            manifest_paths.add(manifest.manifest_path)
            entries = manifest.fetch_manifest_entry(table.io, discard_deleted=live_only)
            paths |= {
                e.data_file.file_path for e in entries if not live_only or e.status != ManifestEntryStatus.DELETED
            }
    return paths


def find_tables_inside(table: Table) -> tuple[str, ...]:
    """Other tables of the catalog's database whose metadata lies below a table's location.

    A table that was renamed keeps its location, and the next one of the old name is given the same. So is one that the
    database has under another catalog's name, or in a namespace that is called like the table. A REST server chooses
    the locations itself, and is not asked.
    """
    module = sys.modules.get("pyiceberg.catalog.sql")
    if module is None or not isinstance(table.catalog, module.SqlCatalog):
        return ()
    from sqlalchemy import select
    from sqlalchemy.orm import Session

    rows = module.IcebergTables
    place = _normalize_location(table.location()) + "/"
    columns = (rows.catalog_name, rows.table_namespace, rows.table_name, rows.metadata_location)
    query = select(*columns).where(rows.metadata_location.contains(place.partition(":")[2], autoescape=True))
    with Session(table.catalog.engine) as session:
        location_rows = [tuple(row) for row in session.execute(query)]
    table_name = format_name(table)
    inside = {".".join(names) for *names, location in location_rows if _normalize_location(location).startswith(place)}
    return tuple(sorted(inside - {table_name}))


def _normalize_location(location: str) -> str:
    """A location, however it is spelled: `file:/x`, `file:///x` and `/x` are one place, `s3:` and `s3a:` one store."""
    scheme, colon, path = location.partition(":")
    if not colon:
        scheme = "file"
        path = location
    return f"{'s3' if scheme in ('s3a', 's3n') else scheme}:{path.strip('/')}"


def remove_file(table: Table, location: str) -> None:
    """Delete one file if it is there."""
    _delete_file(table, location)
    folder, _, name = location.rpartition("/")
    if location.startswith("file:") and not name.endswith(".crc"):  # Hadoop keeps a checksum beside each local file
        _delete_file(table, f"{folder}/.{name}.crc")


def remove_old_metadata(table: Table, committed_metadata: TableMetadata) -> None:
    """Delete the metadata files that a commit has dropped from the log, where the table asks for it.

    The commit stands whatever becomes of them: a file that stays is an orphan, which maintenance removes. A REST
    catalog's server deletes them itself.
    """
    is_enabled = table.metadata.properties.get("write.metadata.delete-after-commit.enabled") == "true"
    if not is_enabled or is_rest(table.catalog):
        return
    logged_files = {entry.metadata_file for entry in committed_metadata.metadata_log}
    for location in (entry.metadata_file for entry in table.metadata.metadata_log):
        if location in logged_files:
            continue
        try:
            remove_file(table, location)
        except Exception as error:
            log.warning("old metadata not deleted: table=%s file=%s: %s", format_name(table), location, error)


def _delete_file(table: Table, location: str) -> None:
    try:
        table.io.delete(location)
    except FileNotFoundError:
        return
