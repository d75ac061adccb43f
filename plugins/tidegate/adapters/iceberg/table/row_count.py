"""How many rows an Iceberg table has, from its manifests: records that came in less those that deletes took again."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import _read_deletes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent, ManifestFile
from pyiceberg.table import Table
from pyiceberg.utils.concurrent import ExecutorFactory

from tidegate.adapters.iceberg.table.data_files import find_referenced_file

COUNTED_FORMATS = (FileFormat.PARQUET, FileFormat.ORC)


def count_rows(table: Table, branch: str) -> int | None:
    """Rows of a branch, or of main where the branch is still to be made; None where only reading all of them tells.

    No data file is read. Of deletes by position only the files are read that reach into several data files, or beside
    others into one; what deletes by equality take is not known without the rows.
    """
    ref = table.metadata.refs.get(branch)
    snapshot = table.metadata.snapshot_by_id(ref.snapshot_id) if ref else table.current_snapshot()
    if snapshot is None:
        return 0
    manifests = snapshot.manifests(table.io)
    deletes = _read_manifests(table.io, [m for m in manifests if m.content == ManifestContent.DELETES])
    if any(f.content == DataFileContent.EQUALITY_DELETES or f.file_format not in COUNTED_FORMATS for f in deletes):
        return None
    data = [m for m in manifests if m.content == ManifestContent.DATA]
    sums = [_sum_manifest(manifest) for manifest in data]
    counts = [rows for rows in sums if rows is not None]
    if not deletes and len(counts) == len(sums):
        return sum(counts)
    live = _read_manifests(table.io, data)
    return sum(file.record_count for file in live) - _count_deleted_rows(
        table.io, deletes, {file.file_path for file in live}
    )


def _sum_manifest(manifest: ManifestFile) -> int | None:
    rows = (manifest.added_rows_count, manifest.existing_rows_count)
    return None if rows[0] is None or rows[1] is None else rows[0] + rows[1]


def _read_manifests(io: FileIO, manifests: Sequence[ManifestFile]) -> list[DataFile]:
    def list_files(manifest: ManifestFile) -> list[DataFile]:
        return [entry.data_file for entry in manifest.fetch_manifest_entry(io, discard_deleted=True)]

    return [file for files in ExecutorFactory.get_or_create().map(list_files, manifests) for file in files]


def _count_deleted_rows(io: FileIO, deletes: Sequence[DataFile], live: Collection[str]) -> int:
    """How many rows of live files the deletes take: a compaction may leave deletes of files that are gone.

    Two writers may have deleted one row, each in a file of its own. So only a data file that a single file of deletes
    reaches is told by that file's count; of the others the positions are read.
    """
    deletes_by_file: dict[str, list[DataFile]] = defaultdict(list)
    positions: dict[str, list[pa.ChunkedArray[Any]]] = defaultdict(list)

    def read(file: DataFile) -> None:
        for path, array in _read_deletes(io, file).items():
            positions[path].append(array)

    for file in deletes:
        if path := find_referenced_file(file, live):
            deletes_by_file[path].append(file)
        elif file.record_count:
            read(file)
    counted_files = {path for path, files in deletes_by_file.items() if len(files) == 1 and path not in positions}
    for file in (file for path, files in deletes_by_file.items() if path not in counted_files for file in files):
        read(file)
    rows = sum(deletes_by_file[path][0].record_count for path in counted_files)
    return rows + sum(_count_distinct(array) for path, array in positions.items() if path in live)


def _count_distinct(positions: "list[pa.ChunkedArray[Any]]") -> int:
    return len(pc.unique(pa.chunked_array([chunk for array in positions for chunk in array.chunks])))
