"""Brokers as a diagnosis asks them: with short waits, and at the addresses that they announce."""

from collections.abc import Iterator
from contextlib import suppress

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from tidegate.adapters.kafka.broker import KafkaBroker
from tidegate.adapters.kafka.errors import translate_kafka_errors
from tidegate.adapters.kafka.settings import to_java_settings
from tidegate.adapters.server_probe import find_connection_failure
from tidegate.diagnosis.finding import Finding, make_ok
from tidegate.errors import GiveUp
from tidegate.model.offsets import Offsets, group_by_topic, iterate_offsets


class ProbedBroker(KafkaBroker):
    """The port's adapter for a diagnosis, which reports at once."""

    patience_seconds = 5.0
    election_seconds = 4.0

    def check_brokers(self) -> Iterator[Finding]:
        """Checks settings, log-in, and the addresses that brokers announce: clients use only these."""
        to_java_settings(self.settings)
        number = self._count_brokers()
        yield make_ok("kafka.reachable", f"brokers={self._servers} number={number}: each takes connections")

    @translate_kafka_errors
    def _count_brokers(self) -> int:
        try:
            nodes = self._await_result(
                "cluster", self._admin.describe_cluster(request_timeout=self.patience_seconds)
            ).nodes
        except KafkaException as error:
            raise self._translate_failure("their addresses", error) from error
        for node in nodes:
            if refusal := find_connection_failure([(node.host, node.port)]):
                raise GiveUp(
                    f"broker={node.id} of brokers={self._servers} says that its address={node.host}:{node.port}, which "
                    f"took no connection: {refusal}; correct advertised.listeners of that broker, start it, or open "
                    "the network to it"
                )
        return len(nodes)

    @translate_kafka_errors
    def read_newest_timestamps(self, ends: Offsets) -> Offsets:
        """By the brokers' index, so that no record is read; brokers before 3.0 have none."""
        places = [TopicPartition(topic, number) for topic, number, _ in iterate_offsets(ends)]
        times = dict[tuple[str, int], int]()
        specs = dict.fromkeys(places, OffsetSpec.max_timestamp())
        for place, future in self._admin.list_offsets(specs, request_timeout=self.patience_seconds).items():
            with suppress(KafkaException):
                times[place.topic, place.partition] = future.result(self.patience_seconds).timestamp
        return group_by_topic(times)
