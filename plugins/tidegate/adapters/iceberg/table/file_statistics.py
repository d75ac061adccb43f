"""What the rows of an Iceberg table are stored in: how many files, how small, how many deletes. From metadata alone.

The list of manifests tells all counts but those of small files: for these the newest manifests are opened.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from pyiceberg.manifest import DataFile, DataFileContent, ManifestContent, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot

from tidegate.adapters.iceberg.table.catalogs import format_name
from tidegate.adapters.iceberg.table.commit import MAIN
from tidegate.adapters.iceberg.table.data_files import find_tables_inside
from tidegate.adapters.iceberg.table.lineage import Lineage
from tidegate.adapters.iceberg.table.state import read_summary
from tidegate.errors import GiveUp
from tidegate.model import resource_names
from tidegate.model.table_state import TableFiles
from tidegate.sql.spark import quote_name

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
GC_PROPERTY = "gc.enabled"  # false where other tables use the same files, as those that Spark's `snapshot` makes
Line = Sequence[Snapshot]  # newest first
LOCAL_SCHEMES = ("file:", "hdfs:", "/")


@dataclass
class FileTotals:
    """The totals of the files seen so far. No file is kept, so that a table of any size needs little memory."""

    small_bytes: float
    all_bytes: int = 0
    small_files: Counter[str] = field(default_factory=Counter)

    def add(self, file: DataFile) -> None:
        """One live file, of rows or of deletes."""
        self.all_bytes += file.file_size_in_bytes
        if file.content == DataFileContent.DATA and file.file_size_in_bytes < self.small_bytes:
            self.small_files[_get_partition_key(file)] += 1


def measure_files(table: Table, exact: bool = False) -> TableFiles:
    """Count what the list of manifests tells, and small files in the newest manifests, one after the other.

    `exact` opens all manifests, which costs what the table has, and not what changed; and asks whose files lie among
    the table's.
    """
    current = table.current_snapshot()
    lineage = Lineage(table.metadata)
    manifests = current.manifests(table.io) if current else []
    rows, deletes = (_count_listed(manifests, content) for content in (ManifestContent.DATA, ManifestContent.DELETES))
    total_bytes = _read_total_bytes(current, rows.files, deletes.files)
    totals = FileTotals(SMALL_SHARE * _read_number(table, "write.target-file-size-bytes", TARGET_BYTES))
    for manifest in (
        manifests if exact else _choose_manifests(lineage, current, manifests, needs_deletes=total_bytes is None)
    ):
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            totals.add(entry.data_file)
    full = FULL_SHARE * _read_number(table, "commit.manifest.target-size-bytes", MANIFEST_BYTES)
    tagged = _find_tagged_snapshots(table, lineage)
    return TableFiles(
        data_files=rows.files,
        data_bytes=totals.all_bytes if total_bytes is None else total_bytes,
        rows=rows.rows,
        small_files=totals.small_files.total(),
        max_small_files_per_partition=max(totals.small_files.values(), default=0),
        delete_files=deletes.files,
        deleted_rows=deletes.rows,
        manifests=len(manifests),
        full_manifests=sum(manifest.manifest_length >= full for manifest in manifests),
        snapshots=len(table.metadata.snapshots),
        snapshots_since_tag=tagged.depth,
        oldest_tagged_ms=tagged.oldest_ms,
        branch_age_ms=tagged.branch_age_ms,
        is_local=table.location().startswith(LOCAL_SCHEMES),
        nested_tables=find_tables_inside(table) if exact else (),
        forbids_file_deletion=table.metadata.properties.get(GC_PROPERTY, "true").lower() != "true",
    )


def _choose_manifests(
    lineage: Lineage, current: Snapshot | None, manifests: Sequence[ManifestFile], *, needs_deletes: bool
) -> list[ManifestFile]:
    """The newest first, as far as the bounds of this module go: a file that is small is new, or was measured before.

    Files that the newest snapshots have added are what changed, and bounded by nothing else. Manifests that were
    merged or rewritten since name older files too; those count against the bound.
    """
    recent = {snapshot.snapshot_id for snapshot in islice(lineage.iterate_ancestors(current), NEWEST_SNAPSHOTS)}
    chosen_manifests = list[ManifestFile]()
    old_files = 0
    for manifest in sorted(manifests, key=lambda manifest: manifest.sequence_number, reverse=True):
        if manifest.content == ManifestContent.DELETES and not needs_deletes:
            continue
        if old_files > MAX_OLD_FILES or len(chosen_manifests) == MAX_MANIFESTS:
            break
        added_count = manifest.added_files_count or 0
        old_files += (manifest.existing_files_count or 0) + (manifest.deleted_files_count or 0)
        old_files += 0 if manifest.added_snapshot_id in recent else added_count
        chosen_manifests.append(manifest)
    return chosen_manifests


class _Listed(NamedTuple):
    """Live files and their rows, as the list of manifests tells them."""

    files: int
    rows: int


def _count_listed(manifests: Iterable[ManifestFile], content: ManifestContent) -> _Listed:
    content_manifests = [manifest for manifest in manifests if manifest.content == content]
    files = sum(
        (manifest.added_files_count or 0) + (manifest.existing_files_count or 0) for manifest in content_manifests
    )
    return _Listed(files, sum((m.added_rows_count or 0) + (m.existing_rows_count or 0) for m in content_manifests))


def _read_total_bytes(current: Snapshot | None, data_files: int, delete_files: int) -> int | None:
    """The size that the snapshot's summary tells; None where its counts are not those of the list of manifests."""
    summary = read_summary(current) if current else {}
    counts = [summary.get(name, "") for name in ("total-data-files", "total-delete-files", "total-files-size")]
    if not all(map(str.isdecimal, counts)) or [int(count) for count in counts[:2]] != [data_files, delete_files]:
        return None
    return int(counts[2])


