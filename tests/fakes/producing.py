"""A broker in memory for the producers of a publication: transactions, fencing, and what readers see of them.

The functions of `tidegate_spark.publish.producer` run as they are: this
stands in for confluent_kafka's producer and consumer.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from tidegate_spark.publish import producer as produce

HEADER = [("part", pyarrow.int32()), ("topic", pyarrow.string()), ("key", pyarrow.binary())]
HEADER += [("value", pyarrow.binary()), ("timestamp", pyarrow.int64()), ("kind", pyarrow.string())]
HEADER += [("headers", pyarrow.string())]
SCHEMA = pyarrow.schema(HEADER)
CALLS = ("init_transactions", "begin_transaction", "produce", "flush", "commit_transaction")


class Killed(Exception):
    """The executor is gone."""


@dataclass
class Entry:
    """One record in a log; `is_open` until its transaction ends."""

    key: bytes | None
    value: bytes | None
    is_open: bool = False
    is_aborted: bool = False


@dataclass
class Broker:
    """Logs by topic and partition. `meet` sees the number and name of each call of a producer before it takes place."""

    logs: dict[tuple[str, int], list[Entry]] = field(default_factory=lambda: defaultdict(list))
    epochs: dict[str, int] = field(default_factory=dict)
    open: dict[str, list[Entry]] = field(default_factory=dict)
    before_call: Callable[[int, str], None] = lambda number, name: None
    refuses: dict[bytes, KafkaError] = field(default_factory=dict)  # by the brokers
    too_large: set[bytes] = field(default_factory=set)  # for the client
    calls: int = 0
    seconds: float = 0

    def read(self, topic: str, partition: int) -> list[tuple[bytes | None, bytes | None]]:
        """What is committed, up to the first record of a transaction that is open."""
        records = []
        for entry in self.logs[topic, partition]:
            if entry.is_open:
                break
            if not entry.is_aborted:
                records.append((entry.key, entry.value))
        return records

    def end_transaction(self, name: str, is_aborted: bool) -> None:
        for entry in self.open.pop(name, []):
            entry.is_open, entry.is_aborted = False, is_aborted

    def let_transactions_expire(self) -> None:
        """As brokers do with those of a producer that is gone, after `transaction.timeout.ms`."""
        for name in list(self.open):
            self.end_transaction(name, is_aborted=True)

    @contextmanager
    def replace_kafka(self) -> Iterator[None]:
        """While it lasts, the executors' functions reach this broker."""
        kafka, time = produce.kafka, produce.time
        produce.kafka, produce.time = _Library(self), self  # type: ignore[assignment]
        try:
            yield
        finally:
            produce.kafka, produce.time = kafka, time

    def time(self) -> float:
        """A clock that gives each record a time of its own."""
        self.seconds += 1
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds


class _Library:
    """What the executors' functions use of confluent_kafka."""

    KafkaError, KafkaException, TopicPartition = KafkaError, KafkaException, TopicPartition

    def __init__(self, broker: Broker) -> None:
        self.Producer = lambda settings: _Producer(broker, settings)
        self.Consumer = lambda settings: _Consumer(broker)


class _Producer:
    def __init__(self, broker: Broker, settings: dict[str, Any]) -> None:
        self._broker, self._name = broker, settings.get("transactional.id")
        self._epoch, self._is_dead = 0, False
        self._undelivered_messages: list[tuple[Any, KafkaError | None, _ProducedMessage]] = []

    def _count_call(self, name: str) -> None:
        if self._is_dead:
            raise Killed
        number, self._broker.calls = self._broker.calls, self._broker.calls + 1
        try:
            self._broker.before_call(number, name)
        except Killed:
            self._is_dead = True
            raise

    @property
    def _is_fenced(self) -> bool:
        """The brokers know; the client hears of it with their next answer."""
        return self._name is not None and self._broker.epochs[self._name] != self._epoch

    def init_transactions(self, timeout: float) -> None:
        self._count_call("init_transactions")
        assert self._name is not None
        self._broker.end_transaction(self._name, is_aborted=True)
        self._epoch = self._broker.epochs[self._name] = self._broker.epochs.get(self._name, 0) + 1

    def begin_transaction(self) -> None:
        self._count_call("begin_transaction")

    def produce(self, topic: str, key: bytes, value: bytes | None, partition: int = 0, **options: Any) -> None:
        self._count_call("produce")
        refusal = KafkaError(KafkaError._FENCED) if self._is_fenced else self._broker.refuses.get(key)
        if key in self._broker.too_large:
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        self._undelivered_messages.append(
            (options["on_delivery"], refusal, _ProducedMessage(topic, key, value, options.get("timestamp", 0)))
        )
        if refusal is None:
            entry = Entry(key, value, is_open=self._name is not None)
            self._broker.logs[topic, partition].append(entry)
            if self._name is not None:
                self._broker.open.setdefault(self._name, []).append(entry)

    def poll(self, timeout: float) -> None:
        return

    def flush(self, timeout: float) -> int:
        self._count_call("flush")
        for call, error, message in self._undelivered_messages:
            call(error, message)
        self._undelivered_messages = []
        return 0

    def commit_transaction(self, timeout: float) -> None:
        self._count_call("commit_transaction")
        if self._is_fenced:
            raise KafkaException(KafkaError(KafkaError._FENCED))
        self._broker.end_transaction(self._name or "", is_aborted=False)

    def abort_transaction(self, timeout: float) -> None:
        if self._is_dead:
            raise Killed
        if not self._is_fenced:
            self._broker.end_transaction(self._name or "", is_aborted=True)


class _ProducedMessage:
    def __init__(self, topic: str, key: bytes, value: bytes | None, at_ms: int) -> None:
        self.topic, self.key, self.value = lambda: topic, lambda: key, lambda: value
        self.timestamp = lambda: (1, at_ms)


class _Message:
    def __init__(self, value: bytes | None) -> None:
        self._value = value

    def error(self) -> KafkaError | None:
        return KafkaError(KafkaError._PARTITION_EOF) if self._value is None else None

    def value(self) -> bytes | None:
        return self._value


class _Consumer:
    def __init__(self, broker: Broker) -> None:
        self._broker, self._messages = broker, list[_Message]()

    def assign(self, partitions: list[TopicPartition]) -> None:
        (assignment,) = partitions
        self._messages = [_Message(value) for _, value in self._broker.read(assignment.topic, assignment.partition)] + [
            _Message(None)
        ]

    def poll(self, timeout: float) -> _Message:
        return self._messages.pop(0)

    def close(self) -> None:
        return
