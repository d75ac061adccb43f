"""Opens Kafka's brokers for a file's `kafka`: a connection's id, or settings without secrets."""

from collections.abc import Mapping

from tidegate.adapters.kafka.broker import KafkaBroker
from tidegate.adapters.kafka.settings import describe_kafka_place, resolve_kafka_settings
from tidegate.adapters.kafka.shared_broker import ReadAheadBroker
from tidegate.connections import Resolve


def open_read_ahead_broker(kafka: str | Mapping[str, str], resolve: Resolve) -> ReadAheadBroker:
    return ReadAheadBroker(resolve_kafka_settings(kafka, resolve), describe_kafka_place(kafka))


def open_broker(kafka: str | Mapping[str, str], resolve: Resolve) -> KafkaBroker:
    """Open the brokers, without a connection yet. `ConfigurationError` if the settings are wrong."""
    return KafkaBroker(resolve_kafka_settings(kafka, resolve), describe_kafka_place(kafka))
