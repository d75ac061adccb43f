"""What passes in a moment on a broker is asked again; what does not pass is told."""

import pytest
from confluent_kafka import KafkaError, KafkaException
from tidegate.adapters.kafka.broker import KafkaBroker
from tidegate.adapters.kafka.errors import Places
from tidegate.errors import RetryLater
from tidegate.model.kafka_log import Log

NOBODY = {"bootstrap.servers": "127.0.0.1:1"}
LOG = Log("cluster", {}, {}, {})


class Young(KafkaBroker):
    """A broker that answers with one error before it knows its own topic."""

    def __init__(self, code: int) -> None:
        super().__init__(NOBODY)
        self.errors = [KafkaException(KafkaError(code))]

    def _describe_topics(self, topics: tuple[str, ...]) -> tuple[str, dict[str, str], Places]:
        if self.errors:
            raise self.errors.pop()
        return "cluster", {}, []


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
    ],
)
def test_leader_that_a_broker_is_still_learning_of_is_waited_for(code: int) -> None:
    assert Young(code).read_log(("orders",), "read_committed") == LOG


def test_error_that_does_not_pass_is_told_at_once() -> None:
    with pytest.raises(RetryLater, match="orders"):
        Young(KafkaError.UNKNOWN).read_log(("orders",), "read_committed")
