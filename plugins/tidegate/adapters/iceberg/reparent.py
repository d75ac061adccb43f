"""Puts the files of a merge onto a newer main, if no file that was added or removed since would change the merge.

Data and delete files stay. Writing metadata alone takes a moment, a merge seconds to minutes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.snapshots import Operation, Snapshot, Summary, UpdateMetrics, update_snapshot_summaries
from pyiceberg.utils.properties import property_as_bool, property_as_int

from tidegate.adapters.iceberg.files import read_live_files
from tidegate.adapters.iceberg.lineage import Lineage, read_summary
from tidegate.adapters.iceberg.pruning import KeyRange, build_outside_test
from tidegate.adapters.iceberg.pyiceberg_private import SnapshotOfManifests
from tidegate.model.table_state import TableCommit

FORMAT_VERSION = 2  # vectors of deletes in format 3 replace each other: of two writers' only a new merge makes one
RECOUNTED_PREFIXES = ("total-", "removed-", "deleted-", "manifests-", "entries-")
MERGE_SETTINGS = {  # how many small manifests are worth it, and when one is full
    TableProperties.MANIFEST_MIN_MERGE_COUNT: TableProperties.MANIFEST_MIN_MERGE_COUNT_DEFAULT,
    TableProperties.MANIFEST_TARGET_SIZE_BYTES: TableProperties.MANIFEST_TARGET_SIZE_BYTES_DEFAULT,
}
Added = dict[tuple[ManifestContent, int], list[DataFile]]  # by kind and partition spec


@dataclass(frozen=True)
class WrittenFiles:
    """The files that a merge added, and the paths of the delete files that its own replace."""

    added: Added
    replaced: frozenset[str] = frozenset()


@dataclass(frozen=True)
class NewParent:
    """The snapshot that becomes the parent, and summary entries beside the writer's."""

    snapshot_id: int
    summary: Mapping[str, str] = field(default_factory=dict)


def find_written_files(
    table: Table, table_commit: TableCommit, onto: int, ranges: Sequence[KeyRange] | None
) -> WrittenFiles | None:
    """The files of the commit's head, if the merge would write the same files onto the snapshot `onto`; else None.

    `ranges` contain every merged key; None for rows that are added whatever the table holds. The conditions:

    1. The cut is an ancestor of `onto`, so no delete was undone.
    2. The head removed no data file, so it copied no row that another writer may have changed since.
    3. No data file that is new in `onto` overlaps `ranges`. So the merge would find the same rows of its keys, except
       rows that were deleted since; what it writes does not depend on the row that it replaces.
    4. If the head has deletes, every data file of the cut is still in `onto`: deletes name files and positions there.
    """
    head, cut, newest = (table.metadata.snapshot_by_id(i) for i in (table_commit.head, table_commit.cut, onto))
    if table.metadata.format_version != FORMAT_VERSION or head is None or cut is None or newest is None:
        return None
    ancestors = Lineage(table.metadata).iterate_ancestors_to(newest, cut)
    if head.parent_snapshot_id != cut.snapshot_id or cut not in ancestors:
        return None
    written_files = _list_written_files(table, head)
    if written_files is None:
        return None
    added_files, went = _diff_data_files(table, cut, newest)
    has_deletes = any(content == ManifestContent.DELETES for content, _ in written_files.added)
    if has_deletes and (went or ranges is None):
        return None
    if ranges is not None and not _are_files_outside(table, added_files, ranges):
        return None
    return written_files


def _list_written_files(table: Table, head: Snapshot) -> WrittenFiles | None:
    added_files: Added = {}
    replaced_paths = set()
    for manifest, entry in _iterate_own_entries(table, head):
        content = entry.data_file.content
        if entry.status == ManifestEntryStatus.ADDED and content != DataFileContent.EQUALITY_DELETES:
            added_files.setdefault((manifest.content, manifest.partition_spec_id), []).append(entry.data_file)
        elif entry.status == ManifestEntryStatus.DELETED and content == DataFileContent.POSITION_DELETES:
            replaced_paths.add(entry.data_file.file_path)
        else:
            return None
    return WrittenFiles(added_files, frozenset(replaced_paths)) if _are_all_added(head, added_files) else None


def _iterate_own_entries(table: Table, head: Snapshot) -> Iterator[tuple[ManifestFile, ManifestEntry]]:
    for manifest in head.manifests(table.io):
        if manifest.added_snapshot_id == head.snapshot_id:
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
                if entry.snapshot_id == head.snapshot_id:
                    yield manifest, entry


def _are_all_added(head: Snapshot, added_files: Added) -> bool:
    summary = read_summary(head)
    counts = dict.fromkeys(ManifestContent, 0)
    for (kind, _), files in added_files.items():
        counts[kind] += len(files)
    summary_counts = [int(summary.get(name, "0")) for name in ("added-data-files", "added-delete-files")]
    return summary_counts == [counts[ManifestContent.DATA], counts[ManifestContent.DELETES]]


