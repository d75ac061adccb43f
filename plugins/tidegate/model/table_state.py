"""What the outside world answers to the steps: the log and the tables, each as one look at them shows it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, NamedTuple

from tidegate.model.batch import StagedBatch
from tidegate.model.merge_input import MergeInput
from tidegate.model.offsets import Ranges
from tidegate.model.position import Position
from tidegate.schema.column import Column
from tidegate.schema.data_types import Struct
from tidegate.schema.evolution import to_struct

NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # what brokers tell that do not know the id: all bits are zero


@dataclass(frozen=True)
class TableState:
    """A destination table as one load of its metadata shows it.

    - `recorded`: the position that the pipeline published last. `position`: where the table stands; after a rollback
      that of the newest ancestor of main that carries one.
    - `rolled_back`: the last published snapshot is not an ancestor of main. `untraceable`: nobody can tell, as the
      snapshots that would tell a rollback from another writer's work have expired. `is_untagged`: the tag on the last
      published snapshot is gone. `picked_batch`: a batch that was rolled back and whose rows somebody has picked onto
      main since, by itself; then `position` is not known.
    - `position_lost`: the pipeline has written the table's rows, and its position beside the table is gone.
    - `highest_batch`: the highest batch number that was used; it never falls.
    - `marks`: the table's properties that belong to the pipeline (`tidegate.<pipeline>.`).
    - `emptied`: paths of columns that somebody dropped and added again, and that nobody has filled since.
    - `has_maps`: False where the destination has no maps, and a column holds their entries.
    - `kind`: of a table of the product's own, which is no destination; empty for others.
    - `total_records`: the rows in its data files, deleted ones included; None where unknown.
    - `rewrites_files`: a merge replaces whole files.
    - `lost_partition`: a partition of its files whose column was dropped.
    - `reserved_columns`: names, without case, that no column may have in a table that is merged into.
    """

    uuid: str
    snapshot_id: int | None
    schema_id: int
    position: Position | None
    highest_batch: int
    columns: tuple[Column, ...]
    rolled_back: bool = False
    recorded: Position | None = None
    snapshot_ms: int = 0
    marks: dict[str, str] = field(default_factory=dict)
    untraceable: bool = False
    is_untagged: bool = False
    picked_batch: int | None = None
    position_lost: bool = False
    schema: Struct | None = None
    emptied: frozenset[tuple[str, ...]] = frozenset()
    has_maps: bool = True
    kind: str = ""
    total_records: int | None = None
    rewrites_files: bool = False
    lost_partition: str = ""
    reserved_columns: tuple[str, ...] = ()

    @property
    def struct(self) -> Struct:
        """What the table holds, with what is required and the other names that its fields are known by."""
        return to_struct(self.columns) if self.schema is None else self.schema


@dataclass(frozen=True)
class TableFiles:
    """What a table consists of, by its current snapshot.

    - `data_bytes`: the size of all files, of rows and of deletes.
    - `small`: files below three quarters of the target size. `crowd`: the most of them in one partition.
    - `full_manifests`: those near the size that manifests are written with.
    - `since_tagged`: snapshots of main down to the farthest one that a pipeline has tagged as its last.
    - `tagged_ms`: the oldest time of the snapshots that lead from any branch to such a tag. `branch_age_ms`: the
      shortest age at which such a branch lets its own snapshots expire.
    - `is_local`: the files lie in a file system, not in an object store.
    - `inside`: other tables whose files lie below this table's location.
    - `keeps_files`: the table's properties forbid to delete files.
    """

    data_files: int = 0
    data_bytes: int = 0
    rows: int = 0
    small: int = 0
    crowd: int = 0
    delete_files: int = 0
    deleted_rows: int = 0
    manifests: int = 0
    full_manifests: int = 0
    snapshots: int = 0
    since_tagged: int = 0
    tagged_ms: int | None = None
    branch_age_ms: int | None = None
    is_local: bool = True
    inside: tuple[str, ...] = ()
    keeps_files: bool = False


@dataclass(frozen=True)
class Staging:
    """An intermediate table as one load shows it: the complete batches among what its newest snapshot holds."""

    snapshot_id: int
    batches: tuple[StagedBatch, ...]


@dataclass(frozen=True)
class Head:
    """The newest snapshot of a branch.

    `statements` are those that the publish has yet to run, for a destination that has no branches.
    """

    snapshot_id: int
    parent_id: int | None
    summary: dict[str, str]
    statements: tuple[str, ...] = ()


@dataclass(frozen=True)
class StagedSource:
    """The staged rows that a publish reads, where it reads them itself: one attempt at one batch."""

    intermediate: str
    batch: int
    attempt: str


@dataclass(frozen=True)
class TableCommit:
    """One compare-and-swap: main moves from `cut` to `head` if table, schema and main are still those named here.

    In the same commit `properties` are set on the table, and `tag`, where there is one, moves to `head`. A destination
    without branches runs `statements` in that commit, if all rows of `source` are still there and the answer to each of
    `audits`, which is a question and the user's words for it, is 0; what it leaves tells of `attempt`.
    """

    table: str
    uuid: str
    schema_id: int
    cut: int
    branch: str
    head: int
    properties: dict[str, str]
    tag: str | None = None
    pipeline: str = ""
    attempt: str = ""
    statements: tuple[str, ...] = ()
    source: StagedSource | None = None
    audits: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Reparenting:
    """What decides whether written rows may be put onto a newer main without merging them again.

    `keys` are what the merge was filled with: no newer file may hold one. None: rows are added whatever main holds.
    """

    keys: MergeInput | None = None


class PastSnapshot(NamedTuple):
    """A snapshot in a table's history, with at most how many rows it changed; None where its writer does not tell.

    `pipeline` and `batch` tell what published it; empty and None for another writer's.
    """

    snapshot_id: int
    at_ms: int
    rows: int | None
    pipeline: str = ""
    batch: int | None = None


@dataclass(frozen=True)
class Rollback:
    """What lies between a table that was rolled back and the last snapshot that a pipeline published.

    `head` is where the table stands, `tagged` that last snapshot. `returning` are the snapshots that lead to `tagged`
    and not to `head`, `lost` those that lead to `head` only; newest first both. `is_traceable`: the two lines meet, so
    that nothing is unknown between them. `rows_now` and `rows_then` count the rows of the two, None where not exact.
    """

    head: int
    tagged: int
    returning: tuple[PastSnapshot, ...]
    lost: tuple[PastSnapshot, ...]
    is_traceable: bool = True
    rows_now: int | None = None
    rows_then: int | None = None

    @property
    def lost_changes(self) -> tuple[PastSnapshot, ...]:
        """Those of `lost` that changed rows, or do not tell: a compaction did not."""
        return tuple(snapshot for snapshot in self.lost if snapshot.rows != 0)


class WaitingLetter(NamedTuple):
    """The place of a record that could not be read; `topic_id` is None where that was not known, or not kept yet.

    `message` is the reason, `written_at` when the record was set aside. `replayed_by` is the staged attempt of the
    replay that has read it; None where none has, and where that is not kept.
    """

    topic: str
    partition: int
    offset: int
    topic_id: str | None
    message: str = ""
    written_at: datetime | None = None
    replayed_by: str | None = None


@dataclass(frozen=True, kw_only=True)
class DeadLetter:
    """A record that could not be read, as it came, and why.

    `timestamp`, `key`, `value` and `headers` are the record's own. `stage` is key, value or `DISCARDED_STAGE`,
    `error_class` the kind of the reason, `message` its text. `batch` and `attempt` set it aside for `table`, at
    `written_at`. `replayed_at` is None while it waits, `topic_id` where that was not known, or not kept yet.
    """

    table: str
    topic: str
    partition: int
    offset: int
    timestamp: datetime | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    stage: str
    error_class: str
    message: str
    batch: int
    attempt: str
    written_at: datetime | None
    replayed_at: datetime | None = None
    topic_id: str | None = None

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "DeadLetter":
        """Of one row of a dead-letter table; that of a version before has no column `topic_id`."""
        known = {field.name: row[field.name] for field in fields(cls) if field.name in row}
        return cls(**{**known, "headers": tuple((header["key"], header["value"]) for header in row["headers"] or ())})

    @property
    def place(self) -> WaitingLetter:
        """Where it lies, and why."""
        return WaitingLetter(
            topic=self.topic,
            partition=self.partition,
            offset=self.offset,
            topic_id=self.topic_id,
            message=self.message,
            written_at=self.written_at,
        )


@dataclass(frozen=True)
class DeadLetters:
    """A pipeline's records that could not be read: how many wait, and the newest few of these.

    `replayed` were brought in by a replay, `discarded` given up by a person.
    """

    waiting: int = 0
    replayed: int = 0
    newest: tuple[DeadLetter, ...] = ()
    discarded: int = 0


DISCARDED_STAGE = "discarded"  # of a dead letter that a person has given up; else key or value


@dataclass(frozen=True)
class SignedAttempt:
    """An attempt whose job has left all of its files in a folder: what was asked, and whether its rows came in."""

    batch: int
    attempt: str
    request: str
    ranges: Ranges
    is_landed: bool = False
