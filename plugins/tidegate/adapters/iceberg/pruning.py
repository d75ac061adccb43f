"""Where a merge's keys lie, as literal bounds from the statistics of files, so that Spark opens few of the table's."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import And, BooleanExpression, In
from pyiceberg.expressions.literals import literal
from pyiceberg.manifest import DataFile, ManifestContent, ManifestFile
from pyiceberg.table import Table
from pyiceberg.types import (
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)
from pyiceberg.utils.concurrent import ExecutorFactory

from tidegate.model.merge_input import MergeInput
from tidegate.sql.pruning import Bound, Overlap
from tidegate.sql.spark import render_literal

# other types have no bounds, or not by Spark's order (NaN)
SQL_TYPES: dict[type, str] = {
    IntegerType: "INT",
    LongType: "BIGINT",
    DecimalType: "DECIMAL",
    DateType: "DATE",
    TimestampType: "TIMESTAMP_NTZ",
    TimestamptzType: "TIMESTAMP",
    StringType: "STRING",
}
EPOCH = date(1970, 1, 1)
# after so many the Gregorian calendar repeats
CALENDAR_YEARS = 400
CALENDAR_DAYS = 146_097
# microseconds
MICROS_PER_SECOND = 1_000_000
MICROS_PER_DAY = 86_400 * 1_000_000
# of a table with more, nothing is read
MAX_FILES = 20_000
MAX_MANIFESTS = 200
INTEGER_TYPES = (IntegerType, LongType)
BOUND_BYTES = {DateType: 4, TimestampType: 8, TimestamptzType: 8}
NAMEABLE_TYPES = (IntegerType, LongType, StringType)
MAX_KEYS = 20_000  # each is a constant in the statement, and in every task that reads the table
MAX_LITERAL_BYTES = 1_000_000  # of all constants of a statement: 20,000 UUIDs have room, as many long texts have not
ARROW_BYTES = 8  # what Arrow keeps for a value beside a text's own bytes
# rows that would be moved, and how many for each key: below it the text costs more
MIN_TABLE_ROWS = 300_000
MIN_ROW_RATIO = 30


@dataclass(frozen=True)
class KeyRange:
    """The range of a leaf's values in the staged keys, and whether some are NULL."""

    leaf: tuple[str, ...]
    data_type: PrimitiveType
    low: Any
    high: Any
    nulls: bool

    @property
    def bound(self) -> Bound:
        """Both ends as constants in Spark's SQL."""
        ends = (_render_constant(self.data_type, self.low), _render_constant(self.data_type, self.high))
        return Bound(self.leaf, (ends,), self.nulls)


def find_key_ranges(staging_table: Table, values: MergeInput) -> tuple[KeyRange, ...]:
    """For each leaf of the key that a merge with `values` compares, and of which each staged file has statistics."""
    if "leaves" not in values or staging_table.metadata.snapshot_by_id(values["snapshot_id"]) is None:
        return ()
    scan = staging_table.scan(snapshot_id=values["snapshot_id"], row_filter=filter_batches(values))
    files = [task.file for task in scan.plan_files()]
    parts = dict(values["keys"])
    key = staging_table.schema().find_field("key")
    ranges = []
    for leaf in (leaf for leaf in values["leaves"] if leaf[0] in parts):
        field = find_nested_field(key, find_path_in_key(values, leaf))
        key_range = _compute_range(files, field, leaf)
        ranges += [key_range] if key_range else []
    return tuple(ranges)


def filter_batches(values: MergeInput) -> BooleanExpression:
    """The partitions of the staged rows."""
    return In(term="batch_number", literals={literal(part.batch) for part in values["parts"]})


def find_path_in_key(values: MergeInput, leaf: tuple[str, ...]) -> list[str]:
    """The path in the staged key of a leaf of the table's key."""
    part = dict(values["keys"])[leaf[0]]
    below = values["staged_leaves"][values["leaves"].index(leaf)][1:] if "staged_leaves" in values else leaf[1:]
    return [*below] if part is None else [part, *below]


