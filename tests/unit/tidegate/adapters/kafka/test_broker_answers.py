"""What a broker's answer must hold before it is believed; the answers are those of three brokers that lost a leader."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition, Uuid
from confluent_kafka.admin import OffsetSpec
from tidegate.adapters.kafka import broker as kafka
from tidegate.adapters.kafka.broker import KafkaBroker
from tidegate.adapters.kafka.errors import check_read_back
from tidegate.errors import GiveUp, RetryLater
from tidegate.model.kafka_log import Log

UNKNOWN = -1001  # what librdkafka 2.16 answers for a partition whose leader was killed, once its patience is over
EARLIEST, LATEST, AT_TIME = (type(s) for s in (OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.for_timestamp(1)))
TOPICS = {"orders": ("id-1", (0, 1)), "users": ("id-2", (0,))}
BEGIN = {("orders", 0): 2, ("orders", 1): 5, ("users", 0): 0}
END = {("orders", 0): 102, ("orders", 1): 108, ("users", 0): 9}
ELECTION = END | {("orders", 0): UNKNOWN}


def build_future(value: Any) -> "Future[Any]":
    future: Future[Any] = Future()
    future.set_result(value)
    return future


class Client:
    """An admin client whose answers are given: `offsets` by kind, each a list of which the last one stays."""

    def __init__(self, offsets: dict[type, list[dict]], clusters: Any = ("c1",), topics: Any = (TOPICS,)) -> None:
        self.offsets, self.clusters, self.topics = offsets, list(clusters), list(topics)
        self.asked: list[Any] = []

    def poll(self, timeout: float) -> int:
        return 0

    def describe_cluster(self, **_: Any) -> "Future[Any]":
        return build_future(SimpleNamespace(cluster_id=get_next_answer(self.clusters)))

    def describe_topics(self, names: Any, **_: Any) -> dict[str, "Future[Any]"]:
        answer = get_next_answer(self.topics)
        return {
            name: build_future(
                SimpleNamespace(name=name, topic_id=uuid, partitions=[SimpleNamespace(id=p) for p in partitions])
            )
            for name, (uuid, partitions) in answer.items()
        }

    def list_topics(self, **_: Any) -> Any:
        topics = {n: SimpleNamespace(partitions=dict.fromkeys(p)) for n, (_, p) in self.topics[0].items()}
        return SimpleNamespace(topics=topics, brokers={})

    def list_offsets(self, requests: dict[TopicPartition, Any], **_: Any) -> dict[TopicPartition, "Future[Any]"]:
        self.asked += requests.values()
        answer = get_next_answer(self.offsets[type(next(iter(requests.values())))])
        return {
            tp: build_future(SimpleNamespace(offset=answer[tp.topic, tp.partition], leader_epoch=7)) for tp in requests
        }


def get_next_answer(answers: list[Any]) -> Any:
    return answers.pop(0) if len(answers) > 1 else answers[0]


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Callable[..., KafkaBroker]:
    monkeypatch.setattr(kafka, "RETRY_PAUSE_SECONDS", 0.0)

    def make(patient: bool = True, **options: Any) -> KafkaBroker:
        monkeypatch.setattr(kafka.KafkaBroker, "patience_seconds", 60.0 if patient else 0.0)
        kafka_broker = KafkaBroker({"bootstrap.servers": "127.0.0.1:1"})
        offsets = {EARLIEST: [BEGIN], LATEST: [END], AT_TIME: [BEGIN], **options.pop("offsets", {})}
        kafka_broker._client = Client(offsets, **options)  # type: ignore[assignment]
        return kafka_broker

    return make


LOG = Log(
    "c1",
    {"orders": "id-1", "users": "id-2"},
    {"orders": {0: 2, 1: 5}, "users": {0: 0}},
    {"orders": {0: 102, 1: 108}, "users": {0: 9}},
    {"orders": {0: 7, 1: 7}, "users": {0: 7}},
)
BOTH = ("orders", "users")
PARTIAL = {"orders": ("id-1", (1,)), "users": ("id-2", (0,))}
EMPTY = {"orders": ("id-1", ()), "users": ("id-2", (0,))}
WITHOUT_ID = {"orders": (str(Uuid(0, 0)), (0, 1)), "users": ("id-2", (0,))}


@pytest.mark.guard(
    "an offset that no broker knows is not an offset of the log",
    file="plugins/tidegate/adapters/kafka/errors.py",
    text="    if unknown := [place for place, offset in answers.items() if offset < 0]:\n",
    off="    if unknown := []:\n",
)
@pytest.mark.parametrize(
    "options",
    [
        {"offsets": {LATEST: [ELECTION, END]}},
        {"offsets": {EARLIEST: [BEGIN | {("orders", 1): UNKNOWN}, BEGIN]}},
        {"offsets": {LATEST: [END | {("users", 0): -1}, END]}},
        {"clusters": [None, "c1"]},
        {"topics": [PARTIAL, TOPICS]},
        {"topics": [EMPTY, TOPICS]},
        {"topics": [WITHOUT_ID, TOPICS]},
    ],
    ids=["end", "begin", "no end", "cluster", "partitions", "no partition", "topic id"],
)
def test_answer_with_a_hole_is_asked_for_again_and_never_taken_for_the_log(broker: Any, options: dict) -> None:
    assert broker(**options).read_log(BOTH, "read_committed") == LOG


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"offsets": {LATEST: [ELECTION]}}, r"no offset is known now of topic=orders partition=0: .*in election"),
        ({"topics": [PARTIAL]}, r"topic=orders partitions=\[1\] are not all that it has"),
        ({"topics": [WITHOUT_ID]}, "topic=orders has no id now"),
        ({"clusters": [""]}, "do not tell their cluster's id"),
    ],
)
def test_hole_that_stays_is_a_passing_fault_and_no_reason_to_move_a_position(
    broker: Any, options: dict, message: str
) -> None:
    with pytest.raises(RetryLater, match=message) as error_info:
        broker(patient=False, **options).read_log(BOTH, "read_committed")
    assert "rebase" not in str(error_info.value)


def test_brokers_that_know_no_ids_at_all_are_old_and_read(broker: Any) -> None:
    old = {name: (str(Uuid(0, 0)), partitions) for name, (_, partitions) in TOPICS.items()}
    assert broker(topics=[old]).read_log(BOTH, "read_committed").end == LOG.end


@pytest.mark.guard(
    "an unknown offset of a time is not the end of the log",
    file="plugins/tidegate/adapters/kafka/broker.py",
    text="for place, offset in offsets.items() if offset == NO_RECORD_OFFSET}",
    off="for place, offset in offsets.items() if offset < 0}",
)
def test_offset_of_a_time_that_nobody_knows_now_is_not_the_end_of_the_log(broker: Any) -> None:
    at = {("orders", 0): 40, ("orders", 1): -1, ("users", 0): 3}
    kafka_broker = broker(offsets={AT_TIME: [at | {("orders", 0): UNKNOWN}, at]})
    assert kafka_broker.find_offsets_at(BOTH, 1_700_000_000_000) == {"orders": {0: 40, 1: 108}, "users": {0: 3}}
    kafka_broker = broker(patient=False, offsets={AT_TIME: [at | {("orders", 0): UNKNOWN}]})
    with pytest.raises(RetryLater, match="topic=orders partition=0"):
        kafka_broker.find_offsets_at(BOTH, 1_700_000_000_000)


@pytest.mark.guard(
    "a time before 1970 is not the end of the log",
    file="plugins/tidegate/adapters/kafka/broker.py",
    text="OffsetSpec.for_timestamp(timestamp_ms) if timestamp_ms >= 0 else OffsetSpec.earliest()",
    off="OffsetSpec.for_timestamp(timestamp_ms)",
)
@pytest.mark.parametrize("milliseconds", [-1, -2, -3, -62_135_596_800_000])
def test_time_before_1970_is_no_word_for_the_end_of_the_log(broker: Any, milliseconds: int) -> None:
    kafka_broker = broker()
    kafka_broker.find_offsets_at(BOTH, milliseconds)
    kinds = {type(spec) for spec in kafka_broker._client.asked}
    assert AT_TIME not in kinds
    assert EARLIEST in kinds


def test_end_that_a_time_falls_back_to_must_be_known_too(broker: Any) -> None:
    at = {("orders", 0): -1, ("orders", 1): 7, ("users", 0): 3}
    kafka_broker = broker(offsets={AT_TIME: [at], LATEST: [ELECTION, END]})
    assert kafka_broker.find_offsets_at(BOTH, 1_700_000_000_000) == {"orders": {0: 102, 1: 7}, "users": {0: 3}}


def test_log_does_not_end_before_it_begins(broker: Any) -> None:
    """So brokers say it: records were deleted inside of a transaction that is still open."""
    log = broker(offsets={EARLIEST: [BEGIN | {("orders", 1): 120}]}).read_log(BOTH, "read_committed")
    assert log.begin == {"orders": {0: 2, 1: 120}, "users": {0: 0}}
    assert log.end == {"orders": {0: 102, 1: 120}, "users": {0: 9}}


def test_ends_leave_out_what_nobody_knows_now(broker: Any) -> None:
    kafka_broker = broker(offsets={LATEST: [ELECTION]})
    assert kafka_broker.read_end_offsets(BOTH, "read_committed") == {"orders": {1: 108}, "users": {0: 9}}


def test_answer_without_any_broker_is_a_passing_fault(broker: Any) -> None:
    with pytest.raises(RetryLater, match="no broker is named"):
        broker(patient=False).read_group_retention()


class Member:
    """A consumer whose group's offsets are given; one partition's answer is an error at first."""

    def __init__(self, code: int, times: int) -> None:
        self.code, self.times = code, times

    def committed(self, places: Any, timeout: float) -> list[Any]:
        self.times -= 1
        error = KafkaError(self.code) if self.times >= 0 else None
        hole = SimpleNamespace(topic="orders", partition=0, offset=UNKNOWN if error else 40, error=error, metadata="")
        return [hole, SimpleNamespace(topic="orders", partition=1, offset=UNKNOWN, error=None, metadata="")]

    def poll(self, timeout: float) -> None:
        return None


def test_committed_offset_that_cannot_be_told_now_is_not_one_that_was_never_committed(broker: Any) -> None:
    places = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
    loading = Member(KafkaError.UNSTABLE_OFFSET_COMMIT, times=3)
    assert broker()._read_back("shop", loading, places) == {"orders": {0: 40}}
    with pytest.raises(RetryLater, match="offsets of group=shop"):
        broker(patient=False)._read_back("shop", Member(KafkaError.UNSTABLE_OFFSET_COMMIT, times=99), places)


@pytest.mark.guard(
    "a commit that reads back differently is an error",
    file="plugins/tidegate/adapters/kafka/errors.py",
    text="    if unstored_offsets:\n",
    off="    if False:\n",
)
@pytest.mark.parametrize("committed_offsets", [{}, {"orders": {0: 3}}, {"orders": {0: 3, 1: 8}}])
def test_commit_that_is_not_read_back_as_it_was_sent_is_not_believed(broker: Any, committed_offsets: dict) -> None:
    with pytest.raises(RetryLater, match=r"committed offset=\d of topic=orders partition=\d and read back"):
        check_read_back("shop", {"orders": {0: 3, 1: 4}}, committed_offsets)
    check_read_back("shop", {"orders": {0: 3, 1: 4}}, {"orders": {0: 3, 1: 4, 2: 0}})


class Ahead(Member):
    """A member of a group whose offset another client moves between the commit and the look at it."""

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> list[TopicPartition]:
        return offsets


def test_group_that_another_client_commits_to_is_told_by_the_commit(
    broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka_broker = broker()

    @contextmanager
    def opened(group: str, isolation: str = "") -> Iterator[Ahead]:
        yield Ahead(KafkaError.NO_ERROR, times=0)

    monkeypatch.setattr(kafka_broker, "_open_consumer", opened)
    assert kafka_broker.commit("shop", {"orders": {0: 40}}) is None
    with pytest.raises(RetryLater, match="group=shop: committed offset=39 of topic=orders partition=0 and read back"):
        kafka_broker.commit("shop", {"orders": {0: 39}})
    with pytest.raises(RetryLater, match="committed offset=7 of topic=orders partition=1 and read back offset=None"):
        kafka_broker.commit("shop", {"orders": {0: 40, 1: 7}})


class TakesMegabytes:
    """A member of a group whose brokers keep its offsets in batches of at most a megabyte, and refuse a larger one."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, int], TopicPartition] = {}

    def committed(self, places: list[TopicPartition], timeout: float) -> list[Any]:
        return [self.kept.get(place := (p.topic, p.partition)) or TopicPartition(*place, UNKNOWN) for p in places]

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> list[TopicPartition]:
        # a record: its own fields, group, topic and partition as the key; offset, epoch, metadata and time as the value
        sizes = (12 + 10 + len("tidegate-shop") + len(p.topic) + 24 + len(p.metadata or "") for p in offsets)
        if sum(sizes) > 1_048_588:
            raise KafkaException(KafkaError(KafkaError.UNKNOWN))  # as Kafka 4.1 says it
        self.kept |= {(p.topic, p.partition): p for p in offsets}
        return offsets


