"""What was applied to an Iceberg table: batches, in the control table, and the slices of backfills."""

import logging
from collections.abc import Sequence
from contextlib import suppress
from math import inf

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import CommitFailedException, NoSuchNamespaceError, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.update import RemovePropertiesUpdate, RemoveSnapshotRefUpdate, SetPropertiesUpdate, TableUpdate
from pyiceberg.types import LongType

from tidegate.adapters.iceberg.catalog import IcebergPort, create_namespace, format_name
from tidegate.adapters.iceberg.commit import commit, replace_files
from tidegate.adapters.iceberg.errors import translate_iceberg_errors
from tidegate.adapters.iceberg.files import list_snapshot_files, remove_file
from tidegate.adapters.iceberg.table_state import claim, list_backfill_branches
from tidegate.errors import CommitRefused
from tidegate.failpoints import hit_failpoint
from tidegate.model import resource_names
from tidegate.model.ownership import SHAPE_PROPERTY, Ownership, TableKind, describe_control
from tidegate.ports.destination import BatchHistory, HistoryRow
from tidegate.table.history import FRACTION_FIELDS, INTEGER_FIELDS, TEXT_FIELDS

FIELDS_BY_TYPE = {pa.int64(): INTEGER_FIELDS, pa.string(): TEXT_FIELDS, pa.float64(): FRACTION_FIELDS}
COLUMNS = pa.schema([pa.field(name, kind) for kind, names in FIELDS_BY_TYPE.items() for name in names])
PROPERTIES = {
    "format-version": "2",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "3",
    "commit.manifest-merge.enabled": "true",
}
TIME_COLUMN = "published_at_ms"
MAX_SNAPSHOTS = 50
KEPT_SNAPSHOTS = 10
MAX_COMMIT_ATTEMPTS = 5
MAX_GATHERED_ROWS = 1000  # a file with so many rows is left alone
log = logging.getLogger(__name__)


class IcebergHistory(IcebergPort, BatchHistory):
    """Batches are rows of the control table; an applied slice is a property of the table that it was staged in."""

    @translate_iceberg_errors
    def append_history(self, control: str, *rows: HistoryRow) -> None:
        catalog, identifier = control.split(".", 1)
        append_rows(self.catalogs.catalog(catalog), identifier, *rows)

    @translate_iceberg_errors
    def read_history(self, control: str, limit: int) -> list[HistoryRow]:
        return self._read(control, lambda loaded_table: read_newest_batches(loaded_table, limit), [])

    @translate_iceberg_errors
    def list_backfills(self, table: str, pipeline: str) -> list[str]:
        # Tables without this pipeline's mark are left out. Case does not count: some catalogs keep names in lower case.
        catalog, identifier = table.split(".", 1)
        opened = self.catalogs.catalog(catalog)
        namespace, _, begin = resource_names.get_backfill_prefix(pipeline, identifier).rpartition(".")
        owner = Ownership(TableKind.INTERMEDIATE, pipeline, identifier)
        try:
            identifiers = sorted(opened.list_tables(namespace))
        except NoSuchNamespaceError:
            return []
        notes = []
        for name in (name for name in identifiers if name[-1].casefold().startswith(begin.casefold())):
            with suppress(NoSuchTableError):
                properties = opened.load_table(name).metadata.properties
                if owner.properties.items() <= properties.items():
                    notes.append(properties.get(resource_names.BACKFILL_PROPERTY, ""))
        return [note for note in notes if note]

    @translate_iceberg_errors
    def list_applied_slices(self, intermediate: str, shape: str) -> frozenset[int]:
        loaded_table = self.catalogs.table(intermediate)
        properties = loaded_table.metadata.properties if loaded_table is not None else {}
        if properties.get(SHAPE_PROPERTY) != shape:
            return frozenset()
        numbers = map(resource_names.parse_applied_slice, properties)
        return frozenset(number for number in numbers if number is not None)

    @translate_iceberg_errors
    def mark_applied(self, intermediate: str, number: int) -> None:
        # a property for each, so that two runners take none from each other
        table = self._load_table(intermediate)
        commit(table, [SetPropertiesUpdate(updates={resource_names.name_applied_property(number): "true"})])

    @translate_iceberg_errors
    def forget_backfill(self, table: str, pipeline: str, backfill: str) -> None:
        loaded_table = self.catalogs.table(table)
        if loaded_table is None:
            return
        branches = list_backfill_branches(loaded_table, pipeline, backfill)
        updates: list[TableUpdate] = [RemoveSnapshotRefUpdate(ref_name=branch) for branch in branches]
        mark = resource_names.name_backfill_property(pipeline, backfill)
        if mark in loaded_table.metadata.properties:
            updates.append(RemovePropertiesUpdate(removals=[mark]))
        if updates:
            commit(loaded_table, updates)


