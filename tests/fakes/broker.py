"""The port `Broker` in memory, with what tests need to fill and to damage the log."""

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidegate.errors import PositionLost, TopicsUnavailable
from tidegate.failpoints import hit_failpoint
from tidegate.model.kafka_log import Epochs, KafkaRecord, Log, Message, Retention
from tidegate.model.offsets import Offsets, Ranges, RecordAddress, group_by_topic, iterate_offsets, merge_offsets

from fakes.clock import Clock
from fakes.numbering import Numbering


@dataclass(frozen=True)
class Record:
    """One offset of the log. `kind` is data, aborted (seen by read_uncommitted only), control or open."""

    offset: int
    key: Any = None
    value: Any = None
    timestamp: int = 0
    kind: str = "data"


@dataclass
class Partition:
    """An in-memory partition; compaction and retention take records out, offsets stay."""

    records: list[Record] = field(default_factory=list)
    begin: int = 0
    end: int = 0
    epochs: list[int] = field(default_factory=lambda: [0])  # the offset at which each leader's began

    def add(self, key: Any, value: Any, timestamp: int, kind: str = "data") -> int:
        self.records.append(Record(self.end, key, value, timestamp, kind))
        self.end += 1
        return self.end - 1

    def find_stable_end(self, isolation: str) -> int:
        """The last stable offset: a transaction that is still open hides all that follows from read_committed."""
        open_offsets = [r.offset for r in self.records if r.kind == "open"]
        return min([self.end, *open_offsets]) if isolation == "read_committed" else self.end

    def read(self, start: int, end: int, isolation: str) -> list[Record]:
        visible_kinds = ("data",) if isolation == "read_committed" else ("data", "aborted", "open")
        return [r for r in self.records if start <= r.offset < end and r.kind in visible_kinds]


