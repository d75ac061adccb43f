"""Looks at the consumer group of a sink: whether it runs."""

from collections.abc import Mapping

from confluent_kafka.admin import AdminClient

from tidegate.adapters.kafka.errors import translate_kafka_errors

TIMEOUT_SECONDS = 30


class SinkGroups:
    """Consumer groups of other programs. `settings` are librdkafka's."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.settings = settings

    @translate_kafka_errors
    def count_members(self, group: str) -> int:
        """How many members the group has now; 0 also for a group that nobody knows."""
        client = AdminClient({**self.settings, "log_level": "0"})
        future = client.describe_consumer_groups([group], request_timeout=TIMEOUT_SECONDS)[group]
        return len(future.result(TIMEOUT_SECONDS).members)
