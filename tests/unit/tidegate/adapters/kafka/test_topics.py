"""Records on their way to a topic: those that are too large are told, and take no other with them time and again."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from tidegate.adapters.kafka import topics
from tidegate.adapters.kafka.topics import send_records
from tidegate.errors import RecordRefused
from tidegate.model.kafka_log import Message

LIMIT = 1_000_000


class NeverPausing:
    """A consumer of a partition that is written faster than it is read, and of one whose last record is a marker."""

    def __init__(self) -> None:
        self._messages = self._iterate()

    @staticmethod
    def _iterate() -> Iterator[tuple[int, int, KafkaError | None]]:
        yield from ((0, 94, None), (1, 7, None), (0, 95, None), (1, 9, KafkaError(KafkaError._PARTITION_EOF)))
        yield from ((0, offset, None) for offset in range(96, 1000))
        pytest.fail("it is read for ever")

    def assign(self, places: list[Any]) -> None:
        assert {(place.partition, place.offset) for place in places} == {(0, 85), (1, 0)}

    def poll(self, timeout: float) -> Any:
        partition, offset, error = next(self._messages)
        return SimpleNamespace(
            topic=lambda: "audit",
            partition=lambda: partition,
            offset=lambda: offset,
            error=lambda: error,
            timestamp=lambda: (1, 1000 + offset),
        )


def test_time_of_the_last_record_is_not_waited_for_behind_the_end_of_a_topic_that_is_always_written() -> None:
    times = topics.read_last_timestamps(NeverPausing(), {"audit": {0: 95, 1: 9}}, 5.0)  # type: ignore[arg-type]
    assert times == {("audit", 0): 1094, ("audit", 1): 1007}


class Producer:
    """A client with room for two records, whose topic takes no value longer than `LIMIT`; the client no longer one."""

    sent: list[bytes]
    is_refused_by_client = False

    def __init__(self, _: Any) -> None:
        self.waiting: list[tuple[bytes, Callable[..., None]]] = []

    def produce(self, topic: str, value: bytes, key: Any, headers: Any, on_delivery: Callable[..., None]) -> None:
        if len(value) > LIMIT and self.is_refused_by_client:
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        if len(self.waiting) == 2:
            raise BufferError
        self.waiting.append((value, on_delivery))

    def poll(self, timeout: float) -> None:
        while timeout and self.waiting:
            value, callback = self.waiting.pop(0)
            is_refused = len(value) > LIMIT
            self.sent += [] if is_refused else [value]
            callback(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE) if is_refused else None, None)

    def flush(self, timeout: float) -> int:
        self.poll(timeout)
        return 0


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> type[Producer]:
    monkeypatch.setattr(topics, "Producer", Producer)
    Producer.sent = []
    return Producer


def send(*values: bytes) -> None:
    send_records({}, "broken", [Message(b"k", value) for value in values], 30)


def test_records_are_sent_in_their_order_however_little_room_the_client_has(producer: type[Producer]) -> None:
    values = [b"%d" % number for number in range(7)]
    send(*values)
    assert producer.sent == values
    send()


@pytest.mark.parametrize("by_client", [False, True])
def test_record_that_is_too_large_is_told_before_any_other_is_sent_once_more(
    producer: type[Producer], monkeypatch: pytest.MonkeyPatch, by_client: bool
) -> None:
    monkeypatch.setattr(producer, "is_refused_by_client", by_client)
    large = b"x" * (LIMIT + 1)
    with pytest.raises(
        RecordRefused, match=r"topic=broken takes no record of bytes=1000002: MSG_SIZE_TOO"
    ) as error_info:
        send(b"a", large, b"b")
    assert error_info.value.record.value == large
    assert producer.sent == []
    send(b"a", large[:-1], b"b")
    assert sorted(producer.sent, key=len) == [b"a", b"b", large[:-1]]


def test_record_without_a_key_that_a_compacted_topic_refuses_is_told_with_the_way_out(
    producer: type[Producer], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Producer, timeout: float) -> None:
        while self.waiting:
            self.waiting.pop(0)[1](KafkaError(KafkaError.INVALID_RECORD), None)

    monkeypatch.setattr(producer, "poll", refuse)
    with pytest.raises(RecordRefused, match=r"topic=broken refuses a record: INVALID_RECORD: .* cleanup\.policy to de"):
        send_records({}, "broken", [Message(None, b"v"), Message(b"k", b"v")], 30)


def test_client_without_room_for_too_long_is_a_passing_fault(
    producer: type[Producer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer, "poll", lambda *_: None)
    with pytest.raises(KafkaException) as error_info:
        send_records({}, "broken", [Message(b"k", b"v")] * 3, 0)
    assert error_info.value.args[0].code() == KafkaError._QUEUE_FULL
