"""The intermediate table: which batches wait in it, and how those that are published leave it, bytes included."""

import json
import re
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.expressions import BooleanExpression, In, LessThanOrEqual, Or
from pyiceberg.expressions.literals import literal
from pyiceberg.manifest import ManifestContent
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    RemovePropertiesUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetPropertiesUpdate,
    TableUpdate,
)
from pyiceberg.utils.concurrent import ExecutorFactory

from tidegate.adapters.iceberg.catalog import MAIN, IcebergPort, format_name
from tidegate.adapters.iceberg.commit import build_tag, commit
from tidegate.adapters.iceberg.errors import translate_iceberg_errors
from tidegate.adapters.iceberg.files import (
    drop_empty_folders,
    list_files_below,
    list_folders,
    list_snapshot_files,
    remove_file,
)
from tidegate.adapters.iceberg.lineage import parse_batch, read_summary
from tidegate.adapters.iceberg.pyiceberg_private import get_updates
from tidegate.adapters.iceberg.table_state import check_removable
from tidegate.errors import CommitRefused, RetryLater
from tidegate.failpoints import hit_failpoint
from tidegate.jobs.stage_outcome import StageOutcome
from tidegate.jobs.statements_job import JobAnswers
from tidegate.model import resource_names
from tidegate.model.batch import StagedBatch
from tidegate.model.offsets import Ranges
from tidegate.model.ownership import FORMAT_PROPERTY, STAGING_KINDS, TableKind, refuse_other_format
from tidegate.model.table_state import Staging
from tidegate.ports.destination import StagingStore

Result = TypeVar("Result")
HIGHEST_BATCH_PROPERTY = "tidegate.highest-batch"  # of an intermediate table; the statement that makes it sets it too
MAX_COMMITS = 10
# A live view reads a table and what is staged at two moments, and its files until it ends. Longer costs each staging
# time, as the metadata of the intermediate table names every batch.
KEPT_MS = 10 * 60_000


