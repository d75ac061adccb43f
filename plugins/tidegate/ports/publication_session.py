"""What a publication needs from the outside world: the topics, the table's snapshots, Spark and a clock."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tidegate.jobs.publish_job import TouchedFiles
from tidegate.model.kafka_log import Message
from tidegate.model.offsets import Ranges
from tidegate.model.publication_progress import PartProgress
from tidegate.ports.session import Engine
from tidegate.spec.publication import Publication


@dataclass(frozen=True)
class ExistingTopics:
    """Topic ids, partition counts and offset ranges of those topics of a publication that exist."""

    ids: dict[str, str] = field(default_factory=dict)
    partitions: dict[str, int] = field(default_factory=dict)
    ranges: Ranges = field(default_factory=lambda: Ranges({}))

    @property
    def holds_records(self) -> bool:
        """Whether any record was produced and still exists."""
        return self.ranges.span > 0


@dataclass(frozen=True)
class TableHead:
    """A table's UUID and its current snapshot; None without a snapshot."""

    uuid: str
    snapshot_id: int | None


@dataclass(frozen=True)
class SnapshotLag:
    """Snapshots that changed rows since a snapshot, at most how many rows, and the time of the first."""

    snapshots: int = 0
    rows: int = 0
    since_ms: int | None = None


@dataclass(frozen=True)
class TableSnapshot:
    """One snapshot of a table's current line, with at most how many rows it changed."""

    snapshot_id: int
    at_ms: int
    operation: str
    rows: int


class Topics(Protocol):
    """Kafka, as far as a publication needs it."""

    def find_topics(self, publication: Publication, at_rest: bool = False) -> ExistingTopics:
        """Leaves out missing topics. `GiveUp` names one that is not compacted, unless the file allows that.

        `at_rest` waits a little for transactions that are still being ended; `RetryLater` names one that stays open.
        """

    def create(self, publication: Publication) -> None:
        """Create missing topics, compacted; the state topic has one partition per part. A repeat creates nothing."""

    def send(self, topic: str, records: Sequence[Message]) -> None:
        """Produce and wait for the brokers; creates a missing topic."""

    def read_progress(self, publication: Publication, at_rest: bool = False) -> PartProgress:
        """The newest record of each part; `GiveUp` when the state topic has another number of partitions.

        `at_rest` waits a little for transactions that are still being ended.
        """


class Snapshots(Protocol):
    """A table's history."""

    def read_table(self, name: str) -> TableHead | None:
        """None without a table."""

    def has_snapshot(self, name: str, snapshot_id: int) -> bool:
        """Whether that snapshot has not expired."""

    def find_at(self, name: str, timestamp_ms: int) -> int | None:
        """The snapshot that was current at that time; None before the first, or where it has expired."""

    def measure_lag(self, name: str, old: int | None, new: int) -> SnapshotLag:
        """What lies between the two, from the snapshots' summaries; None stands for an empty table."""

    def list_ancestors(self, name: str, limit: int) -> list[TableSnapshot]:
        """At most `limit`, from the current one down, newest first."""

    def find_touched_files(self, name: str, old: int, new: int) -> TouchedFiles | None:
        """The files in which the two snapshots may differ; None for too many to be listed."""

    def pin(self, name: str, snapshot_id: int, tag: str) -> None:
        """Keep a snapshot from expiring by `tag`; an existing tag stays. `RetryLater` if others commit."""

    def list_pins(self, name: str, prefix: str) -> list[str]:
        """Tags with this prefix, in order."""

    def unpin(self, name: str, tags: list[str]) -> None:
        """Missing tags are passed over, so a repeat call is harmless."""


@dataclass(frozen=True)
class PublicationSession:
    """Everything that the steps may touch, for one publication."""

    publication: Publication
    topics: Topics
    snapshots: Snapshots
    engine: Engine
    now_ms: Callable[[], int]
    new_run: Callable[[], str]
