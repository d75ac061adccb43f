"""The port to Kafka."""

from collections.abc import Sequence
from typing import Protocol

from tidegate.model.kafka_log import Log, Message, Retention
from tidegate.model.leader_epochs import Epochs
from tidegate.model.offsets import Offsets, Ranges


class Broker(Protocol):
    """Kafka, as far as the steps need it."""

    def list_topics(self, pattern: str) -> tuple[str, ...]:
        """Names of the existing topics that match the whole pattern."""
        ...

    def read_log(self, topics: tuple[str, ...], isolation: str) -> Log:
        """Begin and end offsets; `PositionLost` names a topic that does not exist."""
        ...

    def read_end_offsets(self, topics: tuple[str, ...], isolation: str) -> Offsets:
        """End offsets alone, in one request; what is not there, or does not answer, is left out."""
        ...

    def find_offsets_at(self, topics: tuple[str, ...], timestamp_ms: int) -> Offsets:
        """First offset at or after a time, the end where there is none."""
        ...

    def filter_compacted(self, topics: tuple[str, ...]) -> tuple[str, ...]:
        """Those whose clean-up policy keeps only the last record of each key."""
        ...

    def read_timestamp(self, topic: str, partition: int, offset: int, isolation: str = "read_committed") -> int | None:
        """Milliseconds of the first record at or after `offset`; None where none comes in time."""
        ...

    def read_newest_timestamps(self, ends: Offsets) -> Offsets:
        """Milliseconds of the last record before each partition's end; absent where there is none."""
        ...

    def read_retention(self, topics: tuple[str, ...]) -> dict[str, Retention]:
        """How long each topic keeps its records."""
        ...

    def read_group_retention(self) -> float | None:
        """Seconds after its last commit at which an offset of a group is forgotten; None where they will not say."""
        ...

    def send(self, topic: str, records: Sequence[Message]) -> None:
        """Produce records to a topic, created if missing; `RetryLater` if they may not have arrived."""
        ...

    def read_leader_epochs(self, ranges: Ranges, isolation: str) -> Epochs:
        """For each partition where the brokers keep them: the offsets at which a leader's epoch begins, and it."""
        ...

    def sample_keys(self, ranges: Ranges) -> dict[tuple[str, int], list[bytes | None]]:
        """Keys of a few records from all over the ranges; of large partitions, and only those that come at once."""
        ...

    def read_committed(self, group: str, topics: tuple[str, ...]) -> Offsets:
        """The group's committed offsets; partitions without one are absent."""
        ...

    def commit(self, group: str, offsets: Offsets, beat_ms: int | None = None) -> int | None:
        """Commit and read back, or `RetryLater`; returns the last heartbeat's time, replaced by one that is given."""
        ...