class MemoryBroker:
    """The port `Broker` over lists, with what tests need to fill and to damage the log."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or Clock()
        self.cluster_id = "cluster-1"
        self.partitions: dict[str, list[Partition]] = {}
        self.ids: dict[str, str] = {}
        self.groups: dict[str, Offsets] = {}
        self.beat_times_ms: dict[str, int] = {}
        self.retentions: dict[str, Retention] = {}
        self.compacting: set[str] = set()
        self.leaderless_topics: set[str] = set()  # topics with a partition that nobody leads
        self.log_cut_reads = 0
        self.timestamp_reads = 0
        self.sent_messages: list[Message] = []
        self.group_retention_seconds: float | None = None
        self._ids = Numbering()

    def create(self, topic: str, partitions: int = 2) -> None:
        """A new topic with an id of its own; an existing one is deleted first."""
        self.partitions[topic] = [Partition() for _ in range(partitions)]
        self.ids[topic] = f"topic-{next(self._ids)}"
        for offsets in self.groups.values():
            offsets.pop(topic, None)

    def delete(self, topic: str) -> None:
        """The topic, and what groups have committed for it."""
        del self.partitions[topic]
        for offsets in self.groups.values():
            offsets.pop(topic, None)

    def grow(self, topic: str, partitions: int) -> None:
        while len(self.partitions[topic]) < partitions:
            self.partitions[topic].append(Partition())

    def produce(self, topic: str, key: Any, value: Any, partition: int = 0, timestamp: int | None = None) -> int:
        return self.partitions[topic][partition].add(key, value, self.clock.tick() if timestamp is None else timestamp)

    def transaction(self, topic: str, rows: list[tuple[Any, Any]], partition: int = 0, ending: str = "commit") -> None:
        """Records in one transaction, ended by commit or abort with a control record, or left open."""
        kind = {"commit": "data", "abort": "aborted", "open": "open"}[ending]
        for key, value in rows:
            self.partitions[topic][partition].add(key, value, self.clock.tick(), kind)
        if ending != "open":
            self.partitions[topic][partition].add(None, None, self.clock.tick(), "control")

    def compact(self, topic: str, partition: int = 0) -> None:
        """Keep the last record of each key only."""
        log = self.partitions[topic][partition]
        last_offsets = {json.dumps(r.key): r.offset for r in log.records}
        log.records = [r for r in log.records if last_offsets[json.dumps(r.key)] == r.offset]

    def retain_from(self, topic: str, offset: int, partition: int = 0) -> None:
        log = self.partitions[topic][partition]
        log.begin = max(log.begin, offset)
        log.records = [r for r in log.records if r.offset >= offset]

    def elect(self, topic: str, partition: int = 0, has: int | None = None) -> None:
        """Another leader, whose log ends at offset `has`: what stood behind it is gone."""
        log = self.partitions[topic][partition]
        if has is not None:
            log.records, log.end = [r for r in log.records if r.offset < has], has
        log.epochs = [min(start, log.end) for start in log.epochs] + [log.end]

    def list_topics(self, pattern: str) -> tuple[str, ...]:
        return tuple(sorted(t for t in self.partitions if re.fullmatch(pattern, t)))

    def read_log(self, topics: tuple[str, ...], isolation: str) -> Log:
        ids, begin, end, epochs = {}, {}, {}, {}
        for topic in topics:
            logs = self._get_partitions(topic)
            ids[topic] = self.ids[topic]
            begin[topic] = {p: log.begin for p, log in enumerate(logs)}
            end[topic] = {p: log.find_stable_end(isolation) for p, log in enumerate(logs)}
            epochs[topic] = {p: len(log.epochs) - 1 for p, log in enumerate(logs)}
        if unread_topics := [topic for topic in topics if topic in self.leaderless_topics]:
            raise TopicsUnavailable(f"brokers=memory: no offset is known now of topics={unread_topics}", unread_topics)
        return Log(self.cluster_id if topics else "", ids, begin, end, epochs)

    def read_topic_ids(self, topics: tuple[str, ...]) -> tuple[str, dict[str, str]]:
        for topic in topics:
            self._get_partitions(topic)
        return self.cluster_id if topics else "", {topic: self.ids[topic] for topic in topics}

    def read_end_offsets(self, topics: tuple[str, ...], isolation: str) -> Offsets:
        return self.read_log(tuple(t for t in topics if t in self.partitions), isolation).end

    def find_offsets_at(self, topics: tuple[str, ...], timestamp_ms: int) -> Offsets:
        return {
            topic: {
                p: min((r.offset for r in log.records if r.timestamp >= timestamp_ms), default=log.end)
                for p, log in enumerate(self._get_partitions(topic))
            }
            for topic in topics
        }

    def filter_compacted(self, topics: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(topic for topic in topics if topic in self.compacting)

    def read_timestamps(
        self, places: Collection[RecordAddress], isolation: str = "read_committed"
    ) -> dict[RecordAddress, int]:
        self.timestamp_reads += 1
        times = {}
        for topic, partition, offset in places:
            log = self.partitions[topic][partition]
            if records := log.read(offset, log.find_stable_end(isolation), isolation):
                times[topic, partition, offset] = records[0].timestamp
        return times

    def read_records(self, topic: str, partition: int, offsets: range, isolation: str) -> tuple[KafkaRecord, ...]:
        """Keys and values as JSON; what is a text here stands there as it is, being none."""
        log = self.partitions[topic][partition]
        found = log.read(max(offsets.start, log.begin), offsets.stop, isolation)
        parts = [
            (each, *(None if part is None else _to_bytes(part) for part in (each.key, each.value))) for each in found
        ]
        return tuple(
            KafkaRecord(topic, partition, each.offset, each.timestamp, key, value) for each, key, value in parts
        )

    def read_newest_timestamps(self, ends: Offsets) -> Offsets:
        timestamps: Offsets = {}
        for topic, partition, end in iterate_offsets(ends):
            records = self.partitions[topic][partition].read(0, end, "read_committed")
            if records:
                timestamps.setdefault(topic, {})[partition] = records[-1].timestamp
        return timestamps

    def read_retention(self, topics: tuple[str, ...]) -> dict[str, Retention]:
        return {topic: self.retentions.get(topic, Retention()) for topic in topics}

    def read_group_retention(self) -> float | None:
        return self.group_retention_seconds

    def send(self, topic: str, records: Sequence[Message]) -> None:
        """JSON is produced as what it holds, anything else as it is; `sent` keeps the headers."""
        if topic not in self.partitions:
            self.create(topic, 1)
        for record in records:
            key, value, _ = message = Message(*record)
            self.produce(topic, *map(_read_json, (key, value)))
            self.sent_messages.append(message)

    def read_leader_epochs(self, ranges: Ranges, isolation: str) -> Epochs:
        """Every partition has had one leader, in its first epoch."""
        return {topic: {partition: [(start, 0)]} for topic, partition, start, end in ranges if end > start}

    def find_log_cuts(self, offsets: Offsets, epochs: Offsets) -> Offsets:
        self.log_cut_reads += 1
        ends = {
            (t, p): log.epochs[epoch + 1] if epoch + 1 < len((log := self._get_partitions(t)[p]).epochs) else log.end
            for t, p, epoch in iterate_offsets(epochs)
        }
        return group_by_topic({(t, p): end for (t, p), end in ends.items() if end < offsets[t][p]})

    def sample_keys(self, ranges: Ranges) -> dict[tuple[str, int], list[bytes | None]]:
        """All of them."""
        records_by_partition = {
            (t, p): self.partitions[t][p].read(start, end, "read_uncommitted") for t, p, start, end in ranges
        }
        return {
            place: [None if record.key is None else json.dumps(record.key).encode() for record in records]
            for place, records in records_by_partition.items()
            if records
        }

    def read_committed(self, group: str, topics: tuple[str, ...]) -> Offsets:
        for topic in topics:
            self._get_partitions(topic)
        return {
            t: dict(partition_offsets) for t, partition_offsets in self.groups.get(group, {}).items() if t in topics
        }

    def commit(self, group: str, offsets: Offsets, beat_ms: int | None = None) -> int | None:
        offsets_to_commit = {
            topic: partition_offsets for topic, partition_offsets in offsets.items() if topic in self.partitions
        }
        self.groups[group] = merge_offsets(self.groups.get(group, {}), offsets_to_commit)
        for topic in offsets:
            self._get_partitions(topic)
        hit_failpoint("group.committed")
        previous_beat_ms = self.beat_times_ms.get(group)
        if beat_ms is not None:
            self.beat_times_ms[group] = beat_ms
        return previous_beat_ms

    def _get_partitions(self, topic: str) -> list[Partition]:
        if topic not in self.partitions:
            raise PositionLost(f"topic={topic} does not exist on brokers=memory: create it, or correct source.topics")
        return self.partitions[topic]


def _to_bytes(value: Any) -> bytes:
    return (value if isinstance(value, str) else json.dumps(value)).encode()


def _read_json(content: Any) -> Any:
    """What JSON holds; other bytes as text, and what is no bytes as it is."""
    try:
        return json.loads(content) if isinstance(content, bytes) else content
    except ValueError:
        return content.decode()
