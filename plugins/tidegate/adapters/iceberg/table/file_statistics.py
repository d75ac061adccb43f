"""What the rows of an Iceberg table are stored in: how many files, how small, how many deletes. From metadata alone."""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType

from tidegate.adapters.iceberg.table.lineage import Lineage
from tidegate.model import resource_names
from tidegate.ports.context import TableFiles

TARGET_BYTES = 512 * 1024 * 1024  # Iceberg's own default
SMALL_SHARE = 0.75  # below this part of the target, Iceberg's rewrite takes a file for small
TAG_TYPE = SnapshotRefType.TAG
LOCAL_SCHEMES = ("file:", "hdfs:", "/")


@dataclass
class FileTotals:
    """What the files seen so far come to; none of them is kept, so that a table of any size needs little memory."""

    small_bytes: float
    data_files: int = 0
    data_bytes: int = 0
    rows: int = 0
    delete_files: int = 0
    deleted_rows: int = 0
    small: Counter[str] = field(default_factory=Counter)

    def add(self, file: DataFile) -> None:
        """One live file, of rows or of deletes."""
        if file.content != DataFileContent.DATA:
            self.delete_files += 1
            self.deleted_rows += file.record_count
            return
        self.data_files += 1
        self.data_bytes += file.file_size_in_bytes
        self.rows += file.record_count
        if file.file_size_in_bytes < self.small_bytes:
            self.small[_get_partition_key(file)] += 1


def measure_files(table: Table) -> TableFiles:
    """Read the current snapshot's manifests, one after the other."""
    current = table.current_snapshot()
    manifests = current.manifests(table.io) if current else []
    target = int(table.metadata.properties.get("write.target-file-size-bytes", TARGET_BYTES))
    totals, tagged = FileTotals(SMALL_SHARE * target), _find_tagged_snapshots(table)
    for manifest in manifests:
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            totals.add(entry.data_file)
    return TableFiles(
        data_files=totals.data_files,
        data_bytes=totals.data_bytes,
        rows=totals.rows,
        small=totals.small.total(),
        crowd=max(totals.small.values(), default=0),
        delete_files=totals.delete_files,
        deleted_rows=totals.deleted_rows,
        manifests=len(manifests),
        snapshots=len(table.metadata.snapshots),
        since_tagged=tagged.depth,
        tagged_ms=tagged.oldest_ms,
        branch_age_ms=tagged.branch_age_ms,
        is_local=table.location().startswith(LOCAL_SCHEMES),
    )


def _get_partition_key(file: DataFile) -> str:
    return f"{file.spec_id} {file.partition}"


class _Tagged(NamedTuple):
    """What leads from branches down to the farthest tags of pipelines on them."""

    depth: int
    oldest_ms: int | None
    branch_age_ms: int | None


def _find_tagged_snapshots(table: Table) -> _Tagged:
    """Of each branch that is no attempt's: a pipeline may write another one than main."""
    refs, lineage = table.metadata.refs, Lineage(table.metadata)
    tags = {
        ref.snapshot_id
        for name, ref in refs.items()
        if ref.snapshot_ref_type == TAG_TYPE and resource_names.is_ours(name)
    }
    depth, oldest, ages = 0, [], []
    for name, ref in refs.items():
        if ref.snapshot_ref_type == TAG_TYPE or resource_names.is_ours(name):
            continue
        chain = list(lineage.ancestors(lineage.snapshot(ref.snapshot_id)))
        deepest = max((n for n, snapshot in enumerate(chain, 1) if snapshot.snapshot_id in tags), default=0)
        depth = max(depth, deepest)
        oldest += [snapshot.timestamp_ms for snapshot in chain[:deepest]]
        ages += [ref.max_snapshot_age_ms] if deepest and ref.max_snapshot_age_ms is not None else []
    return _Tagged(depth, min(oldest, default=None), min(ages, default=None))
