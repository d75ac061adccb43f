"""The port to Kafka."""

from collections.abc import Collection, Sequence
from typing import Protocol

from tidegate.model.kafka_log import Epochs, KafkaRecord, Log, Message, Retention
from tidegate.model.offsets import Offsets, Ranges, RecordAddress


class Broker(Protocol):
    """Kafka, as far as the steps need it.

    `isolation` is read_committed or read_uncommitted; times are milliseconds. Brokers that do not answer raise
    `RetryLater`, a log-in that they refuse `GiveUp`. What reads changes nothing and may be called again.
    """

    def list_topics(self, pattern: str) -> tuple[str, ...]:
        """Names of the existing topics that match the whole pattern, in order; empty where none does."""
        ...

    def read_log(self, topics: tuple[str, ...], isolation: str) -> Log:
        """Cluster id, topic ids, and per partition the first offset kept and the one after the last.

        Under read_committed the end is the last stable offset: a transaction that is open keeps it back. Besides, the
        epochs of the leaders that said so.
        `PositionLost` names the topics that do not exist; no topics give an empty log.
        """
        ...

    def read_topic_ids(self, topics: tuple[str, ...]) -> tuple[str, dict[str, str]]:
        """Cluster id, and the id of each topic, as the brokers say now: never from what was read before.

        `PositionLost` names the topics that do not exist.
        """
        ...

    def read_end_offsets(self, topics: tuple[str, ...], isolation: str) -> Offsets:
        """End offsets alone, in one request; what is not there, or does not answer, is left out."""
        ...

    def find_offsets_at(self, topics: tuple[str, ...], timestamp_ms: int) -> Offsets:
        """Per partition the first offset whose record is at or after a time, the end where there is none."""
        ...

    def filter_compacted(self, topics: tuple[str, ...]) -> tuple[str, ...]:
        """Those of `topics`, in their order, whose `cleanup.policy` has `compact` in it."""
        ...

    def read_timestamps(
        self, places: Collection[RecordAddress], isolation: str = "read_committed"
    ) -> dict[RecordAddress, int]:
        """Times of the first records at or after these offsets, by place; all are asked for together.

        Absent where none comes within the time that a look may take.
        """
        ...

    def read_record(self, topic: str, partition: int, offset: int, isolation: str) -> KafkaRecord | None:
        """The record at exactly this offset; None where a reader of that isolation finds none there."""
        ...

    def read_newest_timestamps(self, ends: Offsets) -> Offsets:
        """Time of the last record before each partition's end, in the shape of offsets; absent where there is none."""
        ...

    def read_retention(self, topics: tuple[str, ...]) -> dict[str, Retention]:
        """How long each topic keeps its records."""
        ...

    def read_group_retention(self) -> float | None:
        """Seconds after its last commit at which an offset of a group is forgotten; None where they will not say."""
        ...

    def send(self, topic: str, records: Sequence[Message]) -> None:
        """Produce records to a topic, created with one partition if missing, and wait until the brokers have them.

        `RetryLater` if some may not have arrived, `RecordRefused` for one that is too large. A repeat call produces all
        of them again.
        """
        ...

    def read_leader_epochs(self, ranges: Ranges, isolation: str) -> Epochs:
        """For each partition where the brokers keep them: the (offset, epoch) at which each leader's epoch begins."""
        ...

    def find_log_cuts(self, offsets: Offsets, epochs: Offsets) -> Offsets:
        """Of the partitions in `epochs`, those whose log was cut before the offset, by where it was cut.

        An epoch is that of a leader whose log reached the offset; later leaders had less of it, and wrote other
        records from there on. Partitions of which the brokers cannot tell are absent.
        """
        ...

    def sample_keys(self, ranges: Ranges) -> dict[tuple[str, int], list[bytes | None]]:
        """Keys of a few records from all over the ranges; of large partitions, and only those that come at once."""
        ...

    def read_committed(self, group: str, topics: tuple[str, ...]) -> Offsets:
        """The group's committed offsets; partitions without one are absent."""
        ...

    def commit(self, group: str, offsets: Offsets, beat_ms: int | None = None) -> int | None:
        """Commit the offsets and read them back; returns the time of the heartbeat before this call, None without one.

        `beat_ms` replaces that time. `RetryLater` where the group then holds other offsets: another client commits to
        it. A repeat call commits the same again, which keeps the offsets from expiring.
        """
        ...
