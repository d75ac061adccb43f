"""One reading of a Kafka cluster for many read-only callers: hundreds of pipelines ask the brokers once."""

import logging
import re
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

from tidegate.adapters.kafka.broker import KafkaBroker
from tidegate.adapters.kafka.single_record import read_first_timestamps
from tidegate.adapters.server_probe import require_server
from tidegate.errors import GiveUp, RetryLater, TidegateError, TopicsUnavailable
from tidegate.model.kafka_log import Log, Message
from tidegate.model.offsets import Offsets, RecordAddress

log = logging.getLogger(__name__)
T = TypeVar("T")
AGES_TIMEOUT_SECONDS = 3.0  # seconds for the timestamps of all partitions together
MAX_CACHED_AGES = 50_000
MAX_CACHED_CUTS = 1_000
KEPT_READINGS = 1_000  # for which a topic is read that nobody asks for: pipelines of a slow catalog look seldom
EMPTY_LOG = Log("", {}, {}, {})


class SharedBroker(KafkaBroker):
    """Read-only. What was read, or a failure, stands until `forget`.

    The log and the ages of records are shared; each other call asks the brokers.
    """

    def __init__(self, settings: Mapping[str, str], place: str = "") -> None:
        # a dead broker is knocked at once a second: each knock is a line in the log of whoever looks
        super().__init__({"reconnect.backoff.ms": "1000", **settings}, place)
        self._lock = threading.RLock()
        self._ages: dict[RecordAddress, int] = {}
        self._topic_ids: dict[str, str] = {}
        self._cuts: dict[str, Offsets] = {}
        self._requested_topics: dict[str, dict[str, int]] = {}  # with the number of the last reading that did
        self._reading = 0
        self._failure: TidegateError | None = None
        self.forget()

    def forget(self) -> None:
        """The next calls ask the brokers again."""
        with self._lock:
            if self._failure is not None:  # a client that nobody waits for would go on knocking
                self.disconnect()
            self._is_connected = False
            self._reading = self._reading + 1
            self._requested_topics = {
                isolation: {t: reading for t, reading in topics.items() if reading >= self._reading - KEPT_READINGS}
                for isolation, topics in self._requested_topics.items()
            }
            self._names: tuple[str, ...] | None = None
            self._logs: dict[str, Log] = {}
            self._unavailable: dict[str, TopicsUnavailable] = {}
            self._failure = None

    def list_topics(self, pattern: str) -> tuple[str, ...]:
        with self._lock:
            names = self._call_unless_failed(self._list_all_topics)
            return tuple(name for name in names if re.fullmatch(pattern, name))

    def read_log(self, topics: tuple[str, ...], isolation: str) -> Log:
        # All topics that anybody has asked for lately are read together
        with self._lock:
            return self._call_unless_failed(lambda: self._read_shared_log(topics, isolation))

    def _call_unless_failed(self, call: Callable[[], T]) -> T:
        # wait once for brokers that do not answer, not once for each pipeline
        if self._failure is not None:
            raise self._failure
        try:
            if not self._is_connected:
                require_server(self._server)  # a client that was connected would knock for half a minute
                self._is_connected = True
            return call()
        except RetryLater as failure:
            if not isinstance(failure, TopicsUnavailable):
                self._failure = failure
            raise

    def _take_refusal(self) -> GiveUp | None:
        refusal = super()._take_refusal()
        self._failure = refusal or self._failure  # each pipeline would be refused anew
        return refusal

    def _list_all_topics(self) -> tuple[str, ...]:
        if self._names is None:
            self._names = super().list_topics(".*")
        return self._names

    def _read_shared_log(self, topics: tuple[str, ...], isolation: str) -> Log:
        if not set(topics) <= set(self._list_all_topics()):
            return super().read_log(topics, isolation)  # it says whether one is missing, or may not be seen
        requested_topics = self._requested_topics.setdefault(isolation, {})
        requested_topics.update(dict.fromkeys(topics, self._reading))
        if isolation not in self._logs:
            known = tuple(sorted(requested_topics.keys() & set(self._list_all_topics())))
            self._logs[isolation] = EMPTY_LOG
            with suppress(GiveUp):  # one topic that may not be read must not hide the others: each is asked for itself
                self._logs[isolation] = self._read_available(known, isolation)
        self._raise_unavailable(topics)
        kafka_log = self._logs[isolation]
        if late := tuple(topic for topic in topics if topic not in kafka_log.end):
            kafka_log = self._logs[isolation] = kafka_log.add_topics(self._read_available(late, isolation))
            self._raise_unavailable(topics)
        return _select_topics(kafka_log, topics)

    def _raise_unavailable(self, topics: tuple[str, ...]) -> None:
        for topic in topics:
            if topic in self._unavailable:
                raise self._unavailable[topic]

    def _read_available(self, topics: tuple[str, ...], isolation: str) -> Log:
        try:
            kafka_log = super().read_log(topics, isolation)
            self._forget_old_topics(kafka_log.topic_ids)
            return kafka_log
        except TopicsUnavailable as problem:
            # so that nobody waits for these again
            self._unavailable |= dict.fromkeys(problem.topics, problem)
            remaining_topics = tuple(topic for topic in topics if topic not in self._unavailable)
            return self._read_available(remaining_topics, isolation) if remaining_topics != topics else EMPTY_LOG

    def _forget_old_topics(self, topic_ids: Mapping[str, str]) -> None:
        # of a topic that was created again an offset is another record
        changed = {topic for topic, topic_id in topic_ids.items() if self._topic_ids.get(topic, topic_id) != topic_id}
        self._topic_ids |= topic_ids
        if changed:
            self._ages = {place: ms for place, ms in self._ages.items() if place[0] not in changed}

    def learn(self, places: Iterable[RecordAddress]) -> None:
        """Read timestamps of the first records at or after these offsets, unless known."""
        addresses = [place for place in places if place not in self._ages]
        if len(self._ages) > MAX_CACHED_AGES:
            self._ages.clear()
        settings = {**self.settings, "group.id": "tidegate-status"}
        self._ages |= read_first_timestamps(settings, addresses, AGES_TIMEOUT_SECONDS)

    def read_timestamps(
        self, places: Collection[RecordAddress], isolation: str = "read_committed"
    ) -> dict[RecordAddress, int]:
        """What `learn` has found; of another isolation what the brokers say now."""
        if isolation != "read_committed":
            return super().read_timestamps(places, isolation)
        return {place: self._ages[place] for place in places if place in self._ages}

    def read_end_offsets(self, topics: tuple[str, ...], isolation: str) -> Offsets:
        return self._call_unless_failed(partial(super().read_end_offsets, topics, isolation))

    def read_newest_timestamps(self, ends: Offsets) -> Offsets:
        return self._call_unless_failed(partial(super().read_newest_timestamps, ends))

    def commit(self, group: str, offsets: Offsets, beat_ms: int | None = None) -> int | None:
        raise GiveUp(f"group={group}: a shared reading of the brokers commits nothing; flush instead")

    def send(self, topic: str, records: Sequence[Message]) -> None:
        raise GiveUp(f"topic={topic}: a shared reading of the brokers sends nothing; flush instead")

    def find_log_cuts(self, offsets: Offsets, epochs: Offsets) -> Offsets:
        # It is asked once for as long as position and leaders stay: a later leader may cut too
        leaders = [kafka_log.epochs.get(topic) for kafka_log in list(self._logs.values()) for topic in sorted(epochs)]
        question = str((offsets, epochs, leaders))
        if question not in self._cuts:
            if len(self._cuts) > MAX_CACHED_CUTS:
                self._cuts.clear()
            self._cuts[question] = super().find_log_cuts(offsets, epochs)
        return self._cuts[question]


