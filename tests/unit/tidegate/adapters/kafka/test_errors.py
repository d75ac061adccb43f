"""Wrong settings of a Kafka connection are one sentence, before any broker is asked."""

import gc
import socket
import sys
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from fakes.publications import build_publication
from tidegate.adapters.kafka.broker import KafkaBroker
from tidegate.adapters.kafka.errors import explain_failure
from tidegate.adapters.kafka.publication_topics import KafkaTopics
from tidegate.errors import ConfigurationError, GiveUp, RetryLater
from tidegate.ports.publication_session import ExistingTopics

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"no.such.setting": "1"}, "no.such.setting"),
        ({"security.protocol": "ssl", "ssl.ca.location": "/nowhere.pem"}, "ssl.ca.location"),
        (
            {"security.protocol": "sasl_plaintext", "sasl.mechanisms": "PLAIN", "sasl.password": "hunter2"},
            "sasl.username",
        ),
    ],
    ids=["unknown", "certificate", "login"],
)
def test_wrong_setting_is_a_sentence_that_names_it_and_needs_a_person(settings: dict[str, str], message: str) -> None:
    asks: list[Callable[[], Any]] = [
        lambda: KafkaBroker({**NOWHERE, **settings}).list_topics(".*"),
        lambda: KafkaBroker({**NOWHERE, **settings}).read_group_retention(),
        lambda: KafkaTopics({**NOWHERE, **settings}).send("out", []),
        lambda: KafkaTopics({**NOWHERE, **settings}).find_topics(build_publication()),
    ]
    for ask in asks:
        with pytest.raises(ConfigurationError, match=r"^brokers=127\.0\.0\.1:1: Kafka's client refuses") as error_info:
            ask()
        assert message in str(error_info.value)
        assert "hunter2" not in str(error_info.value)
        assert len(str(error_info.value).splitlines()) == 1


def test_any_other_failure_of_the_client_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise KafkaException(KafkaError(KafkaError._FAIL, "out of buffers"))

    broker = KafkaBroker(NOWHERE)
    monkeypatch.setattr(broker, "_list_partitions", fails)
    with pytest.raises(RetryLater, match="topics failed: out of buffers; it will be tried again"):
        broker.list_topics(".*")


class Refused:
    """A client of brokers that refuse its log-in: its calls find no broker, and its error callback says why."""

    def __init__(self, broker: KafkaBroker) -> None:
        self._broker = broker

    def list_topics(self, timeout: float) -> None:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT, "Failed to get metadata"))

    def poll(self, timeout: float) -> None:
        self._broker._login.note(KafkaError(KafkaError._AUTHENTICATION, "kafka:9092: SASL authentication failed"))


def test_refused_log_in_of_a_publication_is_a_sentence_that_needs_a_person_as_that_of_a_pipeline() -> None:
    topics = KafkaTopics(NOWHERE)
    publication = build_publication()
    for ask in (topics.read_progress, topics.find_topics, topics.create):
        topics._client = Refused(topics)  # type: ignore[assignment]
        with pytest.raises(GiveUp, match=r"refuse the log-in: .*check user, password and mechanism"):
            ask(publication)


class Forbidding:
    """A client whose user may see the topics, and not their settings."""

    def poll(self, timeout: float) -> None:
        return None

    def list_topics(self, timeout: float) -> Any:
        return SimpleNamespace(topics={name: SimpleNamespace(partitions={0: None}) for name in ("out", "state")})

    def describe_configs(self, resources: list[Any], **_: Any) -> dict[Any, "Future[Any]"]:
        future: Future[Any] = Future()
        future.set_exception(KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)))
        return dict.fromkeys(resources, future)


def test_right_to_the_settings_of_a_publications_topics_is_named_and_needs_a_person() -> None:
    topics = KafkaTopics(NOWHERE)
    topics._client = Forbidding()  # type: ignore[assignment]
    with pytest.raises(GiveUp, match=r"refuse the settings of topic=state: .* needs: .*DESCRIBE_CONFIGS"):
        topics.find_topics(build_publication())


class Hiding(Forbidding):
    """A client whose user may not see a topic: it is in no list, and brokers answer so, or not at all, by its name."""

    def __init__(self, code: int) -> None:
        self._code = code

    def list_topics(self, timeout: float) -> Any:
        return SimpleNamespace(topics={})

    def describe_cluster(self, **_: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        future.set_result(SimpleNamespace(cluster_id="c"))
        return future

    def describe_topics(self, names: Any, **_: Any) -> dict[str, "Future[Any]"]:
        future: Future[Any] = Future()
        future.set_exception(KafkaException(KafkaError(self._code)))
        return {"out": future}


@pytest.mark.parametrize("ask", ["find_topics", "read_progress", "create"])
def test_topic_that_a_publications_user_may_not_see_is_not_told_as_deleted(ask: str) -> None:
    topics = KafkaTopics(NOWHERE)
    publication = build_publication()
    topics._client = Hiding(KafkaError.TOPIC_AUTHORIZATION_FAILED)  # type: ignore[assignment]
    with pytest.raises(GiveUp, match=r"refuse topic=out: TOPIC_AUTHORIZATION_FAILED; .* needs: READ on the topic"):
        getattr(topics, ask)(publication)


def test_topics_that_are_not_there_yet_are_none() -> None:
    topics = KafkaTopics(NOWHERE)
    topics._client = Hiding(KafkaError.UNKNOWN_TOPIC_OR_PART)  # type: ignore[assignment]
    assert topics.find_topics(build_publication()) == ExistingTopics()
    assert topics.read_progress(build_publication()).is_new


def test_client_ends_with_the_broker_that_made_it_and_waits_for_no_collector() -> None:
    """`tidegate run` makes one for each flush."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        broker = KafkaBroker({"bootstrap.servers": f"127.0.0.1:{server.getsockname()[1]}"})
        client = broker._admin
        gc.disable()
        try:
            broker_reference = weakref.ref(broker)
            del broker
            assert broker_reference() is None
            assert sys.getrefcount(client) == 2, "this name and the call's argument: nothing else keeps it"
        finally:
            gc.enable()


def test_group_with_a_member_of_its_own_is_told_with_the_way_out() -> None:
    """Another client consumes in it: brokers refuse offsets that come from outside."""
    failure = KafkaException(KafkaError(KafkaError.UNKNOWN_MEMBER_ID))
    error = explain_failure("b:1", "a commit of group=g", failure)
    assert isinstance(error, RetryLater)
    assert "refuse a commit of group=g: UNKNOWN_MEMBER_ID: another client consumes in the group; stop that" in str(
        error
    )


@pytest.mark.parametrize("code", [KafkaError._TIMED_OUT, KafkaError._TRANSPORT])
def test_brokers_that_do_not_answer_are_told_with_what_may_be_wrong(code: int) -> None:
    error = explain_failure("b:1", "topics", KafkaException(KafkaError(code)))
    assert "security.protocol" in str(error)
    assert "advertised.listeners" in str(error)
