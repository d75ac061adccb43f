"""A sample of keys costs at most its few seconds, however slowly the brokers answer."""

from typing import Any

import pytest
from confluent_kafka import TopicPartition
from tidegate.adapters.kafka import topics
from tidegate.adapters.kafka.topics import MAX_PARTITIONS, PLACES_PER_PARTITION, TIMEOUT_SECONDS
from tidegate.model.offsets import Ranges

RANGES = Ranges({"Orders": {0: (0, 800), 1: (100, 900)}, "lines": {0: (5, 6), 7: (9, 9)}})


class Record:
    def __init__(self, place: TopicPartition) -> None:
        self._place = place

    def key(self) -> bytes:
        return f"{self._place.topic}/{self._place.partition}/{self._place.offset}".encode()

    def error(self) -> None:
        return None

    def offset(self) -> int:
        return int(self._place.offset)


class SlowConsumer:
    """A consumer whose clock goes on by `seconds` with each answer. It waits for ever where a timeout is negative."""

    def __init__(self, seconds: float) -> None:
        self.now, self.timeouts, self._seconds = 1000.0, list[float](), seconds

    def monotonic(self) -> float:
        return self.now

    def close(self) -> None: ...

    def assign(self, places: list[TopicPartition]) -> None:
        (self._place,) = places

    def poll(self, timeout: float) -> Record | None:
        assert timeout >= 0, "it would never come back"
        self.timeouts.append(timeout)
        self.now += self._seconds
        return Record(self._place) if timeout >= self._seconds else None

    def consume(self, number: int, timeout: float) -> list[Record]:
        assert timeout == 0
        return []


def sample(monkeypatch: pytest.MonkeyPatch, seconds: float) -> tuple[SlowConsumer, Any]:
    consumer = SlowConsumer(seconds)
    monkeypatch.setattr(topics, "time", consumer)
    monkeypatch.setattr(topics, "Consumer", lambda _: consumer)
    return consumer, topics.sample_keys({}, RANGES)


def test_answer_that_outlasts_the_time_for_all_leaves_none_to_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first takes 2 of 3 seconds, the second goes beyond them, and the rest is only what is there already."""
    consumer, keys = sample(monkeypatch, 2.0)
    assert consumer.timeouts[:3] == [TIMEOUT_SECONDS, TIMEOUT_SECONDS - 2, 0]
    assert set(consumer.timeouts[2:]) == {0}
    assert keys["Orders", 0] == [b"Orders/0/0"]
    assert not any(keys[place] for place in keys.keys() - {("Orders", 0)})


def test_keys_come_from_places_all_over_the_largest_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    _, keys = sample(monkeypatch, 0.01)
    assert len(keys) <= MAX_PARTITIONS
    assert keys["Orders", 1] == [f"Orders/1/{100 + 100 * n}".encode() for n in range(PLACES_PER_PARTITION)]
    assert keys["lines", 0] == [b"lines/0/5"]
    assert ("lines", 7) not in keys
