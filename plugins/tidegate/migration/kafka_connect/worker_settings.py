"""Settings that every sink of Kafka Connect has: its name, topics, clients, and what a bad record does."""

import re
from typing import Any

from tidegate.migration.connector_config import Choices
from tidegate.migration.draft import Draft, SettingsLedger
from tidegate.redaction import is_secret_name
from tidegate.sinks.world import World

NO_TASKS = "Spark reads all partitions; there are no tasks to count"
WITHOUT_MEANING = {
    "connector.class": "Tidegate is the sink",
    "tasks.max": NO_TASKS,
    "tasks.max.enforce": NO_TASKS,
    "config.action.reload": "connections are looked up by each task",
    "header.converter": "headers become columns by source.metadata alone",
    "errors.log.enable": "every bad record says why, with topic, partition and offset",
    "errors.log.include.messages": "bin/tidegate record shows a record; logs never do",
    "errors.retry.timeout": "Airflow tries a failed task again",
    "errors.retry.delay.max.ms": "Airflow tries a failed task again",
    "errors.deadletterqueue.topic.replication.factor": "the topic is made with the broker's default",
    "errors.deadletterqueue.context.headers.enable": "the headers that say why are always there",
    "plugin.version": "there is no plugin",
    "value.converter.plugin.version": "there is no plugin",
    "key.converter.plugin.version": "there is no plugin",
}
KAFKA = "kafka_default"
CLIENT_PREFIXES = ("consumer.override.", "producer.override.", "admin.override.", "iceberg.kafka.")
# the Java client's name -> librdkafka's, as a Kafka connection has to hold them
CLIENT_NAMES = {
    "ssl.truststore.location": "ssl.ca.location (the truststore as PEM)",
    "ssl.truststore.password": "no truststore password, because PEM needs none",
    "ssl.keystore.location": "ssl.keystore.location (PKCS12)",
    "ssl.endpoint.identification.algorithm": "ssl.endpoint.identification.algorithm (none for an empty text)",
    "sasl.mechanism": "sasl.mechanisms",
    "sasl.jaas.config": "sasl.username and sasl.password",
}
_TUNING = """
    fetch. max.poll. max.partition. session. heartbeat. request. linger. batch. buffer. acks compression.
    retries retry. delivery. reconnect. connections. metadata. receive. send. enable.idempotence transaction
    partition.assignment. interceptor. default.api. check.crcs group. client.id enable.auto. max.in.
    max.request. max.block. allow.auto. key. value. socket. security.providers metric auto.include.
"""
TUNING = tuple(_TUNING.split())


def note_worker_settings(ledger: SettingsLedger, draft: Draft) -> None:
    """Account for the framework's settings, and put into the draft what they say of the source."""
    ledger.drop_each(WITHOUT_MEANING)
    ledger.map("name", "the pipeline's name, and the consumer group that holds the position")
    tolerance = ledger.get("errors.tolerance", "none")
    errors: dict[str, Any] = {"tolerance": tolerance} if tolerance == "all" else {}
    topic = ledger.get("errors.deadletterqueue.topic.name")
    if topic and errors:
        errors["topic"] = topic
        ledger.map("errors.deadletterqueue.topic.name", f"source.errors.topic: {topic}")
    ledger.drop("errors.deadletterqueue.topic.name", "with errors.tolerance: none no record is set aside")
    ledger.map("errors.tolerance", f"source.errors.tolerance: {tolerance}")
    if errors:
        draft.data["source"]["errors"] = errors
    for prefix in CLIENT_PREFIXES:
        client = ledger.below(prefix)
        for word in client.list_names():
            if word == "auto.offset.reset":
                client.map(word, "source.start", "for partitions in which the connector has committed nothing")
            elif word == "isolation.level":
                isolation = client.get(word)
                draft.data["source"]["isolation"] = isolation
                client.map(word, f"source.isolation: {isolation}")
            elif word.startswith(TUNING) and not is_secret_name(word):
                client.drop(word, "the tuning of a Java client; Spark and librdkafka have their own")
            else:
                connection = draft.data["source"]["kafka"]
                if isinstance(connection, dict):  # a log-in has no place in a file
                    connection = draft.data["source"]["kafka"] = KAFKA
                    draft.need_connection(KAFKA, "bootstrap.servers in its extra, and the log-in to the brokers")
                client.map(word, f"source.kafka: {connection}", f"connection {connection} holds it")
                draft.need_connection(connection, f"{CLIENT_NAMES.get(word, word)} in its extra")
    ledger.drop_below("confluent.", "Confluent's licence and its topic; there is none here")


def plan_topics(ledger: SettingsLedger, draft: Draft, choices: Choices, world: World) -> list[str]:
    """Put the topics into the draft and return them; empty where only a pattern is known, and no broker was asked."""
    topics = ledger.list_items("topics")
    pattern = ledger.get("topics.regex")
    source = draft.data["source"]
    if pattern and not topics:
        known = list(choices.topics) or sorted(world.list_topics(pattern) or ())
        ledger.map("topics.regex", "source.topic_pattern")
        source["topic_pattern"] = pattern
        return known
    source["topics"] = list(choices.topics) or topics
    ledger.map("topics", "source.topics")
    return list(source["topics"])


def find_connect_group(ledger: SettingsLedger, name: str) -> str:
    return ledger.get("consumer.override.group.id") or (f"connect-{name}" if name else "")


def find_reset(ledger: SettingsLedger) -> str:
    """Where the sink begins in a partition without a committed offset."""
    return ledger.get("consumer.override.auto.offset.reset", "earliest")


def start_draft(name: str, choices: Choices, description: str, catalog: str) -> Draft:
    """With its sections in order, and the connection to Kafka."""
    inline = {"bootstrap.servers": choices.brokers} if choices.brokers and not choices.kafka else None
    source: dict[str, Any] = {"kafka": inline or choices.kafka or KAFKA}
    draft = Draft(choices.name or build_pipeline_name(name), {"description": description, "source": source}, catalog)
    if inline is None:
        draft.need_connection(source["kafka"], "bootstrap.servers in its extra, and the log-in to the brokers")
    return draft


def build_pipeline_name(text: str) -> str:
    """A connector's name as a file's: lower case, letters, digits, dash and underscore."""
    cleaned = re.sub(r"[^a-z0-9_-]", "_", text.casefold()).strip("_-")[:60]
    return cleaned if cleaned[:1].isalpha() else f"p_{cleaned}"[:60] if cleaned else "imported"
