"""What an error of Kafka's client, or a part that is missing in an answer, means: it passes, or a right is missing."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource

from tidegate.adapters.port_errors import translate_errors
from tidegate.errors import ConfigurationError, GiveUp, PositionLost, RetryLater, TidegateError, TopicsUnavailable
from tidegate.model.offsets import Offsets, format_partitions, group_by_topic, iterate_offsets
from tidegate.model.table_state import NO_TOPIC_ID


def translate_error(port: Any, verb: str, subject: str, error: Exception) -> TidegateError | None:
    """None for an unexpected error."""
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
    return f"brokers={port.settings['bootstrap.servers']}"


translate_kafka_errors = translate_errors(translate_error, name_brokers)


def check_read_back(group: str, offsets: Offsets, read_back: Offsets) -> None:
    """`RetryLater` if the group has another offset than the one just committed."""
    unstored_offsets = [(t, p, o) for t, p, o in iterate_offsets(offsets) if read_back.get(t, {}).get(p) != o]
    if unstored_offsets:
        topic, partition, offset = unstored_offsets[0]
        raise RetryLater(
            f"group={group}: committed offset={offset} of topic={topic} partition={partition} and read back "
            f"offset={read_back.get(topic, {}).get(partition)}: another client commits to this group, or it has "
            "members; stop that client, or give the pipeline another source.group"
        )


NO_RECORD_OFFSET = -1  # of a time: no record is that late. Every other negative offset is one that nobody knows now.
RETRYABLE = (  # what Kafka's own clients ask again after; a young topic's leader and its epoch travel separately
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.UNSTABLE_OFFSET_COMMIT,
    KafkaError._PARTIAL,
)
Places = list[tuple[str, int]]


class NoLeader(KafkaException):  # type: ignore[misc]  # the client tells no types
    """No offset of these `places` is known now: ask the brokers again."""

    def __init__(self, places: Iterable[tuple[str, int]]) -> None:
        super().__init__(KafkaError(KafkaError._PARTIAL))
        self.places = sorted(places)


def explain_no_leader(servers: str, failure: NoLeader) -> TopicsUnavailable:
    """For partitions without a leader for longer than an election takes."""
    topic, partition = failure.places[0]
    more = f" (and {len(failure.places) - 1} more)" if len(failure.places) > 1 else ""
    return TopicsUnavailable(
        f"brokers={servers}: no offset is known now of topic={topic} partition={partition}{more}: it has no leader "
        "that answers, or one is in election; nothing was changed, and it will be tried again; if it stays so, the "
        "brokers that hold the partition are down: start one of them",
        dict.fromkeys(topic for topic, _ in failure.places),
    )


def build_partial_answer_error(message_start: str) -> KafkaException:
    """For an answer that lacks a partition; a retry asks the brokers again."""
    message = f"{message_start}: a partition's leader may be in election; nothing was changed, run it again in a moment"
    return KafkaException(KafkaError(KafkaError._PARTIAL, message))


def check_offsets(answers: Mapping[tuple[str, int], int]) -> Offsets:
    """Begin or end offsets of the log; `NoLeader` where one is unknown now."""
    if unknown := [place for place, offset in answers.items() if offset < 0]:
        raise NoLeader(unknown)
    return group_by_topic(answers)


def check_description(cluster: Any, topics: Iterable[Any]) -> tuple[str, dict[str, str], Places]:
    """The cluster's id, the topics' ids and their partitions; `KafkaException` where a part is missing."""
    topics = list(topics)
    if not cluster.cluster_id:
        raise build_partial_answer_error("the brokers do not tell their cluster's id")
    ids = {topic.name: str(topic.topic_id) for topic in topics}
    for topic in topics:
        partitions = sorted(partition.id for partition in topic.partitions)
        if not partitions or partitions != list(range(len(partitions))):
            partitions_text = format_partitions(partitions)
            raise build_partial_answer_error(f"topic={topic.name} partitions={partitions_text} are not all that it has")
        # brokers before 2.8 have no topic ids at all
        if ids[topic.name] == NO_TOPIC_ID and set(ids.values()) != {NO_TOPIC_ID}:
            raise build_partial_answer_error(f"topic={topic.name} has no id now")
    return cluster.cluster_id, ids, [(t.name, p.id) for t in topics for p in t.partitions]


def check_committed(answers: Iterable[TopicPartition]) -> list[TopicPartition]:
    """`KafkaException` for an error among the offsets; never committed is none."""
    answers = list(answers)
    for answer in answers:
        if answer.error is not None:
            raise KafkaException(answer.error)
    return answers


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
        self.refusal: GiveUp | None = None  # calls take away that of an earlier one, which other brokers answered

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
