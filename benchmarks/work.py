"""The work of every system: keyed JSON records with tombstones in a topic, and the correct table."""

import json
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS = 4
SEED = 1
TOMBSTONES = 0.05
FIRST_MS = 1_700_000_000_000
STATUSES = ("new", "paid", "shipped")
COLUMNS = "id BIGINT, customer STRING, amount DOUBLE, status STRING, updated_at BIGINT, note STRING"
NOTE = "x" * 80
WIDE_NOTE_BYTES = 880  # of text that no two rows share, so that it is written as it is
CENTS = 100_000
QUEUE = 2_000_000
FLUSH_SECONDS = 120
ADMIN_SECONDS = 30
ONCE = 0  # in place of a number of keys: each record has a key of its own


@dataclass(frozen=True)
class Truth:
    """What a table must hold. `updated_at` is a sum of whole numbers, from FIRST_MS on: a stale row changes it."""

    rows: int = 0
    amount: float = 0.0
    updated_at: int = 0

    def is_equal(self, rows: int, amount: float, updated_at: int) -> bool:
        """Whether a table with these figures is right; only a floating-point sum may differ, by its roundings."""
        is_near = abs(amount - self.amount) < max(0.05, 1e-9 * self.amount)
        return (rows, updated_at) == (self.rows, self.updated_at) and is_near


@dataclass(frozen=True)
class Produced:
    """A topic's records, as a table of the last of each key holds them, and one that only appends."""

    truth: Truth
    appended: Truth


@dataclass(frozen=True)
class Record:
    """One record; `amount` is None for a tombstone."""

    id: int
    amount: float | None
    updated_at: int
    key: bytes
    value: bytes | None


@dataclass(frozen=True)
class Assignment:
    """What a peer is given: brokers, a folder that names its catalog, a topic, a log, and how long it may take."""

    bootstrap: str
    place: Path
    topic: str
    log: Path
    limit: float


def generate_records(count: int, keys: int, *, is_wide: bool = False) -> Iterator[Record]:
    """The same records for the same arguments, on any machine: of about 200 bytes each, or, wide, of 1,000."""
    chance = random.Random(SEED)
    ids = range(count) if keys == ONCE else (chance.randrange(keys) for _ in range(count))
    return _generate_records(ids, chance, 0, is_wide=is_wide)


def generate_changes(ids: Iterable[int], seed: int, first: int) -> Iterator[Record]:
    """A record for each of these keys; `first` is later than the time of any row before."""
    return _generate_records(ids, random.Random(seed), first)


def _generate_records(
    ids: Iterable[int], chance: random.Random, first: int, *, is_wide: bool = False
) -> Iterator[Record]:
    for index, number in enumerate(ids, first):
        key = json.dumps({"id": number}).encode()
        if chance.random() < TOMBSTONES:
            yield Record(number, None, 0, key, None)
            continue
        amount = chance.randrange(CENTS) / 100
        row = {
            "id": number,
            "customer": f"c{number % 1000}",
            "amount": amount,
            "status": chance.choice(STATUSES),
            "updated_at": FIRST_MS + index,
            "note": chance.randbytes(WIDE_NOTE_BYTES // 2).hex() if is_wide else NOTE,
        }
        yield Record(number, amount, FIRST_MS + index, key, json.dumps(row).encode())


class Filled:
    """A table of rows 0 to `rows` that were put there by hand, and what becomes of it: the truth at any time."""

    def __init__(self, rows: int) -> None:
        self.rows, self._last = rows, dict[int, tuple[float, int] | None]()

    def change(self, record: Record) -> Record:
        """Take note of a record that is sent."""
        self._last[record.id] = None if record.amount is None else (record.amount, record.updated_at)
        return record

    @property
    def truth(self) -> Truth:
        """The correct rows of the table now. Row `id` has the amount id % CENTS / 100 and the time FIRST_MS + id."""
        full_cycles, cycle_rows = divmod(self.rows, CENTS)
        cents = full_cycles * (CENTS * (CENTS - 1) // 2) + cycle_rows * (cycle_rows - 1) // 2
        existing_keys = [number for number in self._last if number < self.rows]
        upserts = [last for last in self._last.values() if last is not None]
        return Truth(
            self.rows - len(existing_keys) + len(upserts),
            (cents - sum(number % CENTS for number in existing_keys)) / 100 + sum(amount for amount, _ in upserts),
            self.rows * (self.rows - 1) // 2 - sum(existing_keys) + sum(at - FIRST_MS for _, at in upserts),
        )


def render_filling(first: int, rows: int) -> str:
    """Spark's SELECT for the rows `first` to `rows` of such a table."""
    return (
        f"SELECT id, concat('c', id % 1000) AS customer, CAST(id % {CENTS} AS DOUBLE) / 100 AS amount, "
        f"'new' AS status, id + {FIRST_MS} AS updated_at, '{NOTE}' AS note FROM range({first}, {rows})"
    )


def create_topic(bootstrap: str, name: str) -> None:
    """Create the topic."""
    # a client that is dropped takes its answers along
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(timeout=ADMIN_SECONDS)


def produce(bootstrap: str, name: str, count: int, keys: int, *, is_wide: bool = False) -> Produced:
    """Create the topic, send the records, and return the truth; RuntimeError when the broker does not take them."""
    create_topic(bootstrap, name)
    last: dict[int, tuple[float, int]] = {}
    rows, amounts, times = 0, 0.0, 0

    def count_records() -> Iterator[Record]:
        nonlocal rows, amounts, times
        for record in generate_records(count, keys, is_wide=is_wide):
            if record.amount is None:
                last.pop(record.id, None)
            else:
                last[record.id] = record.amount, record.updated_at
                rows, amounts, times = rows + 1, amounts + record.amount, times + record.updated_at - FIRST_MS
            yield record

    send_all(bootstrap, name, count_records())
    truth = Truth(len(last), sum(a for a, _ in last.values()), sum(at - FIRST_MS for _, at in last.values()))
    return Produced(truth, Truth(rows, amounts, times))


def send_all(bootstrap: str, name: str, records: Iterable[Record]) -> None:
    """Send records to a topic that is there; RuntimeError when the broker does not take them."""
    settings = {"linger.ms": 50, "compression.type": "lz4", "enable.idempotence": True, "log_level": 2}
    producer = Producer({"bootstrap.servers": bootstrap, "queue.buffering.max.messages": QUEUE, **settings})
    for record in records:
        send(producer, name, record.key, record.value)
    if queue_length := producer.flush(FLUSH_SECONDS):
        raise RuntimeError(f"the broker did not take every record: topic={name} left={queue_length}")


def send(producer: Producer, name: str, key: bytes | None, value: bytes | None) -> None:
    """Produce one record, waiting while the client's queue is full."""
    while True:
        try:
            producer.produce(name, key=key, value=value)
            break
        except BufferError:  # its queue is full: let it drain
            producer.poll(0.1)
    producer.poll(0)


def choose_keys(rows: int, count: int, kind: str, seed: int) -> Sequence[int]:
    """Keys of a table of so many rows: any of them, or some of its last ones."""
    first = max(0, rows - 2 * count) if kind == "recent" else 0
    return random.Random(seed).sample(range(first, rows), count)
