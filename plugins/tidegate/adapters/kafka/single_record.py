"""Reads single records by their place: one for a person who looks at it, the times of many for how old they are."""

import time
from collections.abc import Iterable, Mapping

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from tidegate.errors import RetryLater
from tidegate.model.kafka_log import KafkaRecord
from tidegate.model.offsets import RecordAddress

RECORD_TIMEOUT_SECONDS = 15.0  # seconds for one record
ONE_RECORD_SETTINGS = {  # nothing is fetched ahead, and the end of a partition is reported at once
    "enable.partition.eof": "true",
    "enable.auto.commit": "false",
    "queued.min.messages": "1",
    "fetch.message.max.bytes": "4096",
    "log_level": "3",
}
# Partitions take turns in the client's queue: by default each waits a second for its own.
PROMPT_FETCH_SETTINGS = {"fetch.wait.max.ms": "20", "fetch.queue.backoff.ms": "10"}


def read_first_timestamps(
    settings: Mapping[str, str], places: Iterable[RecordAddress], timeout_seconds: float
) -> dict[RecordAddress, int]:
    """Times of the first records at or after these offsets, as far as they come in time."""
    remaining_places = list(places)
    timestamps = dict[RecordAddress, int]()
    if not remaining_places:
        return timestamps
    consumer = Consumer({**settings, **ONE_RECORD_SETTINGS, **PROMPT_FETCH_SETTINGS})
    try:
        deadline = time.monotonic() + timeout_seconds
        while remaining_places and time.monotonic() < deadline:
            batch = {(topic, partition): offset for topic, partition, offset in reversed(remaining_places)}
            timestamps |= _read_one_each(consumer, batch, deadline)
            remaining_places = [place for place in remaining_places if batch[place[:2]] != place[2]]
    finally:
        consumer.close()
    return timestamps


def _read_one_each(
    consumer: Consumer, start_offsets: Mapping[tuple[str, int], int], deadline: float
) -> dict[RecordAddress, int]:
    consumer.assign([TopicPartition(topic, partition, offset) for (topic, partition), offset in start_offsets.items()])
    timestamps: dict[RecordAddress, int] = {}
    open_ones = set(start_offsets)
    while open_ones and time.monotonic() < deadline:
        for message in consumer.consume(len(open_ones), timeout=0.2):
            place = (message.topic() or "", message.partition() or 0)
            error = message.error()
            if place in open_ones and (error is None or error.code() == KafkaError._PARTITION_EOF):
                open_ones.discard(place)
                consumer.incremental_unassign([TopicPartition(*place)])
                if error is None:
                    timestamps[*place, start_offsets[place]] = message.timestamp()[1]
    return timestamps


def read_record_at(consumer: Consumer, topic: str, partition: int, offset: int) -> KafkaRecord | None:
    """The record at exactly this offset; None where the log has none there."""
    place = TopicPartition(topic, partition, offset)
    message = poll_from(consumer, place, RECORD_TIMEOUT_SECONDS, advice="; run it again")
    if message is None or message.offset() != offset:
        return None
    headers = tuple((name, value if value is None else bytes(value)) for name, value in message.headers() or ())
    return KafkaRecord(
        topic=topic,
        partition=partition,
        offset=offset,
        timestamp_ms=message.timestamp()[1],
        key=message.key(),
        value=message.value(),
        headers=headers,
    )


def poll_from(consumer: Consumer, place: TopicPartition, timeout_seconds: float, advice: str = "") -> Message | None:
    """The first message from this place on; None where the partition ends before one.

    `RetryLater`, with `advice`, where none comes in time.
    """
    consumer.assign([place])
    deadline = time.monotonic() + timeout_seconds
    record_place = f"topic={place.topic} partition={place.partition} offset={place.offset}"
    while time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is not None and error.code() == KafkaError._PARTITION_EOF:
            return None
        if error is not None:
            raise RetryLater(f"{record_place} cannot be read: {error.str()}")
        if (at := message.offset()) is not None and at >= place.offset:
            return message
    raise RetryLater(f"{record_place}: no record within {timeout_seconds:.0f} s{advice}")
