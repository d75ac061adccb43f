"""The very keys of a small batch, as constants for its merge into a large table.

Keys that lie anywhere leave no file of the table unread, and Spark cannot send the changes to where the table is read:
it moves every row's key and place to where they are compared. Constants let it drop the others as they are read.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import And, EqualTo
from pyiceberg.table import Table
from pyiceberg.types import IntegerType, LongType, StringType

from tidegate.adapters.iceberg.pruning.key_ranges import KeyRange, find_path_in_key
from tidegate.model.merge_input import MergeInput
from tidegate.sql.pruning import Bound, Overlap
from tidegate.sql.spark import render_literal

NAMEABLE_TYPES = (IntegerType, LongType, StringType)
MAX_KEYS = 20_000  # each is a constant in the statement, and in every task that reads the table
MAX_LITERAL_BYTES = 1_000_000  # of all constants of a statement: 20,000 UUIDs have room, as many long texts have not
ARROW_BYTES = 8  # what Arrow keeps for a value beside a text's own bytes
# rows that would be moved, and how many for each key: below it the text costs more
MIN_TABLE_ROWS = 300_000
MIN_ROW_RATIO = 30


def are_keys_worth_naming(rows: int, overlap: Overlap | None) -> bool:
    """Whether so few rows are merged into so many that their keys should be named one by one."""
    if overlap is None or not 0 < rows <= MAX_KEYS:
        return False
    return overlap.rows >= max(MIN_TABLE_ROWS, MIN_ROW_RATIO * rows)


def name_keys(staging_table: Table, values: MergeInput, ranges: Sequence[KeyRange]) -> tuple[Bound, ...]:
    """The bounds of `ranges`, with the staged values of each leaf beside them, where these are numbers or short texts.

    In the order of the key, each leaf is named whose constants still have room in `MAX_LITERAL_BYTES`; what is left
    out makes
    a merge slower, and never wrong.
    """
    bounds = [key_range.bound for key_range in ranges]
    room = MAX_LITERAL_BYTES
    indexes = [
        place
        for place, key_range in enumerate(ranges)
        if isinstance(key_range.data_type, NAMEABLE_TYPES) and not key_range.nulls
    ]
    if indexes:
        is_batch = EqualTo(term="batch_number", value=values["batch"])
        row_filter = And(is_batch, EqualTo(term="attempt", value=values["attempt"]))
        scan = staging_table.scan(row_filter=row_filter, snapshot_id=values["snapshot_id"], selected_fields=("key",))
        keys = scan.to_arrow()["key"].combine_chunks()
        for place in indexes:
            leaf = pc.struct_field(keys, find_path_in_key(values, ranges[place].leaf))
            constants = _render_constants(leaf, room)
            room -= _measure_bytes(constants)
            bounds[place] = replace(bounds[place], values=constants)
    return tuple(bounds)


def _render_constants(leaf: "pa.Array[Any]", room: int) -> tuple[str, ...]:
    """The values as constants in order; none where they need more bytes than there is room for."""
    unique = pc.drop_null(pc.unique(leaf))
    if unique.nbytes > room + ARROW_BYTES * len(unique):
        return ()
    values = sorted(unique.to_pylist())
    constants = tuple(render_literal(value) if isinstance(value, str) else f"{value}L" for value in values)
    return constants if _measure_bytes(constants) <= room else ()


def _measure_bytes(constants: Sequence[str]) -> int:
    return sum(len(constant.encode()) + len(", ") for constant in constants)
