"""What leaders say of logs that were cut: they are waited for as long as they answer, however many there are."""

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition
from fakes.clock import SteppedTime
from tidegate.adapters.kafka import single_record
from tidegate.adapters.kafka.single_record import CUTS_TIMEOUT_SECONDS, find_cuts
from tidegate.errors import TopicsUnavailable

PARTITIONS = 100


class SlowConsumer:
    """A client whose leaders answer one after the other, a second each; `silent` partitions never."""

    def __init__(self, time: SteppedTime, silent: int = 0) -> None:
        self.time, self.silent, self.sought = time, silent, list[TopicPartition]()

    def assign(self, places: list[TopicPartition]) -> None: ...

    def seek(self, place: TopicPartition) -> None:
        self.sought.append(place)

    def poll(self, timeout: float) -> Any:
        self.time.seconds += timeout
        if len(self.sought) <= self.silent:
            return None
        place, partition = self.sought.pop(0), KafkaError(KafkaError._PARTITION_EOF)
        if place.partition == 7:
            words = "Partition log truncation detected at offset 90: broker end offset is 42 (offset leader epoch 3)"
            partition = KafkaError(KafkaError._AUTO_OFFSET_RESET, words)
        return SimpleNamespace(topic=lambda: place.topic, partition=lambda: place.partition, error=lambda: partition)

    def incremental_unassign(self, places: list[TopicPartition]) -> None: ...

    def close(self) -> None: ...


def ask(monkeypatch: pytest.MonkeyPatch, silent: int = 0) -> tuple[Any, float]:
    """The answer, or the error, and how many seconds it took."""
    time = SteppedTime()
    monkeypatch.setattr(single_record, "time", time)
    monkeypatch.setattr(single_record, "Consumer", lambda _: SlowConsumer(time, silent))
    offsets = {"orders": dict.fromkeys(range(PARTITIONS), 90)}
    try:
        return find_cuts({}, offsets, {"orders": dict.fromkeys(range(PARTITIONS), 2)}), time.seconds - 1000
    except TopicsUnavailable as error:
        return error, time.seconds - 1000


def test_leaders_that_answer_one_after_the_other_are_all_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    offsets, seconds = ask(monkeypatch)
    assert offsets == {"orders": {7: 42}}
    assert seconds == PARTITIONS > CUTS_TIMEOUT_SECONDS


def test_leader_that_says_nothing_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    error, seconds = ask(monkeypatch, silent=2)
    assert "topic=orders partition=98: its leader did not answer within 30 s" in str(error)
    assert seconds == PARTITIONS - 2 + CUTS_TIMEOUT_SECONDS + 1