@pytest.mark.parametrize("partitions", [1, 30_000])
def test_offsets_of_tens_of_thousands_of_partitions_are_committed(
    broker: Any, monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    kafka_broker, member = broker(), TakesMegabytes()
    monkeypatch.setattr(kafka_broker, "_open_consumer", lambda *_: nullcontext(member))
    offsets = {"shop.public.orders": dict.fromkeys(range(partitions), 2**40)}
    assert kafka_broker.commit("tidegate-shop", offsets, 1_800_000_000_000) is None
    assert kafka_broker.commit("tidegate-shop", offsets) == 1_800_000_000_000
    assert {p.offset for p in member.kept.values()} == {2**40}
    assert len(member.kept) == partitions


class RefusesTheLogin(Client):
    """A client of brokers that refuse its log-in: it says so by the way, and answers nothing."""

    def __init__(self, note: Callable[[KafkaError], None]) -> None:
        super().__init__({})
        self._note = note

    def describe_cluster(self, **_: Any) -> "Future[Any]":
        return Future()

    def poll(self, timeout: float) -> int:
        self._note(KafkaError(KafkaError._AUTHENTICATION, "kafka:9092: SASL authentication failed"))
        return 0


@pytest.mark.guard(
    "a refused log-in is told of the call that it stopped, and not of those behind it",
    file="plugins/tidegate/adapters/kafka/broker.py",
    text="        if refusal is not None:\n            self.disconnect()\n",
    off="",
)
def test_log_in_that_was_refused_once_is_tried_again_by_the_next_call(
    broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page keeps one broker as long as its server runs, and somebody gives the user a password meanwhile."""
    offsets = {EARLIEST: [BEGIN], LATEST: [END]}
    monkeypatch.setattr(kafka, "AdminClient", lambda settings: Client(offsets))
    monkeypatch.setattr(kafka, "require_server", lambda _: None)
    monkeypatch.setattr(kafka, "REFUSAL_SECONDS", 0.0)
    kafka_broker = broker()
    kafka_broker._client = RefusesTheLogin(kafka_broker._login.note)
    with pytest.raises(GiveUp, match="refuse the log-in: SASL authentication failed"):
        kafka_broker.read_log(BOTH, "read_committed")
    assert kafka_broker.read_log(BOTH, "read_committed") == LOG


class OneRefusesTheLogin(Client):
    """A client of three brokers: one refuses its log-in, another one answers a moment later."""

    def __init__(self, note: Callable[[KafkaError], None]) -> None:
        super().__init__({EARLIEST: [BEGIN], LATEST: [END]})
        self._note, self._polls, self._asked = note, 0, list[Future[Any]]()

    def describe_cluster(self, **_: Any) -> "Future[Any]":
        self._asked.append(Future())
        return self._asked[-1]

    def poll(self, timeout: float) -> int:
        self._polls += 1
        self._note(KafkaError(KafkaError._SSL, "kafka-2:9092: certificate verify failed"))
        if self._polls > 2:
            for future in self._asked:
                if not future.done():
                    future.set_result(SimpleNamespace(cluster_id="c1"))
        return 0


def test_broker_that_alone_refuses_the_login_ends_no_call_that_others_answer(broker: Any) -> None:
    kafka_broker = broker()
    kafka_broker._client = client = OneRefusesTheLogin(kafka_broker._login.note)
    assert kafka_broker.read_log(BOTH, "read_committed") == LOG
    assert kafka_broker.read_log(BOTH, "read_committed") == LOG
    client.offsets[LATEST] = [ELECTION]
    kafka_broker.patience_seconds = 0.0
    with pytest.raises(GiveUp, match="refuse the log-in: certificate verify failed"):
        kafka_broker.read_log(BOTH, "read_committed")  # the partition that the broker leads


def test_login_that_was_refused_in_an_earlier_call_explains_no_later_failure(
    broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka_broker = broker()
    kafka_broker._client = client = OneRefusesTheLogin(kafka_broker._login.note)
    assert kafka_broker.read_log(BOTH, "read_committed") == LOG
    monkeypatch.setattr(client, "poll", lambda _: 0)

    def fail(**_: Any) -> None:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    monkeypatch.setattr(client, "list_topics", fail)
    for ask in (lambda: kafka_broker.list_topics(".*"), lambda: kafka_broker.read_end_offsets(BOTH, "read_committed")):
        with pytest.raises(RetryLater, match="cannot be asked for topics"):
            ask()


class HasNotHeard(Client):
    """A client whose broker has not heard of a topic yet, or of whose end: its first answer of offsets is an error."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.has_heard = False

    def list_offsets(self, requests: dict[TopicPartition, Any], **words: Any) -> dict[TopicPartition, "Future[Any]"]:
        answers = super().list_offsets(requests, **words)
        if not self.has_heard:
            self.has_heard = True
            unknown: Future[Any] = Future()
            unknown.set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
            answers[next(iter(answers))] = unknown
        return answers


def test_topic_of_which_one_broker_has_not_heard_is_asked_for_again(broker: Any) -> None:
    kafka_broker = broker()
    kafka_broker._client = HasNotHeard({EARLIEST: [BEGIN], LATEST: [END]})
    assert kafka_broker.read_log(BOTH, "read_committed") == LOG
    kafka_broker = broker(patient=False)
    kafka_broker._client = HasNotHeard({EARLIEST: [BEGIN], LATEST: [END]})
    with pytest.raises(RetryLater, match="no offset is known now of topic=orders partition=0"):
        kafka_broker.read_log(BOTH, "read_committed")


def test_patterns_do_not_mean_the_brokers_own_topics(broker: Any) -> None:
    own = {"__consumer_offsets": ("id-3", (0,)), "__transaction_state": ("id-4", (0,)), "__mine": ("id-5", (0,))}
    kafka_broker = broker(topics=[TOPICS | own])
    assert kafka_broker.list_topics(".*") == ("__mine", "orders", "users")


class KnocksInVain(Client):
    """A client that learned of a broker which had gone, and asks nobody else."""

    def describe_cluster(self, **_: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        message = "Failed while waiting for controller: Local: Timed out"
        future.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT, message)))
        return future


def test_client_that_waits_for_a_broker_that_is_gone_is_replaced_by_one_that_knows_nothing_of_it(
    broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    offsets = {EARLIEST: [BEGIN], LATEST: [END]}
    clients: list[Client] = []

    def make(settings: Any) -> Client:
        clients.append(Client(offsets))
        return clients[-1]

    monkeypatch.setattr(kafka, "AdminClient", make)
    monkeypatch.setattr(kafka, "require_server", lambda _: None)
    kafka_broker = broker()
    kafka_broker._client = KnocksInVain(offsets)
    assert kafka_broker.read_log(BOTH, "read_committed") == LOG
    assert kafka_broker.read_log(BOTH, "read_committed") == LOG
    assert len(clients) == 1
    monkeypatch.setattr(kafka, "AdminClient", lambda settings: KnocksInVain(offsets))
    kafka_broker = broker(patient=False)
    kafka_broker._client = KnocksInVain(offsets)
    with pytest.raises(RetryLater, match="cannot be asked for topics=orders, users: _TIMED_OUT: Failed while waiting"):
        kafka_broker.read_log(BOTH, "read_committed")
