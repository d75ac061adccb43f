"""What Kafka's client raises by itself, before or beside what brokers answer: its settings are wrong, or it passes."""

from typing import Any

from confluent_kafka import KafkaError, KafkaException

from tidegate.adapters.port_errors import translate_errors
from tidegate.errors import ConfigurationError, RetryLater, TidegateError
from tidegate.model.offsets import Offsets, iterate_offsets


def translate_error(port: Any, verb: str, subject: str, error: Exception) -> TidegateError | None:
    """The product's error for one of the client's; None for an unexpected one."""
    if not isinstance(error, KafkaException):
        return None
    fault: KafkaError = error.args[0]
    if fault.code() == KafkaError._INVALID_ARG:
        return ConfigurationError(
            f"{name_brokers(port, subject)}: Kafka's client refuses the connection's settings: {fault.str()}; "
            "correct the extra of the Kafka connection"
        )
    return RetryLater(f"{name_brokers(port, subject)}: {verb} failed: {fault.str()}; it will be tried again")


def name_brokers(port: Any, subject: str) -> str:
    """How a message names whom a verb asked."""
    return f"brokers={port.settings['bootstrap.servers']}"


translate_kafka_errors = translate_errors(translate_error, name_brokers)


def check_read_back(group: str, offsets: Offsets, read_back: Offsets) -> None:
    """`RetryLater` if the group has another offset than the one that was just committed."""
    unstored_offsets = [(t, p, o) for t, p, o in iterate_offsets(offsets) if read_back.get(t, {}).get(p) != o]
    if unstored_offsets:
        topic, partition, offset = unstored_offsets[0]
        raise RetryLater(
            f"group={group}: committed offset={offset} of topic={topic} partition={partition} and read back "
            f"offset={read_back.get(topic, {}).get(partition)}; another client commits to this group, or it has members"
        )
