"""What a destination says of its tables, as one look shows it, and the commit that publishes rows there."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, NamedTuple

from tidegate.model.batch import StagedBatch, StagedPart
from tidegate.model.merge_input import MergeInput
from tidegate.model.offsets import Offsets, Ranges
from tidegate.model.position import Position
from tidegate.schema.data_types import Column, Struct
from tidegate.schema.evolution import to_struct

NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # what brokers tell that do not know the id: all bits are zero


def is_recreated(recorded_id: str, topic_id: str) -> bool:
    """Whether a topic was deleted and created again since its id was recorded; False if either id is unknown."""
    return recorded_id != topic_id and NO_TOPIC_ID not in (recorded_id, topic_id)


def is_another_cluster(recorded_id: str, cluster_id: str) -> bool:
    """Whether the brokers are another cluster than the recorded one; False if either id is unknown."""
    return bool(recorded_id and cluster_id) and recorded_id != cluster_id


@dataclass(frozen=True)
class TableState:
    """A destination table as one load of its metadata shows it.

    Main means here the branch that the pipeline writes.
    """

    uuid: str
    snapshot_id: int | None
    schema_id: int
    # where the table stands; after a rollback that of the newest ancestor of main that carries one
    position: Position | None
    highest_batch: int  # the highest batch number that was used; it never falls
    columns: tuple[Column, ...]
    is_rolled_back: bool = False  # the last published snapshot is not an ancestor of main
    recorded_position: Position | None = None  # what the pipeline published last
    snapshot_ms: int = 0
    snapshots_since_publish: int = 0  # snapshots of others above the last published one
    # the table's properties that belong to the pipeline (`tidegate.<pipeline>.`)
    marks: dict[str, str] = field(default_factory=dict)
    is_untraceable: bool = False  # snapshots that would show a rollback have expired
    is_untagged: bool = False  # the tag on the last published snapshot is missing
    # a rolled back batch whose snapshot alone was picked onto main; `position` is then unknown
    cherry_picked_batch: int | None = None
    is_position_lost: bool = False  # the pipeline has written rows, and the record of its position is missing
    schema: Struct | None = None
    # paths of columns that were dropped and added again, and that no batch has filled since
    emptied_columns: frozenset[tuple[str, ...]] = frozenset()
    has_maps: bool = True  # False if the destination has no maps, and a column holds their entries
    kind: str = ""  # of a table of the product's own; empty for others
    total_records: int | None = None  # the rows in its data files, deleted ones included; None if unknown
    rewrites_files: bool = False  # a merge replaces whole files
    format_version: int | None = None  # Iceberg's
    dropped_partition: str = ""  # a partition whose column was dropped
    takes_any_schema: bool = False  # so that Spark does not look for the columns of a merge
    reserved_columns: tuple[str, ...] = ()  # names, case-folded, that no column may have in a table that is merged into

    @property
    def struct(self) -> Struct:
        """The columns, with what is required and the other names of its fields."""
        return to_struct(self.columns) if self.schema is None else self.schema

    @property
    def lasting_position(self) -> Position | None:
        """What the pipeline published last; None after a rollback: it may read older records again."""
        return None if self.is_rolled_back else self.recorded_position


@dataclass(frozen=True)
class TableFiles:
    """The files of a table, by its current snapshot."""

    data_files: int = 0
    data_bytes: int = 0  # the size of all files, of rows and of deletes
    rows: int = 0
    small_files: int = 0  # files below three quarters of the target size
    max_small_files_per_partition: int = 0
    delete_files: int = 0
    deleted_rows: int = 0
    manifests: int = 0
    full_manifests: int = 0  # those near the size that manifests are written with
    snapshots: int = 0
    snapshots_since_tag: int = 0  # snapshots of main down to the farthest one that a pipeline has tagged as its last
    oldest_tagged_ms: int | None = None  # the oldest time of the snapshots between a branch and a tag
    branch_age_ms: int | None = None  # the shortest age at which a branch lets its own snapshots expire
    kept_snapshots: int = 0  # by the table's own properties so many snapshots of a branch never expire,
    kept_ms: int = 0  # nor those that are younger
    is_local: bool = True  # the files lie in a file system, not in an object store
    nested_tables: tuple[str, ...] = ()  # other tables whose files lie below this table's location
    forbids_file_deletion: bool = False
    paths_elsewhere: tuple[str, ...] = ()  # the table's properties that put new files outside of its location
    has_location: bool = True  # False if there is no such folder, as all files were put elsewhere


@dataclass(frozen=True)
class FolderLimit:
    """A partition that names a folder by a value: `column` is its path, `width` how much of it counts.

    The value, percent-encoded, has at most `max_bytes` there.
    """

    column: tuple[str, ...]
    width: int | None
    max_bytes: int


@dataclass(frozen=True)
class Staging:
    """An intermediate table as one load shows it: the complete batches in its newest snapshot."""

    snapshot_id: int
    batches: tuple[StagedBatch, ...]


@dataclass(frozen=True)
class Head:
    """The newest snapshot of a branch.

    `statements` are those that the publish has yet to run, for a destination without branches.
    """

    snapshot_id: int
    parent_id: int | None
    summary: dict[str, str]
    statements: tuple[str, ...] = ()


@dataclass(frozen=True)
class StagedSource:
    """The staged rows that a publish reads itself: those of some batches."""

    intermediate: str
    parts: tuple[StagedPart, ...]


@dataclass(frozen=True)
class TableCommit:
    """One compare-and-swap: main moves from `cut` to `head` if table, schema and main are still those named here.

    In this commit `properties` are set, and `tag` moves to `head`. A destination without branches runs `statements` in
    it, if all rows of `source` are still there and the answer to each of `audits` (question and user's words) is 0.
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
    """What decides whether written rows may be put onto a newer main without another merge."""

    keys: MergeInput | None = None  # no newer file may hold one of these. None: rows are added whatever main holds


class PastSnapshot(NamedTuple):
    """A snapshot in a table's history, with at most how many rows it changed; None if unknown.

    `pipeline` and `batch` published it; empty and None for another writer's.
    """

    snapshot_id: int
    at_ms: int
    rows: int | None
    pipeline: str = ""
    batch: int | None = None


@dataclass(frozen=True)
class Rollback:
    """What lies between a rolled back table and the last snapshot that a pipeline published."""

    current_snapshot_id: int  # the head of main
    tagged_snapshot_id: int  # the last published snapshot
    returning_snapshots: tuple[PastSnapshot, ...]  # those that come back if the rollback is undone, newest first
    discarded_snapshots: tuple[PastSnapshot, ...]  # those that are discarded then, newest first
    is_traceable: bool = True  # the two have a common ancestor, so that no snapshot between them is unknown
    rows_now: int | None = None  # of the current snapshot, None if not exact
    rows_then: int | None = None  # of the tagged snapshot

    @property
    def discarded_changes(self) -> tuple[PastSnapshot, ...]:
        """Those of `discarded_snapshots` that may have changed rows. A compaction changes none."""
        return tuple(snapshot for snapshot in self.discarded_snapshots if snapshot.rows != 0)


class CarriedPosition(NamedTuple):
    """A snapshot that carries a pipeline's position; `is_batch` if a batch brought it there, and not a move alone."""

    snapshot_id: int
    at_ms: int
    batch: int
    staged_attempt: str
    offsets: Offsets
    is_batch: bool


@dataclass(frozen=True)
class SnapshotLine:
    """The snapshots that a table stands on: the `positions` that they carry, oldest first.

    `gone`: those that it does not stand on, by a rollback or because they were never published. `staying`: those that
    it stands on, or has picked. Of one in neither, as it has expired, it is not known.
    """

    positions: tuple[CarriedPosition, ...] = ()
    gone: frozenset[int] = frozenset()
    staying: frozenset[int] = frozenset()


class WaitingLetter(NamedTuple):
    """The place of a record that could not be read; `topic_id` is None if unknown.

    `message` is the reason. `replayed_by` is the staged attempt of the replay that has read it, or None.
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

    `timestamp`, `key`, `value` and `headers` are the record's own. `stage` is key, value or `DISCARDED_STAGE`.
    `replayed_at` is None while it waits, `topic_id` if unknown.
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
        """Read one row of a dead-letter table; columns that somebody has added are ignored."""
        known = {field.name: row[field.name] for field in fields(cls)}
        return cls(**{**known, "headers": tuple((header["key"], header["value"]) for header in row["headers"] or ())})

    @property
    def place(self) -> WaitingLetter:
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
    """An attempt whose job has left all of its files in a folder: the request, and whether its rows came in."""

    batch: int
    attempt: str
    request: str
    ranges: Ranges
    is_landed: bool = False
