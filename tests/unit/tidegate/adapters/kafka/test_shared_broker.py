"""Brokers that go away between two readings: told at once and by name, not after half a minute of knocking."""

import socket
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from tidegate.adapters.kafka import broker
from tidegate.adapters.kafka.broker import KafkaBroker
from tidegate.adapters.kafka.shared_broker import ReadAheadBroker, SharedBroker
from tidegate.errors import GiveUp, RetryLater, TopicsUnavailable
from tidegate.model.kafka_log import Log


class Client:
    """An admin client that was connected once; `asked` counts."""

    asked = 0

    def list_topics(self, *_: Any, **__: Any) -> Any:
        self.asked += 1
        topic = SimpleNamespace(partitions={0: None}, error=None)
        return SimpleNamespace(topics={"orders": topic, "users": topic})

    def poll(self, timeout: float) -> int:
        return 0


def test_brokers_that_are_gone_at_the_next_reading_are_named_before_they_are_asked() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        shared, client = SharedBroker({"bootstrap.servers": address}, "connection=kafka_default"), Client()
        shared._client = client  # type: ignore[assignment]
        assert shared.list_topics("o.*") == ("orders",)
        assert shared.list_topics("u.*") == ("users",)
    requests = client.asked
    shared.forget()
    for _ in range(2):
        with pytest.raises(RetryLater, match=rf"Kafka connection=kafka_default address={address} took no connection"):
            shared.list_topics("o.*")
    assert client.asked == requests
    shared.forget()
    assert shared._client is None, "a client that nobody waits for would go on knocking"


def build_log(*topics: str) -> Log:
    return Log(
        "c", {t: f"id-{t}" for t in topics}, {t: {0: 0, 1: 0} for t in topics}, {t: {0: 3, 1: 4} for t in topics}
    )


class Asked:
    """What `KafkaBroker` is asked for, in place of brokers; `refuses` a call that names one of these topics."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *refuses: str, error: type[Exception] = RetryLater) -> None:
        self.logs: list[tuple[str, ...]] = []
        self.names = 0

        def read_log(_: KafkaBroker, topics: tuple[str, ...], isolation: str) -> Log:
            self.logs.append(topics)
            if set(refuses) & set(topics):
                raise error(f"topics={topics}")
            return build_log(*topics)

        def list_topics(_: KafkaBroker, pattern: str) -> tuple[str, ...]:
            self.names += 1
            return ("orders", "others", "users")

        monkeypatch.setattr(KafkaBroker, "read_log", read_log)
        monkeypatch.setattr(KafkaBroker, "list_topics", list_topics)


def test_logs_that_were_read_together_are_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked_broker, ahead = Asked(monkeypatch), ReadAheadBroker({"bootstrap.servers": "b:1"})
    ahead.read_names_ahead()
    ahead.read_ahead(["users", "orders", "gone"], "read_committed")
    assert ahead.read_log(("orders",), "read_committed") == build_log("orders")
    assert ahead.read_log(("orders", "users"), "read_committed") == build_log("orders", "users")
    assert ahead.list_topics("o.*") == ("orders", "others")
    assert (asked_broker.logs, asked_broker.names) == ([("orders", "users")], 1)
    ahead.read_log(("orders",), "read_uncommitted")
    ahead.read_log(("orders", "others"), "read_committed")
    assert asked_broker.logs[1:] == [("orders",), ("orders", "others")], "what was not read ahead is asked for"


@pytest.mark.parametrize("error", [RetryLater, GiveUp])
def test_topic_that_cannot_be_read_is_its_own_pipeline_s_failure(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    asked_broker = Asked(monkeypatch, "users", error=error)
    with socket.create_server(("127.0.0.1", 0)) as server:
        ahead = ReadAheadBroker({"bootstrap.servers": f"127.0.0.1:{server.getsockname()[1]}"})
        ahead.read_names_ahead()
        ahead.read_ahead(["users", "orders"], "read_committed")
    assert ahead.read_log(("orders",), "read_committed") == build_log("orders")
    with pytest.raises(error):
        ahead.read_log(("users",), "read_committed")
    assert asked_broker.logs == [("orders", "users"), ("orders",), ("users",)]


def test_topic_that_the_user_may_not_see_is_not_told_as_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers leave it out of their list, and say the reason when it is asked for by its name."""
    Asked(monkeypatch, "hidden", error=GiveUp)
    monkeypatch.setattr("tidegate.adapters.kafka.shared_broker.require_server", lambda _: None)
    shared = SharedBroker({"bootstrap.servers": "b:1"})
    with pytest.raises(GiveUp, match=r"topics=\('orders', 'hidden'\)"):
        shared.read_log(("orders", "hidden"), "read_committed")
    assert shared.read_log(("orders", "users"), "read_committed") == build_log("orders", "users")


