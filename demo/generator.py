"""Sends changes to Kafka: first a snapshot, then a steady flow with bursts, until the demo pauses it."""

import threading
import time
from collections.abc import Mapping

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from demo.change_events import choose_partition, format_topic, to_records
from demo.shop import KEYS, Change, Key, Shop

PARTITIONS = 4
QUIET_TABLE, QUIET_PARTITION = "customers", 3
TICK_SECONDS = 0.1
BURST_SECONDS = 30.0
FLUSH_TIMEOUT_SECONDS = 60.0


def create_topics(client: Mapping[str, str]) -> None:
    """Create one topic for each table of the shop, with as many replicas as the brokers' default says."""
    topics = [NewTopic(format_topic(table), num_partitions=PARTITIONS) for table in KEYS]
    admin = AdminClient(dict(client))
    for future in admin.create_topics(topics).values():
        future.result(timeout=30)


class Generator:
    """Lets things happen in a shop and sends them to Kafka; the shop's rows are what the tables must equal.

    `client` are librdkafka's settings, `rate` is changes per second. After the
    snapshot, one partition of the customers' topic gets no record any more.
    """

    def __init__(self, client: Mapping[str, str], shop: Shop, rate: float, burst: int) -> None:
        self.shop = shop
        self.failure: str | None = None
        self._producer = Producer({**client, "enable.idempotence": True, "linger.ms": 20, "log_level": 2})
        self._rate, self._burst = rate, burst
        self._produced = 0
        self._running, self._idle, self._end = threading.Event(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="generator", daemon=True)

    @property
    def produced(self) -> int:
        """Records sent so far, tombstones included."""
        return self._produced

    def send_snapshot(self, customers: int, orders: int) -> None:
        """Send what a connector's first snapshot reads, and wait until the broker has it."""
        for change in self.shop.create_snapshot(customers, orders):
            self._send(change)
        self.flush()
        self.shop.may_touch = _is_not_quiet

    def begin(self) -> None:
        """Start the trickle."""
        self._running.set()
        self._thread.start()

    def pause(self) -> None:
        """Stop the changes; when this returns, the broker has every record and the shop does not change."""
        self._idle.clear()
        self._running.clear()
        if self._thread.is_alive():
            self._idle.wait(FLUSH_TIMEOUT_SECONDS)
        self.flush()

    def resume(self) -> None:
        """Go on after a pause."""
        self._running.set()

    def end(self) -> None:
        """Stop for good."""
        self._end.set()
        self._running.set()
        self._thread.join(5)

    def send_burst(self, changes: int) -> None:
        """Let many things happen at once."""
        for _ in range(changes):
            for change in self.shop.step():
                self._send(change)

    def send_flood(self, table: str, share: float) -> int:
        """Let the source lose that share of a table's rows; return how many, once the broker has their deletes."""
        changes = self.shop.lose_rows(table, share)
        for change in changes:
            self._send(change)
        self.flush()
        return len(changes)

    def flush(self) -> None:
        """Wait until the broker has everything; RuntimeError when it does not take it."""
        queue_length = self._producer.flush(FLUSH_TIMEOUT_SECONDS)
        if queue_length or self.failure:
            raise RuntimeError(f"the broker did not take every record: left={queue_length} error={self.failure}")

    def _run(self) -> None:
        burst_at, due = time.monotonic() + BURST_SECONDS / 2, 0.0
        while not self._end.is_set():
            if not self._running.is_set():
                self._idle.set()
                self._running.wait(TICK_SECONDS)
                continue
            due += self._rate * TICK_SECONDS
            if time.monotonic() >= burst_at:
                burst_at, due = time.monotonic() + BURST_SECONDS, due + self._burst
            self.send_burst(int(due))
            due -= int(due)
            time.sleep(TICK_SECONDS)

    def _send(self, change: Change) -> None:
        for record in to_records(change):
            partition = choose_partition(change.table, change.key, PARTITIONS)
            while True:
                try:
                    self._producer.produce(
                        record.topic,
                        key=record.key,
                        value=record.value,
                        partition=partition,
                        timestamp=record.time_ms,
                        on_delivery=self._record_delivery,
                    )
                    break
                except BufferError:  # its queue is full: let it drain
                    self._producer.poll(0.1)
            self._produced += 1
        self._producer.poll(0)

    def _record_delivery(self, error: KafkaException | None, _: object) -> None:
        if error is not None:
            self.failure = str(error)


def _is_not_quiet(table: str, key: Key) -> bool:
    return table != QUIET_TABLE or choose_partition(table, key, PARTITIONS) != QUIET_PARTITION
