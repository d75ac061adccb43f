"""What brokers say of a topic's log: begin and end offsets, retention, and a message to produce."""

from dataclasses import dataclass, field
from typing import NamedTuple

from tidegate.model.offsets import Offsets


@dataclass(frozen=True)
class Log:
    """What the brokers hold of some topics: per partition the first offset kept, and the end for this isolation.

    `epochs` are those of the leaders that told the ends; absent where brokers keep none.
    """

    cluster_id: str
    topic_ids: dict[str, str]
    begin: Offsets
    end: Offsets
    epochs: Offsets = field(default_factory=dict)

    def add_topics(self, other: "Log") -> "Log":
        """This log and that of other topics as one, of the other's cluster."""
        return Log(
            other.cluster_id,
            self.topic_ids | other.topic_ids,
            self.begin | other.begin,
            self.end | other.end,
            epochs=self.epochs | other.epochs,
        )


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
