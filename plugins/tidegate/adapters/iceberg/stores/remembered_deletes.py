"""The table that remembers deletes or changes, in Iceberg: how those leave it that no late record comes after."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from fractions import Fraction

from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import BooleanExpression, GreaterThanOrEqual, IsNull, LessThan, Or
from pyiceberg.io.pyarrow import ArrowScan, _dataframe_to_data_files
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID
from pyiceberg.types import NestedField, PrimitiveType

from tidegate.adapters.iceberg.stores.batch_history import forget_snapshots
from tidegate.adapters.iceberg.stores.record_times import clamp_times
from tidegate.adapters.iceberg.table.commit import MAIN, commit
from tidegate.model.ownership import KIND_PROPERTY, MEMORY_KINDS
from tidegate.spec.time_text import EPOCH, to_utc_datetime

TIMESTAMP_COLUMN = "_tidegate_timestamp"  # as tables that remember whole changes have it, beside the user's own columns
SMALL_FILE_ROWS = 10_000  # of files with some old rows among newer ones, so many may be written again by each call
# a larger one waits until so much of its time is over: a row is written for one that goes
MIN_OLD_SHARE = Fraction(1, 2)
AgedFile = tuple[FileScanTask, Fraction]  # a file with old rows, and which share of the time that it spans is over


def forget_deletes(table: Table, before_ms: int) -> int:
    """Remove deletes whose record is older; returns how many. `CommitRefused` where a merge has written meanwhile.

    Files that hold nothing else go unread. Of the others only those are written again where that is little work for
    what goes: a delete that stays is remembered for longer, at most until the newest one of its file is old.
    """
    if table.metadata.properties.get(KIND_PROPERTY) not in MEMORY_KINDS:
        return 0  # the next merge marks it, if it is ours
    field = table.schema().find_field(
        TIMESTAMP_COLUMN if TIMESTAMP_COLUMN in table.schema().column_names else "timestamp"
    )
    before = to_utc_datetime(before_ms)
    current = table.current_snapshot()
    tasks = table.scan(row_filter=LessThan(term=field.name, value=before.isoformat())).plan_files()
    aged = [(task, _estimate_old_share(task.file, field, before)) for task in tasks]
    wholly_old = [task for task, share in aged if share == 1]
    partly_old = _choose_worth_rewriting([aged_file for aged_file in aged if aged_file[1] < 1])
    deleted_rows = 0
    if current and any(task.file.record_count for task in (*wholly_old, *partly_old)):
        is_newer = GreaterThanOrEqual(term=field.name, value=before.isoformat())
        newer_rows = Or(is_newer, IsNull(term=field.name))
        deleted_rows = _replace_files(table, current.snapshot_id, (wholly_old, partly_old), newer_rows, field.name)
    forget_snapshots(table.refresh())
    return deleted_rows


def _replace_files(
    table: Table,
    snapshot_id: int,
    tasks: tuple[Sequence[FileScanTask], Sequence[FileScanTask]],
    kept_rows: BooleanExpression,
    time: str,
) -> int:
    """In one commit onto the snapshot, drop files and write others anew with the kept rows; how many rows went.

    `tasks` are those of both, in this order; `time` is the column of their records' times.
    """
    dropped_tasks, rewritten_tasks = tasks
    transaction = table.transaction()
    scan = ArrowScan(table.metadata, table.io, table.schema(), kept_rows)
    removed_rows = sum(task.file.record_count for task in (*dropped_tasks, *rewritten_tasks))
    with transaction.update_snapshot().overwrite() as overwrite:
        for task in (*dropped_tasks, *rewritten_tasks):
            overwrite.delete_data_file(task.file)
        for task in rewritten_tasks:  # one after the other: a large one is not held in memory beside the next
            rows = clamp_times(scan.to_table([task]), time)
            removed_rows -= rows.num_rows
            for file in _dataframe_to_data_files(transaction.table_metadata, rows, table.io):
                overwrite.append_data_file(file)
    requirements = (
        AssertTableUUID(uuid=table.metadata.table_uuid),
        AssertRefSnapshotId(ref=MAIN, snapshot_id=snapshot_id),
    )
    commit(table, requirements, transaction._updates)
    return removed_rows


def _choose_worth_rewriting(aged: Sequence[AgedFile]) -> list[FileScanTask]:
    """Large files of which a good share is old, and of the small ones those with the oldest rows."""
    tasks = []
    room = SMALL_FILE_ROWS
    for task, share in sorted(aged, key=lambda aged_file: -aged_file[1]):
        rows = task.file.record_count
        if rows > SMALL_FILE_ROWS and share >= MIN_OLD_SHARE:
            tasks.append(task)
        elif rows <= room:
            tasks.append(task)
            room -= rows
    return tasks


def _estimate_old_share(file: DataFile, field: NestedField, before: datetime) -> Fraction:
    """Which share of the time between a file's oldest and newest row is over: 1 only if no row is newer."""
    low, high = (_read_bound(ends, field) for ends in (file.lower_bounds, file.upper_bounds))
    end_micros = (before - EPOCH) // timedelta(microseconds=1)
    if low is None or high is None or (file.null_value_counts or {}).get(field.field_id) != 0:
        return MIN_OLD_SHARE
    return min(Fraction(1), Fraction(end_micros - low, high + 1 - low))


def _read_bound(ends: dict[int, bytes] | None, field: NestedField) -> int | None:
    raw = (ends or {}).get(field.field_id)
    if raw is None or not isinstance(field.field_type, PrimitiveType):
        return None
    return int(from_bytes(field.field_type, raw))