def append_rows(catalog: Catalog, identifier: str, *rows: HistoryRow) -> None:
    """Append the rows by one commit. Creates table and namespace if missing, and waits for other writers."""
    table = _open_table(catalog, identifier)
    hit_failpoint("history.opened")
    new_rows = pa.Table.from_pylist(list(rows), schema=COLUMNS)
    for tries_left in reversed(range(MAX_COMMIT_ATTEMPTS)):
        try:
            table.append(new_rows)
            break
        except CommitFailedException:  # PyIceberg has tried some times at once; rows are appended once or not at all
            if not tries_left:
                raise
            table = catalog.load_table(identifier)
    hit_failpoint("history.appended")
    if len(table.metadata.snapshots) > MAX_SNAPSHOTS:
        _tidy_up(table, identifier)


def _tidy_up(table: Table, identifier: str) -> None:
    try:
        with suppress(CommitRefused):  # another table's merge was faster; the next row brings the next chance
            _compact_rows(table)
        forget_snapshots(table.refresh())
    except Exception as error:
        # the row is appended: others may tidy up now
        log.warning("table=%s: not tidied up: %s: %s; a later row does it", identifier, type(error).__name__, error)


def _compact_rows(table: Table) -> None:
    # a file for each batch would make history slow to read
    tasks = [task for task in table.scan().plan_files() if not task.delete_files]
    small = [task for task in tasks if task.file.record_count < MAX_GATHERED_ROWS]
    if len(small) > 1:
        rows = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue()).to_table(small)
        replace_files(table, [task.file for task in small], [rows])


def forget_snapshots(table: Table) -> None:
    """Drop all but the newest few snapshots once there are many: each makes later commits slower."""
    if len(table.metadata.snapshots) <= MAX_SNAPSHOTS:
        return
    # a branch or tag of somebody keeps its snapshot, as in any expiry
    referenced_ids = {reference.snapshot_id for reference in table.metadata.refs.values()}
    newest_last = sorted(table.metadata.snapshots, key=lambda s: s.sequence_number or 0)
    old = [snapshot for snapshot in newest_last[:-KEPT_SNAPSHOTS] if snapshot.snapshot_id not in referenced_ids]
    if not old:
        return
    before = list_snapshot_files(table, old)
    table.maintenance.expire_snapshots().by_ids([snapshot.snapshot_id for snapshot in old]).commit()
    hit_failpoint("history.expired")
    for location in before - list_snapshot_files(table.refresh(), table.metadata.snapshots):
        remove_file(table, location)


def _open_table(catalog: Catalog, identifier: str) -> Table:
    with suppress(NoSuchTableError):
        return _claim_table(catalog.load_table(identifier))
    create_namespace(catalog, identifier.rsplit(".", 1)[0])
    properties = {**PROPERTIES, **describe_control(identifier).properties}
    try:
        return catalog.create_table(identifier, COLUMNS, properties=properties)
    except TableAlreadyExistsError:
        return _claim_table(catalog.load_table(identifier))


def _claim_table(table: Table) -> Table:
    claim(table, format_name(table), describe_control(format_name(table)))
    return table


def read_newest_batches(table: Table, limit: int) -> list[HistoryRow]:
    tasks = _choose_newest_files(table, list(table.scan().plan_files()), limit)
    newest = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue()).to_table(tasks)
    rows = newest.sort_by([(TIME_COLUMN, "descending"), ("batch", "descending")])
    return list(rows.slice(0, limit).to_pylist())


def _choose_newest_files(table: Table, tasks: Sequence[FileScanTask], limit: int) -> list[FileScanTask]:
    spans = {task.file.file_path: _read_times(table, task.file) for task in tasks}
    begin = inf
    rows = 0
    for task in sorted(tasks, key=lambda task: spans[task.file.file_path], reverse=True):
        if rows >= limit and spans[task.file.file_path][0] < begin:
            break
        begin = min(begin, spans[task.file.file_path][1])
        rows += 0 if task.delete_files else task.file.record_count
    return [task for task in tasks if spans[task.file.file_path][0] >= begin]


def _read_times(table: Table, file: DataFile) -> tuple[float, float]:
    number = table.schema().find_field(TIME_COLUMN).field_id
    newest, oldest = ((ends or {}).get(number) for ends in (file.upper_bounds, file.lower_bounds))
    if newest is None or oldest is None:
        # its writer left no bounds: it may hold rows of any time
        return inf, -inf
    return int(from_bytes(LongType(), newest)), int(from_bytes(LongType(), oldest))
