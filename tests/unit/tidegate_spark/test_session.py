"""A session on a Connect server: settings in one request; at its end, what the client does in the background."""

import time
from typing import Any, cast

from pyspark.sql.connect.client.reattach import ExecutePlanResponseReattachableIterator as Results
from pyspark.sql.connect.conf import RuntimeConf
from tidegate_spark.session import close, configure


class Session:
    """A session that remembers what had been released when it ended."""

    def __init__(self, released: list[str]) -> None:
        self._released = released
        self.at_end: list[str] | None = None

    def stop(self) -> None:
        self.at_end = list(self._released)


def release_slowly(released: list[str], name: str) -> None:
    time.sleep(0.2)
    released.append(name)


def test_session_that_ends_before_its_results_are_released_leaves_their_plans_on_the_server() -> None:
    released: list[str] = []
    session = Session(released)
    pool = Results._get_or_create_release_thread_pool()
    for name in ("first", "second"):
        pool.submit(release_slowly, released, name)
    close(cast("Any", session))
    assert session.at_end is not None
    assert sorted(session.at_end) == ["first", "second"]


def test_session_ends_where_nothing_was_asked_of_its_server() -> None:
    session = Session([])
    Results.shutdown()
    close(cast("Any", session))
    assert session.at_end == []


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
