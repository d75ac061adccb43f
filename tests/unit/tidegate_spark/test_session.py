"""A session on a Connect server: settings in one request; at its end, what the client does in the background."""

import concurrent.futures.thread as pools
import gc
import socket
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any, cast

import pytest
from pyspark.sql.connect.client.reattach import ExecutePlanResponseReattachableIterator as Results
from pyspark.sql.connect.conf import RuntimeConf
from pyspark.sql.connect.session import SparkSession
from tidegate_spark import session as session_module
from tidegate_spark.session import SESSION_CONF, close, configure, connect_session, open_session


class Session:
    """A session, its client and its channel, that remembers what had been released when it ended on the server."""

    def __init__(self, released_names: list[str]) -> None:
        self._released = released_names
        self.at_end: list[str] | None = None
        self.client = self._channel = self

    def release_session(self) -> None:
        self.at_end = list(self._released)

    def stop(self) -> None: ...

    def close(self) -> None: ...


def release_slowly(released_names: list[str], name: str) -> None:
    time.sleep(0.2)
    released_names.append(name)


def test_session_that_ends_before_its_results_are_released_leaves_their_plans_on_the_server() -> None:
    released_names: list[str] = []
    session = Session(released_names)
    pool = Results._get_or_create_release_thread_pool()
    for name in ("first", "second"):
        pool.submit(release_slowly, released_names, name)
    close(cast("Any", session))
    assert session.at_end is not None
    assert sorted(session.at_end) == ["first", "second"]


def test_session_ends_where_nothing_was_asked_of_its_server() -> None:
    session = Session([])
    Results.shutdown()
    close(cast("Any", session))
    assert session.at_end == []


NOBODY = "sc://127.0.0.1:9"
DEADLINE_SECONDS = 30


@pytest.fixture
def no_pool() -> Iterator[None]:
    """A thread that stands still holds this run's pool: what comes behind has another."""
    yield
    gc.enable()
    Results._release_thread_pool_instance = None
    Results._lock = threading.RLock()


def leave_session() -> "weakref.ref[Any]":
    """A session that was forgotten, as part of a circle: it waits for the collector."""
    gc.disable()  # until it is asked
    spark: Any = open_session(NOBODY)
    spark.itself = spark
    SparkSession._default_session = SparkSession._active_session.session = None  # as the next session makes it
    return weakref.ref(spark)


@pytest.mark.usefixtures("no_pool")
def test_forgotten_session_that_is_collected_while_results_are_released_stops_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The collector may run wherever something is made: here as a release is put into the pool, whose lock is held."""

    class Release(pools._WorkItem):  # type: ignore[type-arg,misc]
        def __init__(self, *asked: Any) -> None:
            gc.collect()
            super().__init__(*asked)

    monkeypatch.setattr(pools, "_WorkItem", Release)
    session_reference = leave_session()
    pool, is_sent = Results._get_or_create_release_thread_pool(), threading.Event()
    assert session_reference() is not None
    threading.Thread(target=lambda: pool.submit(is_sent.set), daemon=True).start()
    assert is_sent.wait(DEADLINE_SECONDS)
    assert session_reference() is None
    assert Results._release_thread_pool_instance is pool, "others go on using it"


@pytest.mark.usefixtures("no_pool")
def test_forgotten_session_that_is_collected_by_a_release_stops_nobody() -> None:
    """A session that ends waits for releases, and holds the lock that another one's end would take."""
    session_reference = leave_session()
    pool, is_ended = Results._get_or_create_release_thread_pool(), threading.Event()
    pool.submit(lambda: (time.sleep(0.5), gc.collect()))
    session = cast("Any", Session([]))
    threading.Thread(target=lambda: (close(session), is_ended.set()), daemon=True).start()
    assert is_ended.wait(DEADLINE_SECONDS)
    assert session_reference() is None


def test_session_that_is_closed_closes_its_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "CLOSING_SECONDS", 0.5)
    spark: Any = open_session(NOBODY)
    assert not spark.client.is_closed
    close(spark)
    assert spark.client.is_closed


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"sc://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.usefixtures("no_pool")
def test_session_of_a_server_that_does_not_answer_is_closed_all_the_same(
    monkeypatch: pytest.MonkeyPatch, silent: str
) -> None:
    monkeypatch.setattr(session_module, "CLOSING_SECONDS", 0.5)
    spark: Any = open_session(silent)
    session: Any = open_session(NOBODY)
    begun = time.monotonic()
    close(spark)
    assert time.monotonic() - begun < DEADLINE_SECONDS
    assert (spark.client.is_closed, session.client.is_closed) == (True, False)
    telling = [type_column for type_column in threading.enumerate() if type_column.name == "close"]
    for column in telling:
        column.join(DEADLINE_SECONDS)
    assert not any(thread.is_alive() for thread in telling), "its request ended with the channel"
    close(session)


@pytest.mark.usefixtures("no_pool")
def test_release_that_is_never_answered_holds_up_no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """The threads that release results are one pool for all sessions of a process."""
    monkeypatch.setattr(session_module, "CLOSING_SECONDS", 0.5)
    has_answered = threading.Event()
    Results._get_or_create_release_thread_pool().submit(has_answered.wait)
    sessions = [open_session(NOBODY) for _ in range(2)]
    try:
        for spark in sessions:
            close(spark)
            assert spark.client.is_closed
            free = Results._lock.acquire(timeout=DEADLINE_SECONDS)
            assert free, "each request of each session takes it"
            Results._lock.release()
    finally:
        has_answered.set()


class Client:
    """A Connect client that remembers the settings of each request."""

    def __init__(self) -> None:
        self.requests: list[dict[str, str]] = []

    def config(self, operation: Any) -> Any:
        self.requests.append({pair.key: pair.value for pair in operation.set.pairs})
        return type("Answer", (), {"warnings": []})()


def test_settings_of_a_session_are_one_request_however_many_they_are() -> None:
    client = Client()
    session = type("Session", (), {"conf": RuntimeConf(cast("Any", client))})()
    configure(session, {"spark.sql.ansi.enabled": "true", "spark.sql.shuffle.partitions": "4"})
    configure(session, {})
    assert client.requests == [{"spark.sql.ansi.enabled": "true", "spark.sql.shuffle.partitions": "4"}]


class Settings:
    """A session's settings, of which the server has none."""

    def __init__(self) -> None:
        self.set_values: dict[str, str] = {}

    def get(self, _: str, default: str) -> str:
        return default

    def _set_all(self, values: dict[str, str], silent: bool) -> None:
        assert not silent
        self.set_values |= values


def test_settings_that_the_statements_rely_on_go_before_those_of_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """A merge's bounds name times of UTC: read in Berlin's they would leave out rows of the batch's keys."""
    spark = type("Session", (), {"conf": Settings()})()
    monkeypatch.setattr(session_module, "open_session", lambda *_: spark)
    connect_session(NOBODY, {"spark.sql.session.timeZone": "Europe/Berlin", "spark.x": "1"})
    assert spark.conf.set_values == {**SESSION_CONF, "spark.x": "1"}
