"""What the statements of one merge are filled with, and what the search for a table's touched rows is told."""

from typing import NotRequired, TypedDict

from tidegate.model.batch import StagedPart
from tidegate.schema.data_types import Struct
from tidegate.spec.table import Create

KeyPath = tuple[str, ...]


class KeyPaths(TypedDict):
    """The paths that a key is compared by; see `MergeInput`."""

    leaves: list[KeyPath]
    staged_leaves: list[KeyPath]


class MergeInput(TypedDict):
    """The values of a merge template, by the destination's column names. A table leaves out what it does not need."""

    target: str  # the destination
    branch: str  # the branch that is written
    source: str  # the intermediate table
    snapshot_id: int  # of the intermediate table
    batch: int  # the number of the last of `parts`
    parts: tuple[StagedPart, ...]  # which rows of the intermediate table count
    # pairs of a key column and the field of the key that fills it, None for the whole key
    keys: list[tuple[str, str | None]]
    values: list[str]  # the columns beside the key
    staged_rows: int  # how many records
    layout: Create  # how the table is partitioned and clustered when it is created
    truncated_at: NotRequired[int]  # the offset of the last truncate
    leaves: NotRequired[list[KeyPath]]  # the paths in the destination that a key is compared by
    staged_leaves: NotRequired[list[KeyPath]]  # those in the staged key, in the order of `leaves`
    flag: NotRequired[str | None]  # the column of a soft delete
    kept: NotRequired[bool]  # rows say which values they keep
    sequence: NotRequired[list[str]]  # columns that order records before the offset does
    deletes: NotRequired[str | None]  # the table that remembers deletes
    is_remembered: NotRequired[bool]  # the branch of `deletes` has those of these rows
    soft: NotRequired[bool]  # deletes leave the row
    expressions: NotRequired[dict[str, str]]  # SQL for columns that are staged under another name or type
    value_structs: NotRequired[tuple[Struct, Struct]]  # of the staged rows, and of the destination
    key_expressions: NotRequired[dict[str, str]]
    key_structs: NotRequired[tuple[Struct, Struct]]
    in_turn: NotRequired[bool]  # records of a later batch come after those of an earlier one, whatever their offsets
    guarded: NotRequired[bool]  # keys that a later record supersedes are left out
    by_offset: NotRequired[bool]  # the record with the higher offset is the later one
    compared: NotRequired[list[str]]  # the columns by whose values a version is told from the one before it
    given: NotRequired[dict[str, tuple[str, list[str]]]]  # what shows, for each column, that a record gave it a value
    groups: NotRequired[bool]  # columns have sequences of their own
    late: NotRequired[bool]  # records may be older than those in the table
    at: NotRequired[int | None]  # the destination's snapshot, on which bounds depend
    rows: NotRequired[int]  # of the destination at that snapshot
