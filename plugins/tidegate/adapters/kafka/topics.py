"""Kafka's topics beside their records' offsets: how long they keep records, heartbeats, and the size that one takes."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from heapq import nlargest
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from tidegate.errors import RecordRefused
from tidegate.model.kafka_log import Message, Retention
from tidegate.model.offsets import Offsets, Ranges, iterate_offsets

TAIL_OFFSETS = 10  # offsets: behind the last record there may be the markers of transactions
LARGE_RECORD_BYTES = 100_000  # what no topic refuses that anybody has set up with sense
# Of a request to commit offsets: the brokers write it as one batch, and refuse one of more than a megabyte by default.
# what is kept of a partition beside names and metadata
MAX_COMMIT_BYTES = 500_000
PARTITION_COMMIT_BYTES = 60
ROOM_SECONDS = 1.0  # how long the client is waited for at once
TOO_LARGE_CODES = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)
CONSUMER_PREFIXES = ("session.timeout.ms", "max.poll.interval.ms", "fetch.", "queued.", "isolation.level", "check.crcs")


def read_retentions(admin: AdminClient, topics: Iterable[str], timeout: float) -> dict[str, Retention]:
    """How long each topic keeps records and, if compacted, tombstones. `KafkaException` if refused."""
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    if not resources:
        return {}
    futures = admin.describe_configs(resources, request_timeout=timeout)
    return {resource.name: _parse_retention(future.result(timeout + 5)) for resource, future in futures.items()}


def _parse_retention(config: Mapping[str, Any]) -> Retention:
    policies = config["cleanup.policy"].value.split(",")
    records = int(config["retention.ms"].value)
    tombstones = int(config["delete.retention.ms"].value)
    return Retention(
        records_ms=records if "delete" in policies and records >= 0 else None,
        tombstones_ms=tombstones if "compact" in policies else None,
    )


def read_last_timestamps(consumer: Consumer, ends: Offsets, patience: float) -> dict[tuple[str, int], int]:
    """The time of each partition's last record, among its last few offsets; absent where there is none."""
    partitions = {(topic, partition) for topic, partition, end in iterate_offsets(ends) if end > 0}
    consumer.assign([TopicPartition(t, p, max(0, ends[t][p] - TAIL_OFFSETS)) for t, p in sorted(partitions)])
    timestamps: dict[tuple[str, int], int] = {}
    while partitions:
        message = consumer.poll(patience)
        if message is None:
            break
        place = (message.topic(), message.partition())
        if place not in partitions:
            continue
        end = ends[place[0]][place[1]]
        error = message.error()
        if error is None and message.offset() < end:
            timestamps[place] = message.timestamp()[1]
        # a topic that is written without a pause has no end to wait for
        if message.offset() >= end - 1 if error is None else error.code() == KafkaError._PARTITION_EOF:
            partitions.discard(place)
    return timestamps


def cut_commit(group: str, places: Sequence[TopicPartition]) -> Iterator[list[TopicPartition]]:
    """A commit in parts that brokers take, in order: some thousand partitions each."""
    part = list[TopicPartition]()
    room = MAX_COMMIT_BYTES
    for place in places:
        size = PARTITION_COMMIT_BYTES + sum(len(text.encode()) for text in (group, place.topic, place.metadata or ""))
        if part and size > room:
            yield part
            part = []
            room = MAX_COMMIT_BYTES
        part.append(place)
        room -= size
    if part:
        yield part


def send_records(settings: Mapping[str, str], topic: str, records: Iterable[Message], timeout: float) -> None:
    """Send records and wait until the brokers have them; `KafkaException` if they do not take them.

    `RecordRefused` for one that is too large at any time.
    """
    messages = [Message(*record) for record in records]
    largest = max(messages, key=_measure, default=None)
    producer_settings = {name: value for name, value in settings.items() if not name.startswith(CONSUMER_PREFIXES)}
    producer = Producer({**producer_settings, "log_level": "3", "enable.idempotence": "true"})
    if largest is not None and _measure(largest) > LARGE_RECORD_BYTES:
        # the largest goes first: the others would be sent again with it each time
        messages.remove(largest)
        _send_all(producer, topic, [largest], timeout)
    _send_all(producer, topic, messages, timeout)


def _measure(record: Message) -> int:
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers


def _send_all(producer: Producer, topic: str, records: Sequence[Message], timeout: float) -> None:
    failures: list[tuple[Message, KafkaError]] = []
    for record in records:
        _hand_over(producer, topic, record, failures, time.monotonic() + timeout)
    if producer.flush(timeout):
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"no answer within {timeout:.0f} s"))
    for record, error in failures:
        if error.code() in TOO_LARGE_CODES:
            raise RecordRefused(
                f"topic={topic} takes no record of bytes={_measure(record)}: {error.name()}; raise its "
                "max.message.bytes and the connection's message.max.bytes; what was not sent is sent by the next run",
                record,
            )
        if error.code() == KafkaError.INVALID_RECORD:  # said of a whole batch, so nobody knows of which record
            raise RecordRefused(
                f"topic={topic} refuses a record: {error.name()}: a compacted topic takes none without a key; set its "
                "cleanup.policy to delete; what was not sent is sent by the next run"
            )
        raise KafkaException(error)


def _hand_over(
    producer: Producer, topic: str, record: Message, failures: list[tuple[Message, KafkaError]], deadline: float
) -> None:
    def note(error: KafkaError | None, _: Any) -> None:
        if error is not None:
            failures.append((record, error))

    while True:
        try:
            producer.produce(topic, record.value, record.key, headers=list(record.headers), on_delivery=note)
            producer.poll(0)
            return
        except BufferError:
            if time.monotonic() > deadline:
                raise KafkaException(KafkaError(KafkaError._QUEUE_FULL)) from None
            # the client has room for so many
            producer.poll(ROOM_SECONDS)
        except KafkaException as error:  # the client does not even take it
            failures.append((record, error.args[0]))
            return


def create_topic(admin: AdminClient, topic: str, timeout: float) -> None:
    """With one partition and the brokers' defaults, unless it exists. `KafkaException` if refused."""
    if topic in admin.list_topics(timeout=timeout).topics:
        return
    future = admin.create_topics([NewTopic(topic, 1)], request_timeout=timeout)[topic]
    try:
        future.result(timeout + 5)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


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
    """Keys of some records of the largest partitions, as far as they come in time."""
    samples: dict[tuple[str, int], list[bytes | None]] = {}
    deadline = time.monotonic() + TIMEOUT_SECONDS
    largest = nlargest(MAX_PARTITIONS, ranges, key=lambda key_range: key_range[3] - key_range[2])
    with closing(Consumer({**settings, **SMALL_FETCH_SETTINGS})) as consumer, suppress(KafkaException):
        for topic, partition, start, end in largest:
            step = max(1, (end - start) // PLACES_PER_PARTITION)
            for offset in range(start, end, step)[:PLACES_PER_PARTITION]:
                place = TopicPartition(topic, partition, offset)
                keys = _read_keys_at(consumer, place, min(end, offset + step), deadline)
                samples.setdefault((topic, partition), []).extend(keys)
    return samples


def _read_keys_at(consumer: Consumer, place: TopicPartition, end: int, deadline: float) -> list[bytes | None]:
    consumer.assign([place])
    first = consumer.poll(max(0.0, deadline - time.monotonic()))
    if first is None:
        return []
    messages = [first, *consumer.consume(RECORDS_PER_PLACE - 1, timeout=0)]  # what came with it is there already
    return [m.key() for m in messages if not m.error() and place.offset <= (m.offset() or 0) < end]