def find_nested_field(field: NestedField, path: Sequence[str]) -> NestedField:
    for name in path:
        assert isinstance(field.field_type, StructType)
        field = next(below for below in field.field_type.fields if below.name == name)
    return field


def _compute_range(files: Sequence[DataFile], field: NestedField, leaf: tuple[str, ...]) -> KeyRange | None:
    data_type = field.field_type
    number = field.field_id
    ends = []
    nulls = False
    if type(data_type) not in SQL_TYPES or not isinstance(data_type, PrimitiveType):
        return None
    for file in files:
        missing = (file.null_value_counts or {}).get(number)
        low = (file.lower_bounds or {}).get(number)
        high = (file.upper_bounds or {}).get(number)
        nulls = nulls or missing != 0
        if low is not None and high is not None:
            ends += [from_bytes(data_type, low), from_bytes(data_type, high)]
        elif missing is None or missing != file.record_count:
            return None  # of this file nothing is known
    if not ends:
        return None
    return KeyRange(leaf=leaf, data_type=data_type, low=min(ends), high=max(ends), nulls=nulls)


def _render_constant(data_type: Any, value: Any) -> str:
    if isinstance(data_type, StringType):
        return render_literal(value)
    name = SQL_TYPES[type(data_type)]
    if isinstance(data_type, DecimalType):
        value = format(value, "f")
        name = f"DECIMAL({data_type.precision}, {data_type.scale})"
    elif isinstance(data_type, DateType):
        value = _format_date(value)
    elif isinstance(data_type, TimestampType | TimestamptzType):
        days, micros = divmod(value, MICROS_PER_DAY)
        seconds, micros = divmod(micros, MICROS_PER_SECOND)
        value = f"{_format_date(days)} {timedelta(seconds=seconds)!s:0>8}.{micros:06}"
    return f"CAST({render_literal(str(value))} AS {name})"


def _format_date(days: int) -> str:
    cycles, remaining_days = divmod(days, CALENDAR_DAYS)
    day = EPOCH + timedelta(days=remaining_days)
    year = day.year + CALENDAR_YEARS * cycles
    return f"{'-' if year < 0 else ''}{abs(year):04}-{day:%m-%d}"


def find_overlap(table: Table, snapshot_id: int, ranges: Sequence[KeyRange]) -> Overlap | None:
    """The files that `ranges` do not rule out; None where they rule out none, or too many had to be read."""
    snapshot = table.metadata.snapshot_by_id(snapshot_id)
    is_outside = build_outside_test(table, ranges)
    if snapshot is None or is_outside is None:
        return None
    manifests = [m for m in snapshot.manifests(table.io) if m.content == ManifestContent.DATA]
    files = sum((m.added_files_count or 0) + (m.existing_files_count or 0) for m in manifests)
    if len(manifests) > MAX_MANIFESTS or files > MAX_FILES:
        return None

    def list_row_counts(manifest: ManifestFile) -> list[int]:
        entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
        data_files = (entry.data_file for entry in entries)
        return [file.record_count for file in data_files if not is_outside(file)]

    rows = [count for counts in ExecutorFactory.get_or_create().map(list_row_counts, manifests) for count in counts]
    return Overlap(len(rows), sum(rows))


def build_outside_test(table: Table, ranges: Sequence[KeyRange]) -> Callable[[DataFile], bool] | None:
    """Tells that a file holds no key within all of `ranges`; None where none can be compared."""
    compared = [(key_range, field) for key_range in ranges if (field := find_table_field(table, key_range)) is not None]
    if not compared:
        return None
    return lambda file: any(_is_outside(file, *comparison) for comparison in compared)


