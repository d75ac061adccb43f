"""Reads single records to learn under which leader's epoch they were written: Spark's source does not tell."""

from collections.abc import Mapping
from functools import partial

from confluent_kafka import Consumer, TopicPartition

from tidegate.adapters.kafka.single_record import poll_from
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
    message = poll_from(consumer, TopicPartition(topic, partition, offset), RECORD_TIMEOUT_SECONDS)
    at = None if message is None else message.offset()
    if message is None or at is None or at >= end:
        return None
    epoch = message.leader_epoch()
    return at, epoch if epoch is not None and epoch >= 0 else None
