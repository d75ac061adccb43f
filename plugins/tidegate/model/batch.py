"""One batch on its way: planned as ranges, staged as rows of the intermediate table, published as a snapshot."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from itertools import groupby
from typing import Any, NamedTuple, TypedDict, TypeVar

from tidegate.model.offsets import Offsets, Ranges, find_highest
from tidegate.model.plain_data import read_plain
from tidegate.model.position import Position, WatermarkSide
from tidegate.model.unknown_fields import UnknownFields
from tidegate.schema.data_types import Column


class PublishOutcome(StrEnum):
    """How a merge or a backfill's slice ended; each is a success."""

    PUBLISHED = "published"
    ALREADY_PUBLISHED = "already published"  # by an attempt before this one
    ALREADY_APPLIED = "already applied"  # the same of a slice of a backfill
    NO_ROWS = "no rows"


@dataclass(frozen=True, kw_only=True)
class RowChanges:
    """Rows of the destination by what a publish did to them."""

    inserted: int
    updated: int
    deleted: int


class CostCounts(TypedDict):
    """The bytes of `PublishCost` as a part of each row about a batch."""

    bytes_scanned: int | None
    bytes_billed: int | None
    bytes_written: int | None


@dataclass(frozen=True, kw_only=True)
class PublishCost:
    """What a publish cost in bytes, each None if the destination does not count them, and the `job` that did it."""

    bytes_scanned: int | None = None  # what a dry run said that it would read
    bytes_billed: int | None = None
    bytes_written: int | None = None  # the data and delete files of its snapshot
    job: str = ""

    def to_counts(self) -> CostCounts:
        return {
            "bytes_scanned": self.bytes_scanned,
            "bytes_billed": self.bytes_billed,
            "bytes_written": self.bytes_written,
        }

    def add_cost(self, later: "PublishCost") -> "PublishCost":
        """Add up both costs; `job` is the later one."""
        pairs = {name: (getattr(self, name), getattr(later, name)) for name in COST_COUNTS}
        counts = {name: None if pair == (None, None) else sum(filter(None, pair)) for name, pair in pairs.items()}
        return PublishCost(**counts, job=later.job or self.job)


COST_COUNTS = tuple(word.name for word in fields(PublishCost) if word.name != "job")
NOTHING_PUBLISHED = PublishCost(bytes_written=0)


def pick_cost_counts(row: CostCounts) -> CostCounts:
    return {
        "bytes_scanned": row["bytes_scanned"],
        "bytes_billed": row["bytes_billed"],
        "bytes_written": row["bytes_written"],
    }


def read_cost(summary: Mapping[str, str] | None) -> PublishCost:
    if summary is None:
        return NOTHING_PUBLISHED
    # Iceberg leaves out what it has not added, and counts files in every snapshot
    added_bytes = summary.get("added-files-size", "0" if "total-data-files" in summary else None)
    cost_texts = {"bytes_written": added_bytes} | {
        f"bytes_{name}": summary.get(f"tidegate.bytes-{name}") for name in ("scanned", "billed")
    }
    counts = {name: None if value is None else int(value) for name, value in cost_texts.items()}
    return PublishCost(**counts, job=summary.get("tidegate.job", ""))


# What can become of a record that was read: the counts of these add up to `read`.
FATES = ("staged", "superseded", "filtered", "ignored", "dead_lettered")
RECORD_COUNTS = ("read", *FATES)


@dataclass(frozen=True)
class Counts:
    """Where a batch's records went; `span` counts offsets, all others records."""

    span: int = 0
    read: int = 0
    staged: int = 0
    superseded: int = 0  # a later record has this raw key
    filtered: int = 0  # `when` excludes them
    ignored: int = 0  # deletes that the table does not apply
    dead_lettered: int = 0  # they were set aside

    @property
    def gaps(self) -> int:
        """Offsets without a record: transaction markers, aborted records, compaction."""
        return self.span - self.read

    @property
    def to_write(self) -> int:
        return self.staged + self.dead_lettered

    def explain_imbalance(self) -> str | None:
        """Return a sentence if the records do not add up, else None."""
        if self.read == sum(getattr(self, name) for name in FATES) and self.gaps >= 0:
            return None
        counts_text = " ".join(f"{name}={value}" for name, value in asdict(self).items())
        return f"the records do not add up: {counts_text}; nothing was merged"


