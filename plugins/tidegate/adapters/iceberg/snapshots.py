"""What a table's snapshots say to a publication: which there are, which files two of them differ in, and pins."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import DataFile, DataFileContent, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from tidegate.adapters.iceberg.catalog import Catalogs
from tidegate.adapters.iceberg.commit import FOREVER_MS
from tidegate.adapters.iceberg.errors import translate_iceberg_errors
from tidegate.adapters.iceberg.files import (
    CONTENT_OFFSET,
    REFERENCED,
    find_whole_path,
    name_partition,
    read_manifest_files,
)
from tidegate.adapters.iceberg.format_version import MERGE_COLUMNS, READ_COLUMNS, ROW_ID_VERSION
from tidegate.adapters.iceberg.lineage import (
    TOTAL_COUNTER,
    Lineage,
    count_changed_rows,
    has_changed_row_counts,
    read_summary,
)
from tidegate.adapters.iceberg.schema import refuse_unreadable
from tidegate.errors import GiveUp, RetryLater
from tidegate.jobs.publish_job import RowIdentity, TouchedFiles
from tidegate.ports.publication_session import SnapshotLag, Snapshots, TableHead, TableSnapshot

SMALL_TABLE_ROWS = 200_000  # to find the rows that are the same takes jobs of Spark that cost more than these rows
MAX_LISTED_FILES = 500  # more than these are not named one by one; then all rows are compared
Files = dict[tuple[str, int | None], DataFile]
MAX_COMMIT_ATTEMPTS = 5
READ_BY_NAME = frozenset((*MERGE_COLUMNS, *READ_COLUMNS))


class IcebergSnapshots(Snapshots):
    """Snapshots of main, whoever wrote them."""

    def __init__(self, catalogs: Catalogs) -> None:
        self.catalogs = catalogs

    @translate_iceberg_errors
    def read_table(self, name: str) -> TableHead | None:
        table = self.catalogs.table(name)
        if table is None:
            self.catalogs.refuse_view(name)
            return None
        refuse_unreadable(name, table)
        current = table.current_snapshot()
        return TableHead(str(table.metadata.table_uuid), current.snapshot_id if current else None)

    @translate_iceberg_errors
    def has_snapshot(self, name: str, snapshot_id: int) -> bool:
        return self._load_table(name).metadata.snapshot_by_id(snapshot_id) is not None

    @translate_iceberg_errors
    def find_at(self, name: str, timestamp_ms: int) -> int | None:
        before = [entry for entry in self._load_table(name).metadata.snapshot_log if entry.timestamp_ms <= timestamp_ms]
        return before[-1].snapshot_id if before else None

    @translate_iceberg_errors
    def measure_lag(self, name: str, old: int | None, new: int) -> SnapshotLag:
        # What only one of the two descends from lies between them: a rollback does, too. A snapshot whose writer has
        # counted nothing may have changed rows.
        table = self._load_table(name)
        lineage = Lineage(table.metadata)
        before = _read_ancestors(lineage, old)
        after = _read_ancestors(lineage, new)
        between = [snapshot for number, snapshot in (before | after).items() if (number in before) != (number in after)]
        changed = [
            snapshot for snapshot in between if count_changed_rows(snapshot) or not has_changed_row_counts(snapshot)
        ]
        times = [snapshot.timestamp_ms for snapshot in changed if snapshot.snapshot_id in after]
        if len(times) < len(changed):
            times += _find_rollback_times(table, old, new)
        return SnapshotLag(len(changed), sum(map(count_changed_rows, changed)), min(times, default=None))

    @translate_iceberg_errors
    def list_ancestors(self, name: str, limit: int) -> list[TableSnapshot]:
        table = self._load_table(name)
        return [
            TableSnapshot(
                snapshot.snapshot_id,
                snapshot.timestamp_ms,
                snapshot.summary.operation.value if snapshot.summary else "",
                count_changed_rows(snapshot),
            )
            for snapshot in islice(Lineage(table.metadata).iterate_ancestors(table.current_snapshot()), limit)
        ]

    @translate_iceberg_errors
    def find_touched_files(self, name: str, old: int, new: int) -> TouchedFiles | None:
        # A data file that both snapshots have holds the same rows in both, unless deletes that only one of them has may
        # apply to it: a delete file, or one of the deletion vectors in a file. In a manifest that both have nothing
        # differs: it is read only where a delete does not say which one file it applies to.
        table = self._load_table(name)
        if _has_own_file_column(table):  # its name hides Iceberg's own column, by which the files are read
            return None
        old_manifests = _list_manifests(table, old)
        new_manifests = _list_manifests(table, new)
        shared = old_manifests.keys() & new_manifests.keys()
        before, after = (
            _read_live_files(table, (m for path, m in manifests.items() if path not in shared))
            for manifests in (old_manifests, new_manifests)
        )
        changed_places = before.keys() ^ after.keys()
        delete_scope = _DeleteScope.from_deletes(
            file for place, file in (before | after).items() if place in changed_places and _is_delete(file)
        )
        if delete_scope.is_uncertain:
            shared_files = _read_live_files(table, (m for path, m in old_manifests.items() if path in shared))
            before = before | shared_files
            after = after | shared_files
        elsewhere = delete_scope.paths - {path for path, _ in before | after}
        touched_files = TouchedFiles(
            old=_list_touched(before, after, delete_scope, elsewhere),
            new=_list_touched(after, before, delete_scope, elsewhere),
        )
        if touched_files == TouchedFiles():
            return touched_files
        is_listed = len(touched_files.old) + len(touched_files.new) <= MAX_LISTED_FILES
        return replace(touched_files, identity=_find_row_identity(table, old, new)) if is_listed else None

    @translate_iceberg_errors
    def pin(self, name: str, snapshot_id: int, tag: str) -> None:
        for _ in range(MAX_COMMIT_ATTEMPTS):
            table = self._load_table(name)
            if tag in table.metadata.refs:
                return
            if table.metadata.snapshot_by_id(snapshot_id) is None:
                raise RetryLater(
                    f"table={name} snapshot={snapshot_id}: it expired before it could be tagged; run it again"
                )
            with suppress(CommitFailedException):  # a flush was faster; tags do not disturb it, nor it them
                table.manage_snapshots().create_tag(snapshot_id, tag, max_ref_age_ms=FOREVER_MS).commit()
                return
        raise RetryLater(f"table={name} tag={tag}: other commits were faster {MAX_COMMIT_ATTEMPTS} times; try again")

    @translate_iceberg_errors
    def list_pins(self, name: str, prefix: str) -> list[str]:
        return sorted(ref for ref in self._load_table(name).metadata.refs if ref.startswith(prefix))

    @translate_iceberg_errors
    def unpin(self, name: str, tags: list[str]) -> None:
        for tag in tags:
            for _ in range(MAX_COMMIT_ATTEMPTS):
                table = self._load_table(name)
                if tag not in table.metadata.refs:
                    break
                with suppress(CommitFailedException):
                    table.manage_snapshots().remove_tag(tag).commit()
                    break

    def _load_table(self, name: str) -> Table:
        table = self.catalogs.table(name)
        if table is None:
            raise GiveUp(f"table={name} does not exist any more; create it, or remove its publication")
        return table


def _read_ancestors(lineage: Lineage, snapshot_id: int | None) -> dict[int, Snapshot]:
    newest = lineage.get_snapshot(snapshot_id)
    return {snapshot.snapshot_id: snapshot for snapshot in lineage.iterate_ancestors(newest)}


def _find_rollback_times(table: Table, old: int | None, new: int) -> list[int]:
    log = table.metadata.snapshot_log
    left_at = next((place + 1 for place in reversed(range(len(log))) if log[place].snapshot_id == old), None)
    entries = log[left_at : left_at + 1] if left_at is not None else []
    return [entry.timestamp_ms for entry in entries or [entry for entry in log if entry.snapshot_id == new][-1:]]


@dataclass(frozen=True)
class _DeleteScope:
    """The data files that some delete files may apply to: these, those in these partitions, or all."""

    paths: frozenset[str]
    places: frozenset[str]
    everywhere: bool

    @classmethod
    def from_deletes(cls, deletes: Iterable[DataFile]) -> "_DeleteScope":
        paths = set[str]()
        places = set[str]()
        everywhere = False
        for delete in deletes:
            if delete.content == DataFileContent.EQUALITY_DELETES:
                everywhere = True
            elif (path := delete[REFERENCED] or find_whole_path(delete)) is not None:
                paths.add(path)
            else:
                places.add(name_partition(delete))
        return cls(frozenset(paths), frozenset(places), everywhere)

    @property
    def is_uncertain(self) -> bool:
        return self.everywhere or bool(self.places)

    def covers(self, data: DataFile) -> bool:
        return self.everywhere or data.file_path in self.paths or name_partition(data) in self.places


def _has_own_file_column(table: Table) -> bool:
    return any(name.casefold() in READ_BY_NAME for schema in table.metadata.schemas for name in schema.column_names)


def _find_row_identity(table: Table, old: int, new: int) -> RowIdentity:
    snapshots = {s.snapshot_id: s for s in table.metadata.snapshots if s.snapshot_id in (old, new)}
    schemas = {snapshot.schema_id for snapshot in snapshots.values()}
    if len(schemas) != 1 or None in schemas:
        return RowIdentity.NONE
    rows = read_summary(snapshots[new]).get(TOTAL_COUNTER, "")
    if rows.isdecimal() and int(rows) < SMALL_TABLE_ROWS:
        return RowIdentity.NONE
    return RowIdentity.ROW_ID if table.format_version >= ROW_ID_VERSION else RowIdentity.POSITION


def _list_touched(
    files: Files, other_files: Files, delete_scope: _DeleteScope, elsewhere: Iterable[str]
) -> tuple[str, ...]:
    data_files = ((place, file) for place, file in files.items() if not _is_delete(file))
    touched_files = (
        file.file_path for place, file in data_files if place not in other_files or delete_scope.covers(file)
    )
    # elsewhere: files of deletes that were not read, as both snapshots have them, or neither
    return tuple(sorted({*touched_files, *elsewhere}))


def _is_delete(file: DataFile) -> bool:
    return file.content != DataFileContent.DATA


def _read_live_files(table: Table, manifests: Iterable[ManifestFile]) -> Files:
    files = (file for manifest in manifests for file in read_manifest_files(manifest, table.io))
    # one file may hold many vectors: its begin tells them apart
    return {(file.file_path, file[CONTENT_OFFSET]): file for file in files}


def _list_manifests(table: Table, snapshot_id: int) -> dict[str, ManifestFile]:
    snapshot = table.metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise GiveUp(f"snapshot={snapshot_id} has expired; see docs/publications.md on expired snapshots")
    return {manifest.manifest_path: manifest for manifest in snapshot.manifests(table.io)}
