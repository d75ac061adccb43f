"""What brokers say of a topic's log: begin and end offsets, retention, and a message to produce."""

from dataclasses import dataclass, field
from typing import NamedTuple

from tidegate.model.offsets import Offsets, get_offset, group_by_topic, iterate_offsets


@dataclass(frozen=True)
class Log:
    """What the brokers hold of some topics: per partition the first offset kept, and the end for this isolation.

    `epochs` are those of the leaders that answered for the ends; absent where brokers keep none.
    """

    cluster_id: str
    topic_ids: dict[str, str]
    begin: Offsets
    end: Offsets
    epochs: Offsets = field(default_factory=dict)

    def add_topics(self, other_log: "Log") -> "Log":
        """This log and that of other topics as one, of the other's cluster."""
        return Log(
            other_log.cluster_id,
            self.topic_ids | other_log.topic_ids,
            self.begin | other_log.begin,
            self.end | other_log.end,
            epochs=self.epochs | other_log.epochs,
        )

    def find_begins_behind(self, offsets: Offsets) -> Offsets:
        """The log's begin in each partition in which it lies behind the offset: the records between are gone."""
        begins = [(t, p, o, get_offset(self.begin, t, p)) for t, p, o in iterate_offsets(offsets)]
        return group_by_topic({(t, p): begin for t, p, o, begin in begins if begin is not None and begin > o})

    def find_older_epochs(self, epochs: Offsets, offsets: Offsets) -> Offsets:
        """The epochs of partitions that have a newer leader now and still hold the offset."""
        older = {}
        for topic, partition, epoch in iterate_offsets(epochs):
            offset = get_offset(offsets, topic, partition)
            begin = get_offset(self.begin, topic, partition)
            is_held = offset is not None and begin is not None and begin <= offset
            if is_held and epoch < (get_offset(self.epochs, topic, partition) or 0):
                older[topic, partition] = epoch
        return group_by_topic(older)


@dataclass(frozen=True)
class Retention:
    """How long a topic keeps records, None for ever, and tombstones, None without compaction, in milliseconds."""

    records_ms: int | None = None
    tombstones_ms: int | None = None


class KafkaRecord(NamedTuple):
    """A record as it lies in the log."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Message(NamedTuple):
    """A record to be produced."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
