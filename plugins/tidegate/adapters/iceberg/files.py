"""The files behind snapshots: which there are, how they are removed, how many and how small, what rows they hold."""

import logging
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.fs import FileSelector, FileSystem
from pyiceberg.avro.file import AvroFile
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    MANIFEST_ENTRY_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.utils.concurrent import ExecutorFactory

from tidegate.adapters.iceberg.catalog import MAIN, format_name, is_rest, is_sql
from tidegate.adapters.iceberg.format_version import ROW_ID_VERSION
from tidegate.adapters.iceberg.lineage import Lineage, read_summary
from tidegate.adapters.iceberg.pyiceberg_private import read_deleted_positions
from tidegate.errors import GiveUp
from tidegate.model import resource_names
from tidegate.model.table_state import TableFiles
from tidegate.sql.spark import quote_name

log = logging.getLogger(__name__)
FILE_PATH_FIELD_ID = 2147483546  # the field id of a position delete's file_path, as the format fixes it
DATA_FILE_ENDS = (".parquet", ".orc", ".avro")  # of a path that was not cut short
TARGET_BYTES = 512 * 1024 * 1024  # Iceberg's own default
MANIFEST_BYTES = 8 * 1024 * 1024  # likewise
SMALL_SHARE = 0.75  # below this part of the target, Iceberg's rewrite takes a file for small
FULL_SHARE = 0.5  # from this part of the target on, rewriting a manifest saves little
# What a look behind a flush opens at most: as many manifests, and of those older than as many snapshots as many files.
# The snapshots are two looks' own, by the default of `compact_every`.
MAX_MANIFESTS = 200
MAX_OLD_FILES = 20_000
NEWEST_SNAPSHOTS = 20
TAG_TYPE = SnapshotRefType.TAG
PATH_PROPERTIES = ("write.data.path", "write.metadata.path")
GC_PROPERTY = "gc.enabled"  # false where other tables use the same files, as those that Spark's `snapshot` makes
Line = Sequence[Snapshot]  # newest first
LOCAL_SCHEMES = ("file:", "hdfs:", "/")
COUNTED_FORMATS = (FileFormat.PARQUET, FileFormat.ORC, FileFormat.PUFFIN)
DATA_FILE_FIELDS = [field.name for field in DATA_FILE_TYPE[ROW_ID_VERSION].fields]
REFERENCED = DATA_FILE_FIELDS.index("referenced_data_file")  # of what `read_manifest_files` reads
CONTENT_OFFSET = DATA_FILE_FIELDS.index("content_offset")


def find_whole_path(delete: DataFile) -> str | None:
    """The one data file, of any snapshot, that holds all positions of a delete file; None if uncertain."""
    name = _find_only_path(delete)
    return name if name is not None and name.endswith(DATA_FILE_ENDS) else None


def _find_only_path(delete: DataFile) -> str | None:
    lower = (delete.lower_bounds or {}).get(FILE_PATH_FIELD_ID)
    upper = (delete.upper_bounds or {}).get(FILE_PATH_FIELD_ID)
    # equal bounds name one file, unless a writer cut them short
    return lower.decode(errors="replace") if lower is not None and lower == upper else None


def list_snapshot_files(table: Table, snapshots: Iterable[Snapshot], live_only: bool = False) -> set[str]:
    """Data files, manifests and manifest lists; `live_only` leaves out data files that these snapshots deleted."""
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
            paths |= {entry.data_file.file_path for entry in entries}
    return paths


