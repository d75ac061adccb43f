"""Kafka's brokers, through confluent-kafka: where the log starts and ends, and a group's committed offsets."""

import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, closing, suppress
from functools import partial
from typing import Any, Self, TypeVar

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tidegate.adapters.kafka import topics as kafka_topics
from tidegate.adapters.kafka.errors import (
    NO_RECORD_OFFSET,
    RETRYABLE,
    SILENCE_ADVICE,
    LoginWatch,
    NoLeader,
    Places,
    check_description,
    check_offsets,
    check_read_back,
    explain_failure,
    read_committed,
    read_group_retention,
    translate_kafka_errors,
)
from tidegate.adapters.kafka.settings import describe_kafka_place, resolve_kafka_settings
from tidegate.adapters.kafka.single_record import find_cuts, find_epochs, read_first_timestamps, read_records_at
from tidegate.adapters.server_probe import Server, require_server
from tidegate.connections import Resolve
from tidegate.errors import GiveUp, PositionLost, RetryLater
from tidegate.failpoints import hit_failpoint
from tidegate.model.kafka_log import Epochs, KafkaRecord, Log, Message, Retention
from tidegate.model.offsets import (
    Offsets,
    Ranges,
    RecordAddress,
    find_highest,
    format_names,
    group_by_topic,
    iterate_offsets,
)

T = TypeVar("T")
# that a look at one record takes, and each further one
PEEK_TIMEOUT_SECONDS = 5.0
PEEK_PARTITION_SECONDS = 0.01
RETRY_PAUSE_SECONDS = 0.2
REFUSAL_SECONDS = 3.0  # for which the other brokers are awaited once one has refused the log-in
METADATA_TTL_SECONDS = 60.0  # seconds
READER_GROUP = "tidegate-status"  # the group that peeks at single records; it commits nothing
BEAT_KEY = "heartbeat="
# of the brokers themselves: patterns do not mean them, as in Kafka's own clients (exclude.internal.topics)
INTERNAL_TOPICS = frozenset(("__consumer_offsets", "__share_group_state", "__transaction_state"))
TIMEOUT_SECONDS = 30.0  # seconds; a stopped broker would hang a call without one
ELECTION_TIMEOUT_SECONDS = 10.0  # seconds; asked longer, the client goes on knocking at a broker that is gone
ISOLATION = {"read_committed": IsolationLevel.READ_COMMITTED, "read_uncommitted": IsolationLevel.READ_UNCOMMITTED}


