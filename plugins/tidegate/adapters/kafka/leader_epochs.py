"""Leader epochs: reads single records for their epoch, which Spark's source does not tell, and asks for cut logs."""

import re
import time
from collections.abc import Mapping
from functools import partial

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tidegate.adapters.kafka.single_record import ONE_RECORD_SETTINGS, poll_from
from tidegate.errors import TopicsUnavailable
from tidegate.model.kafka_log import Epochs, find_epoch_starts
from tidegate.model.offsets import Offsets, Ranges, group_by_topic, iterate_offsets

RECORD_TIMEOUT_SECONDS = 30.0  # seconds for one record
# seconds between two answers of leaders: a restart of all brokers has each of a topic's thousands of partitions asked
CUTS_TIMEOUT_SECONDS = 30.0
SEEK_PAUSE_SECONDS = 0.02
CUT_PATTERN = re.compile(r"truncation detected .*broker end offset is (\d+)")
CUT_CONSUMER_SETTINGS = {
    "group.id": "tidegate-epochs",
    "isolation.level": "read_uncommitted",
    "auto.offset.reset": "error",
    "fetch.wait.max.ms": "20",  # the end of the log is an answer too, and is reported at once
    "log_level": "0",
}


def find_epochs(settings: Mapping[str, str], ranges: Ranges, isolation: str) -> Epochs:
    """By partition, the offset at which each epoch begins."""
    consumer = Consumer(
        {**settings, **ONE_RECORD_SETTINGS, "group.id": "tidegate-epochs", "isolation.level": isolation}
    )
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


def find_cuts(settings: Mapping[str, str], offsets: Offsets, epochs: Offsets) -> Offsets:
    """Where the logs of the partitions in `epochs` were cut before their offset; see the port `Broker`."""
    consumer = Consumer({**settings, **ONE_RECORD_SETTINGS, **CUT_CONSUMER_SETTINGS})
    try:
        places = [TopicPartition(t, p, offsets[t][p], leader_epoch=epoch) for t, p, epoch in iterate_offsets(epochs)]
        consumer.assign(places)
        # a seek with an epoch makes the client ask the leader where that epoch ended; a cut log is an error text
        for place in places:
            _seek(consumer, place, time.monotonic() + CUTS_TIMEOUT_SECONDS)
        return _await_answers(consumer, {(place.topic, place.partition) for place in places})
    finally:
        consumer.close()


def _seek(consumer: Consumer, place: TopicPartition, deadline: float) -> None:
    # only a seek checks the epoch; a partition that was just assigned is not ready for it at once
    while True:
        try:
            consumer.seek(place)
            return
        except KafkaException as error:
            if error.args[0].code() != KafkaError._STATE or time.monotonic() > deadline:
                raise
            time.sleep(SEEK_PAUSE_SECONDS)


def _await_answers(consumer: Consumer, partitions: set[tuple[str, int]]) -> Offsets:
    """What the leaders say of `partitions`; `TopicsUnavailable` after a time without any answer."""
    cuts: dict[tuple[str, int], int] = {}
    deadline = time.monotonic() + CUTS_TIMEOUT_SECONDS
    while partitions:
        if time.monotonic() > deadline:
            topic, partition = min(partitions)
            raise TopicsUnavailable(
                f"topic={topic} partition={partition}: its leader did not answer within {CUTS_TIMEOUT_SECONDS:.0f} s "
                "whether its log still has what was read; it will be tried again",
                {topic for topic, _ in partitions},
            )
        message = consumer.poll(1.0)
        place = None if message is None else (message.topic() or "", message.partition() or 0)
        if message is None or place not in partitions:
            continue
        cut = _read_cut(message)
        deadline = time.monotonic() + CUTS_TIMEOUT_SECONDS
        partitions.discard(place)
        consumer.incremental_unassign([TopicPartition(*place)])
        if cut is not None:
            cuts[place] = cut
    return group_by_topic(cuts)


def _read_cut(message: Message) -> int | None:
    error = message.error()
    if error is None or error.code() == KafkaError._PARTITION_EOF:
        return None
    if error.code() != KafkaError._AUTO_OFFSET_RESET:
        raise KafkaException(error)
    # None: the brokers keep no epoch so old
    match = CUT_PATTERN.search(error.str())
    return int(match.group(1)) if match else None
