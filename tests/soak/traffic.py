"""Sends changes to every topic and partition, and has the rows that the tables must have in the end."""

import json
import random
import threading
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Producer

from soak.pipelines import PARTITIONS, SoakPipeline

KEYS = 200
ROUND_SECONDS = 0.5
RECORDS_OF_ROUND = 24
SHARE_OF_DELETES = 0.15
DELIVERY_SECONDS = 600  # a broker that is killed comes back within it
END_SECONDS = 900


class Traffic:
    """Sends between `begin` and `end`. `rows` are the names by topic and id, `places` the records of journals."""

    def __init__(self, client: dict[str, str], pipelines: Sequence[SoakPipeline], chance: random.Random) -> None:
        self._topics = [topic for pipeline in pipelines for topic in pipeline.topics]
        self._journals = {pipeline.name for pipeline in pipelines if pipeline.kind == "journal"}
        self.rows: dict[str, dict[int, str]] = {topic: {} for topic in self._topics}
        self.places: dict[str, dict[tuple[int, int], str]] = {name: {} for name in self._journals}
        self.sent = 0
        self._chance, self._failures = chance, list[str]()
        producer_settings = {"enable.idempotence": True, "delivery.timeout.ms": DELIVERY_SECONDS * 1000, "log_level": 0}
        self._producer = Producer({**client, **producer_settings})
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._send_rounds, daemon=True)

    def begin(self) -> None:
        """Every topic gets a record at once, so that every table comes to be."""
        for topic in self._topics:
            for partition in range(PARTITIONS):
                self._send(topic, partition)
        self._thread.start()

    def end(self) -> None:
        """Return when the brokers have all that was sent."""
        self._over.set()
        self._thread.join(60)
        assert self._producer.flush(END_SECONDS) == 0
        assert not self._failures, self._failures[:3]

    def _send_rounds(self) -> None:
        while not self._over.wait(ROUND_SECONDS):
            for topic in self._chance.choices(self._topics, k=RECORDS_OF_ROUND):
                self._send(topic, self._chance.randrange(KEYS))
            self._producer.poll(0)

    def _send(self, topic: str, key: int) -> None:
        self.sent += 1
        name: str | None = f"{topic} {self.sent}"
        if topic not in self._journals and self._chance.random() < SHARE_OF_DELETES:
            self.rows[topic].pop(key, None)
            name = None
        else:
            self.rows[topic][key] = str(name)
        value = json.dumps({"id": key, "name": name}) if name is not None else None
        self._producer.produce(
            topic,
            key=json.dumps({"id": key}),
            value=value,
            partition=key % PARTITIONS,
            on_delivery=lambda failure, message, name=name: self._note(failure, message, name),
        )

    def _note(self, failure: Any, message: Any, name: str | None) -> None:
        if failure is not None:
            self._failures.append(str(failure))
        elif message.topic() in self._journals:
            places = self.places[message.topic()]
            place = (message.partition(), message.offset())
            assert place not in places
            places[place] = str(name)