def find_tables_inside(table: Table) -> tuple[str, ...]:
    """Other tables of the catalog's database whose metadata lies below a table's location.

    A renamed table keeps its location, and the next one of the old name gets it too. So does one that the database has
    under another catalog's name, or in a namespace named like the table. A REST server chooses the locations itself:
    not asked.
    """
    catalog = table.catalog
    if not is_sql(catalog):
        return ()
    from pyiceberg.catalog.sql import IcebergTables as Rows
    from sqlalchemy import select
    from sqlalchemy.orm import Session

    place = _normalize_location(table.location()) + "/"
    columns = (Rows.catalog_name, Rows.table_namespace, Rows.table_name, Rows.metadata_location)
    query = select(*columns).where(Rows.metadata_location.contains(place.partition(":")[2], autoescape=True))
    with Session(catalog.engine) as session:
        location_rows: list[tuple[Any, ...]] = [tuple(row) for row in session.execute(query)]
    table_name = format_name(table)
    inside = {".".join(names) for *names, location in location_rows if _normalize_location(location).startswith(place)}
    return tuple(sorted(inside - {table_name}))


def _normalize_location(location: str) -> str:
    scheme, colon, path = location.partition(":")
    if not colon:
        scheme = "file"
        path = location
    return f"{'s3' if scheme in ('s3a', 's3n') else scheme}:{path.strip('/')}"


def remove_file(table: Table, location: str) -> None:
    """A missing file is no error."""
    folder, _, name = location.rpartition("/")
    with suppress(FileNotFoundError):
        table.io.delete(location)
    if location.startswith("file:") and not name.endswith(".crc"):  # Hadoop keeps a checksum beside each local file
        with suppress(FileNotFoundError):
            table.io.delete(f"{folder}/.{name}.crc")


def remove_old_metadata(table: Table, committed_metadata: TableMetadata) -> None:
    """Delete the metadata files that a commit dropped from the log, where the table asks for it."""
    is_enabled = table.metadata.properties.get("write.metadata.delete-after-commit.enabled") == "true"
    # a REST catalog's server deletes them itself
    if not is_enabled or is_rest(table.catalog):
        return
    logged_files = {entry.metadata_file for entry in committed_metadata.metadata_log}
    for location in (entry.metadata_file for entry in table.metadata.metadata_log):
        if location in logged_files:
            continue
        try:
            remove_file(table, location)
        except Exception as error:
            # the commit stands; maintenance removes orphans
            log.warning("old metadata not deleted: table=%s file=%s: %s", format_name(table), location, error)


def list_files_below(table: Table, location: str) -> list[str]:
    """Checksums too; empty for a store that Arrow does not read."""
    if not isinstance(table.io, PyArrowFileIO):
        return []
    files, path = _open(table, location)
    listing = files.get_file_info(FileSelector(path, recursive=True, allow_not_found=True))
    prefix = location.removesuffix(path)
    return [prefix + info.path for info in listing if info.is_file]


def drop_empty_folders(table: Table, locations: Iterable[str]) -> None:
    """Delete folders without files, inner ones first: nobody lists or reads them again."""
    if not isinstance(table.io, PyArrowFileIO):
        return
    for location in sorted(locations, key=len, reverse=True):
        files, path = _open(table, location)
        if _is_on_disk(location):
            with suppress(OSError):  # one in which somebody has just written a file stays, however late that is
                Path(path).rmdir()
            continue
        # an object store has no folders, but Arrow leaves an empty object in a folder's place when it deletes a file
        listing = files.get_file_info(FileSelector(path, recursive=True, allow_not_found=True))
        if not any(info.is_file for info in listing):
            with suppress(FileNotFoundError):
                files.delete_dir(path)


def list_folders(location: str) -> list[str]:
    """A folder and all below it on disk; for a store the folder alone, which it deletes as a whole."""
    if not _is_on_disk(location):
        return [location]
    top = location.removeprefix("file://").removeprefix("file:")
    return [top, *(str(path) for path in Path(top).rglob("*") if path.is_dir())]


def _is_on_disk(location: str) -> bool:
    return location.startswith("file:") or ":" not in location


def _open(table: Table, location: str) -> tuple[FileSystem, str]:
    assert isinstance(table.io, PyArrowFileIO)
    scheme, netloc, path = PyArrowFileIO.parse_location(location)
    return table.io.fs_by_scheme(scheme, netloc), path


