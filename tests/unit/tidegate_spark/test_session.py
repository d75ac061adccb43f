"""The end of a job's session on a Connect server: what the client does in the background comes first."""

import time
from typing import Any, cast

from pyspark.sql.connect.client.reattach import ExecutePlanResponseReattachableIterator as Results
from tidegate_spark.session import close


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
