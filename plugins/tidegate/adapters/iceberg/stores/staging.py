"""The intermediate table: which batches wait in it, and how those that are published leave it, bytes included."""

import json
import re
from contextlib import suppress
from dataclasses import replace
from functools import partial

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import AssertTableUUID, RemovePropertiesUpdate, SetPropertiesUpdate
from pyiceberg.utils.concurrent import ExecutorFactory

from tidegate.adapters.iceberg.stores.folders import drop_empty_folders, list_files_below, list_folders
from tidegate.adapters.iceberg.stores.ownership import check_removable
from tidegate.adapters.iceberg.table import commit
from tidegate.adapters.iceberg.table.catalogs import format_name
from tidegate.adapters.iceberg.table.data_files import list_snapshot_files, remove_file
from tidegate.adapters.iceberg.table.state import parse_batch, read_summary
from tidegate.failpoints import hit_failpoint
from tidegate.jobs.merge_job import AuditAnswers
from tidegate.jobs.record_explanation import RecordExplanation
from tidegate.jobs.stage_outcome import StageOutcome
from tidegate.model import resource_names
from tidegate.model.batch import StagedBatch
from tidegate.model.offsets import Ranges
from tidegate.model.ownership import FORMAT_PROPERTY, SHAPE_PROPERTY, STAGING_KINDS, Ownership, refuse_other_format
from tidegate.model.table_state import Staging


def complete_attempt(table: Table, attempt: str) -> StageOutcome | None:
    """Let an attempt count whose job has left its counts, and return them; None without any. One commit, tried once."""
    counted_property = resource_names.name_counted_property(attempt)
    text = table.metadata.properties.get(counted_property)
    if text is None:
        return read_outcome(table, attempt)
    outcome = StageOutcome.from_json(text, _name_place(table, attempt))
    complete = SetPropertiesUpdate(updates={resource_names.name_staged_property(attempt): text})
    updates = (complete, RemovePropertiesUpdate(removals=[counted_property]))
    commit.commit(table, (AssertTableUUID(uuid=table.metadata.table_uuid),), updates)
    return outcome


def read_outcome(table: Table, attempt: str) -> StageOutcome | None:
    """What the stage job of this attempt left behind, None if the attempt is not complete."""
    text = table.metadata.properties.get(resource_names.name_staged_property(attempt))
    return None if text is None else StageOutcome.from_json(text, _name_place(table, attempt))


def read_explanation(table: Table, attempt: str) -> RecordExplanation | None:
    """What the job of this attempt says of the one record that it was asked about, None if it did not finish."""
    text = table.metadata.properties.get(resource_names.name_counted_property(attempt))
    return None if text is None else RecordExplanation.from_json(text, _name_place(table, attempt))


def read_audit_answers(table: Table, attempt: str) -> AuditAnswers | None:
    """What a merge's audits of this staged attempt found, None if none were asked."""
    text = table.metadata.properties.get(resource_names.name_audit_property(attempt))
    return None if text is None else AuditAnswers.from_json(text, _name_place(table, attempt))


def _name_place(table: Table, attempt: str) -> str:
    """For messages."""
    return f"intermediate={'.'.join(table.name())} attempt={attempt}"


def list_staged(table: Table, destination: str) -> list[StagedBatch]:
    """Complete batches in order; of several attempts at one batch the newest counts."""
    newest: dict[int, StagedBatch] = {}
    for snapshot in sorted(table.metadata.snapshots, key=lambda s: s.sequence_number or 0):
        staged_batch = _build_staged_batch(table, snapshot, destination)
        if staged_batch is not None:
            newest[staged_batch.batch] = staged_batch
    return [newest[batch] for batch in sorted(newest)]


def read_newest_staging(table: Table, destination: str) -> Staging | None:
    """What the newest snapshot holds: of each batch the newest attempt's rows, named if that attempt was finished."""
    current = table.current_snapshot()
    if current is None:
        return None
    by_batch: dict[int, StagedBatch | None] = {}
    for snapshot in sorted(table.metadata.snapshots, key=lambda s: s.sequence_number or 0):
        batch = parse_batch(snapshot)
        if batch is not None:
            staged_batch = _build_staged_batch(table, snapshot, destination)
            by_batch[batch] = staged_batch and replace(staged_batch, snapshot_id=current.snapshot_id)
    batches = tuple(newest_batch for _, newest_batch in sorted(by_batch.items()) if newest_batch is not None)
    return Staging(current.snapshot_id, batches)