def _diff_data_files(table: Table, cut: Snapshot, newest: Snapshot) -> tuple[list[DataFile], set[str]]:
    before, after = (
        {m.manifest_path: m for m in snapshot.manifests(table.io) if m.content == ManifestContent.DATA}
        for snapshot in (cut, newest)
    )
    old = {file.file_path for file in read_live_files(table.io, (before[path] for path in before.keys() - after))}
    new = read_live_files(table.io, (after[path] for path in after.keys() - before))
    return [file for file in new if file.file_path not in old], old - {file.file_path for file in new}


def _are_files_outside(table: Table, files: Iterable[DataFile], ranges: Sequence[KeyRange]) -> bool:
    is_outside = build_outside_test(table, ranges)
    return all(is_outside is not None and is_outside(file) for file in files)


class ReparentedSnapshot(SnapshotOfManifests):
    """A snapshot of given files above any other; entries get its own id, which incremental reads look for."""

    def __init__(self, table: Table, head: Snapshot, onto: NewParent, written_files: WrittenFiles) -> None:
        super().__init__(table, onto.snapshot_id, head.summary.operation if head.summary else Operation.OVERWRITE)
        self._head = head
        self._written_files = written_files
        self._base_summary = onto.summary
        self._onto = table.metadata.snapshot_by_id(onto.snapshot_id)
        self._removed = UpdateMetrics()

    def build_manifests(self) -> list[ManifestFile]:
        assert self._onto is not None
        added = [self._write_added(*key, files) for key, files in self._written_files.added.items()]
        live = (m for m in self._onto.manifests(self.io) if m.has_added_files() or m.has_existing_files())
        return [*added, *self._merge_small([self._remove_replaced(manifest) for manifest in live])]

    def _merge_small(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        properties = self.properties
        if not property_as_bool(properties, TableProperties.MANIFEST_MERGE_ENABLED, default=True):
            return manifests
        least, full = (property_as_int(properties, name, default) for name, default in MERGE_SETTINGS.items())
        large = list[ManifestFile]()
        bins = dict[tuple[ManifestContent, int], list[ManifestFile]]()
        for manifest in manifests:
            # one that tells what this snapshot removed stays
            is_small = manifest.manifest_length < (full or 0) // 2 and manifest.added_snapshot_id != self.snapshot_id
            key = (manifest.content, manifest.partition_spec_id)
            (bins.setdefault(key, []) if is_small else large).append(manifest)
        for key, small in bins.items():
            if len(small) >= max(least or 0, 2):
                # an older spec, over a column that was dropped: nobody can write it again
                with suppress(ValueError, TypeError):
                    small = self._write_merged(*key, small, full or 0)  # noqa: PLW2901
            large += small
        return large

    def _write_merged(
        self, content: ManifestContent, spec_id: int, manifests: list[ManifestFile], full: int
    ) -> list[ManifestFile]:
        count = 1 + sum(manifest.manifest_length for manifest in manifests) // full
        merged_manifests = []
        for group in (manifests[number::count] for number in range(count)):
            with self.open_manifest(content, spec_id) as writer:
                for entry in (e for m in group for e in m.fetch_manifest_entry(self.io, discard_deleted=True)):
                    writer.existing(entry)
            merged_manifests.append(writer.to_manifest_file())
        return merged_manifests

    def _remove_replaced(self, manifest: ManifestFile) -> ManifestFile:
        replaced_paths = self._written_files.replaced
        if manifest.content != ManifestContent.DELETES or not replaced_paths:
            return manifest
        entries = manifest.fetch_manifest_entry(self.io, discard_deleted=True)
        removed_entries = [entry for entry in entries if entry.data_file.file_path in replaced_paths]
        if not removed_entries:
            return manifest
        for entry in removed_entries:
            self._removed.remove_file(entry.data_file)
        remaining = [entry for entry in entries if entry.data_file.file_path not in replaced_paths]
        with self.open_manifest(manifest.content, manifest.partition_spec_id) as writer:
            for entry in remaining:
                writer.existing(entry)
            for entry in removed_entries:
                writer.delete(entry)
        return writer.to_manifest_file()

    def _write_added(self, content: ManifestContent, spec_id: int, files: list[DataFile]) -> ManifestFile:
        with self.open_manifest(content, spec_id) as writer:
            for file in files:
                entry = ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED,
                    snapshot_id=self.snapshot_id,
                    sequence_number=None,
                    file_sequence_number=None,
                    data_file=file,
                )
                writer.add(entry)
        return writer.to_manifest_file()

    def build_summary(self) -> Summary:
        # what the merge counted, what it replaced, what is told beside it, and new totals
        counters = {k: v for k, v in read_summary(self._head).items() if not k.startswith(RECOUNTED_PREFIXES)}
        counters |= {**self._removed.to_dict(), **self._base_summary}
        before = self._onto.summary if self._onto else None
        return update_snapshot_summaries(Summary(operation=self.operation, **counters), before)
