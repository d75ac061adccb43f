"""What brokers say of a topic's log: begin and end offsets, retention, and a message to produce."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from tidegate.model.offsets import Offsets, get_offset, group_by_topic, iterate_offsets

# partition -> (first offset, epoch), ascending
Epochs = dict[str, dict[int, list[tuple[int, int]]]]
# the first record at or after an offset as (offset, epoch), None where none comes before the range's end
EpochLookup = Callable[[int], tuple[int, int | None] | None]


def find_epoch_starts(look: EpochLookup, start: int, end: int) -> list[tuple[int, int]]:
    """Return where in ``[start, end)`` each epoch begins; empty if the broker keeps none.

    Epochs grow with the offset: two looks are enough for one epoch, some twenty find each change in a million records.
    """
    epoch_starts: list[tuple[int, int]] = []
    at = start
    while at < end:
        record = look(at)
        if record is None or record[1] is None:
            return epoch_starts
        epoch_starts.append((at, record[1]))
        at = _find_next_epoch_offset(look, at, end, record[1])
    return epoch_starts


def _find_next_epoch_offset(look: EpochLookup, start: int, end: int, epoch: int) -> int:
    same_end = start
    other_end = end
    probe = end - 1  # most ranges are of one epoch: looked at first, the last record ends the search
    while other_end - same_end > 1:
        record = look(probe)
        if record is not None and record[1] == epoch:
            same_end = max(probe, min(record[0], end - 1))
        else:
            other_end = probe
        probe = (same_end + other_end) // 2
    return other_end


@dataclass(frozen=True)
class Log:
    """What the brokers hold of some topics: per partition the first offset kept, and the end for this isolation.

    `epochs` are those of the leaders that answered for the ends; absent if brokers keep none.
    """

    cluster_id: str
    topic_ids: dict[str, str]
    begin: Offsets
    end: Offsets
    epochs: Offsets = field(default_factory=dict)

    def add_topics(self, other_log: "Log") -> "Log":
        """Add other topics to this log; the cluster is the other's."""
        return Log(
            other_log.cluster_id,
            self.topic_ids | other_log.topic_ids,
            self.begin | other_log.begin,
            self.end | other_log.end,
            epochs=self.epochs | other_log.epochs,
        )

    def find_begins_behind(self, offsets: Offsets) -> Offsets:
        """Return the log's begin in each partition that has lost records from the offset on."""
        begins = [(t, p, o, get_offset(self.begin, t, p)) for t, p, o in iterate_offsets(offsets)]
        return group_by_topic({(t, p): begin for t, p, o, begin in begins if begin is not None and begin > o})

    def find_older_epochs(self, epochs: Offsets, offsets: Offsets) -> Offsets:
        """Return the epochs of partitions that have a newer leader now and still hold the offset."""
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
    """How long a topic keeps records (None: for ever) and tombstones (None: no compaction), in milliseconds."""

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
