"""A publication's world in memory: snapshots as dictionaries, a topic as a list, and Spark's work done in a loop."""

import json
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise
from typing import Any

import pyarrow
from tidegate.errors import RetryLater
from tidegate.jobs.publish_job import PublishJob, TouchedFiles
from tidegate.model.kafka_log import Message
from tidegate.model.offsets import Ranges
from tidegate.model.publication_progress import PartProgress, RunMode
from tidegate.ports.publication_session import ExistingTopics, PublicationSession, SnapshotLag, TableHead, TableSnapshot
from tidegate.spec.publication import KeyOut, Publication
from tidegate_spark.publish import producer
from tidegate_spark.publish.job import build_plan, raise_refusal

from fakes.producing import SCHEMA, Broker, Entry, Killed

State = dict[str, str]


def build_publication(**settings: Any) -> Publication:
    publication_settings = {
        "topics": ("out",),
        "key": KeyOut(("id",)),
        "state_topic": "state",
        "parallelism": 2,
        **settings,
    }
    return Publication(name="out", table="lake.shop.t", **publication_settings)


@dataclass
class Table:
    """Snapshots of one table by id; the newest is current."""

    uuid: str = "u1"
    snapshots: dict[int, State] = field(default_factory=dict)
    current: int | None = None
    tags: dict[str, int] = field(default_factory=dict)
    exists: bool = True
    other_tables: dict[str, "Table"] = field(default_factory=dict)

    def commit(self, **rows: str) -> int:
        self.current = 10 + len(self.snapshots)
        self.snapshots[self.current] = rows
        return self.current

    def read_latest(self) -> State:
        """The rows of the current snapshot."""
        return self.snapshots[self.current or 0]

    def _get_table(self, name: str) -> "Table":
        return self.other_tables.get(name, self)

    def read_table(self, name: str) -> TableHead | None:
        memory_table = self._get_table(name)
        return TableHead(memory_table.uuid, memory_table.current) if memory_table.exists else None

    def has_snapshot(self, name: str, snapshot_id: int) -> bool:
        return snapshot_id in self._get_table(name).snapshots

    def find_at(self, name: str, timestamp_ms: int) -> int | None:
        return next((s for s in sorted(self.snapshots, reverse=True) if s <= timestamp_ms), None)

    def find_touched_files(self, name: str, old_id: int, new_id: int) -> TouchedFiles | None:
        is_unchanged = self._get_table(name).snapshots[old_id] is self._get_table(name).snapshots[new_id]
        return TouchedFiles() if is_unchanged else TouchedFiles((f"file-{old_id}",), (f"file-{new_id}",))

    def measure_lag(self, name: str, old_id: int | None, new_id: int) -> SnapshotLag:
        snapshots = self._get_table(name).snapshots
        snapshot_ids = [s for s in snapshots if (old_id or 0) < s <= new_id]
        states = [snapshots.get(old_id or 0, {}), *(snapshots[s] for s in snapshot_ids)]
        rows = sum(
            len(dict(newer_state.items() ^ older_state.items())) for older_state, newer_state in pairwise(states)
        )
        return SnapshotLag(len(snapshot_ids), rows, min(snapshot_ids, default=None))

    def list_ancestors(self, name: str, limit: int) -> list[TableSnapshot]:
        snapshot_ids = sorted((s for s in self.snapshots if s <= (self.current or 0)), reverse=True)
        return [TableSnapshot(number, number, "append", 1) for number in snapshot_ids[:limit]]

    def pin(self, name: str, snapshot_id: int, tag: str) -> None:
        self._get_table(name).tags[tag] = snapshot_id

    def list_pins(self, name: str, prefix: str) -> list[str]:
        return sorted(tag for tag in self._get_table(name).tags if tag.startswith(prefix))

    def unpin(self, name: str, tags: list[str]) -> None:
        for tag in tags:
            self._get_table(name).tags.pop(tag, None)


@dataclass
class Topic:
    """One topic and the state topic, on a broker in memory."""

    parts: int = 2
    broker: Broker = field(default_factory=Broker)
    id: str | None = None
    partitions: int = 3
    sent_messages: list[tuple[str, Any]] = field(default_factory=list)

    @property
    def records(self) -> list[tuple[str, str | None]]:
        """What a reader of committed records sees."""
        return [((key or b"").decode(), value and value.decode()) for key, value in self.broker.read("out", 0)]

    def receive(self, *records: tuple[str, str | None]) -> None:
        """Records of another producer."""
        self.broker.logs["out", 0] += [Entry(key.encode(), value and value.encode()) for key, value in records]

    @property
    def newest(self) -> dict[int, str]:
        """The newest progress of each part that has one."""
        progress_records = {number: self.broker.read("state", number) for number in range(self.parts)}
        return {number: (records[-1][1] or b"").decode() for number, records in progress_records.items() if records}

    def find_topics(self, publication: Publication, at_rest: bool = False) -> ExistingTopics:
        if at_rest and any(entry.is_open for entry in self.broker.logs["out", 0]):
            raise RetryLater("topic=out partition=0: a transaction is open")
        if self.id is None:
            return ExistingTopics()
        ranges = Ranges({"out": {0: (0, len(self.broker.logs["out", 0]))}})  # aborted records have offsets too
        return ExistingTopics({"out": self.id}, {"out": self.partitions}, ranges)

    def create(self, publication: Publication) -> None:
        self.id = self.id or "t1"

    def send(self, topic: str, records: Sequence[Message]) -> None:
        self.sent_messages += [(topic, json.loads(record.value or b"")) for record in records]

    def read_progress(self, publication: Publication, at_rest: bool = False) -> PartProgress:
        progress_by_part = self.newest
        return PartProgress(tuple(progress_by_part.get(number) for number in range(self.parts)))

    def read_latest(self) -> State:
        return {key: value for key, value in dict(self.records).items() if value is not None}


