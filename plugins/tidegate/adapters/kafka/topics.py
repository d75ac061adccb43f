"""Kafka's topics beside their records' offsets: how long they keep records, and the one that heartbeats are sent to."""

from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from tidegate.model.kafka_log import Message, Retention
from tidegate.model.offsets import Offsets, iterate_offsets

TAIL_OFFSETS = 10  # offsets: behind the last record there may be the markers of transactions
CONSUMER_PREFIXES = ("session.timeout.ms", "max.poll.interval.ms", "fetch.", "queued.", "isolation.level", "check.crcs")


def read_retentions(admin: AdminClient, topics: Iterable[str], timeout: float) -> dict[str, Retention]:
    """How long each topic keeps records and, if it is compacted, tombstones. KafkaException when that is refused."""
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    if not resources:
        return {}
    futures = admin.describe_configs(resources, request_timeout=timeout)
    return {resource.name: _parse_retention(future.result(timeout + 5)) for resource, future in futures.items()}


def _parse_retention(config: Mapping[str, Any]) -> Retention:
    policies = config["cleanup.policy"].value.split(",")
    records, tombstones = int(config["retention.ms"].value), int(config["delete.retention.ms"].value)
    return Retention(
        records_ms=records if "delete" in policies and records >= 0 else None,
        tombstones_ms=tombstones if "compact" in policies else None,
    )


def read_last_timestamps(consumer: Consumer, ends: Offsets, patience: float) -> dict[tuple[str, int], int]:
    """The time of the last record of each partition, among its last few offsets; absent where there is none."""
    waiting = {(topic, partition) for topic, partition, end in iterate_offsets(ends) if end > 0}
    consumer.assign([TopicPartition(t, p, max(0, ends[t][p] - TAIL_OFFSETS)) for t, p in sorted(waiting)])
    timestamps: dict[tuple[str, int], int] = {}
    while waiting:
        message = consumer.poll(patience)
        if message is None:
            break
        place, error = (message.topic(), message.partition()), message.error()
        if error is None:
            timestamps[place] = message.timestamp()[1]
        elif error.code() == KafkaError._PARTITION_EOF:
            waiting.discard(place)
    return timestamps


def send_records(settings: Mapping[str, str], topic: str, records: Iterable[Message], timeout: float) -> None:
    """Send records and wait until the brokers have them; KafkaException when they do not take them."""
    own = {name: value for name, value in settings.items() if not name.startswith(CONSUMER_PREFIXES)}
    producer, failures = Producer({**own, "log_level": "3", "enable.idempotence": "true"}), []
    for record in records:
        key, value, headers = Message(*record)
        options = {"on_delivery": lambda error, _: failures.append(error) if error else None}
        producer.produce(topic, value, key, headers=list(headers), **options)
        producer.poll(0)
    if producer.flush(timeout):
        failures.append(KafkaError(KafkaError._TIMED_OUT, f"no answer within {timeout:.0f} s"))
    for failure in failures:
        raise KafkaException(failure)


def create_topic(admin: AdminClient, topic: str, timeout: float) -> None:
    """Create a topic of one partition, with the brokers' defaults, unless it is there. KafkaException if refused."""
    if topic in admin.list_topics(timeout=timeout).topics:
        return
    made = admin.create_topics([NewTopic(topic, 1)], request_timeout=timeout)[topic]
    try:
        made.result(timeout + 5)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