class IcebergStaging(IcebergPort, StagingStore):
    """Spark writes the intermediate tables itself: no job leaves files that must be loaded."""

    @translate_iceberg_errors
    def complete_attempt(
        self, intermediate: str, batch: int, attempt: str, summary: dict[str, str]
    ) -> StageOutcome | None:
        refusal = (
            f"intermediate={intermediate} batch={batch} attempt={attempt}: other commits to the table were faster "
            f"{MAX_COMMITS} times; it will be tried again"
        )
        return self._change(intermediate, partial(_complete_attempt, attempt=attempt), refusal)

    @translate_iceberg_errors
    def read_job_result(
        self, intermediate: str, batch: int, attempt: str, parse: Callable[[str, str], Result]
    ) -> Result | None:
        name = resource_names.name_counted_property(attempt)
        return self._read(intermediate, lambda table: _parse(table, name, attempt, parse), None)

    @translate_iceberg_errors
    def list_staged(self, intermediate: str, table: str) -> list[StagedBatch]:
        loaded_table = self.catalogs.table(intermediate)
        if loaded_table is None:
            return []
        newest: dict[int, StagedBatch] = {}
        for batch, snapshot in _iterate_unpublished(loaded_table):
            staged_batch = _build_staged_batch(loaded_table, snapshot, table)
            if staged_batch is not None:
                newest[batch] = staged_batch
        return [newest[batch] for batch in sorted(newest)]

    @translate_iceberg_errors
    def holds_rows(self, intermediate: str, batches: Sequence[StagedBatch]) -> bool:
        return self._read(intermediate, lambda table: _holds_rows(table, batches), missing=False)

    @translate_iceberg_errors
    def read_staged_outcome(self, intermediate: str, attempt: str) -> StageOutcome | None:
        return self._read(intermediate, lambda table: _read_outcome(table, attempt), None)

    @translate_iceberg_errors
    def read_staging(self, intermediate: str, table: str) -> Staging | None:
        loaded_table = self.catalogs.table(intermediate)
        current = None if loaded_table is None else loaded_table.current_snapshot()
        if loaded_table is None or current is None:
            return None
        by_batch: dict[int, StagedBatch | None] = {}
        for batch, snapshot in _iterate_unpublished(loaded_table):
            staged_batch = _build_staged_batch(loaded_table, snapshot, table)
            by_batch[batch] = staged_batch and replace(staged_batch, snapshot_id=current.snapshot_id)
        batches = tuple(newest_batch for _, newest_batch in sorted(by_batch.items()) if newest_batch is not None)
        return Staging(current.snapshot_id, batches)

    @translate_iceberg_errors
    def find_highest_batch(self, intermediate: str) -> int:
        # The number of an attempt that was killed before it was complete is used again: the next one writes over it.
        loaded_table = self.catalogs.table(intermediate)
        if loaded_table is None:
            return 0
        snapshots = loaded_table.metadata.snapshots
        cleaned = [int(read_summary(s).get("tidegate.clean-up", "0")) for s in snapshots]
        at_creation = int(loaded_table.metadata.properties.get(HIGHEST_BATCH_PROPERTY, "0"))
        valid_snapshots = [
            s for s in snapshots if not _is_unfinished(loaded_table, s) and not _is_dead(loaded_table, s)
        ]
        return max([at_creation, *cleaned, *(parse_batch(s) or 0 for s in valid_snapshots)])

    @translate_iceberg_errors
    def read_job_answers(self, intermediate: str, attempt: str) -> JobAnswers | None:
        name = resource_names.name_audit_property(attempt)
        return self._read(intermediate, lambda table: _parse(table, name, attempt, JobAnswers.from_json), None)

    @translate_iceberg_errors
    def clean_up(self, intermediate: str, up_to_batch: int) -> dict[str, int]:
        def remove(table: Table) -> dict[str, int]:
            return _remove_batches(table, _find_unread_batch(table, up_to_batch))

        refusal = (
            f"intermediate={intermediate} up_to_batch={up_to_batch}: other commits to the table were faster "
            f"{MAX_COMMITS} times; the next clean-up does the rest"
        )
        return self._change(intermediate, remove, refusal) or {}

    @translate_iceberg_errors
    def keep_for_readers(self, intermediate: str) -> None:
        def begin(table: Table) -> None:
            if resource_names.PUBLISHED_PROPERTY not in table.metadata.properties:
                _write_published(table, {})

        refusal = f"intermediate={intermediate}: other commits to the table were faster; try it again"
        self._change(intermediate, begin, refusal)

    @translate_iceberg_errors
    def drop(self, intermediate: str) -> None:
        # Another run may make the table anew behind the drop, in the same place: the files of that one stay.
        table = self.catalogs.table(intermediate)
        if table is None:
            return
        check_removable(table, (TableKind.INTERMEDIATE,))
        files = list_files_below(table, table.location())
        try:
            table.catalog.drop_table(table.name())
        except NoSuchTableError:
            return
        list(ExecutorFactory.get_or_create().map(partial(remove_file, table), files))
        drop_empty_folders(table, list_folders(table.location()))

    @translate_iceberg_errors
    def drop_unused(self, intermediate: str, before_ms: int) -> bool:
        table = self.catalogs.table(intermediate)
        if table is None or table.metadata.last_updated_ms >= before_ms:
            return False
        self.drop(intermediate)
        return True

    def _change(self, intermediate: str, change: Callable[[Table], Result], refusal: str) -> Result | None:
        """Call `change` for the table as it is, again where other commits to it are faster; None without a table.

        `RetryLater` says `refusal` where they are each time.
        """
        for _ in range(MAX_COMMITS):
            loaded_table = self.catalogs.table(intermediate)
            with suppress(CommitRefused):
                return None if loaded_table is None else change(loaded_table)
        raise RetryLater(refusal)