@dataclass
class Spark:
    """Compares two states in a loop, and lets the product's own functions produce what differs."""

    table: Table
    topic: Topic
    jobs: list[PublishJob] = field(default_factory=list)

    def run(self, job: Any) -> None:
        self.jobs.append(PublishJob.from_json(job.to_json()))
        assert self.jobs[-1] == job, "a job is the same behind JSON"
        with self.topic.broker.replace_kafka():
            outcome_batches = list(producer.build_producer(build_plan(job, {}))(iter([self.build_changes(job)])))
        raise_refusal(job, [row["outcome"] for batch in outcome_batches for row in batch.to_pylist()])

    def build_changes(self, job: PublishJob) -> pyarrow.RecordBatch:
        """What Spark hands over: of each part a row without a key, then its changes in the order of their keys."""
        if job.is_append:
            return self._build_inserted_rows(job)
        position = job.position
        is_beside_topic = position.mode == RunMode.TOPIC
        old_state = (
            self.topic.read_latest() if is_beside_topic else self._read_state(position.origin, position.joined_origin)
        )
        new_state = self._read_state(position.to, position.joined)
        rows: list[dict[str, Any]] = []
        for part in sorted(job.parts, key=lambda part: part.number):
            part_keys = [
                k
                for k in old_state.keys() | new_state.keys()
                if zlib.crc32(k.encode()) % job.parallelism == part.number
            ]
            rows.append({"part": part.number})
            for key in sorted((k for k in part_keys if old_state.get(k) != new_state.get(k)), key=str.encode):
                kind = "deleted" if key not in new_state else "updated" if key in old_state else "inserted"
                value = new_state[key].encode() if key in new_state else None
                row = {"part": part.number, "topic": job.topics[0], "key": key.encode(), "value": value, "kind": kind}
                rows.append(row)
        return pyarrow.RecordBatch.from_pylist(rows, schema=SCHEMA)

    def _build_inserted_rows(self, job: PublishJob) -> pyarrow.RecordBatch:
        """The keys say where a row stands: by the hash of its text, then by a number among equal ones."""
        old_texts, new_texts = (
            Counter(self._read_state(snapshot, {}).values()) for snapshot in (job.position.origin, job.position.to)
        )
        places = {
            sha256(text.encode()).digest() + place.to_bytes(8): text
            for text, number in (new_texts - old_texts).items()
            for place in range(1, number + 1)
        }
        rows: list[dict[str, Any]] = []
        for part in sorted(part.number for part in job.parts):
            rows.append({"part": part})
            rows += [
                {"part": part, "topic": job.topics[0], "key": key, "value": text.encode(), "kind": "inserted"}
                for key, text in sorted(places.items())
                if zlib.crc32(key[:32]) % job.parallelism == part
            ]
        return pyarrow.RecordBatch.from_pylist(rows, schema=SCHEMA)

    def _read_state(self, snapshot: int | None, joined_snapshots: dict[str, int]) -> State:
        """The table's rows; a joined table adds its own value of the same key."""
        if snapshot is None:
            return {}
        joined_states = [self.table.other_tables[name].snapshots[number] for name, number in joined_snapshots.items()]
        rows = self.table.snapshots[snapshot]
        return {
            key: value + "".join(joined_state.get(key, "") for joined_state in joined_states)
            for key, value in rows.items()
        }


class Outside:
    """Everything together."""

    def __init__(self, **publication: Any) -> None:
        self.publication = build_publication(**publication)
        self.table, self.topic = Table(), Topic(self.publication.parallelism)
        self.spark = Spark(self.table, self.topic)
        self._runs = 0

    def open_session(self) -> PublicationSession:
        return PublicationSession(
            self.publication, self.topic, self.table, self.spark, now_ms=lambda: 0, new_run=self._name_run
        )

    def die_at(self, call: int) -> None:
        """The executor is gone before a call of its producers; once."""
        broker = self.topic.broker
        broker.calls = 0

        def meet(number: int, name: str) -> None:
            if number == call:
                broker.before_call = lambda number, name: None
                raise Killed

        broker.before_call = meet

    def _name_run(self) -> str:
        self._runs += 1
        return f"run{self._runs}"
