"""Which files of a table may hold a batch's keys: from the statistics in its manifests, at the snapshot that is cut.

The result lets a batch be appended without looking for its keys: a file of which anything is unknown may hold
them.
"""

from collections.abc import Callable, Sequence
from typing import Any

from pyiceberg.conversions import from_bytes
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

from tidegate.adapters.iceberg.pruning.key_ranges import KeyRange
from tidegate.sql.pruning import Overlap

# of a table with more, nothing is read
MAX_FILES = 20_000
MAX_MANIFESTS = 200
INTEGER_TYPES = (IntegerType, LongType)
BOUND_BYTES = {DateType: 4, TimestampType: 8, TimestamptzType: 8}


def find_overlap(table: Table, snapshot_id: int, ranges: Sequence[KeyRange]) -> Overlap | None:
    """The files that `ranges` do not rule out; None where too many would have to be looked at, or none can be."""
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
    """What tells that a file holds no key within all of `ranges`; None where none of them can be compared."""
    compared = [(key_range, field) for key_range in ranges if (field := find_table_field(table, key_range)) is not None]
    if not compared:
        return None
    return lambda file: any(_is_outside(file, *comparison) for comparison in compared)


def find_table_field(table: Table, key_range: KeyRange) -> NestedField | None:
    """The table's own field, if its values and the staged ones are compared as the merge compares them.

    A UUID is a text to Spark, and Iceberg orders it in another way: what it leaves unread may hold the value.
    """
    field: NestedField | None = None
    below: Any = table.schema().as_struct()
    for name in key_range.leaf:
        field = below.field_by_name(name) if isinstance(below, StructType) else None
        if field is None:
            return None
        below = field.field_type
    kinds = (type(key_range.data_type), type(below))
    return field if kinds[0] is kinds[1] or all(kind in INTEGER_TYPES for kind in kinds) else None


def _is_outside(file: DataFile, key_range: KeyRange, field: NestedField) -> bool:
    """Whether no row of the file can have a value within the range; both may be NULL where both have NULLs."""
    missing = (file.null_value_counts or {}).get(field.field_id)
    if key_range.nulls and missing != 0:
        return False
    low = _decode_bound(field.field_type, (file.lower_bounds or {}).get(field.field_id))
    high = _decode_bound(field.field_type, (file.upper_bounds or {}).get(field.field_id))
    if low is None or high is None:
        return missing is not None and missing == file.record_count
    return bool(high < key_range.low or low > key_range.high)


def _decode_bound(data_type: Any, raw: bytes | None) -> Any:
    """A bound as it compares with a range's ends; None where there is none, or where it is of an older, other type.

    So it is where it is no text: some writers cut bounds at a byte.
    """
    if raw is None:
        return None
    if isinstance(data_type, IntegerType | LongType):  # widened columns keep the bounds of narrow files
        return int.from_bytes(raw, "little", signed=True) if len(raw) in (4, 8) else None
    if type(data_type) in BOUND_BYTES and len(raw) != BOUND_BYTES[type(data_type)]:
        return None
    is_decodable = isinstance(data_type, StringType | DecimalType) or type(data_type) in BOUND_BYTES
    try:
        return from_bytes(data_type, raw) if is_decodable and isinstance(data_type, PrimitiveType) else None
    except UnicodeDecodeError:
        return None
