"""What Spark writes into an Iceberg table of format 3, beside rows of format 2; PyIceberg writes nothing of it."""

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    write_manifest,
)
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Summary, UpdateMetrics, update_snapshot_summaries
from pyiceberg.table.update import SetSnapshotRefUpdate, UpgradeFormatVersionUpdate
from pyiceberg.typedef import Record
from pyroaring import BitMap
from tidegate.adapters.iceberg.catalog import Catalogs
from tidegate.adapters.iceberg.commit import _move_branch, commit
from tidegate.adapters.iceberg.pyiceberg_private import DeleteManifestWriter, SnapshotOfManifests, read_manifests

PUFFIN_MAGIC = b"PFA1"
VECTOR_MAGIC = bytes.fromhex("d1d33964")


def upgrade(catalogs: Catalogs, name: str) -> None:
    """Make a table of format 2 one of format 3."""
    table = catalogs.table(name)
    assert table is not None
    commit(table, [UpgradeFormatVersionUpdate(format_version=3)])


def append_rows(
    table: Table, branch: str, rows: Sequence[Mapping[str, Any]], summary: Mapping[str, str] | None = None
) -> None:
    """A snapshot with these rows above a branch's head."""
    arrow = pa.Table.from_pylist(list(rows), schema=table.schema().as_arrow())
    if table.metadata.format_version < 3:
        table.append(arrow, snapshot_properties=dict(summary or {}), branch=branch)
        return
    files = list(_dataframe_to_data_files(table.metadata, arrow, table.io))
    _commit(table, branch, files, ManifestContent.DATA, summary or {})


def delete_positions(table: Table, branch: str, positions: Mapping[str, Sequence[int]]) -> None:
    """Vectors of deletes, all in one Puffin file, one for each data file; none of these had one before."""
    path = f"{table.location()}/data/vectors-{len(table.metadata.snapshots)}.puffin"
    content = bytearray(PUFFIN_MAGIC)
    blobs = []
    files = []
    for data_path, places in positions.items():
        vector = VECTOR_MAGIC + struct.pack("<QI", 1, 0) + BitMap(places).serialize()
        blob = struct.pack(">I", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))
        offset = len(content)
        content += blob
        properties = {"referenced-data-file": data_path, "cardinality": str(len(places))}
        blobs.append(
            {"type": "deletion-vector-v1", "fields": [2147483545], "snapshot-id": -1, "sequence-number": -1,
             "offset": offset, "length": len(blob), "properties": properties}
        )  # fmt: skip
        files.append((data_path, len(places), offset, len(blob)))
    footer = json.dumps({"blobs": blobs, "properties": {}}).encode()
    content += PUFFIN_MAGIC + footer + struct.pack("<I", len(footer)) + bytes(4) + PUFFIN_MAGIC
    with table.io.new_output(path).create() as stream:
        stream.write(bytes(content))
    deletes = [
        DataFile.from_args(
            _table_format_version=3, content=DataFileContent.POSITION_DELETES, file_path=path,
            file_format=FileFormat.PUFFIN, partition=Record(), record_count=rows, file_size_in_bytes=len(content),
            referenced_data_file=data_path, content_offset=offset, content_size_in_bytes=length,
        )
        for data_path, rows, offset, length in files
    ]  # fmt: skip
    _commit(table, branch, deletes, ManifestContent.DELETES, {})


class _VectorManifestWriter(DeleteManifestWriter):
    @property
    def version(self) -> Any:
        return 3

    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        schema = self._with_partition(3)
        return AvroOutputFile(self._output_file, schema, "manifest_entry", schema, self._meta)


class _Snapshot(SnapshotOfManifests):
    def __init__(
        self, table: Table, parent: int | None, files: list[DataFile], content: ManifestContent, summary: Any
    ) -> None:
        super().__init__(table, parent, Operation.APPEND if content == ManifestContent.DATA else Operation.DELETE)
        self._table = table
        self._parent = None if parent is None else table.metadata.snapshot_by_id(parent)
        self._files = files
        self._content = content
        self._own_summary = summary

    def build_manifests(self) -> list[ManifestFile]:
        spec = self._table.spec()
        output = self.new_manifest_output()
        if self._content == ManifestContent.DATA:
            writer: Any = write_manifest(2, spec, self.schema(), output, self.snapshot_id, "deflate")
        else:
            writer = _VectorManifestWriter(spec, self.schema(), output, self.snapshot_id, "deflate")
        with writer:
            for file in self._files:
                writer.add(
                    ManifestEntry.from_args(
                        status=ManifestEntryStatus.ADDED, snapshot_id=self.snapshot_id, sequence_number=None,
                        file_sequence_number=None, data_file=file,
                    )
                )  # fmt: skip
        before = [] if self._parent is None else read_manifests(self.io, self._parent)
        return [writer.to_manifest_file(), *before]

    def build_summary(self) -> Summary:
        metrics = UpdateMetrics()
        for file in self._files:
            metrics.add_file(file)
        before = None if self._parent is None else self._parent.summary
        counts = {name: value for name, value in metrics.to_dict().items() if name != "added-equality-deletes"}
        return update_snapshot_summaries(Summary(operation=self.operation, **counts, **self._own_summary), before)


def _commit(table: Table, branch: str, files: list[DataFile], content: ManifestContent, summary: Any) -> None:
    reference = table.metadata.refs.get(branch)
    snapshot = _Snapshot(table, None if reference is None else reference.snapshot_id, files, content, summary)
    moved: SetSnapshotRefUpdate = _move_branch(table, branch, snapshot.snapshot_id)
    commit(table, [snapshot.write(), moved])