def measure_files(table: Table, exact: bool = False) -> TableFiles:
    """Counts from the list of manifests; small files from the newest manifests.

    `exact` opens all manifests, whose cost grows with the table, and looks at the place of the table's files.
    """
    current = table.current_snapshot()
    lineage = Lineage(table.metadata)
    manifests = current.manifests(table.io) if current else []
    rows, deletes = (_count_listed(manifests, content) for content in (ManifestContent.DATA, ManifestContent.DELETES))
    total_bytes = _read_total_bytes(current, rows.files, deletes.files)
    opened_manifests = manifests
    if not exact:
        opened_manifests = _choose_manifests(lineage, current, manifests, needs_deletes=total_bytes is None)
    # no file is kept: a table of any size needs little memory
    listed_bytes = 0
    small_bytes = SMALL_SHARE * _read_number(table, "write.target-file-size-bytes", TARGET_BYTES)
    small_files = Counter[str]()
    for manifest in opened_manifests:
        for file in (entry.data_file for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)):
            listed_bytes += file.file_size_in_bytes
            if file.content == DataFileContent.DATA and file.file_size_in_bytes < small_bytes:
                small_files[name_partition(file)] += 1
    full = FULL_SHARE * _read_number(table, "commit.manifest.target-size-bytes", MANIFEST_BYTES)
    tagged = _find_tagged_snapshots(table, lineage)
    is_local = table.location().startswith(LOCAL_SCHEMES)
    return TableFiles(
        data_files=rows.files,
        data_bytes=listed_bytes if total_bytes is None else total_bytes,
        rows=rows.rows,
        small_files=small_files.total(),
        max_small_files_per_partition=max(small_files.values(), default=0),
        delete_files=deletes.files,
        deleted_rows=deletes.rows,
        manifests=len(manifests),
        full_manifests=sum(manifest.manifest_length >= full for manifest in manifests),
        snapshots=len(table.metadata.snapshots),
        snapshots_since_tag=tagged.depth,
        oldest_tagged_ms=tagged.oldest_ms,
        branch_age_ms=tagged.branch_age_ms,
        kept_snapshots=_read_number(table, "history.expire.min-snapshots-to-keep", 0),
        kept_ms=_read_number(table, "history.expire.max-snapshot-age-ms", 0),
        is_local=is_local,
        nested_tables=find_tables_inside(table) if exact else (),
        forbids_file_deletion=table.metadata.properties.get(GC_PROPERTY, "true").lower() != "true",
        paths_elsewhere=tuple(name for name in PATH_PROPERTIES if _is_outside(table, name)),
        # an object store has no folders: a listing of nothing is empty there
        has_location=not (exact and is_local) or table.io.new_input(table.location()).exists(),
    )


def _is_outside(table: Table, name: str) -> bool:
    path = table.properties.get(name)
    place = f"{_normalize_location(table.location())}/"
    return path is not None and not f"{_normalize_location(path)}/".startswith(place)


def _choose_manifests(
    lineage: Lineage, current: Snapshot | None, manifests: Sequence[ManifestFile], *, needs_deletes: bool
) -> list[ManifestFile]:
    recent = {snapshot.snapshot_id for snapshot in islice(lineage.iterate_ancestors(current), NEWEST_SNAPSHOTS)}
    chosen_manifests = list[ManifestFile]()
    old_files = 0
    for manifest in sorted(manifests, key=lambda manifest: manifest.sequence_number, reverse=True):
        if manifest.content == ManifestContent.DELETES and not needs_deletes:
            continue
        if old_files > MAX_OLD_FILES or len(chosen_manifests) == MAX_MANIFESTS:
            break
        added_count = manifest.added_files_count or 0
        # only older files count against the bound: merged or rewritten manifests name these too
        old_files += (manifest.existing_files_count or 0) + (manifest.deleted_files_count or 0)
        old_files += 0 if manifest.added_snapshot_id in recent else added_count
        chosen_manifests.append(manifest)
    return chosen_manifests


class _Listed(NamedTuple):
    """Live files and their rows, from the list of manifests."""

    files: int
    rows: int


