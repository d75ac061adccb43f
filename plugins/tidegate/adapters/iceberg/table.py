"""The tables of Iceberg: what they hold, what they can take in, where a merge has to look, and remembered deletes."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from fractions import Fraction

from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import GreaterThanOrEqual, IsNull, LessThan, Or
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask, Table
from pyiceberg.types import NestedField, TimestamptzType

from tidegate.adapters.iceberg.catalog import Catalogs, IcebergPort, format_name
from tidegate.adapters.iceberg.commit import replace_files
from tidegate.adapters.iceberg.errors import translate_iceberg_errors
from tidegate.adapters.iceberg.files import count_live_rows, measure_files
from tidegate.adapters.iceberg.format_version import refuse_removal_of_rows
from tidegate.adapters.iceberg.history import forget_snapshots
from tidegate.adapters.iceberg.pruning import (
    are_keys_worth_naming,
    find_key_ranges,
    find_overlap,
    find_table_field,
    name_keys,
)
from tidegate.adapters.iceberg.schema import evolve_schema, list_limits, list_limits_of_new, refuse_unreadable
from tidegate.adapters.iceberg.table_state import build_state, claim, list_branch_pipelines
from tidegate.adapters.iceberg.types import clamp_times
from tidegate.model.merge_input import MergeInput
from tidegate.model.ownership import KIND_PROPERTY, MEMORY_KINDS, Ownership
from tidegate.model.table_state import FolderLimit, TableFiles, TableState
from tidegate.ports.destination import TableStore
from tidegate.schema.data_types import Column
from tidegate.schema.evolution import EvolutionRules
from tidegate.spec.time_text import EPOCH, to_utc_datetime
from tidegate.sql.pruning import Bounds

# tables whose metadata is kept as it was read, for the merge that follows: it may be megabytes each
MAX_CACHED_TABLES = 8
TIMESTAMP_COLUMN = "_tidegate_timestamp"  # as tables that remember whole changes have it, beside the user's own columns
SMALL_FILE_ROWS = 10_000  # of files with some old rows among newer ones, so many may be written again by each call
# a larger one waits until so much of its time is over: a row is written for one that goes
MIN_OLD_SHARE = Fraction(1, 2)
AgedFile = tuple[FileScanTask, Fraction]  # a file with old rows, and which share of the time that it spans is over


class IcebergTables(IcebergPort, TableStore):
    """Each call loads the table anew; what `read_state` loaded is kept for the merge that follows."""

    def __init__(self, catalogs: Catalogs, branches: Mapping[str, str] | None = None) -> None:
        super().__init__(catalogs, branches)
        self._states: dict[str, Table] = {}

    @translate_iceberg_errors
    def list_tables(self, namespace: str) -> list[str]:
        return self.catalogs.list_table_names(namespace)

    @translate_iceberg_errors
    def read_state(self, table: str, pipeline: str) -> TableState | None:
        loaded_table = self.catalogs.table(table)
        if loaded_table is None:
            self.catalogs.refuse_view(table)
            return None
        refuse_unreadable(table, loaded_table)
        self._states.pop(table, None)
        self._states[table] = loaded_table
        for oldest in list(self._states)[:-MAX_CACHED_TABLES]:
            self._states.pop(oldest, None)
        return build_state(loaded_table, pipeline, self._branch(table))

    @translate_iceberg_errors
    def evolve(self, table: str, columns: tuple[Column, ...], *, add: bool, widen: bool, relax: bool) -> list[str]:
        return evolve_schema(self._load_table(table), table, columns, EvolutionRules(add, widen, relax))

    @translate_iceberg_errors
    def find_bounds(self, table: str, values: MergeInput) -> Bounds:
        staging_table = self.catalogs.table(values["source"])
        all_ranges = () if staging_table is None else find_key_ranges(staging_table, values)
        if staging_table is None or not all_ranges:
            return Bounds(())
        at = values.get("at")
        destination = self._states.get(table)
        # a snapshot never changes
        if destination is None or at is None or destination.metadata.snapshot_by_id(at) is None:
            destination = self._load_table(table)
        ranges = tuple(r for r in all_ranges if find_table_field(destination, r) is not None)
        overlap = find_overlap(destination, at, ranges) if ranges and at is not None else None
        if are_keys_worth_naming(values.get("rows", 0), overlap):
            return Bounds(name_keys(staging_table, values, ranges), overlap=overlap)
        return Bounds(tuple(key_range.bound for key_range in ranges), overlap=overlap)

    @translate_iceberg_errors
    def claim(self, table: str, owner: Ownership) -> dict[str, str] | None:
        return self._read(table, lambda loaded_table: claim(loaded_table, table, owner), None)

    @translate_iceberg_errors
    def list_pipelines(self, table: str) -> tuple[str, ...]:
        return self._read(table, lambda loaded_table: list_branch_pipelines(loaded_table, self._branch(table)), ())

    @translate_iceberg_errors
    def has_files(self, table: str) -> bool:
        return self.catalogs.table(table) is not None

    @translate_iceberg_errors
    def read_files(self, table: str, exact: bool = False) -> TableFiles | None:
        return self._read(table, lambda loaded_table: measure_files(loaded_table, exact), None)

    @translate_iceberg_errors
    def read_property(self, table: str, name: str) -> str | None:
        return self._read(table, lambda loaded_table: loaded_table.metadata.properties.get(name), None)

    @translate_iceberg_errors
    def list_folder_limits(self, table: str, partition_by: tuple[str, ...]) -> tuple[FolderLimit, ...]:
        loaded_table = self._states.get(table) or self.catalogs.table(table)
        if loaded_table is not None:
            return list_limits(loaded_table)
        catalog, identifier = table.split(".", 1)
        warehouse = self.catalogs.catalog(catalog).properties.get("warehouse", "")
        return list_limits_of_new(f"{warehouse}/{identifier}", partition_by) if warehouse else ()

    @translate_iceberg_errors
    def count_rows(self, table: str) -> int | None:
        return self._read(table, lambda loaded_table: count_live_rows(loaded_table, self._branch(table)), None)

    @translate_iceberg_errors
    def forget_deletes(self, deletes: str, before_ms: int, every_ms: int = 0) -> int:
        # it goes file by file, so that it need not wait
        return self._read(deletes, lambda loaded_table: forget_old_deletes(loaded_table, before_ms), 0)


def forget_old_deletes(table: Table, before_ms: int) -> int:
    """Remove deletes whose record is older; returns how many. `CommitRefused` where a merge has written meanwhile."""
    kind = table.metadata.properties.get(KIND_PROPERTY, "")
    if kind not in MEMORY_KINDS:
        return 0  # the next merge marks it, if it is ours
    refuse_removal_of_rows(format_name(table), table.metadata.format_version, kind)
    field = table.schema().find_field(
        TIMESTAMP_COLUMN if TIMESTAMP_COLUMN in table.schema().column_names else "timestamp"
    )
    before = to_utc_datetime(before_ms)
    tasks = table.scan(row_filter=LessThan(term=field.name, value=before.isoformat())).plan_files()
    aged = [(task, _estimate_old_share(task.file, field, before)) for task in tasks]
    # files with older deletes only go unread
    wholly_old = [task for task, share in aged if share == 1]
    # a file is rewritten if that is little work for what goes; a delete that stays is remembered for longer
    partly_old = _choose_worth_rewriting([aged_file for aged_file in aged if aged_file[1] < 1])
    old_files = [task.file for task in (*wholly_old, *partly_old)]
    deleted_rows = sum(file.record_count for file in old_files)
    if deleted_rows:
        is_newer = GreaterThanOrEqual(term=field.name, value=before.isoformat())
        scan = ArrowScan(table.metadata, table.io, table.schema(), Or(is_newer, IsNull(term=field.name)))
        # one after the other: a large one is not held in memory beside the next
        kept_rows = (clamp_times(scan.to_table([task]), field.name) for task in partly_old)
        deleted_rows -= replace_files(table, old_files, kept_rows)
    forget_snapshots(table.refresh())
    return deleted_rows


def _choose_worth_rewriting(aged: Sequence[AgedFile]) -> list[FileScanTask]:
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
    low, high = ((ends or {}).get(field.field_id) for ends in (file.lower_bounds, file.upper_bounds))
    if low is None or high is None or (file.null_value_counts or {}).get(field.field_id) != 0:
        return MIN_OLD_SHARE
    first, last = (int(from_bytes(TimestamptzType(), end)) for end in (low, high))
    end_micros = (before - EPOCH) // timedelta(microseconds=1)
    return min(Fraction(1), Fraction(end_micros - first, last + 1 - first))
