"""The port to Kafka."""

from collections.abc import Collection, Sequence
from typing import Protocol

from tidegate.model.kafka_log import Epochs, KafkaRecord, Log, Message, Retention
from tidegate.model.offsets import Offsets, Ranges, RecordAddress


class Broker(Protocol):
    """Kafka, as far as the steps need it.

    `isolation` is read_committed or read_uncommitted; times are milliseconds. Brokers that do not answer raise
    `RetryLater`, a refused log-in `GiveUp`. Reading changes nothing and may be repeated.
    """

    def list_topics(self, pattern: str) -> tuple[str, ...]:
        """Topics that match the whole pattern, in order, without the brokers' own; empty without one."""

    def read_log(self, topics: tuple[str, ...], isolation: str) -> Log:
        """Cluster id, topic ids, leader epochs, and per partition the first offset kept and the one after the last.

        Under read_committed the end is the last stable offset: an open transaction keeps it back. `PositionLost` names
        missing topics; no topics give an empty log.
        """

    def read_topic_ids(self, topics: tuple[str, ...]) -> tuple[str, dict[str, str]]:
        """Cluster id and topic ids, as the brokers say now: never cached. `PositionLost` names missing topics."""

    def read_end_offsets(self, topics: tuple[str, ...], isolation: str) -> Offsets:
        """In one request; leaves out what is missing or does not answer."""

    def find_offsets_at(self, topics: tuple[str, ...], timestamp_ms: int) -> Offsets:
        """Per partition the first offset whose record is at or after a time, or the end."""

    def filter_compacted(self, topics: tuple[str, ...]) -> tuple[str, ...]:
        """The `topics`, in their order, whose `cleanup.policy` contains `compact`."""

    def read_timestamps(
        self, places: Collection[RecordAddress], isolation: str = "read_committed"
    ) -> dict[RecordAddress, int]:
        """Times of the first records at or after these offsets, by place; one read for all.

        Absent where none comes within a look's time limit.
        """

    def read_records(self, topic: str, partition: int, offsets: range, isolation: str) -> tuple[KafkaRecord, ...]:
        """The records at these offsets, in order; those that a reader of that isolation does not find are left out."""

    def read_newest_timestamps(self, ends: Offsets) -> Offsets:
        """Time of the last record before each partition's end, in the shape of offsets; absent where there is none."""

    def read_retention(self, topics: tuple[str, ...]) -> dict[str, Retention]:
        """How long each topic keeps its records."""

    def read_group_retention(self) -> float | None:
        """Seconds from an offset's last commit to its expiry; None where the brokers do not say."""

    def send(self, topic: str, records: Sequence[Message]) -> None:
        """Produce and wait until the brokers have the records; creates a missing topic with one partition.

        `RetryLater` if some may not have arrived, `RecordRefused` for one that is too large. A repeat call produces all
        again.
        """

    def read_leader_epochs(self, ranges: Ranges, isolation: str) -> Epochs:
        """Per partition with epochs, the (offset, epoch) at which each leader's epoch begins."""

    def find_log_cuts(self, offsets: Offsets, epochs: Offsets) -> Offsets:
        """Of the partitions in `epochs`, those whose log was cut before the offset, with the place of the cut.

        An epoch's leader had a log up to the offset; later leaders had less of it, and wrote other records from there
        on. Absent where the brokers cannot tell.
        """

    def sample_keys(self, ranges: Ranges) -> dict[tuple[str, int], list[bytes | None]]:
        """Keys of a few records from all over the ranges; only of large partitions, and as far as they come at once."""

    def read_committed(self, group: str, topics: tuple[str, ...]) -> Offsets:
        """The group's committed offsets; partitions without one are absent."""

    def commit(self, group: str, offsets: Offsets, beat_ms: int | None = None) -> int | None:
        """Commit the offsets and read them back; returns the time of the previous heartbeat, or None.

        `beat_ms` replaces that time. `RetryLater` where the group then has other offsets: another client commits to
        it. A repeat call commits again, which keeps the offsets from expiring.
        """