def read_backfill_notes(catalog: Catalog, prefix: str, owner: Ownership) -> list[str]:
    """What is noted in the backfills' tables whose names begin with `prefix`, and that carry this mark or none.

    Case does not count: some catalogs keep names in lower case.
    """
    namespace, _, begin = prefix.rpartition(".")
    try:
        identifiers = catalog.list_tables(namespace)
    except NoSuchNamespaceError:
        return []
    notes = []
    for identifier in sorted(identifiers):
        if identifier[-1].casefold().startswith(begin.casefold()):
            with suppress(NoSuchTableError):
                properties = catalog.load_table(identifier).metadata.properties
                if owner.properties.items() <= properties.items():
                    notes.append(properties.get(resource_names.BACKFILL_PROPERTY, ""))
    return [note for note in notes if note]


def list_applied_slices(table: Table, shape: str) -> frozenset[int]:
    """The slices of a backfill that its table says are applied, if its rows have that shape."""
    properties = table.metadata.properties
    if properties.get(SHAPE_PROPERTY) != shape:
        return frozenset()
    return frozenset(number for name in properties if (number := resource_names.parse_applied_slice(name)) is not None)


def mark_applied(table: Table, number: int) -> None:
    """Say that a slice is applied: a property for each, so that two runners take none from each other."""
    mark = SetPropertiesUpdate(updates={resource_names.name_applied_property(number): "true"})
    commit.commit(table, (AssertTableUUID(uuid=table.metadata.table_uuid),), (mark,))


def drop_table(table: Table) -> None:
    """Drop a table that is ours alone, and everything that lies below its location before it is dropped.

    Another run may make the table anew behind the drop, in the same place: the files of that one stay.
    """
    check_removable(table, ("intermediate",))
    files = list_files_below(table, table.location())
    try:
        table.catalog.drop_table(table.name())
    except NoSuchTableError:
        return
    list(ExecutorFactory.get_or_create().map(partial(remove_file, table), files))
    drop_empty_folders(table, list_folders(table.location()))


def _build_staged_batch(table: Table, snapshot: Snapshot, destination: str) -> StagedBatch | None:
    summary = read_summary(snapshot)
    outcome = read_outcome(table, summary.get("tidegate.attempt", ""))
    if outcome is None or outcome.bad:
        return None
    refuse_other_format(f"table={format_name(table)}", FORMAT_PROPERTY, table.metadata.properties)
    return outcome.to_staged_batch(destination, summary, snapshot.snapshot_id)


def find_highest_batch(table: Table) -> int:
    """The highest batch number of an attempt that may be merged, or that was ever cleaned up; 0 for none.

    The number of one that was killed before it was complete is used again: the next attempt writes over its rows.
    """
    snapshots = table.metadata.snapshots
    cleaned = [int(read_summary(s).get("tidegate.clean-up", "0")) for s in snapshots]
    at_creation = int(table.metadata.properties.get(commit.HIGHEST_BATCH_PROPERTY, "0"))
    valid_snapshots = [s for s in snapshots if not _is_unfinished(table, s) and not _is_dead(table, s)]
    return max([at_creation, *cleaned, *(parse_batch(s) or 0 for s in valid_snapshots)])


def _is_unfinished(table: Table, snapshot: Snapshot) -> bool:
    """Whether its attempt is not complete: its job was killed, or what it left is about to be looked at."""
    summary = read_summary(snapshot)
    return "tidegate.staged" in summary and read_outcome(table, summary.get("tidegate.attempt", "")) is None


def _is_dead(table: Table, snapshot: Snapshot) -> bool:
    """Whether its attempt has ended, and with something that is never merged."""
    summary = read_summary(snapshot)
    outcome = read_outcome(table, summary.get("tidegate.attempt", ""))
    if outcome is None or "tidegate.staged" not in summary:
        return False
    return not outcome.can_be_merged(Ranges.from_dict(json.loads(summary["tidegate.staged"])["ranges"]).span)


