"""The files behind Iceberg's snapshots: which there are, and how one goes, checksum and all."""

from collections.abc import Iterable

from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot


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


def _delete(table: Table, location: str) -> None:
    try:
        table.io.delete(location)
    except FileNotFoundError:
        return