def test_brokers_that_refuse_a_log_in_are_a_failure_of_their_own_pipelines_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A fleet has members of several clusters."""

    def refuse(_: KafkaBroker, pattern: str) -> tuple[str, ...]:
        raise GiveUp("brokers=b:1 refuse the log-in")

    monkeypatch.setattr(KafkaBroker, "list_topics", refuse)
    ahead = ReadAheadBroker({"bootstrap.servers": "b:1"})
    ahead.read_names_ahead()
    for ask in (lambda: ahead.list_topics(".*"), lambda: ahead.read_log(("orders",), "read_committed")):
        with pytest.raises(GiveUp, match="refuse the log-in"):
            ask()


class Refused(Client):
    """A client whose log-in the brokers refuse: it hears so when it is asked."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.note = settings["error_cb"]

    def list_topics(self, *_: Any, **__: Any) -> Any:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    def poll(self, timeout: float) -> int:
        self.note(KafkaError(KafkaError._AUTHENTICATION, "b:1: SASL authentication failed"))
        return 0


def test_log_in_that_was_refused_is_tried_once_in_each_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    made_clients = []

    def make(settings: dict[str, Any]) -> Client:
        made_clients.append(Refused(settings) if len(made_clients) < 2 else Client())
        return made_clients[-1]

    monkeypatch.setattr(broker, "AdminClient", make)
    with socket.create_server(("127.0.0.1", 0)) as server:
        shared = SharedBroker({"bootstrap.servers": f"127.0.0.1:{server.getsockname()[1]}"})
        for reading in (1, 2):
            for _ in range(3):
                with pytest.raises(GiveUp, match="refuse the log-in: SASL authentication failed"):
                    shared.list_topics("o.*")
            assert len(made_clients) == reading
            shared.forget()
        assert shared.list_topics("o.*") == ("orders",), "somebody has given the user a password"


def test_brokers_that_are_gone_when_logs_are_read_are_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        ahead = ReadAheadBroker({"bootstrap.servers": f"127.0.0.1:{server.getsockname()[1]}"})
    asked_broker = Asked(monkeypatch, "orders")
    ahead.read_names_ahead()
    ahead.read_ahead(["users", "orders"], "read_committed")
    for topic in ("users", "orders"):
        with pytest.raises(RetryLater, match="took no connection"):
            ahead.read_log((topic,), "read_committed")
    assert asked_broker.logs == [("orders", "users")]


def test_brokers_that_do_not_answer_are_waited_for_once_for_all_pipelines(monkeypatch: pytest.MonkeyPatch) -> None:
    asked_broker, ahead = Asked(monkeypatch), ReadAheadBroker({"bootstrap.servers": "b:1"})

    def fail(*_: Any) -> Any:
        raise RetryLater("brokers=b:1 gave no answer")

    monkeypatch.setattr(KafkaBroker, "list_topics", fail)
    ahead.read_names_ahead()
    for call in (lambda: ahead.read_log(("orders",), "read_committed"), lambda: ahead.list_topics(".*")):
        with pytest.raises(RetryLater, match="gave no answer"):
            call()
    assert asked_broker.logs == []


def test_topic_without_a_leader_is_waited_for_once_and_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: str) -> Exception:
        return TopicsUnavailable("no offset is known now of topic=users partition=1", ("users",))

    asked_broker = Asked(monkeypatch, "users", error=fail)  # type: ignore[arg-type]
    shared = SharedBroker({"bootstrap.servers": "b:1"})
    shared._is_connected = True
    for _ in range(2):
        with pytest.raises(TopicsUnavailable):
            shared.read_log(("orders", "users"), "read_committed")
        assert shared.read_log(("orders",), "read_committed") == build_log("orders")
    assert asked_broker.logs == [("orders", "users"), ("orders",)]
    ahead = ReadAheadBroker({"bootstrap.servers": "b:1"})
    ahead.read_names_ahead()
    ahead.read_ahead(["users", "orders"], "read_committed")
    assert asked_broker.logs[2:] == [("orders", "users"), ("orders",)]
    assert ahead.read_log(("orders",), "read_committed") == build_log("orders")
    with pytest.raises(TopicsUnavailable):
        ahead.read_log(("users",), "read_committed")


