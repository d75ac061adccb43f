"""Owns the work that everybody gets: keyed JSON records with tombstones in a topic, and what a right table holds."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS = 4
SEED = 1
TOMBSTONES = 0.05
FIRST_MS = 1_700_000_000_000
STATUSES = ("new", "paid", "shipped")
COLUMNS = "id BIGINT, customer STRING, amount DOUBLE, status STRING, updated_at BIGINT, note STRING"
QUEUE = 2_000_000
FLUSH_SECONDS = 120
ADMIN_SECONDS = 30


@dataclass(frozen=True)
class Truth:
    """What a table must hold after the last record. `updated_at` is a sum of whole numbers: a stale row changes it."""

    rows: int
    amount: float
    updated_at: int

    def equals(self, rows: int, amount: float, updated_at: int) -> bool:
        """Whether a table with these figures is right; only a floating-point sum may differ, by a rounding."""
        return (rows, updated_at) == (self.rows, self.updated_at) and abs(amount - self.amount) < 0.05


@dataclass(frozen=True)
class Record:
    """One record; `amount` is None for a tombstone."""

    id: int
    amount: float | None
    updated_at: int
    key: bytes
    value: bytes | None


def records(count: int, keys: int) -> Iterator[Record]:
    """The same records for the same arguments, on any machine."""
    chance = random.Random(SEED)
    for index in range(count):
        number = chance.randrange(keys)
        key = json.dumps({"id": number}).encode()
        if chance.random() < TOMBSTONES:
            yield Record(number, None, 0, key, None)
            continue
        amount = chance.randrange(100_000) / 100
        row = {
            "id": number,
            "customer": f"c{number % 1000}",
            "amount": amount,
            "status": chance.choice(STATUSES),
            "updated_at": FIRST_MS + index,
            "note": "x" * 80,
        }
        yield Record(number, amount, FIRST_MS + index, key, json.dumps(row).encode())


def produce(bootstrap: str, topic: str, count: int, keys: int) -> Truth:
    """Create the topic, send the records, and return the truth; RuntimeError when the broker does not take them."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    created = admin.create_topics([NewTopic(topic, num_partitions=PARTITIONS, replication_factor=1)])
    created[topic].result(timeout=ADMIN_SECONDS)
    settings = {"linger.ms": 50, "compression.type": "lz4", "enable.idempotence": True, "log_level": 2}
    producer = Producer({"bootstrap.servers": bootstrap, "queue.buffering.max.messages": QUEUE, **settings})
    last: dict[int, tuple[float, int]] = {}
    for record in records(count, keys):
        send(producer, topic, record.key, record.value)
        if record.amount is None:
            last.pop(record.id, None)
        else:
            last[record.id] = record.amount, record.updated_at
    if left := producer.flush(FLUSH_SECONDS):
        raise RuntimeError(f"the broker did not take every record: topic={topic} left={left}")
    return Truth(len(last), sum(amount for amount, _ in last.values()), sum(at for _, at in last.values()))


def send(producer: Producer, topic: str, key: bytes | None, value: bytes | None) -> None:
    """Produce one record, waiting while the client's queue is full."""
    while True:
        try:
            producer.produce(topic, key=key, value=value)
            break
        except BufferError:  # its queue is full: let it drain
            producer.poll(0.1)
    producer.poll(0)
