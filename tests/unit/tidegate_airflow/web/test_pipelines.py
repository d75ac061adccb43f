"""One pipeline's page while something is slow: its parts are read by a few workers for all who look."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tidegate_airflow.web import pipelines
from tidegate_airflow.web.pipelines import PartReader


class SlowPart:
    """A part of the page that nobody answers until `answered` is set; `begun` counts its readings."""

    def __init__(self) -> None:
        self.answered, self.begun = threading.Event(), 0

    def read(self) -> str:
        self.begun += 1
        self.answered.wait()
        return f"reading {self.begun}"


@pytest.fixture
def slow_part(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowPart]:
    monkeypatch.setattr(pipelines, "ANSWER_TIMEOUT_SECONDS", 0.02)
    part = SlowPart()
    yield part
    part.answered.set()


def wait_until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not is_true() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert is_true()


def test_part_that_is_being_read_is_waited_for_and_not_read_once_more(slow_part: SlowPart) -> None:
    """The page asks every few seconds: the readings of one slow catalog would keep all workers from everybody else."""
    reader: Any = PartReader(16)
    for _ in range(50):
        answer = reader.read_parts("shop", {"storage": slow_part.read})
        assert "no answer within" in answer["storage"]["error"]
        wait_until(lambda: reader.read_parts("other", {"storage": lambda: "quick"}) == {"storage": "quick"})
    assert (slow_part.begun, reader._workers._work_queue.qsize()) == (1, 0)
    slow_part.answered.set()
    wait_until(lambda: not reader._readings)
    assert reader.read_parts("shop", {"storage": slow_part.read}) == {"storage": "reading 2"}


def test_part_that_fails_is_read_again(slow_part: SlowPart) -> None:
    reader: Any = PartReader(16)

    def fail() -> None:
        raise OSError("gone")

    for _ in range(3):
        assert "gone" in reader.read_parts("shop", {"storage": fail})["storage"]["error"]
        wait_until(lambda: not reader._readings)
