"""Literal bounds of a merge's keys, from the statistics of the staged files: no row is read for them.

Only literals in a merge's condition let Spark leave files of the table unread. A row outside of the bounds has none of
the batch's keys, so that the merge does the same with and without them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import EqualTo
from pyiceberg.manifest import DataFile
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

from tidegate.model.merge_input import MergeInput
from tidegate.sql.pruning import Bound
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


@dataclass(frozen=True)
class KeyRange:
    """Between which values a leaf of the staged keys lies, and whether some have none."""

    leaf: tuple[str, ...]
    data_type: PrimitiveType
    low: Any
    high: Any
    nulls: bool

    @property
    def bound(self) -> Bound:
        """The same as constants in Spark's SQL."""
        ends = (_render_constant(self.data_type, self.low), _render_constant(self.data_type, self.high))
        return Bound(self.leaf, (ends,), self.nulls)


def find_key_ranges(staging_table: Table, values: MergeInput) -> tuple[KeyRange, ...]:
    """For each leaf of the key that a merge filled with `values` compares, and that every staged file tells of."""
    if "leaves" not in values or staging_table.metadata.snapshot_by_id(values["snapshot_id"]) is None:
        return ()
    row_filter = EqualTo(term="batch_number", value=values["batch"])
    scan = staging_table.scan(snapshot_id=values["snapshot_id"], row_filter=row_filter)
    files = [task.file for task in scan.plan_files()]
    parts = dict(values["keys"])
    key = staging_table.schema().find_field("key")
    ranges = []
    for leaf in (leaf for leaf in values["leaves"] if leaf[0] in parts):
        field = find_nested_field(key, find_path_in_key(values, leaf))
        key_range = _compute_range(files, field, leaf)
        ranges += [key_range] if key_range else []
    return tuple(ranges)


def find_path_in_key(values: MergeInput, leaf: tuple[str, ...]) -> list[str]:
    """Where a leaf of the table's key stands in the staged key."""
    part = dict(values["keys"])[leaf[0]]
    below = values["staged_leaves"][values["leaves"].index(leaf)][1:] if "staged_leaves" in values else leaf[1:]
    return [*below] if part is None else [part, *below]


def find_nested_field(field: NestedField, path: Sequence[str]) -> NestedField:
    """The field below `field` that the names lead to."""
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
    """A constant, in a session whose zone is UTC."""
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
    """A day since 1970 as Spark reads it: with four digits of the year or more, beyond Python's first and last year."""
    cycles, remaining_days = divmod(days, CALENDAR_DAYS)
    day = EPOCH + timedelta(days=remaining_days)
    year = day.year + CALENDAR_YEARS * cycles
    return f"{'-' if year < 0 else ''}{abs(year):04}-{day:%m-%d}"
