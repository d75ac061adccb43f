"""Reads a few records' keys from places spread over a batch: a hint that only costs time where it is wrong."""

import time
from collections.abc import Mapping
from contextlib import suppress
from heapq import nlargest

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tidegate.model.offsets import Ranges

# at most so many partitions, places in each, and records from each place
MAX_PARTITIONS = 4
PLACES_PER_PARTITION = 8
RECORDS_PER_PLACE = 250
TIMEOUT_SECONDS = 3.0  # seconds for all of them
SMALL_FETCH_SETTINGS = {  # what comes with one answer is enough
    "enable.auto.commit": "false",
    "isolation.level": "read_uncommitted",
    "fetch.message.max.bytes": "65536",
    "fetch.wait.max.ms": "20",
    "fetch.queue.backoff.ms": "10",
    "queued.min.messages": str(RECORDS_PER_PLACE),
    "log_level": "3",
}


def sample_keys(settings: Mapping[str, str], ranges: Ranges) -> dict[tuple[str, int], list[bytes | None]]:
    """The keys of some records of the largest partitions, as far as they come in time."""
    consumer = Consumer({**settings, **SMALL_FETCH_SETTINGS})
    try:
        return _sample_keys(consumer, ranges)
    finally:
        consumer.close()


def _sample_keys(consumer: Consumer, ranges: Ranges) -> dict[tuple[str, int], list[bytes | None]]:
    samples: dict[tuple[str, int], list[bytes | None]] = {}
    deadline = time.monotonic() + TIMEOUT_SECONDS
    with suppress(KafkaException):
        for topic, partition, start, end in nlargest(
            MAX_PARTITIONS, ranges, key=lambda key_range: key_range[3] - key_range[2]
        ):
            step = max(1, (end - start) // PLACES_PER_PARTITION)
            for offset in range(start, end, step)[:PLACES_PER_PARTITION]:
                keys = _read_keys_at(
                    consumer, TopicPartition(topic, partition, offset), min(end, offset + step), deadline
                )
                samples.setdefault((topic, partition), []).extend(keys)
    return samples


def _read_keys_at(consumer: Consumer, place: TopicPartition, end: int, deadline: float) -> list[bytes | None]:
    consumer.assign([place])
    first = consumer.poll(max(0.0, deadline - time.monotonic()))
    if first is None:
        return []
    messages = [first, *consumer.consume(RECORDS_PER_PLACE - 1, timeout=0)]  # what came with it is there already
    return [m.key() for m in messages if not m.error() and place.offset <= (m.offset() or 0) < end]
