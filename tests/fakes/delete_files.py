"""Delete files as Spark and Flink write them into an Iceberg table; PyIceberg reads some of them and writes none."""

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.typedef import Record
from pyiceberg.types import StringType
from tidegate.adapters.iceberg.files import FILE_PATH_FIELD_ID
from tidegate.adapters.iceberg.pyiceberg_private import DeleteManifestWriter

DELETES_BYTES = 1000  # what the metadata says of each delete file
POSITIONS = pa.schema(
    [
        pa.field("file_path", pa.string(), False, {"PARQUET:field_id": str(FILE_PATH_FIELD_ID)}),
        pa.field("pos", pa.int64(), False, {"PARQUET:field_id": str(FILE_PATH_FIELD_ID - 1)}),
    ]
)


def delete_positions(table: Table, *places: tuple[str, int]) -> None:
    """One file of deletes by position, of one data file or of several; its bounds are those of its paths."""
    path = f"{table.location()}/data/positions-{len(table.metadata.snapshots)}.parquet"
    rows = pa.Table.from_pylist([{"file_path": file, "pos": pos} for file, pos in sorted(places)], schema=POSITIONS)
    with table.io.new_output(path).create() as stream:
        pq.write_table(rows, stream)
    files = [file for file, _ in places]
    bounds = [{FILE_PATH_FIELD_ID: to_bytes(StringType(), end(files))} for end in (min, max)]
    _commit(table, _build_file(DataFileContent.POSITION_DELETES, path, len(places), bounds))


def delete_equal(table: Table, rows: int, field_ids: Sequence[int] = (1,)) -> None:
    """One file of deletes by equality: only its metadata."""
    path = f"{table.location()}/data/equality-{len(table.metadata.snapshots)}.parquet"
    _commit(table, _build_file(DataFileContent.EQUALITY_DELETES, path, rows, [{}, {}], equality_ids=list(field_ids)))


def _build_file(
    content: DataFileContent, path: str, rows: int, bounds: list[dict[int, bytes]], **arguments: Any
) -> DataFile:
    return DataFile.from_args(
        content=content, file_path=path, file_format=FileFormat.PARQUET, partition=Record(), record_count=rows,
        file_size_in_bytes=DELETES_BYTES, lower_bounds=bounds[0], upper_bounds=bounds[1], **arguments,
    )  # fmt: skip


def _commit(table: Table, file: DataFile) -> None:
    def build_writer(format_version: int, **arguments: Any) -> DeleteManifestWriter:
        return DeleteManifestWriter(**arguments)

    with (
        patch("pyiceberg.table.update.snapshot.write_manifest", build_writer),
        table.transaction() as change,
        change.update_snapshot().fast_append() as append,
    ):
        append.append_data_file(file)