def _read_number(table: Table, name: str, default: int) -> int:
    """A property in bytes; GiveUp for one that is no whole number: Java's library does not read it either."""
    text = table.metadata.properties.get(name, str(default))
    try:
        return int(text)
    except ValueError:
        raise GiveUp(
            f"table={format_name(table)} {name}={text}: not a whole number of bytes, and Spark writes no such table; "
            f"correct it, e.g. ALTER TABLE {quote_name(format_name(table))} SET TBLPROPERTIES ('{name}'='{default}')"
        ) from None


def _get_partition_key(file: DataFile) -> str:
    return f"{file.spec_id} {file.partition}"


class _Tagged(NamedTuple):
    """What leads from branches down to the farthest tags of pipelines on them.

    Where a pipeline's tag is on no branch, the table was rolled back: what leads to the position that a branch carries.
    """

    depth: int
    oldest_ms: int | None
    branch_age_ms: int | None


def _find_tagged_snapshots(table: Table, lineage: Lineage) -> _Tagged:
    """Of each branch that is no attempt's: a pipeline may write another one than main."""
    refs = table.metadata.refs
    tag_lines = dict[str, Line]()
    branch_lines = dict[str, Line]()
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
    """How many snapshots of a branch lead down to the first of these, 0 if it has none of them."""
    return next((n for n, snapshot in enumerate(line, 1) if snapshot.snapshot_id in ids), 0)


def _count_to_position(line: Line, tag: str, tag_line: Line) -> int:
    """How many snapshots of a branch lead down to the position that it carries since a rollback took the tag from it.

    0 for a branch that has no snapshot of the tag's line; all down to the first of these where none has a position.
    """
    shared = _count_to_any(line, {snapshot.snapshot_id for snapshot in tag_line})
    position = resource_names.name_pipeline_property(resource_names.parse_tag_pipeline(tag), "position")
    carrying = (n for n, snapshot in enumerate(line, 1) if n >= shared and position in read_summary(snapshot))
    return next(carrying, shared) if shared else 0