class ReadAheadBroker(KafkaBroker):
    """Reads the logs of many pipelines at once, after the pipelines' tables were read.

    Until `read_ahead` each call asks the brokers. From then on topics and logs stand as they were read; a log that
    could not be read with the others is asked for by itself.
    """

    def __init__(self, settings: Mapping[str, str], place: str = "") -> None:
        super().__init__(settings, place)
        self._names: tuple[str, ...] | None = None
        self._logs: dict[str, Log] = {}
        self._failure: TidegateError | None = None

    def read_names_ahead(self) -> None:
        """Read the names of all topics. Brokers that do not answer are waited for once: all callers get that error."""
        try:
            self._names = super().list_topics(".*")
        except TidegateError as failure:
            self._failure = failure

    def read_ahead(self, topics: Iterable[str], isolation: str) -> None:
        """Leaves out topics that do not exist."""
        known = tuple(sorted(set(topics) & set(self._names or ())))
        try:
            self._logs[isolation] = super().read_log(known, isolation)
        except TopicsUnavailable as problem:  # each pipeline that reads them gets the error itself
            log.warning("%s", problem)
            if problem.topics:
                self.read_ahead(set(known) - set(problem.topics), isolation)
        except (GiveUp, RetryLater) as problem:  # one topic must not take the others down: each is asked for by itself
            log.warning("topics cannot be read together; each pipeline asks for its own: %s", problem)
            try:
                require_server(self._server)
            except RetryLater as failure:
                self._failure = failure

    def list_topics(self, pattern: str) -> tuple[str, ...]:
        self._raise_failure()
        if self._names is None:
            return super().list_topics(pattern)
        return tuple(name for name in self._names if re.fullmatch(pattern, name))

    def read_log(self, topics: tuple[str, ...], isolation: str) -> Log:
        self._raise_failure()
        kafka_log = self._logs.get(isolation, EMPTY_LOG)
        is_known = set(topics) <= kafka_log.end.keys()
        return _select_topics(kafka_log, topics) if is_known else super().read_log(topics, isolation)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


def _select_topics(kafka_log: Log, topics: tuple[str, ...]) -> Log:
    ids = {topic: kafka_log.topic_ids[topic] for topic in topics}
    begin = {topic: kafka_log.begin[topic] for topic in topics}
    end = {topic: kafka_log.end[topic] for topic in topics}
    epochs = {topic: kafka_log.epochs[topic] for topic in topics if topic in kafka_log.epochs}
    return Log(kafka_log.cluster_id, ids, begin, end, epochs=epochs)
