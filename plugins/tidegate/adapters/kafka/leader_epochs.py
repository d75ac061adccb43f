"""Reads single records to learn under which leader's epoch they were written: Spark's source does not tell."""

import time
from collections.abc import Mapping
from functools import partial

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tidegate.errors import RetryLater
from tidegate.model.leader_epochs import Epochs, find_epoch_starts
from tidegate.model.offsets import Ranges

RECORD_TIMEOUT_SECONDS = 30.0  # seconds for one record
ONE_RECORD = {  # nothing is fetched ahead, and the end of a partition is told instead of waited for
    "enable.partition.eof": "true",
    "enable.auto.commit": "false",
    "queued.min.messages": "1",
    "fetch.message.max.bytes": "4096",
    "log_level": "3",
}


def find_epochs(settings: Mapping[str, str], ranges: Ranges, isolation: str) -> Epochs:
    """The epochs of every partition that has any, by the offset at which each begins."""
    consumer = Consumer({**settings, **ONE_RECORD, "group.id": "tidegate-epochs", "isolation.level": isolation})
    try:
        return _find_epochs(consumer, ranges)
    finally:
        consumer.close()


def _find_epochs(consumer: Consumer, ranges: Ranges) -> Epochs:
    epochs: Epochs = {}
    for topic, partition, start, end in ranges:
        starts = (
            find_epoch_starts(partial(_read_epoch_at, consumer, topic, partition, end), start, end)
            if end > start
            else []
        )
        if starts:
            epochs.setdefault(topic, {})[partition] = starts
    return epochs


def _read_epoch_at(
    consumer: Consumer, topic: str, partition: int, end: int, offset: int
) -> tuple[int, int | None] | None:
    consumer.assign([TopicPartition(topic, partition, offset)])
    deadline = time.monotonic() + RECORD_TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is not None and error.code() == KafkaError._PARTITION_EOF:
            return None
        if error is not None:
            raise RetryLater(f"topic={topic} partition={partition} offset={offset} cannot be read: {error.str()}")
        if (at := message.offset()) is not None and at >= offset:
            epoch = message.leader_epoch()
            return (at, epoch if epoch is not None and epoch >= 0 else None) if at < end else None
    raise RetryLater(
        f"topic={topic} partition={partition} offset={offset}: no record within {RECORD_TIMEOUT_SECONDS:.0f} s"
    )