def _complete_attempt(table: Table, attempt: str) -> StageOutcome | None:
    counted_property = resource_names.name_counted_property(attempt)
    outcome = _parse(table, counted_property, attempt, StageOutcome.from_json)
    if outcome is None:
        return _read_outcome(table, attempt)
    counts = table.metadata.properties[counted_property]
    updates: list[TableUpdate] = [
        SetPropertiesUpdate(updates={resource_names.name_staged_property(attempt): counts}),
        RemovePropertiesUpdate(removals=[counted_property]),
    ]
    for snapshot in () if outcome.bad else table.metadata.snapshots:
        summary = read_summary(snapshot)
        is_viewed = summary.get("tidegate.attempt") == attempt and resource_names.VIEWED_SUMMARY in summary
        if is_viewed and (batch := parse_batch(snapshot)):  # live views may read it
            updates.append(build_tag(resource_names.name_staged_tag(batch), snapshot.snapshot_id))
            break
    commit(table, updates)
    return outcome


def _read_outcome(table: Table, attempt: str) -> StageOutcome | None:
    return _parse(table, resource_names.name_staged_property(attempt), attempt, StageOutcome.from_json)


def _parse(table: Table, name: str, attempt: str, parse: Callable[[str, str], Result]) -> Result | None:
    """What a property of that name holds of an attempt; None without the property."""
    text = table.metadata.properties.get(name)
    return None if text is None else parse(text, f"intermediate={'.'.join(table.name())} attempt={attempt}")


def _iterate_unpublished(table: Table) -> Iterator[tuple[int, Snapshot]]:
    """Yield staged snapshots with the numbers of their batches, the oldest first; not what stays for readers alone."""
    published = max(_read_published(table), default=0)
    for snapshot in sorted(table.metadata.snapshots, key=lambda s: s.sequence_number or 0):
        batch = parse_batch(snapshot)
        if batch is not None and batch > published:
            yield batch, snapshot


def _build_staged_batch(table: Table, snapshot: Snapshot, destination: str) -> StagedBatch | None:
    summary = read_summary(snapshot)
    outcome = _read_outcome(table, summary.get("tidegate.attempt", ""))
    if outcome is None or outcome.bad:
        return None
    refuse_other_format(f"table={format_name(table)}", FORMAT_PROPERTY, table.metadata.properties)
    return outcome.to_staged_batch(destination, summary, snapshot.snapshot_id)


def _holds_rows(table: Table, batches: Sequence[StagedBatch]) -> bool:
    pinned = table.metadata.snapshot_by_id(batches[-1].snapshot_id)
    staged = {batch.batch: batch.snapshot_id for batch in batches[:-1] if batch.counts.to_write}
    added = {number: table.metadata.snapshot_by_id(snapshot_id) for number, snapshot_id in staged.items()}
    if pinned is None or None in added.values():
        return False
    rows = Counter[int]()
    # a file names the snapshot that added it, also after manifests were merged
    for manifest in pinned.manifests(table.io):
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            number = entry.data_file.partition[0]
            if number in staged:
                if manifest.content != ManifestContent.DATA or entry.snapshot_id != staged[number]:
                    return False
                rows[number] += entry.data_file.record_count
    return rows == {number: int(read_summary(s).get("added-records", "-1")) for number, s in added.items() if s}


def _is_unfinished(table: Table, snapshot: Snapshot) -> bool:
    summary = read_summary(snapshot)
    return "tidegate.staged" in summary and _read_outcome(table, summary.get("tidegate.attempt", "")) is None


def _is_dead(table: Table, snapshot: Snapshot) -> bool:
    summary = read_summary(snapshot)
    outcome = _read_outcome(table, summary.get("tidegate.attempt", ""))
    if outcome is None or "tidegate.staged" not in summary:
        return False
    return not outcome.can_be_merged(Ranges.from_dict(json.loads(summary["tidegate.staged"])["ranges"]).span)


