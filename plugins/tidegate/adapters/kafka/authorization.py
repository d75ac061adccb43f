"""Kafka's brokers refuse a user something: noticed at once, and reported with the missing right."""

from collections.abc import Sequence
from contextlib import suppress

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource

from tidegate.adapters.kafka.errors import (
    NoLeader,
    build_partial_answer_error,
    check_committed,
    explain_no_leader,
)
from tidegate.errors import GiveUp, PositionLost, RetryLater, TidegateError

# A client without a right to its group goes on looking for the group's coordinator until every call has timed out.
COMMITTED_TIMEOUT_SECONDS = 3.0
REQUIRED_RIGHTS = {
    KafkaError._AUTHENTICATION: "to log in",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "READ on the topic, DESCRIBE_CONFIGS for its settings, WRITE to send to it",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "READ on the group",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "the right to the cluster that this asks for",
}
UNKNOWN_TOPIC_CODES = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)
MEMBER_CODES = (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION, KafkaError.REBALANCE_IN_PROGRESS)
SILENCE_ADVICE = (
    "see that they run, that the connection's security.protocol is theirs (TLS, a log-in), and that the addresses of "
    "their advertised.listeners can be reached"
)
RETENTION_SETTING = "offsets.retention.minutes"


class LoginWatch:
    """Hears from a client whether the brokers refuse its log-in: the client would retry until every call times out.

    An object of its own: a client whose callback refers to its owner keeps its threads and sockets after its last use,
    until Python's collector comes. `tidegate run` had up to 900 descriptors open for that.
    """

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self.refusal: GiveUp | None = None

    def note(self, error: KafkaError) -> None:
        """The client's `error_cb`."""
        if error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL):
            self.refusal = GiveUp(
                f"brokers={self._servers} refuse the log-in: {error.str().partition(': ')[2] or error.name()}; "
                "check user, password and mechanism of the Kafka connection, and the certificate's authority"
            )


def explain_refusal(servers: str, action: str, error: KafkaError) -> str:
    """For an error whose code stands in `REQUIRED_RIGHTS`."""
    right = REQUIRED_RIGHTS[error.code()]
    return f"brokers={servers} refuse {action}: {error.name()}; give the connection's user what it needs: {right}"


def explain_failure(servers: str, action: str, failure: KafkaException) -> TidegateError:
    error: KafkaError = failure.args[0]
    if isinstance(failure, NoLeader):
        return explain_no_leader(servers, failure)
    if error.code() in UNKNOWN_TOPIC_CODES:
        return PositionLost(f"{action} does not exist on brokers={servers}; create it, or correct source.topics")
    if error.code() in REQUIRED_RIGHTS:
        return GiveUp(explain_refusal(servers, action, error))
    if error.code() in MEMBER_CODES:
        return RetryLater(
            f"brokers={servers} refuse {action}: {error.name()}: another client consumes in the group; stop that "
            "client, or give the pipeline another source.group"
        )
    return RetryLater(
        f"brokers={servers} cannot be asked for {action}: {error.name()}: {error.str()}; {SILENCE_ADVICE}"
    )


def read_committed(member: Consumer, places: Sequence[TopicPartition], timeout: float) -> list[TopicPartition]:
    """`KafkaException` after a few seconds where the user may not ask."""
    with suppress(KafkaException):
        return check_committed(member.committed(list(places), timeout=min(COMMITTED_TIMEOUT_SECONDS, timeout)))
    message = member.poll(0)  # it reads no records: what comes is an error
    error = None if message is None else message.error()
    if error is not None and error.code() in REQUIRED_RIGHTS:
        raise KafkaException(error)
    return check_committed(member.committed(list(places), timeout=timeout))


def read_group_retention(admin: AdminClient, timeout: float) -> float | None:
    """In seconds; None where the brokers do not say. `KafkaException` if they are gone."""
    brokers = admin.list_topics(timeout=timeout).brokers
    if not brokers:
        raise build_partial_answer_error("no broker is named")
    resources = [ConfigResource(ConfigResource.Type.BROKER, str(min(brokers)))]
    try:
        config = admin.describe_configs(resources, request_timeout=timeout)[resources[0]].result(timeout + 5)
    except KafkaException as error:
        if error.args[0].code() in REQUIRED_RIGHTS:
            return None
        raise
    return 60.0 * float(config[RETENTION_SETTING].value) if RETENTION_SETTING in config else None
