"""Reads one record by its place, for a person who looks at it."""

import time

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from tidegate.errors import RetryLater
from tidegate.model.kafka_log import KafkaRecord

RECORD_TIMEOUT_SECONDS = 15.0  # seconds for one record


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

    RetryLater where none comes in time, with `advice` behind it.
    """
    consumer.assign([place])
    deadline = time.monotonic() + timeout_seconds
    where = f"topic={place.topic} partition={place.partition} offset={place.offset}"
    while time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is not None and error.code() == KafkaError._PARTITION_EOF:
            return None
        if error is not None:
            raise RetryLater(f"{where} cannot be read: {error.str()}")
        if (at := message.offset()) is not None and at >= place.offset:
            return message
    raise RetryLater(f"{where}: no record within {timeout_seconds:.0f} s{advice}")
