"""What the rows of an Iceberg table are stored in: how many files, how small, how many deletes. From metadata alone."""

from collections import Counter

from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.table import Table

from tidegate import names
from tidegate.adapters.iceberg_lineage import Lineage
from tidegate.ports import TableFiles

TARGET_BYTES = 512 * 1024 * 1024  # Iceberg's own default
SMALL_SHARE = 0.75  # below this part of the target, Iceberg's rewrite takes a file for small
LOCAL = ("file:", "hdfs:", "/")


def files_in(table: Table) -> TableFiles:
    """Read the current snapshot's manifests, each once."""
    current = table.current_snapshot()
    manifests = current.manifests(table.io) if current else []
    entries = [e for m in manifests for e in m.fetch_manifest_entry(table.io, discard_deleted=True)]
    data = [e.data_file for e in entries if e.data_file.content == DataFileContent.DATA]
    deletes = [e.data_file for e in entries if e.data_file.content != DataFileContent.DATA]
    target = int(table.metadata.properties.get("write.target-file-size-bytes", TARGET_BYTES))
    small = [file for file in data if file.file_size_in_bytes < SMALL_SHARE * target]
    return TableFiles(
        data_files=len(data),
        data_bytes=sum(file.file_size_in_bytes for file in data),
        rows=sum(file.record_count for file in data),
        small=len(small),
        crowd=max(Counter(_partition(file) for file in small).values(), default=0),
        delete_files=len(deletes),
        deleted_rows=sum(file.record_count for file in deletes),
        manifests=len(manifests),
        snapshots=len(table.metadata.snapshots),
        since_tagged=_since_tagged(table),
        is_local=table.location().startswith(LOCAL),
    )


def _partition(file: DataFile) -> str:
    return f"{file.spec_id} {file.partition}"


def _since_tagged(table: Table) -> int:
    """How many of main's snapshots, counted from the newest, hold all tags of pipelines that main leads back to."""
    tagged = {ref.snapshot_id for name, ref in table.metadata.refs.items() if names.is_ours(name)}
    depths = [
        depth
        for depth, snapshot in enumerate(Lineage(table.metadata).ancestors(table.current_snapshot()), 1)
        if snapshot.snapshot_id in tagged
    ]
    return max(depths, default=0)