def find_table_field(table: Table, key_range: KeyRange) -> NestedField | None:
    """The table's own field, if its values and the staged ones are compared as the merge compares them."""
    field: NestedField | None = None
    below: Any = table.schema().as_struct()
    for name in key_range.leaf:
        field = below.field_by_name(name) if isinstance(below, StructType) else None
        if field is None:
            return None
        below = field.field_type
    # a UUID is a text to Spark, and Iceberg orders it otherwise: pruning could skip a file with the value
    kinds = (type(key_range.data_type), type(below))
    return field if kinds[0] is kinds[1] or all(kind in INTEGER_TYPES for kind in kinds) else None


def _is_outside(file: DataFile, key_range: KeyRange, field: NestedField) -> bool:
    missing = (file.null_value_counts or {}).get(field.field_id)
    # both may be NULL, where both have NULLs
    if key_range.nulls and missing != 0:
        return False
    low = _decode_bound(field.field_type, (file.lower_bounds or {}).get(field.field_id))
    high = _decode_bound(field.field_type, (file.upper_bounds or {}).get(field.field_id))
    if low is None or high is None:
        return missing is not None and missing == file.record_count
    return bool(high < key_range.low or low > key_range.high)


def _decode_bound(data_type: Any, raw: bytes | None) -> Any:
    if raw is None:
        return None
    if isinstance(data_type, IntegerType | LongType):  # widened columns keep the bounds of narrow files
        return int.from_bytes(raw, "little", signed=True) if len(raw) in (4, 8) else None
    if type(data_type) in BOUND_BYTES and len(raw) != BOUND_BYTES[type(data_type)]:
        return None
    is_decodable = isinstance(data_type, StringType | DecimalType) or type(data_type) in BOUND_BYTES
    try:
        return from_bytes(data_type, raw) if is_decodable and isinstance(data_type, PrimitiveType) else None
    # some writers cut bounds at a byte
    except UnicodeDecodeError:
        return None


def are_keys_worth_naming(rows: int, overlap: Overlap | None) -> bool:
    """Whether few enough rows are merged into so many that naming their keys pays."""
    if overlap is None or not 0 < rows <= MAX_KEYS:
        return False
    return overlap.rows >= max(MIN_TABLE_ROWS, MIN_ROW_RATIO * rows)


def name_keys(staging_table: Table, values: MergeInput, ranges: Sequence[KeyRange]) -> tuple[Bound, ...]:
    """The bounds of `ranges`, with the staged values beside them where these are numbers or short texts.

    Leaves come in the order of the key, as long as `MAX_LITERAL_BYTES` has room. A leaf left out makes a merge slower,
    never wrong.
    """
    bounds = [key_range.bound for key_range in ranges]
    room = MAX_LITERAL_BYTES
    nameable = [isinstance(key_range.data_type, NAMEABLE_TYPES) and not key_range.nulls for key_range in ranges]
    indexes = [place for place, is_nameable in enumerate(nameable) if is_nameable]
    if indexes:
        attempts = In(term="attempt", literals={literal(part.attempt) for part in values["parts"]})
        row_filter = And(filter_batches(values), attempts)
        scan = staging_table.scan(row_filter=row_filter, snapshot_id=values["snapshot_id"], selected_fields=("key",))
        keys = scan.to_arrow()["key"].combine_chunks()
        for place in indexes:
            leaf = pc.struct_field(keys, find_path_in_key(values, ranges[place].leaf))
            constants = _render_constants(leaf, room)
            room -= _measure_bytes(constants)
            bounds[place] = replace(bounds[place], values=constants)
    return tuple(bounds)


def _render_constants(leaf: "pa.Array[Any]", room: int) -> tuple[str, ...]:
    unique = pc.drop_null(pc.unique(leaf))
    if unique.nbytes > room + ARROW_BYTES * len(unique):
        return ()
    values = sorted(unique.to_pylist())
    constants = tuple(render_literal(value) if isinstance(value, str) else f"{value}L" for value in values)
    return constants if _measure_bytes(constants) <= room else ()


def _measure_bytes(constants: Sequence[str]) -> int:
    return sum(len(constant.encode()) + len(", ") for constant in constants)
