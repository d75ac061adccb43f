"""Reads one record by its place, for a person who looks at it."""

import time

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tidegate.errors import RetryLater
from tidegate.model.kafka_log import KafkaRecord

RECORD_TIMEOUT_SECONDS = 15.0  # seconds for one record


def read_record(consumer: Consumer, topic: str, partition: int, offset: int) -> KafkaRecord | None:
    """The record at exactly this offset; None where the log has none there."""
    consumer.assign([TopicPartition(topic, partition, offset)])
    deadline, where = time.monotonic() + RECORD_TIMEOUT_SECONDS, f"topic={topic} partition={partition} offset={offset}"
    while time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is not None and error.code() == KafkaError._PARTITION_EOF:
            return None
        if error is not None:
            raise RetryLater(f"{where} cannot be read: {error.str()}")
        if message.offset() != offset:
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
    raise RetryLater(f"{where}: no record within {RECORD_TIMEOUT_SECONDS:.0f} s; run it again")
