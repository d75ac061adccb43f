"""The thread that watches the backlog: it outlives what happens to the brokers, and does not fill the log with it."""

import logging
import threading

import pytest
from tidegate.errors import RetryLater
from tidegate.monitoring.backlog import RETRY_SECONDS, MonitoredPipeline
from tidegate.runner import supervisor
from tidegate.runner.supervisor import BacklogWatch

WATCHED = MonitoredPipeline("orders", "tidegate-orders", 3, topics=("orders",))


class Looks(threading.Event):
    """A process that ends behind so many looks; the pauses before each of them."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.left, self.pauses = count, list[float]()

    def wait(self, timeout: float | None = None) -> bool:
        self.pauses.append(timeout or 0.0)
        self.left -= 1
        return self.left < 0


class Broker:
    """Brokers that are away for some looks, then there again, each time that they are opened."""

    def __init__(self, *failure_count: int) -> None:
        self.away, self.look = failure_count, 0

    def read_end_offsets(self, *_: object) -> dict[str, dict[int, int]]:
        self.look += 1
        if self.look in self.away:
            raise RetryLater("brokers=localhost:1 gave no answer")
        return {"orders": {0: 7, 1: 7}}

    def read_committed(self, *_: object) -> dict[str, dict[int, int]]:
        return {"orders": {0: 7, 1: 7}}


def test_night_without_brokers_is_a_dozen_lines_and_each_outage_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broker, stop = Broker(*range(3, 2003), 2010), Looks(2020)
    monkeypatch.setattr(supervisor.KafkaBroker, "open", lambda *_: broker)
    with caplog.at_level(logging.WARNING):
        BacklogWatch("kafka_default", lambda _: None, lambda: {WATCHED: lambda: None}, stop)._loop()
    assert broker.look == 2020
    assert stop.pauses.count(RETRY_SECONDS) == 2001
    lines = [record.getMessage() for record in caplog.records]
    assert all("gave no answer" in line for line in lines)
    assert len(lines) == 11 + 1, "tries 1, 2, 4 … 1024 of the first outage, and the second one"