def _read_published(table: Table) -> dict[int, int]:
    """When a clean-up first saw batches up to a number published. No step needs them; they are kept for readers."""
    text = table.metadata.properties.get(resource_names.PUBLISHED_PROPERTY, "{}")
    return {int(batch): seen_ms for batch, seen_ms in json.loads(text).items()}


def _write_published(table: Table, seen_ms: dict[int, int]) -> None:
    commit(table, [SetPropertiesUpdate(updates={resource_names.PUBLISHED_PROPERTY: json.dumps(seen_ms)})])


def _find_unread_batch(table: Table, up_to_batch: int) -> int:
    """Up to which of the published batches no live view is read any more; all of them where nobody asked for one."""
    if resource_names.PUBLISHED_PROPERTY not in table.metadata.properties:
        return up_to_batch
    now_ms = time.time_ns() // 1_000_000
    seen_ms = _read_published(table)
    is_new = up_to_batch > max(seen_ms, default=0)
    if is_new:
        seen_ms[up_to_batch] = now_ms
    unread_batch = max((b for b, ms in seen_ms.items() if b <= up_to_batch and ms <= now_ms - KEPT_MS), default=0)
    if is_new:
        _write_published(table, {batch: ms for batch, ms in seen_ms.items() if batch >= unread_batch})
        table.refresh()
    return unread_batch


def _remove_batches(table: Table, up_to_batch: int) -> dict[str, int]:
    check_removable(table, STAGING_KINDS)
    passed = up_to_batch - int(table.metadata.properties.get(HIGHEST_BATCH_PROPERTY, "0"))
    last = {parse_batch(s): s for s in sorted(table.metadata.snapshots, key=lambda s: s.sequence_number or 0)}
    dead = [s for s in table.metadata.snapshots if _is_dead(table, s) and not _is_bare(table, s)]
    # a job that was only slow finds its rows gone, and stages again
    dead += [s for s in table.metadata.snapshots if _is_unfinished(table, s) and last[parse_batch(s)] is not s]
    numbers = [batch for s in dead if (batch := parse_batch(s)) and batch > up_to_batch and last[batch] is s]
    named_ids = {reference.snapshot_id for reference in table.metadata.refs.values()}
    # a merge reads the snapshot that its batch was staged in, none of another tool's compaction
    foreign = [s for s in table.metadata.snapshots if _is_foreign(s) and s.snapshot_id not in named_ids]
    old = [s for s in table.metadata.snapshots if _is_spent(s, up_to_batch) or s in dead or s in foreign]
    current = table.metadata.current_snapshot_id
    nothing_new = [s.snapshot_id for s in old] == [current] and _is_empty(old[0])
    counts = _find_obsolete_counts(table, old)
    if old and not nothing_new:
        _drop_staged(table, up_to_batch, numbers, [s.snapshot_id for s in old], counts)
    elif counts:
        commit(table, [RemovePropertiesUpdate(removals=counts), *_record_highest_batch(table, up_to_batch)])
    before = list_snapshot_files(table, old)
    fresh = table.catalog.load_table(table.name())
    live_files = list_snapshot_files(fresh, fresh.metadata.snapshots, live_only=True)
    # killed attempts leave files that no snapshot knows; no merge of a published batch can be published any more
    doomed = (before - live_files) | _find_stray_files(fresh, up_to_batch, live_files)
    for location in doomed:
        remove_file(fresh, location)
        hit_failpoint("clean_up.removed")
    drop_empty_folders(fresh, {location.rpartition("/")[0] for location in doomed if "/batch_number=" in location})
    # the snapshot of a batch without rows may stay as the newest, without its counts: it was counted before
    counted = {parse_batch(s) for s in old if _read_outcome(table, read_summary(s).get("tidegate.attempt", ""))}
    batches = sum(number is not None and number <= up_to_batch for number in counted)
    counts_by_kind = {"batches": batches, "snapshots": len(old), "files": len(doomed)}
    return {**counts_by_kind, "passed": passed} if 0 < batches < passed else counts_by_kind


