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
    """The values of a merge template, by the destination's column names. A table leaves out what it does not need.

    Which rows go where:

    - `target`, `branch`, `source`: the destination, the branch that is written, the intermediate table.
    - `snapshot_id`, `parts`: which rows of the intermediate table count. `staged_rows`: how many records.
    - `batch`: the number of the last of them.
    - `at`, `rows`: the destination's snapshot that is looked at, and its number of rows; bounds may depend on them.

    Columns:

    - `keys`: pairs of a key column and the field of the key that fills it, None for the whole key.
    - `values`: the other columns. `layout`: how the table is partitioned and clustered when it is created.
    - `leaves`, `staged_leaves`: the paths that a key is compared by, in the destination and in the staged key.
    - `expressions`, `key_expressions`: SQL for columns that are staged under another name or type.
    - `value_structs`, `key_structs`: the structs of the staged rows and of the destination.
    - `flag`: the column of a soft delete. `soft`: deletes leave the row.

    Order:

    - `sequence`: columns that order records before the offset does. `deletes`: the table that remembers deletes.
    - `in_turn`: records of a later batch come after those of an earlier one, whatever their offsets.
    - `guarded`: keys that a later record supersedes are left out. `by_offset`: later means a higher offset.
    - `truncated_at`: the offset of the last truncate.

    Records that keep some of the row's values are folded:

    - `kept`: rows say which values they keep. `given`: what shows, for each column, that a record gave it a value.
    - `groups`: columns have sequences of their own. `late`: records may be older than those in the table.
    """

    target: str
    branch: str
    source: str
    snapshot_id: int
    batch: int
    parts: tuple[StagedPart, ...]
    keys: list[tuple[str, str | None]]
    values: list[str]
    staged_rows: int
    layout: Create
    truncated_at: NotRequired[int]
    leaves: NotRequired[list[KeyPath]]
    staged_leaves: NotRequired[list[KeyPath]]
    flag: NotRequired[str | None]
    kept: NotRequired[bool]
    sequence: NotRequired[list[str]]
    deletes: NotRequired[str | None]
    soft: NotRequired[bool]
    expressions: NotRequired[dict[str, str]]
    value_structs: NotRequired[tuple[Struct, Struct]]
    key_expressions: NotRequired[dict[str, str]]
    key_structs: NotRequired[tuple[Struct, Struct]]
    in_turn: NotRequired[bool]
    guarded: NotRequired[bool]
    by_offset: NotRequired[bool]
    given: NotRequired[dict[str, tuple[str, list[str]]]]
    groups: NotRequired[bool]
    late: NotRequired[bool]
    at: NotRequired[int | None]
    rows: NotRequired[int]