def remove_batches(table: Table, up_to_batch: int) -> dict[str, int]:
    """Remove batches up to that one: rows, snapshots, counts, then every file that nothing refers to any more.

    Attempts that were killed leave files that no snapshot knows; those of batches that are published may go as well:
    no merge of such a batch can be published, so a late commit that names them is never read. Of later batches go the
    attempts that are never merged; their rows too, unless another attempt has written over them. So do unfinished ones
    that another has written over; a job that was only slow finds its rows gone, and stages again. So does what another
    tool's compaction has made, once a newer snapshot is there: a merge reads the snapshot that its batch was staged in.
    Of `batches` in the answer each published one is counted once.
    """
    check_removable(table, STAGING_KINDS)
    last = {parse_batch(s): s for s in sorted(table.metadata.snapshots, key=lambda s: s.sequence_number or 0)}
    dead = [s for s in table.metadata.snapshots if _is_dead(table, s) and not _is_bare(table, s)]
    dead += [s for s in table.metadata.snapshots if _is_unfinished(table, s) and last[parse_batch(s)] is not s]
    numbers = [batch for s in dead if (batch := parse_batch(s)) and batch > up_to_batch and last[batch] is s]
    named_ids = {reference.snapshot_id for reference in table.metadata.refs.values()}
    foreign = [s for s in table.metadata.snapshots if _is_foreign(s) and s.snapshot_id not in named_ids]
    old = [s for s in table.metadata.snapshots if _is_spent(s, up_to_batch) or s in dead or s in foreign]
    current = table.metadata.current_snapshot_id
    nothing_new = [s.snapshot_id for s in old] == [current] and _is_empty(old[0])
    counts = _find_obsolete_counts(table, old)
    if old and not nothing_new:
        commit.drop_staged(table, up_to_batch, numbers, [s.snapshot_id for s in old], counts)
    elif counts:
        commit.drop_counts(table, up_to_batch, counts)
    before = list_snapshot_files(table, old)
    fresh = table.catalog.load_table(table.name())
    live_files = list_snapshot_files(fresh, fresh.metadata.snapshots, live_only=True)
    doomed = (before - live_files) | _find_stray_files(fresh, up_to_batch, live_files)
    for location in doomed:
        remove_file(fresh, location)
        hit_failpoint("clean_up.removed")
    drop_empty_folders(fresh, {location.rpartition("/")[0] for location in doomed if "/batch_number=" in location})
    # the snapshot of a batch without rows may stay as the newest, without its counts: it was counted before
    counted = {parse_batch(s) for s in old if read_outcome(table, read_summary(s).get("tidegate.attempt", ""))}
    return {
        "batches": sum(number is not None and number <= up_to_batch for number in counted),
        "snapshots": len(old),
        "files": len(doomed),
    }


def _is_bare(table: Table, snapshot: Snapshot) -> bool:
    """Whether it is the newest and wrote no row: there is nothing to delete, so it stays until another one follows."""
    is_current = snapshot.snapshot_id == table.metadata.current_snapshot_id
    return is_current and read_summary(snapshot).get("added-records", "0") == "0"


def _find_obsolete_counts(table: Table, old: list[Snapshot]) -> list[str]:
    """Counts and audits of attempts that have no snapshot once the old ones are gone: theirs, and those of late losers.

    Counts are written after their snapshot, so that no attempt still waits for its own.
    """
    old_ids = {snapshot.snapshot_id for snapshot in old}
    attempts = (
        read_summary(s).get("tidegate.attempt", "") for s in table.metadata.snapshots if s.snapshot_id not in old_ids
    )
    name_functions = (
        resource_names.name_counted_property,
        resource_names.name_staged_property,
        resource_names.name_audit_property,
    )
    in_use = {name(attempt) for attempt in attempts for name in name_functions}
    prefixes = tuple(name("") for name in name_functions)
    return [name for name in table.metadata.properties if name.startswith(prefixes) and name not in in_use]


def _is_empty(snapshot: Snapshot) -> bool:
    return "tidegate.clean-up" in read_summary(snapshot) or read_summary(snapshot).get("total-records") == "0"


def _is_spent(snapshot: Snapshot, up_to_batch: int) -> bool:
    batch = parse_batch(snapshot)
    return "tidegate.clean-up" in read_summary(snapshot) or (batch is not None and batch <= up_to_batch)


def _is_foreign(snapshot: Snapshot) -> bool:
    """Whether somebody else made it: each of the product's own says what it is."""
    return not any(name.startswith("tidegate.") for name in read_summary(snapshot))


def _find_stray_files(table: Table, up_to_batch: int, live_files: set[str]) -> set[str]:
    """Files in the folders of published batches that no snapshot refers to."""
    files = list_files_below(table, f"{table.location()}/data")
    return {location for location in files if _parse_batch_folder(location) <= up_to_batch} - live_files


def _parse_batch_folder(path: str) -> float:
    match = re.search(r"/batch_number=(\d+)/", path)
    return int(match.group(1)) if match else float("inf")