def _count_listed(manifests: Iterable[ManifestFile], content: ManifestContent) -> _Listed:
    content_manifests = [manifest for manifest in manifests if manifest.content == content]
    files = sum(
        (manifest.added_files_count or 0) + (manifest.existing_files_count or 0) for manifest in content_manifests
    )
    return _Listed(files, sum((m.added_rows_count or 0) + (m.existing_rows_count or 0) for m in content_manifests))


def _read_total_bytes(current: Snapshot | None, data_files: int, delete_files: int) -> int | None:
    summary = read_summary(current) if current else {}
    counts = [summary.get(name, "") for name in ("total-data-files", "total-delete-files", "total-files-size")]
    if not all(map(str.isdecimal, counts)) or [int(count) for count in counts[:2]] != [data_files, delete_files]:
        # the summary's counts are not those of the list of manifests
        return None
    return int(counts[2])


def _read_number(table: Table, name: str, default: int) -> int:
    text = table.metadata.properties.get(name, str(default))
    try:
        return int(text)
    except ValueError:
        # Java's library does not read it either
        raise GiveUp(
            f"table={format_name(table)} {name}={text}: not a whole number, and Spark refuses it; correct it, or take "
            f"it away: ALTER TABLE {quote_name(format_name(table))} UNSET TBLPROPERTIES ('{name}')"
        ) from None


def name_partition(file: DataFile) -> str:
    """Equal for the files of one partition of one spec."""
    return f"{file.spec_id} {file.partition}"


class _Tagged(NamedTuple):
    """The snapshots from branches down to the farthest tags of pipelines on them.

    A pipeline's tag on no branch means a rollback: then down to the position that a branch carries.
    """

    depth: int
    oldest_ms: int | None
    branch_age_ms: int | None


def _find_tagged_snapshots(table: Table, lineage: Lineage) -> _Tagged:
    refs = table.metadata.refs
    tag_lines = dict[str, Line]()
    branch_lines = dict[str, Line]()
    # all branches but attempts': a pipeline may write another one than main
    for name, ref in refs.items():
        is_tag = ref.snapshot_ref_type == TAG_TYPE
        if is_tag == resource_names.is_ours(name):
            head = lineage.get_snapshot(ref.snapshot_id)
            (tag_lines if is_tag else branch_lines)[name] = list(lineage.iterate_ancestors(head))
    ids = {name: {snapshot.snapshot_id for snapshot in line} for name, line in branch_lines.items()}
    former_heads = {MAIN: {entry.snapshot_id for entry in table.metadata.snapshot_log}}
    depth = 0
    oldest = list[int]()
    ages = list[int]()
    for name, line in branch_lines.items():
        elsewhere = set[int]().union(*ids.values()) - former_heads.get(name, set())
        deepest = 0
        for tag, tag_line in tag_lines.items():
            if refs[tag].snapshot_id in ids[name]:
                deepest = max(deepest, _count_to_any(line, {refs[tag].snapshot_id}))
            elif refs[tag].snapshot_id not in elsewhere:
                deepest = max(deepest, _count_to_position(line, tag, tag_line))
        depth = max(depth, deepest)
        oldest += [snapshot.timestamp_ms for snapshot in line[:deepest]]
        age_ms = refs[name].max_snapshot_age_ms
        ages += [age_ms] if deepest and age_ms is not None else []
    return _Tagged(depth, min(oldest, default=None), min(ages, default=None))


def _count_to_any(line: Line, ids: Collection[int]) -> int:
    return next((n for n, snapshot in enumerate(line, 1) if snapshot.snapshot_id in ids), 0)


def _count_to_position(line: Line, tag: str, tag_line: Line) -> int:
    shared = _count_to_any(line, {snapshot.snapshot_id for snapshot in tag_line})
    position = resource_names.name_pipeline_property(resource_names.parse_tag_pipeline(tag), "position")
    carrying = (n for n, snapshot in enumerate(line, 1) if n >= shared and position in read_summary(snapshot))
    return next(carrying, shared) if shared else 0


