"""Records that keep coming, and what the tables must say of them once they have stopped."""

import json
import random
import threading
from typing import Any

from confluent_kafka import Producer
from e2e.executors.pipelines import JOURNAL, TABLES

KEYS = 3000
ROUND_SECONDS = 0.2
# records of each topic in a round; merges of the first are those that are caught in their middle
RECORDS = {"orders": 60, "pairs": 20}
OTHERS = 5
SHARE_OF_DELETES = 0.1


class Traffic:
    """Sends to all topics between `begin` and `end`; what was sent before counts on."""

    def __init__(self, bootstrap: str) -> None:
        self.rows: dict[str, dict[int, str]] = {name: {} for name in TABLES}
        self.places: set[tuple[int, int]] = set()  # partition and offset of each record of the journal
        self._chance = random.Random(20261125)
        self._count = 0
        self._failures: list[str] = []
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})

    def begin(self) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._send_rounds, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join(60)
        assert self._producer.flush(120) == 0
        assert not self._failures, self._failures[:3]

    def _send_rounds(self) -> None:
        while not self._over.wait(ROUND_SECONDS):
            for topic in TABLES:
                for _ in range(RECORDS.get(topic, OTHERS)):
                    self._send(topic)
            self._producer.poll(0)

    def _send(self, topic: str) -> None:
        self._count += 1
        key, name = self._chance.randrange(KEYS), f"{topic} {self._count}"
        if topic != JOURNAL and self._chance.random() < SHARE_OF_DELETES:
            self.rows[topic].pop(key, None)
            value = None
        else:
            self.rows[topic][key] = name
            value = json.dumps({"id": key, "name": name})
        self._producer.produce(topic, key=json.dumps({"id": key}), value=value, on_delivery=self._note)

    def _note(self, failure: Any, message: Any) -> None:
        if failure is not None:
            self._failures.append(str(failure))
        elif message.topic() == JOURNAL:
            place = (message.partition(), message.offset())
            assert place not in self.places
            self.places.add(place)
