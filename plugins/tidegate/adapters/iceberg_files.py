"""The files behind Iceberg's snapshots: which there are, and how one goes, checksum and all."""

import logging
from collections.abc import Iterable

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

log = logging.getLogger(__name__)


def files_of(table: Table, snapshots: Iterable[Snapshot], live_only: bool = False) -> set[str]:
    """Data files, manifests and manifest lists of some snapshots; `live_only` leaves out data files they deleted."""
    found: set[str] = set()
    seen: set[str] = set()
    for snapshot in snapshots:
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            found.add(manifest.manifest_path)
            if manifest.manifest_path in seen:
                continue
            seen.add(manifest.manifest_path)
            entries = manifest.fetch_manifest_entry(table.io, discard_deleted=live_only)
            found |= {
                e.data_file.file_path for e in entries if not live_only or e.status != ManifestEntryStatus.DELETED
            }
    return found


def remove(table: Table, location: str) -> None:
    """Delete one file if it is there."""
    _delete(table, location)
    folder, _, name = location.rpartition("/")
    if location.startswith("file:") and not name.endswith(".crc"):  # Hadoop keeps a checksum beside each local file
        _delete(table, f"{folder}/.{name}.crc")


def remove_old_metadata(table: Table, committed: TableMetadata) -> None:
    """Delete the metadata files that a commit has dropped from the log, where the table asks for it.

    The commit stands whatever becomes of them: a file that stays is an orphan, which maintenance removes. A REST
    catalog's server deletes them itself.
    """
    asked = table.metadata.properties.get("write.metadata.delete-after-commit.enabled") == "true"
    if not asked or isinstance(table.catalog, RestCatalog):
        return
    kept = {entry.metadata_file for entry in committed.metadata_log}
    for location in (entry.metadata_file for entry in table.metadata.metadata_log):
        if location in kept:
            continue
        try:
            remove(table, location)
        except Exception as error:
            log.warning("old metadata not deleted: table=%s file=%s: %s", table.name(), location, error)


def _delete(table: Table, location: str) -> None:
    try:
        table.io.delete(location)
    except FileNotFoundError:
        return