def _is_bare(table: Table, snapshot: Snapshot) -> bool:
    is_current = snapshot.snapshot_id == table.metadata.current_snapshot_id
    return is_current and read_summary(snapshot).get("added-records", "0") == "0"


def _find_obsolete_counts(table: Table, old: list[Snapshot]) -> list[str]:
    old_ids = {snapshot.snapshot_id for snapshot in old}
    attempts = (
        read_summary(s).get("tidegate.attempt", "") for s in table.metadata.snapshots if s.snapshot_id not in old_ids
    )
    name_functions = (
        resource_names.name_counted_property,
        resource_names.name_staged_property,
        resource_names.name_audit_property,
    )
    # counts are written after their snapshot: no attempt still waits for its own
    in_use = {name(attempt) for attempt in attempts for name in name_functions}
    prefixes = tuple(name("") for name in name_functions)
    return [name for name in table.metadata.properties if name.startswith(prefixes) and name not in in_use]


def _is_empty(snapshot: Snapshot) -> bool:
    return "tidegate.clean-up" in read_summary(snapshot) or read_summary(snapshot).get("total-records") == "0"


def _is_spent(snapshot: Snapshot, up_to_batch: int) -> bool:
    batch = parse_batch(snapshot)
    return "tidegate.clean-up" in read_summary(snapshot) or (batch is not None and batch <= up_to_batch)


def _is_foreign(snapshot: Snapshot) -> bool:
    # each of the product's snapshots says what it is
    return not any(name.startswith("tidegate.") for name in read_summary(snapshot))


def _find_stray_files(table: Table, up_to_batch: int, live_files: set[str]) -> set[str]:
    files = list_files_below(table, f"{table.location()}/data")
    batches = {location: re.search(r"/batch_number=(\d+)/", location) for location in files}
    return {location for location, match in batches.items() if match and int(match[1]) <= up_to_batch} - live_files


def _drop_staged(
    table: Table, up_to_batch: int, numbers: list[int], snapshot_ids: list[int], properties: list[str]
) -> None:
    transaction = table.transaction()
    mark = {"tidegate.clean-up": str(up_to_batch)}
    with warnings.catch_warnings():  # their rows may be gone already, and only snapshots and counts be left
        warnings.filterwarnings("ignore", "Delete operation did not match any records")
        rows: BooleanExpression = LessThanOrEqual(term="batch_number", value=up_to_batch)
        if numbers:
            rows = Or(rows, In(term="batch_number", literals=set(map(literal, numbers))))
        transaction.delete(rows, snapshot_properties=mark)
    updates: list[TableUpdate] = list(get_updates(transaction))
    expired = [i for i in snapshot_ids if i != transaction.table_metadata.current_snapshot_id]
    if expired:
        tags = [name for name, ref in table.metadata.refs.items() if ref.snapshot_id in expired and name != MAIN]
        updates += [RemoveSnapshotRefUpdate(ref_name=name) for name in tags]
        updates.append(RemoveSnapshotsUpdate(snapshot_ids=expired))
    if properties:
        updates.append(RemovePropertiesUpdate(removals=properties))
    updates += _record_highest_batch(table, up_to_batch)
    current = table.current_snapshot()
    main = AssertRefSnapshotId(ref=MAIN, snapshot_id=current.snapshot_id if current else None)
    commit(table, updates, (main,))


def _record_highest_batch(table: Table, number: int) -> list[TableUpdate]:
    if number <= int(table.metadata.properties.get(HIGHEST_BATCH_PROPERTY, "0")):
        return []
    # the snapshot of a batch without rows may stay, without its counts
    return [SetPropertiesUpdate(updates={HIGHEST_BATCH_PROPERTY: str(number)})]