def count_live_rows(table: Table, branch: str) -> int | None:
    """Rows of a branch, or of main until the branch is made; None where only reading all rows tells."""
    ref = table.metadata.refs.get(branch)
    snapshot = table.metadata.snapshot_by_id(ref.snapshot_id) if ref else table.current_snapshot()
    if snapshot is None:
        return 0
    manifests = snapshot.manifests(table.io)
    delete_manifests = [manifest for manifest in manifests if manifest.content == ManifestContent.DELETES]
    deletes = [file for manifest in delete_manifests for file in read_manifest_files(manifest, table.io)]
    # which rows deletes by equality take is unknown without reading rows
    if any(f.content == DataFileContent.EQUALITY_DELETES or f.file_format not in COUNTED_FORMATS for f in deletes):
        return None
    data = [m for m in manifests if m.content == ManifestContent.DATA]
    counts = [count for manifest in data for count in (manifest.added_rows_count, manifest.existing_rows_count)]
    if not deletes and None not in counts:
        return sum(count or 0 for count in counts)
    live = read_live_files(table.io, data)
    paths = {file.file_path for file in live}
    # a data file has one vector, in which its older deletes are too
    vectors = {file[REFERENCED]: file.record_count for file in deletes if file.file_format == FileFormat.PUFFIN}
    deleted_rows = sum(rows for path, rows in vectors.items() if path in paths)
    older_deletes = [file for file in deletes if file.file_format != FileFormat.PUFFIN]
    deleted_rows += _count_deleted_rows(table.io, older_deletes, paths - vectors.keys())
    return sum(file.record_count for file in live) - deleted_rows


def read_manifest_files(manifest: ManifestFile, io: FileIO) -> Iterator[DataFile]:
    """The live files of a manifest, with `REFERENCED` and `CONTENT_OFFSET`, which PyIceberg's own reader leaves out."""
    with AvroFile[ManifestEntry](
        io.new_input(manifest.manifest_path),
        MANIFEST_ENTRY_SCHEMAS[ROW_ID_VERSION],
        read_types={-1: ManifestEntry, 2: DataFile},
        read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    ) as entries:
        for entry in entries:
            if entry.status != ManifestEntryStatus.DELETED:
                entry.data_file.spec_id = manifest.partition_spec_id
                yield entry.data_file


def read_live_files(io: FileIO, manifests: Iterable[ManifestFile]) -> list[DataFile]:
    """The files in these manifests that were not deleted."""

    def list_files(manifest: ManifestFile) -> list[DataFile]:
        return [entry.data_file for entry in manifest.fetch_manifest_entry(io, discard_deleted=True)]

    return [file for files in ExecutorFactory.get_or_create().map(list_files, manifests) for file in files]


def _count_deleted_rows(io: FileIO, deletes: Sequence[DataFile], live: Collection[str]) -> int:
    deletes_by_file: dict[str, list[DataFile]] = defaultdict(list)
    positions: dict[str, list[pa.ChunkedArray[Any]]] = defaultdict(list)

    def read(file: DataFile) -> None:
        for path, array in read_deleted_positions(io, file).items():
            positions[path].append(array)

    for file in deletes:
        path = _find_only_path(file)
        if path is not None and path in live:
            deletes_by_file[path].append(file)
        elif file.record_count:
            read(file)
    # two writers may have deleted one row, each in its own file: only a single file's count is exact
    counted_files = {path for path, files in deletes_by_file.items() if len(files) == 1 and path not in positions}
    for file in (file for path, files in deletes_by_file.items() if path not in counted_files for file in files):
        read(file)
    rows = sum(deletes_by_file[path][0].record_count for path in counted_files)
    # a compaction may leave deletes of files that are gone
    read_positions = (arrays for path, arrays in positions.items() if path in live)
    chunks = ([chunk for array in arrays for chunk in array.chunks] for arrays in read_positions)
    return rows + sum(len(pc.unique(pa.chunked_array(parts))) for parts in chunks)
