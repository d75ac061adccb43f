"""Reads single records by their place: one for a person, times for how old records are, and the epochs of leaders.

Spark's source does not tell a record's leader epoch. With epochs the brokers say whether a log was cut.
"""

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from functools import partial

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tidegate.errors import RetryLater, TopicsUnavailable
from tidegate.model.kafka_log import Epochs, KafkaRecord, find_epoch_starts
from tidegate.model.offsets import Offsets, Ranges, RecordAddress, group_by_topic, iterate_offsets

RECORD_TIMEOUT_SECONDS = 15.0  # for one record that a person looks at
EPOCH_TIMEOUT_SECONDS = 30.0  # for one record that is read for its epoch
# between two answers of leaders: a restart of all brokers has each of a topic's thousands of partitions asked
CUTS_TIMEOUT_SECONDS = 30.0
SEEK_PAUSE_SECONDS = 0.02
ONE_RECORD_SETTINGS = {  # nothing is fetched ahead, and the end of a partition is reported at once
    "enable.partition.eof": "true",
    "enable.auto.commit": "false",
    "queued.min.messages": "1",
    "fetch.message.max.bytes": "4096",
    "log_level": "3",
}
# Partitions take turns in the client's queue: by default each waits a second for its own.
PROMPT_FETCH_SETTINGS = {"fetch.wait.max.ms": "20", "fetch.queue.backoff.ms": "10"}
EPOCH_GROUP = "tidegate-epochs"
CUT_CONSUMER_SETTINGS = {
    "group.id": EPOCH_GROUP,
    "isolation.level": "read_uncommitted",
    "auto.offset.reset": "error",
    "fetch.wait.max.ms": "20",  # the end of the log is an answer too, and is reported at once
    "log_level": "0",
}
CUT_PATTERN = re.compile(r"truncation detected .*broker end offset is (\d+)")


def read_first_timestamps(
    settings: Mapping[str, str], places: Iterable[RecordAddress], timeout_seconds: float
) -> dict[RecordAddress, int]:
    """Times of the first records at or after these offsets, as far as they come in time."""
    remaining_places = list(places)
    timestamps = dict[RecordAddress, int]()
    if not remaining_places:
        return timestamps
    with closing(Consumer({**settings, **ONE_RECORD_SETTINGS, **PROMPT_FETCH_SETTINGS})) as consumer:
        deadline = time.monotonic() + timeout_seconds
        while remaining_places and time.monotonic() < deadline:
            batch = {(topic, partition): offset for topic, partition, offset in reversed(remaining_places)}
            timestamps |= _read_one_each(consumer, batch, deadline)
            remaining_places = [place for place in remaining_places if batch[place[:2]] != place[2]]
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


def read_records_at(consumer: Consumer, topic: str, partition: int, offsets: range) -> Iterator[KafkaRecord]:
    """The records at these offsets, as far as the log has them."""
    consumer.assign([TopicPartition(topic, partition, offsets.start)])
    for next_offset in offsets:
        place = TopicPartition(topic, partition, next_offset)
        message = _poll_next(consumer, place, RECORD_TIMEOUT_SECONDS, advice="; run it again")
        if message is None or (message.offset() or 0) >= offsets.stop:
            return
        yield to_record(message)


def to_record(message: Message) -> KafkaRecord:
    """The record of a message that is no error."""
    return KafkaRecord(
        topic=message.topic() or "",
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        timestamp_ms=message.timestamp()[1],
        key=message.key(),
        value=message.value(),
        headers=tuple((name, value if value is None else bytes(value)) for name, value in message.headers() or ()),
    )


def _poll_next(consumer: Consumer, place: TopicPartition, timeout_seconds: float, advice: str = "") -> Message | None:
    """The next message from this place on; None where the partition ends before one.

    `RetryLater`, with `advice`, where none comes in time.
    """
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


def find_epochs(settings: Mapping[str, str], ranges: Ranges, isolation: str) -> Epochs:
    """By partition, the offset at which each epoch begins."""
    epochs: Epochs = {}
    reader_settings = {**ONE_RECORD_SETTINGS, "group.id": EPOCH_GROUP, "isolation.level": isolation}
    with closing(Consumer({**settings, **reader_settings})) as consumer:
        for topic, partition, start, end in ranges:
            read = partial(_read_epoch_at, consumer, topic, partition, end)
            starts = find_epoch_starts(read, start, end) if end > start else []
            if starts:
                epochs.setdefault(topic, {})[partition] = starts
    return epochs


def _read_epoch_at(
    consumer: Consumer, topic: str, partition: int, end: int, offset: int
) -> tuple[int, int | None] | None:
    place = TopicPartition(topic, partition, offset)
    consumer.assign([place])
    message = _poll_next(consumer, place, EPOCH_TIMEOUT_SECONDS)
    at = None if message is None else message.offset()
    if message is None or at is None or at >= end:
        return None
    epoch = message.leader_epoch()
    return at, epoch if epoch is not None and epoch >= 0 else None


def find_cuts(settings: Mapping[str, str], offsets: Offsets, epochs: Offsets) -> Offsets:
    """Where the logs of the partitions in `epochs` were cut before their offset; see the port `Broker`."""
    with closing(Consumer({**settings, **ONE_RECORD_SETTINGS, **CUT_CONSUMER_SETTINGS})) as consumer:
        places = [TopicPartition(t, p, offsets[t][p], leader_epoch=epoch) for t, p, epoch in iterate_offsets(epochs)]
        consumer.assign(places)
        # a seek with an epoch makes the client ask the leader where that epoch ended; a cut log is an error text
        for place in places:
            _seek(consumer, place, time.monotonic() + CUTS_TIMEOUT_SECONDS)
        return _await_answers(consumer, {(place.topic, place.partition) for place in places})


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
        error = message.error()
        if error is not None and error.code() not in (KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET):
            raise KafkaException(error)
        deadline = time.monotonic() + CUTS_TIMEOUT_SECONDS
        partitions.discard(place)
        consumer.incremental_unassign([TopicPartition(*place)])
        # no number: the log was not cut, or the brokers keep no epoch so old
        if error is not None and (match := CUT_PATTERN.search(error.str())) is not None:
            cuts[place] = int(match[1])
    return group_by_topic(cuts)
