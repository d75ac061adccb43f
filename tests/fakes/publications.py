"""A publication's world in memory: snapshots as dictionaries, a topic as a list, and Spark's work done in a loop."""

import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any

from tidegate.offsets import Ranges
from tidegate.publications.job import PublishJob, TouchedFiles
from tidegate.publications.ports import Behind, FoundTopics, Made, PublicationPorts, TableNow
from tidegate.publications.progress import TOPIC, Standing
from tidegate.publications.publication import KeyOut, Publication
from tidegate.states import Message

State = dict[str, str]


def a_publication(**more: Any) -> Publication:
    given = {"topics": ("out",), "key": KeyOut(("id",)), "state_topic": "state", "parallelism": 2, **more}
    return Publication(name="out", table="lake.shop.t", **given)


@dataclass
class Table:
    """Snapshots of one table by id; the newest is current."""

    uuid: str = "u1"
    snapshots: dict[int, State] = field(default_factory=dict)
    current: int | None = None
    tags: dict[str, int] = field(default_factory=dict)
    exists: bool = True
    others: dict[str, "Table"] = field(default_factory=dict)

    def commit(self, **rows: str) -> int:
        self.current = 10 + len(self.snapshots)
        self.snapshots[self.current] = rows
        return self.current

    def _of(self, name: str) -> "Table":
        return self.others.get(name, self)

    def table(self, name: str) -> TableNow | None:
        found = self._of(name)
        return TableNow(found.uuid, found.current) if found.exists else None

    def has(self, name: str, snapshot_id: int) -> bool:
        return snapshot_id in self._of(name).snapshots

    def at(self, name: str, timestamp_ms: int) -> int | None:
        return next((s for s in sorted(self.snapshots, reverse=True) if s <= timestamp_ms), None)

    def touched(self, name: str, old: int, new: int) -> TouchedFiles | None:
        same = self._of(name).snapshots[old] is self._of(name).snapshots[new]
        return TouchedFiles() if same else TouchedFiles((f"file-{old}",), (f"file-{new}",))

    def behind(self, name: str, old: int | None, new: int) -> Behind:
        snapshots = self._of(name).snapshots
        between = [s for s in snapshots if (old or 0) < s <= new]
        before = [snapshots.get(old or 0, {}), *(snapshots[s] for s in between)]
        rows = sum(len(dict(two.items() ^ one.items())) for one, two in pairwise(before))
        return Behind(len(between), rows, min(between, default=None))

    def line(self, name: str, most: int) -> list[Made]:
        newest = sorted((s for s in self.snapshots if s <= (self.current or 0)), reverse=True)
        return [Made(number, number, "append", 1) for number in newest[:most]]

    def pin(self, name: str, snapshot_id: int, tag: str) -> None:
        self._of(name).tags[tag] = snapshot_id

    def pins(self, name: str, prefix: str) -> list[str]:
        return sorted(tag for tag in self._of(name).tags if tag.startswith(prefix))

    def unpin(self, name: str, tags: list[str]) -> None:
        for tag in tags:
            self._of(name).tags.pop(tag, None)


@dataclass
class Topic:
    """One topic and the state topic's newest records."""

    parts: int = 2
    records: list[tuple[str, str | None]] = field(default_factory=list)
    newest: dict[int, str] = field(default_factory=dict)
    id: str | None = None
    partitions: int = 3
    sent: list[tuple[str, Any]] = field(default_factory=list)

    def found(self, publication: Publication) -> FoundTopics:
        if self.id is None:
            return FoundTopics()
        held = Ranges({"out": {0: (0, len(self.records))}})
        return FoundTopics({"out": self.id}, {"out": self.partitions}, held)

    def create(self, publication: Publication) -> None:
        self.id = self.id or "t1"

    def send(self, topic: str, records: Sequence[Message]) -> None:
        self.sent += [(topic, json.loads(record.value or b"")) for record in records]

    def standing(self, publication: Publication, at_rest: bool = False) -> Standing:
        return Standing(tuple(self.newest.get(number) for number in range(self.parts)))

    def latest(self) -> State:
        return {key: value for key, value in dict(self.records).items() if value is not None}


class Killed(Exception):
    """The executor is gone."""


@dataclass
class Spark:
    """Does what the publish job does. `dies_after` produced records the executor is gone, once."""

    table: Table
    topic: Topic
    dies_after: int | None = None
    jobs: list[PublishJob] = field(default_factory=list)
    clock: int = 0

    def run(self, job: Any) -> None:
        self.jobs.append(PublishJob.from_json(job.to_json()))
        assert self.jobs[-1] == job, "a job is the same behind JSON"
        position = job.position
        old = self.topic.latest() if position.mode == TOPIC else self._rows(position.origin, position.joined_origin)
        new = self._rows(position.until or position.to, position.joined)
        now = self._rows(position.to, position.joined)
        changes = {k: now.get(k) for k in sorted(old.keys() | new.keys()) if old.get(k) != new.get(k)}
        for part in job.parts:
            if self.topic.newest.get(part.number) != part.expected:
                continue
            if part.expected is None:
                self._advance(job, part.number, "")
            mine = [k for k in changes if zlib.crc32(k.encode()) % job.parallelism == part.number]
            for key in (k for k in mine if "k" + k.encode().hex() > part.after):
                self._count_down()
                self.topic.records.append((key, changes[key]))
                self._advance(job, part.number, "k" + key.encode().hex())  # a transaction for each change
            self._count_down()
            self._advance(job, part.number, None)

    def _rows(self, snapshot: int | None, joined: dict[str, int]) -> State:
        """The table's rows; a joined table adds its own value of the same key."""
        if snapshot is None:
            return {}
        found = [self.table.others[name].snapshots[number] for name, number in joined.items()]
        rows = self.table.snapshots[snapshot]
        return {key: value + "".join(other.get(key, "") for other in found) for key, value in rows.items()}

    def _count_down(self) -> None:
        if self.dies_after is not None:
            self.dies_after -= 1
            if self.dies_after < 0:
                self.dies_after = None
                raise Killed

    def _advance(self, job: PublishJob, number: int, after: str | None) -> None:
        self.clock += 1
        self.topic.newest[number] = json.dumps(asdict(replace(job.position, after=after, at_ms=self.clock)))


class Outside:
    """Everything together."""

    def __init__(self, **publication: Any) -> None:
        self.table, self.topic = Table(), Topic()
        self.spark = Spark(self.table, self.topic)
        self.publication = a_publication(**publication)
        self._runs = 0

    def ports(self) -> PublicationPorts:
        return PublicationPorts(
            self.publication, self.topic, self.table, self.spark, now_ms=lambda: 0, new_run=self._new_run
        )

    def _new_run(self) -> str:
        self._runs += 1
        return f"run{self._runs}"
