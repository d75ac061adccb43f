"""Reads the newest and the oldest records of a topic's partitions, within limits: for a person who describes a topic.

Partitions are assigned, no group is joined and nothing is committed: the brokers are as they were.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as KafkaMessage

from tidegate.adapters.kafka.errors import REQUIRED_RIGHTS, explain_refusal
from tidegate.adapters.kafka.single_record import to_record
from tidegate.errors import GiveUp, RetryLater
from tidegate.model.counts import format_count
from tidegate.model.kafka_log import KafkaRecord
from tidegate.sampling.samples import SampleLimits

SAMPLE_SETTINGS = {
    "group.id": "tidegate-sample",  # the client wants a name; no group is joined under it
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "isolation.level": "read_committed",
    "enable.partition.eof": "true",
    "fetch.message.max.bytes": "1048576",
    "queued.max.messages.kbytes": "16384",
    "fetch.wait.max.ms": "50",
    "fetch.queue.backoff.ms": "10",
    "log_level": "0",
}
MIN_RECORDS_PER_END = 5  # of each end of a partition, however many partitions there are
# the end of a log may hold markers of transactions alone: it is looked for further ahead
WIDER = 10
TRIES = 4
TELL_SECONDS = 1.0
Ranges = dict[int, tuple[int, int]]


@dataclass
class _Reading:
    """The records so far, and the limit that ended the reading."""

    topic: str
    limits: SampleLimits
    report: Callable[[str], None]
    deadline: float
    records: dict[tuple[int, int], KafkaRecord] = field(default_factory=dict)
    bytes: int = 0
    stopped_by: str = ""
    reported_at: float = field(default_factory=time.monotonic)

    def add(self, message: KafkaMessage) -> None:
        record = to_record(message)
        if (record.partition, record.offset) not in self.records:
            self.records[record.partition, record.offset] = record
            self.bytes += len(record.key or b"") + len(record.value or b"")

    def is_over(self) -> bool:
        if time.monotonic() > self.deadline:
            self.stopped_by = f"seconds={self.limits.seconds:g}"
        elif self.bytes > self.limits.bytes:
            self.stopped_by = f"bytes={self.limits.bytes}"
        if time.monotonic() - self.reported_at > TELL_SECONDS:
            self.reported_at = time.monotonic()
            self.report(
                f"topic={self.topic}: {format_count(len(self.records), 'record')}, {self.bytes / 2**20:.1f} MiB"
            )
        return bool(self.stopped_by)


def sample_records(
    settings: Mapping[str, str],
    topic: str,
    log: tuple[Mapping[int, int], Mapping[int, int]],
    limits: SampleLimits,
    report: Callable[[str], None],
) -> tuple[tuple[KafkaRecord, ...], str]:
    """Records by partition and offset, and the limit that ended the reading, or empty.

    `log`: begin and end of each partition. `report` is called about once a second. `RetryLater` where records exist
    and none came.
    """
    begin, end = log
    size = max(MIN_RECORDS_PER_END, limits.records // (2 * max(1, len(end))))
    reading = _Reading(topic, limits, report, time.monotonic() + limits.seconds)
    try:
        with closing(Consumer({**settings, **SAMPLE_SETTINGS})) as consumer:
            newest = _read_newest(consumer, reading, {p: (begin[p], end[p]) for p in end if end[p] > begin[p]}, size)
            oldest = {p: (begin[p], start) for p, start in newest.items() if start > begin[p]}
            _read(consumer, reading, oldest, size)
    except KafkaException as fault:
        error: KafkaError = fault.args[0]
        servers = settings.get("bootstrap.servers", "")
        if error.code() in REQUIRED_RIGHTS:
            raise GiveUp(explain_refusal(servers, f"topic={topic}", error)) from fault
        raise RetryLater(f"brokers={servers} topic={topic} cannot be read: {error.str()}; run it again") from fault
    if not reading.records and reading.stopped_by and any(end[p] > begin[p] for p in end):
        raise RetryLater(f"topic={topic}: no record came within {reading.stopped_by}; give more with --seconds")
    return tuple(reading.records[place] for place in sorted(reading.records)), reading.stopped_by


def _read_newest(consumer: Consumer, reading: _Reading, ranges: Ranges, size: int) -> dict[int, int]:
    """Read the end of each partition; returns the offset from which it was read."""
    starts = {p: max(begin, end - size) for p, (begin, end) in ranges.items()}
    remaining_ranges = {p: (starts[p], end) for p, (_, end) in ranges.items()}
    for turn in range(TRIES):
        _read(consumer, reading, remaining_ranges, size)
        read_partitions = {partition for partition, _ in reading.records}
        remaining_ranges = {
            p: (max(ranges[p][0], ranges[p][1] - size * WIDER ** (turn + 1)), starts[p])
            for p in ranges
            if p not in read_partitions and starts[p] > ranges[p][0]
        }
        if not remaining_ranges or reading.is_over():
            break
        starts |= {p: start for p, (start, _) in remaining_ranges.items()}
    return starts


def _read(consumer: Consumer, reading: _Reading, ranges: Ranges, limit: int) -> None:
    if not ranges:
        return
    counts = dict.fromkeys(ranges, 0)
    consumer.assign([TopicPartition(reading.topic, p, start) for p, (start, _) in ranges.items()])
    consumer.resume([TopicPartition(reading.topic, p) for p in ranges])  # a pause outlives the assignment
    while counts and not reading.is_over():
        for message in consumer.consume(100, timeout=0.2):
            error = message.error()
            partition = message.partition()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            if partition not in counts:
                continue
            is_inside = error is None and (message.offset() or 0) < ranges[partition][1]
            if is_inside:
                reading.add(message)
                counts[partition] += 1
            if not is_inside or counts[partition] >= limit or (message.offset() or 0) >= ranges[partition][1] - 1:
                del counts[partition]
                consumer.pause([TopicPartition(reading.topic, partition)])
