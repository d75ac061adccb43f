"""What brokers tell of topics and consumer groups: rights, settings, leaders, and the newest record's time."""

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import ConfigResource, OffsetSpec

from tidegate.adapters.kafka.authorization import REQUIRED_RIGHTS, explain_refusal
from tidegate.adapters.kafka.broker_answers import RETRYABLE
from tidegate.adapters.kafka.probes.cluster import Cluster
from tidegate.diagnosis.brokers import GroupFacts, TopicFacts

REQUEST_TIMEOUT_SECONDS = 4.0
RETRY_PAUSE_SECONDS = 0.2
HIDDEN_REASON = "it may also not exist: brokers tell that only to those who may describe it"
READ_SETTINGS = (
    "cleanup.policy",
    "retention.ms",
    "delete.retention.ms",
    "max.message.bytes",
    "message.timestamp.type",
)
UNKNOWN_TOPIC_CODES = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)


def list_topic_names(cluster: Cluster) -> list[str]:
    """The topics that the user may describe."""
    return sorted(cluster.admin.list_topics(timeout=REQUEST_TIMEOUT_SECONDS).topics)


def read_topics(cluster: Cluster, topics: Iterable[str]) -> dict[str, TopicFacts]:
    """Facts about each topic, also about one that is missing or may not be described."""
    names = list(dict.fromkeys(topics))
    if not names:
        return {}
    futures = cluster.admin.describe_topics(
        TopicCollection(names), include_authorized_operations=True, request_timeout=REQUEST_TIMEOUT_SECONDS
    )
    settings = _read_settings(cluster, names)
    descriptions = dict[str, Any]()
    facts = dict[str, TopicFacts]()
    for name in names:
        try:
            descriptions[name] = futures[name].result(REQUEST_TIMEOUT_SECONDS + 1)
        except KafkaException as error:
            facts[name] = _explain_failure(cluster, name, error.args[0])
    times = _read_newest_times(cluster, descriptions)
    return facts | {
        name: _build_facts(topic, settings[name], times.get(name, -1)) for name, topic in descriptions.items()
    }


def _read_settings(cluster: Cluster, names: list[str]) -> dict[str, dict[str, str] | None]:
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
    futures = cluster.admin.describe_configs(resources, request_timeout=REQUEST_TIMEOUT_SECONDS)
    settings: dict[str, dict[str, str] | None] = {}
    for resource, future in futures.items():
        try:
            config_entries = future.result(REQUEST_TIMEOUT_SECONDS + 1)
            settings[resource.name] = {
                name: config_entries[name].value for name in READ_SETTINGS if name in config_entries
            }
        except KafkaException:  # the topic's description says what it means
            settings[resource.name] = None
    return settings


def _build_facts(topic: Any, settings: dict[str, str] | None, newest_ms: int) -> TopicFacts:
    operations = frozenset(operation.name for operation in topic.authorized_operations or ())
    return TopicFacts(
        topic=topic.name,
        partitions=len(topic.partitions),
        leaderless=tuple(sorted(partition.id for partition in topic.partitions if not _has_leader(partition))),
        operations=operations,
        settings=settings,
        newest_ms=newest_ms,
    )


def _has_leader(partition: Any) -> bool:
    return partition.leader is not None and partition.leader.id >= 0


def _read_newest_times(cluster: Cluster, topics: Mapping[str, Any]) -> dict[str, int]:
    """The time of the newest record of each topic that has one; brokers before 3.0 do not tell it."""
    specs = {
        TopicPartition(name, partition.id): OffsetSpec.max_timestamp()
        for name, topic in topics.items()
        for partition in topic.partitions
        if _has_leader(partition)
    }
    futures = cluster.admin.list_offsets(specs, request_timeout=REQUEST_TIMEOUT_SECONDS) if specs else {}
    times: dict[str, int] = {}
    for place, future in futures.items():
        with suppress(KafkaException):
            times[place.topic] = max(times.get(place.topic, -1), future.result(REQUEST_TIMEOUT_SECONDS + 1).timestamp)
    return times


def _explain_failure(cluster: Cluster, topic: str, error: KafkaError) -> TopicFacts:
    if error.code() in UNKNOWN_TOPIC_CODES:
        return TopicFacts(topic, is_missing=True)
    if error.code() in REQUIRED_RIGHTS:
        return TopicFacts(
            topic, problem=f"{explain_refusal(cluster.servers, f'topic={topic}', error)}; {HIDDEN_REASON}"
        )
    problem = f"topic={topic} cannot be described by brokers={cluster.servers}: {error.str()}; see the brokers' log"
    return TopicFacts(topic, problem=problem)


def read_groups(cluster: Cluster, groups: Iterable[str]) -> list[GroupFacts]:
    """Facts about each consumer group; one that nobody has used yet has no members."""
    names = list(dict.fromkeys(groups))
    deadline = time.monotonic() + REQUEST_TIMEOUT_SECONDS
    facts = dict[str, GroupFacts]()
    while names:
        futures = cluster.admin.describe_consumer_groups(
            names, include_authorized_operations=True, request_timeout=REQUEST_TIMEOUT_SECONDS
        )
        is_last = time.monotonic() > deadline
        group_facts = {name: _await_group(cluster, name, future, is_last) for name, future in futures.items()}
        facts |= {name: fact for name, fact in group_facts.items() if fact is not None}
        names = [name for name in names if name not in facts]
        time.sleep(RETRY_PAUSE_SECONDS if names else 0)
    return list(facts.values())


def _await_group(cluster: Cluster, name: str, future: Any, is_last: bool) -> GroupFacts | None:
    """The facts; None where the group's coordinator is loading, unless it was asked for the last time."""
    try:
        group = future.result(REQUEST_TIMEOUT_SECONDS + 1)
    except KafkaException as error:
        fault: KafkaError = error.args[0]
        if fault.code() in RETRYABLE and not is_last:
            return None
        if fault.code() in REQUIRED_RIGHTS:
            return GroupFacts(name, problem=explain_refusal(cluster.servers, f"offsets of group={name}", fault))
        if fault.code() == KafkaError.GROUP_ID_NOT_FOUND:
            return GroupFacts(name)
        return GroupFacts(
            name, problem=f"group={name} cannot be described: {fault.name()} {fault.str()}; see the brokers' log"
        )
    operations = frozenset(operation.name for operation in group.authorized_operations or ())
    return GroupFacts(name, operations=operations, members=len(group.members))
