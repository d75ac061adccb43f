"""What the statements of one merge are filled with, and what the search for a table's touched rows is told."""

from typing import NotRequired, TypedDict

from tidegate.schema.data_types import Struct
from tidegate.spec.table import Create

KeyPath = tuple[str, ...]


class MergeInput(TypedDict):
    """The values of a merge template; columns go by the destination's names. What a table does not need is left out.

    `target`, `branch`, `source`: the destination, the branch that is written, the intermediate table. `snapshot_id`,
    `batch`, `attempt`: which of its rows count. `keys` are pairs of a key column and the field of the key that fills
    it, None for the whole key; `values` the other columns, `leaves` the paths that a key is compared by, in the order
    of `staged_leaves`, the same in the pipeline's own key columns. `staged_rows` counts records.

    `flag` is the column of a soft delete, `sequence` the columns that order records beside the offset, `deletes` the
    table that remembers deletes; `soft` says that deletes leave the row. `expressions` is SQL for columns that are
    staged under another name or type, `as_held` the structs of the staged rows and of the destination;
    `key_expressions` and `key_as_held` are the same for key columns. `guarded` leaves out keys that a later record
    there supersedes, decided `by_offset` for dead letters. `truncated_at` is the offset of the last truncate.

    `kept` says that records may keep some of the row's values. Their records are folded: `given` tells for each column
    what shows that a record gave it a value, `groups` that columns have sequences of their own, and `late` records may
    lie before those in the table.

    `rows_name` stands for the rows of a direct batch, which no table holds.

    `at` is the snapshot of the table that is looked at, `rows` the number of staged rows: bounds may depend on them.
    """

    target: str
    branch: str
    source: str
    snapshot_id: int
    batch: int
    attempt: str
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
    as_held: NotRequired[tuple[Struct, Struct]]
    key_expressions: NotRequired[dict[str, str]]
    key_as_held: NotRequired[tuple[Struct, Struct]]
    guarded: NotRequired[bool]
    by_offset: NotRequired[bool]
    given: NotRequired[dict[str, tuple[str, list[str]]]]
    groups: NotRequired[bool]
    late: NotRequired[bool]
    at: NotRequired[int | None]
    rows: NotRequired[int]
    rows_name: NotRequired[str]