class KafkaBroker:
    """Implements the port `Broker`. `settings` are librdkafka's, secrets included; `place` is where they stand."""

    patience_seconds = TIMEOUT_SECONDS  # for an answer of the whole cluster
    election_seconds = ELECTION_TIMEOUT_SECONDS  # for one of a partition's leader

    def __init__(self, settings: Mapping[str, str], place: str = "") -> None:
        if not settings.get("bootstrap.servers"):
            raise GiveUp("bootstrap.servers is missing from the Kafka connection; add it to the connection's extra")
        self._servers = settings["bootstrap.servers"]
        self._server = Server.from_list("Kafka", place, self._servers)
        self.settings = {"socket.timeout.ms": "20000", **settings}
        self._client: AdminClient | None = None
        self._login = LoginWatch(self._servers)
        self._epochs: tuple[Ranges, Epochs] | None = None
        self._layout: tuple[float, dict[str, list[int]]] | None = None

    @classmethod
    def open(cls, kafka: str | Mapping[str, str], resolve: Resolve) -> Self:
        """By a connection's id, or settings without secrets; without a connection yet.

        `ConfigurationError` if the settings are wrong.
        """
        return cls(resolve_kafka_settings(kafka, resolve), describe_kafka_place(kafka))

    @property
    def _admin(self) -> AdminClient:
        if self._client is None:
            client = AdminClient({**self.settings, "error_cb": self._login.note, "log_level": "0"})
            require_server(self._server)  # the client would knock for half a minute
            self._client = client
        return self._client

    def disconnect(self) -> None:
        """Drop the client, which would go on calling brokers that are gone; the next call makes another."""
        self._client = None
        self._login = LoginWatch(self._servers)

    @translate_kafka_errors
    def list_topics(self, pattern: str) -> tuple[str, ...]:
        return tuple(sorted(name for name in self._list_partitions() if re.fullmatch(pattern, name)))

    @translate_kafka_errors
    def read_log(self, topics: tuple[str, ...], isolation: str) -> Log:
        def read() -> Log:
            cluster_id, topic_ids, partitions = self._describe_topics(topics)
            begin = check_offsets(self._list_offsets(partitions, OffsetSpec.earliest(), isolation)[0])
            end, epochs = self._list_offsets(partitions, OffsetSpec.latest(), isolation)
            # brokers say an end before the begin while a transaction is open whose first records are gone
            whole_end = find_highest(begin, check_offsets(end))
            return Log(cluster_id, topic_ids, begin, whole_end, epochs=group_by_topic(epochs))

        return self._retry_call(f"topics={format_names(topics)}", read)

    @translate_kafka_errors
    def read_topic_ids(self, topics: tuple[str, ...]) -> tuple[str, dict[str, str]]:
        return self._retry_call(f"topics={format_names(topics)}", lambda: self._describe_topics(topics))[:2]

    @translate_kafka_errors
    def read_end_offsets(self, topics: tuple[str, ...], isolation: str) -> Offsets:
        # Callers may poll it every second: the partitions of a topic are cached for a minute
        if (
            self._layout is None
            or time.monotonic() - self._layout[0] > METADATA_TTL_SECONDS
            or not self._layout[1].keys() >= {*topics}
        ):
            self._layout = time.monotonic(), self._list_partitions()
        partitions = self._layout[1]
        specs = {TopicPartition(t, p): OffsetSpec.latest() for t in topics for p in partitions.get(t, ())}
        if not specs:
            return {}
        futures = self._admin.list_offsets(specs, isolation_level=ISOLATION[isolation], request_timeout=TIMEOUT_SECONDS)
        offsets = dict[tuple[str, int], int]()
        for place, future in futures.items():
            with suppress(KafkaException):
                offsets[place.topic, place.partition] = future.result(timeout=TIMEOUT_SECONDS + 5).offset
        return group_by_topic({place: offset for place, offset in offsets.items() if offset >= 0})

    def _list_partitions(self) -> dict[str, list[int]]:
        self._login.refusal = None
        try:
            topics = self._admin.list_topics(timeout=TIMEOUT_SECONDS).topics
        except KafkaException as error:
            raise self._translate_failure("topics", error) from error
        return {name: sorted(topic.partitions) for name, topic in topics.items() if name not in INTERNAL_TOPICS}

    @translate_kafka_errors
    def find_offsets_at(self, topics: tuple[str, ...], timestamp_ms: int) -> Offsets:
        spec = OffsetSpec.for_timestamp(timestamp_ms) if timestamp_ms >= 0 else OffsetSpec.earliest()  # -1 is the end

        def find() -> Offsets:
            _, _, partitions = self._describe_topics(topics)
            offsets, _ = self._list_offsets(partitions, spec, "read_uncommitted")
            end, _ = self._list_offsets(partitions, OffsetSpec.latest(), "read_uncommitted")
            # the log's end where no record is that late
            late = {place: end[place] for place, offset in offsets.items() if offset == NO_RECORD_OFFSET}
            check_offsets(end)
            return check_offsets({**offsets, **late})

        return self._retry_call(f"topics={format_names(topics)}", find)

    @translate_kafka_errors
    def filter_compacted(self, topics: tuple[str, ...]) -> tuple[str, ...]:
        retention = self.read_retention(topics)
        return tuple(topic for topic in topics if retention[topic].tombstones_ms is not None)

    @translate_kafka_errors
    def read_timestamps(
        self, places: Collection[RecordAddress], isolation: str = "read_committed"
    ) -> dict[RecordAddress, int]:
        settings = {**self.settings, "group.id": READER_GROUP, "isolation.level": isolation}
        return read_first_timestamps(settings, places, PEEK_TIMEOUT_SECONDS + PEEK_PARTITION_SECONDS * len(places))

    @translate_kafka_errors
    def read_records(self, topic: str, partition: int, offsets: range, isolation: str) -> tuple[KafkaRecord, ...]:
        with self._open_consumer(READER_GROUP, isolation) as reader:
            return tuple(read_records_at(reader, topic, partition, offsets))

    @translate_kafka_errors
    def read_newest_timestamps(self, ends: Offsets) -> Offsets:
        with self._open_consumer(READER_GROUP) as reader:
            return group_by_topic(kafka_topics.read_last_timestamps(reader, ends, PEEK_TIMEOUT_SECONDS))

    @translate_kafka_errors
    def read_retention(self, topics: tuple[str, ...]) -> dict[str, Retention]:
        action = f"the settings of topics={format_names(topics)}"
        return self._retry_call(action, lambda: kafka_topics.read_retentions(self._admin, topics, TIMEOUT_SECONDS))

    @translate_kafka_errors
    def read_group_retention(self) -> float | None:
        return self._retry_call("the brokers' settings", lambda: read_group_retention(self._admin, TIMEOUT_SECONDS))

    @translate_kafka_errors
    def send(self, topic: str, records: Sequence[Message]) -> None:
        self._retry_call(f"topic={topic}", lambda: kafka_topics.create_topic(self._admin, topic, TIMEOUT_SECONDS))
        send = partial(kafka_topics.send_records, self.settings, topic, records, TIMEOUT_SECONDS)
        self._retry_call(f"topic={topic}", send)

    @translate_kafka_errors
    def read_leader_epochs(self, ranges: Ranges, isolation: str) -> Epochs:
        # Tables that share a batch share the answer
        if self._epochs is None or self._epochs[0] != ranges:
            self._epochs = ranges, find_epochs(self.settings, ranges, isolation)
        return self._epochs[1]

    @translate_kafka_errors
    def find_log_cuts(self, offsets: Offsets, epochs: Offsets) -> Offsets:
        return find_cuts(self.settings, offsets, epochs)

    @translate_kafka_errors
    def sample_keys(self, ranges: Ranges) -> dict[tuple[str, int], list[bytes | None]]:
        return kafka_topics.sample_keys({**self.settings, "group.id": READER_GROUP}, ranges)

    @translate_kafka_errors
    def read_committed(self, group: str, topics: tuple[str, ...]) -> Offsets:
        _, _, partitions = self._retry_call(f"topics={format_names(topics)}", lambda: self._describe_topics(topics))
        with self._open_consumer(group) as member:
            return self._read_back(group, member, [TopicPartition(t, p) for t, p in partitions])

    @translate_kafka_errors
    def commit(self, group: str, offsets: Offsets, beat_ms: int | None = None) -> int | None:
        # The heartbeat's time travels as the commit's metadata; of very many partitions in parts
        with self._open_consumer(group) as member:
            places = [TopicPartition(t, p) for t, p, _ in iterate_offsets(offsets)]
            action = f"offsets of group={group}"
            answers = self._retry_call(action, lambda: read_committed(member, places, TIMEOUT_SECONDS))
            notes = [p.metadata.removeprefix(BEAT_KEY) for p in answers if (p.metadata or "").startswith(BEAT_KEY)]
            before = max((int(note) for note in notes if note.isdecimal()), default=None)
            beat = before if beat_ms is None else beat_ms
            note = "" if beat is None else BEAT_KEY + str(beat)
            partitions = [TopicPartition(t, p, o, note) for t, p, o in iterate_offsets(offsets)]
            action = f"a commit of group={group}"
            for part in kafka_topics.cut_commit(group, partitions):
                results = self._retry_call(action, partial(member.commit, offsets=part, asynchronous=False))
                for answer in filter(lambda tp: tp.error is not None, results or []):
                    raise self._translate_failure(action, KafkaException(answer.error))
            hit_failpoint("group.committed")
            reply = self._read_back(group, member, partitions)
        check_read_back(group, offsets, reply)
        return before

    def _read_back(self, group: str, member: Consumer, partitions: list[TopicPartition]) -> Offsets:
        action = f"offsets of group={group}"
        read = partial(read_committed, member, partitions, TIMEOUT_SECONDS)
        answers = self._retry_call(action, read) if partitions else []
        return group_by_topic({(tp.topic, tp.partition): tp.offset for tp in answers if tp.offset >= 0})

    def _retry_call(self, action: str, call: Callable[[], T]) -> T:
        # a young topic may have no leader yet, and a group's coordinator may be loading
        deadline = time.monotonic() + self.patience_seconds
        self._login.refusal = None
        while True:
            try:
                return call()
            except KafkaException as error:
                if error.args[0].code() not in (*RETRYABLE, KafkaError._TIMED_OUT) or time.monotonic() > deadline:
                    raise self._translate_failure(action, error) from error
                time.sleep(RETRY_PAUSE_SECONDS)

    def _open_consumer(self, group: str, isolation: str = "read_committed") -> AbstractContextManager[Consumer]:
        """A client that acts for the group without joining it."""
        # no admin client: its calls would crash the process while a coordinator is loading (librdkafka 2.16)
        reader_settings = {"group.id": group, "isolation.level": isolation, "enable.auto.commit": "false"}
        # told of the log's end, a reader need not wait for records that are not there
        return closing(Consumer({**self.settings, **reader_settings, "enable.partition.eof": "true", "log_level": "3"}))

    def _describe_topics(self, topics: tuple[str, ...]) -> tuple[str, dict[str, str], Places]:
        if not topics:
            return "", {}, []
        cluster = self._await_result("cluster", self._admin.describe_cluster(request_timeout=self.election_seconds))
        futures = self._admin.describe_topics(TopicCollection(list(topics)), request_timeout=self.election_seconds)
        return check_description(
            cluster, [self._await_result(f"topic={topic}", future) for topic, future in futures.items()]
        )

    def _list_offsets(
        self, partitions: Places, spec: OffsetSpec, isolation: str
    ) -> tuple[dict[tuple[str, int], int], dict[tuple[str, int], int]]:
        """Offsets, and the epochs of their leaders where brokers keep them; `NoLeader` where some have no leader."""
        if not partitions:
            return {}, {}
        specs = {TopicPartition(topic, partition): spec for topic, partition in partitions}
        futures = self._admin.list_offsets(
            specs, isolation_level=ISOLATION[isolation], request_timeout=self.election_seconds
        )
        results = dict[tuple[str, int], Any]()
        leaderless = list[tuple[str, int]]()
        for place, future in futures.items():
            try:
                action = f"topic={place.topic} partition={place.partition}"
                results[place.topic, place.partition] = self._await_result(action, future)
            except KafkaException as error:
                if error.args[0].code() not in RETRYABLE:
                    raise
                leaderless.append((place.topic, place.partition))
            except PositionLost:  # to this broker: the next description tells whether the topic exists
                leaderless.append((place.topic, place.partition))
        if leaderless:
            raise NoLeader(leaderless)
        offsets = {place: result.offset for place, result in results.items()}
        epochs = {place: result.leader_epoch for place, result in results.items()}
        return offsets, {place: epoch for place, epoch in epochs.items() if epoch is not None and epoch >= 0}

    def _await_result(self, action: str, future: "Future[Any]") -> Any:
        deadline = time.monotonic() + self.patience_seconds + 5
        while True:
            try:
                return future.result(timeout=RETRY_PAUSE_SECONDS)
            except KafkaException as error:
                if error.args[0].code() == KafkaError._TIMED_OUT and self._login.refusal is None:
                    self._client = None  # it never learns that the broker which it asks first is gone
                if error.args[0].code() in RETRYABLE or self._client is None:
                    raise
                raise self._translate_failure(action, error) from error
            except TimeoutError as error:
                self._admin.poll(0)
                if self._login.refusal is not None:
                    deadline = min(deadline, time.monotonic() + REFUSAL_SECONDS)
                if time.monotonic() >= deadline:
                    raise self._take_refusal() or RetryLater(
                        f"brokers={self._servers} gave no answer within {self.patience_seconds:.0f} s: {action}; "
                        f"{SILENCE_ADVICE}"
                    ) from error

    def _translate_failure(self, action: str, failure: KafkaException) -> Exception:
        error: KafkaError = failure.args[0]
        if error.code() == KafkaError._INVALID_ARG:  # a setting is wrong, and no client was made
            raise failure
        if self._client is not None:
            self._client.poll(0)
        return self._take_refusal() or explain_failure(self._servers, action, failure)

    def _take_refusal(self) -> GiveUp | None:
        # of this call alone: somebody may correct the brokers, and a page keeps this object as long as its server runs
        refusal = self._login.refusal
        if refusal is not None:
            self.disconnect()
        return refusal