def exceeds_tolerance(bad: int, set_aside: int) -> bool:
    """Whether a batch has more bad records than may be set aside: then the schema is wrong, not a record."""
    return bad > set_aside


Batch = TypeVar("Batch")


def take_ends(queue: Sequence[Batch]) -> Sequence[Batch]:
    """Return the first and the last batch of a queue. A thousand leave as much as two; those between are read again."""
    return [*queue[:1], *queue[1:][-1:]]


@dataclass(frozen=True)
class PlannedBatch:
    """What `plan` decided for one table."""

    table: str
    batch: int
    ranges: Ranges
    attempt: str | None = None  # set if a batch that is already staged is resumed
    follows: str = ""  # the attempt of the staged batch before this one; empty if it starts at the position
    watermark: WatermarkSide = WatermarkSide.INSIDE
    last_per_key: bool = False  # of each raw key's records only the last is decoded and staged
    # the share of records with a later one of their key, by a sample; None without one
    superseded_share: float | None = None
    added: tuple[Column, ...] = ()  # columns that records made of the batches before it, as in `StagedBatch`

    @property
    def keys_differ(self) -> bool:
        return self.last_per_key or self.superseded_share is not None

    @property
    def is_resumed(self) -> bool:
        return self.attempt is not None

    def to_dict(self) -> dict[str, Any]:
        return {
            "table": self.table,
            "batch": self.batch,
            "offsets": self.ranges.span,
            "resumed_attempt": self.attempt,
            "follows": self.follows,
            "watermark": self.watermark,
            "last_per_key": self.last_per_key,
            "superseded_share": self.superseded_share,
            "added": [asdict(column) for column in self.added],
            "ranges": self.ranges.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "PlannedBatch":
        return read_plain(cls, {**data, "attempt": data["resumed_attempt"]})


class PlanScope(StrEnum):
    """Which batches a plan holds: those of a whole flush, or those of one of its two clocks.

    - `NEW`: new batches alone.
    - `STAGED`: those that wait in the queues.
    """

    ALL = "all"
    NEW = "new"
    STAGED = "staged"


@dataclass(frozen=True)
class Refusal:
    """A table that a run leaves as it is while the others go on; `kind` names the error, `message` is its text."""

    table: str
    kind: str
    message: str


@dataclass(frozen=True)
class Plan:
    """The batches of one run and the log that they were cut from."""

    # for each table that has work, the batches in its queue, oldest first, then the new one
    tables: tuple[PlannedBatch, ...]
    cluster_id: str
    topic_ids: dict[str, str]
    wait_reason: str = ""  # why no table gets a new batch
    refusals: tuple[Refusal, ...] = ()  # the tables that cannot go on, and why
    offsets_left: int = 0  # the offsets that no batch reaches, of the table that is farthest behind
    size_reason: str = ""  # why a batch takes less than the pipeline file allows
    epochs: Offsets = field(default_factory=dict)

    def shorten(self) -> "Plan":
        """Return the plan with the first and the last batch of each queue, and without those between."""
        tables = list[PlannedBatch]()
        for (_, is_resumed), batches in groupby(self.tables, key=lambda batch: (batch.table, batch.is_resumed)):
            queue = list(batches)
            tables += take_ends(queue) if is_resumed else queue
        return replace(self, tables=tuple(tables))

    def to_dict(self) -> dict[str, Any]:
        return {
            "tables": [table.to_dict() for table in self.tables],
            "cluster_id": self.cluster_id,
            "topic_ids": self.topic_ids,
            "held": self.wait_reason,
            "refused": [asdict(refusal) for refusal in self.refusals],
            "left": self.offsets_left,
            "sized": self.size_reason,
            "epochs": self.epochs,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Plan":
        other_names = {
            "wait_reason": data["held"],
            "refusals": data["refused"],
            "offsets_left": data["left"],
            "size_reason": data["sized"],
        }
        return read_plain(cls, {**data, **other_names})


class StagedPart(NamedTuple):
    """Which rows of an intermediate table are those of one batch."""

    batch: int
    attempt: str


@dataclass(frozen=True)
class StagedBatch:
    """A batch whose rows are in the intermediate table, at `snapshot_id`."""

    table: str
    batch: int
    attempt: str
    snapshot_id: int
    ranges: Ranges
    counts: Counts
    timestamps: Offsets = field(default_factory=dict)
    cluster_id: str = ""
    topic_ids: dict[str, str] = field(default_factory=dict)
    table_uuid: str | None = None  # of the destination when the batch was staged; None if it did not exist yet
    # identifies the staged schema; without a value schema a dot follows, and the shape by the file alone
    shape: str = ""
    follows: str = ""  # the attempt of the batch before it when it was planned; empty for none
    watermark: WatermarkSide = WatermarkSide.INSIDE
    keys_differ: bool = False  # nearly all rows have different keys; False also if unknown
    # the batches before it that are merged with it; `ranges` and counts are then those of all
    ahead: tuple[StagedPart, ...] = ()
    deletes: int = 0  # counted with `sequence_by` only
    unsequenced_deletes: int = 0
    kept: int = 0  # rows that keep some value of the table
    truncated_at: int | None = None  # the offset of its last truncate, which removes all rows of earlier offsets
    unknown_fields: UnknownFields | None = None  # what its rows hold beside the columns
    # columns of its rows that records made, beside those that the destination had when the rows were staged
    added: tuple[Column, ...] = ()
    bytes: int = 0  # 0 if unknown
    stage_seconds: float = 0.0
    epochs: Offsets = field(default_factory=dict)

    @property
    def row_shape(self) -> str:
        """The shape with the columns that the destination had when the rows were staged."""
        return self.shape.partition(".")[0]

    @property
    def parts(self) -> tuple[StagedPart, ...]:
        return (*self.ahead, StagedPart(self.batch, self.attempt))

    @property
    def label(self) -> str:
        return f"batches={self.ahead[0].batch}-{self.batch}" if self.ahead else f"batch={self.batch}"

    def to_dict(self) -> dict[str, Any]:
        # JSON numbers lose precision above 2^53 in a browser, and snapshot ids are 63 bits long
        unknown_fields = None if self.unknown_fields is None else self.unknown_fields.to_dict()
        own = {"ranges": self.ranges.to_dict(), "unknown_fields": unknown_fields}
        return {**asdict(self), **own, "snapshot_id": str(self.snapshot_id)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "StagedBatch":
        return read_plain(cls, data)

    def compute_end_position(self, before: Position | None) -> Position:
        """Return the table's position after this batch; `before` is the position at which it starts."""
        return Position(
            offsets=self.ranges.end,
            batch=self.batch,
            staged_attempt=self.attempt,
            timestamps=find_highest(before.timestamps if before else {}, self.timestamps),
            cluster_id=self.cluster_id,
            topic_ids=self.topic_ids,
            epochs=self.epochs,
            outside=self.watermark == WatermarkSide.OUTSIDE,
        )


@dataclass(frozen=True, kw_only=True)
class PublishResult(PublishCost, RowChanges):
    """What a merge, or a slice of a backfill, did to one table. `snapshot_id`: None if it had no rows and made none."""

    table: str
    ranges: Ranges
    staged: int
    seconds: float
    snapshot_id: int | None
    outcome: PublishOutcome = PublishOutcome.PUBLISHED

    def to_dict(self) -> dict[str, Any]:
        snapshot = None if self.snapshot_id is None else str(self.snapshot_id)
        return {**asdict(self), "ranges": self.ranges.to_dict(), "snapshot_id": snapshot}


@dataclass(frozen=True, kw_only=True)
class PublishedBatch(PublishResult):
    """The result of a merge, of one batch or of several as one."""

    batch: int
    valid_through_ms: int | None
    batches: int = 1
    written_as: str = ""  # how the rows were written into the table, empty if there were none

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "PublishedBatch":
        return read_plain(cls, data)

    def add(self, later: "PublishedBatch") -> "PublishedBatch":
        sums = ("staged", "inserted", "updated", "deleted", "batches")
        return replace(
            later,
            **{name: getattr(self, name) + getattr(later, name) for name in sums},
            ranges=self.ranges.extend_to(later.ranges),
            seconds=round(self.seconds + later.seconds, 2),
            snapshot_id=self.snapshot_id if later.snapshot_id is None else later.snapshot_id,
            valid_through_ms=later.valid_through_ms or self.valid_through_ms,
            outcome=self.outcome if later.snapshot_id is None else later.outcome,
            **vars(self.add_cost(later)),
            written_as=self.written_as if later.snapshot_id is None else later.written_as,
        )