def test_topic_that_nobody_asks_for_any_more_is_not_read_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic that may not be read makes each reading ask for every topic by itself, also when its pipeline is gone."""
    monkeypatch.setattr("tidegate.adapters.kafka.shared_broker.KEPT_READINGS", 3)
    monkeypatch.setattr("tidegate.adapters.kafka.shared_broker.require_server", lambda _: None)
    asked_broker = Asked(monkeypatch, "others", error=GiveUp)
    shared = SharedBroker({"bootstrap.servers": "b:1"})
    with pytest.raises(GiveUp):
        shared.read_log(("others",), "read_committed")
    for _ in range(5):
        shared.forget()
        asked_broker.logs.clear()
        for topic in ("orders", "users"):
            shared.read_log((topic,), "read_committed")
    assert asked_broker.logs == [("orders", "users")]


def test_where_a_log_was_cut_is_asked_once_for_a_position(monkeypatch: pytest.MonkeyPatch) -> None:
    requests, shared = [], SharedBroker({"bootstrap.servers": "b:1"})

    def find_log_cuts(_: KafkaBroker, offsets: Any, epochs: Any) -> Any:
        requests.append((offsets, epochs))
        return {"orders": {0: 2}}

    monkeypatch.setattr(KafkaBroker, "find_log_cuts", find_log_cuts)
    for offset in (5, 5, 7, 5):
        assert shared.find_log_cuts({"orders": {0: offset}}, {"orders": {0: 1}}) == {"orders": {0: 2}}
    assert [offsets["orders"][0] for offsets, _ in requests] == [5, 7]


def test_cut_by_a_leader_after_the_one_that_was_asked_is_found_too(monkeypatch: pytest.MonkeyPatch) -> None:
    leaders, position = {"orders": {0: 2, 1: 1}}, {"orders": {0: 5, 1: 4}}
    shared = SharedBroker({"bootstrap.servers": "b:1"})

    def find_log_cuts(*_: Any) -> Any:
        return {"orders": {0: 3}} if leaders["orders"][0] == 3 else {}

    def read_log(_: KafkaBroker, topics: tuple[str, ...], isolation: str) -> Log:
        return replace(build_log(*topics), epochs={topic: dict(leaders[topic]) for topic in topics})

    monkeypatch.setattr(KafkaBroker, "find_log_cuts", find_log_cuts)
    monkeypatch.setattr(KafkaBroker, "read_log", read_log)
    monkeypatch.setattr(SharedBroker, "_list_all_topics", lambda _: ("orders",))
    monkeypatch.setattr("tidegate.adapters.kafka.shared_broker.require_server", lambda _: None)
    for epoch, cuts in ((2, {}), (2, {}), (3, {"orders": {0: 3}})):
        leaders["orders"][0] = epoch
        shared.forget()
        shared.read_log(("orders",), "read_committed")
        assert shared.find_log_cuts(position, {"orders": {0: 1}}) == cuts


def test_age_of_a_record_is_not_that_of_the_record_that_had_its_offset_in_a_deleted_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times, ids = {"orders": 1_000, "users": 7_000}, {"orders": "old", "users": "same"}
    shared = SharedBroker({"bootstrap.servers": "b:1"})

    def read_log(_: KafkaBroker, topics: tuple[str, ...], isolation: str) -> Log:
        return replace(build_log(*topics), topic_ids={topic: ids[topic] for topic in topics})

    def read_first_timestamps(_: Any, addresses: Any, timeout: float) -> dict[Any, int]:
        return {address: times[address[0]] for address in addresses}

    monkeypatch.setattr(KafkaBroker, "read_log", read_log)
    monkeypatch.setattr(SharedBroker, "_list_all_topics", lambda _: ("orders", "users"))
    monkeypatch.setattr("tidegate.adapters.kafka.shared_broker.require_server", lambda _: None)
    monkeypatch.setattr("tidegate.adapters.kafka.shared_broker.read_first_timestamps", read_first_timestamps)
    places = [("orders", 0, 0), ("users", 0, 0)]

    def look() -> dict[Any, int]:
        shared.forget()
        shared.read_log(("orders", "users"), "read_committed")
        shared.learn(places)
        return shared.read_timestamps(places)

    assert look() == {("orders", 0, 0): 1_000, ("users", 0, 0): 7_000}
    times |= {"orders": 5_000, "users": 9_000}
    assert look() == {("orders", 0, 0): 1_000, ("users", 0, 0): 7_000}, "a record does not change"
    ids["orders"] = "new"
    assert look() == {("orders", 0, 0): 5_000, ("users", 0, 0): 7_000}
