"""How far a publication has come: one small record per part of its keys, in the publication's own state topic.

With exactly-once the record is written in the transaction of the changes before it, so it can neither run ahead of them
nor stay behind.
"""

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from tidegate.model.plain_data import read_plain

KEY = b"position"
KEY_FORM_HEADER = "key-form"
NUMBER_SEPARATOR = "."  # no id of a run has one
Target = tuple[int, dict[str, int]]


class RunMode(StrEnum):
    """What a run compares to find the changes."""

    CHANGES = "changes"  # the snapshots since the position
    EVERYTHING = "everything"  # the whole table, into topics that hold nothing of it
    TOPIC = "topic"  # the table beside what the topics hold


@dataclass(frozen=True)
class Progress:
    """One part's position: its topics hold the table as of snapshot `to`, or, with `after`, are on the way there."""

    run: str  # number, point and a unique id of the run; `name_run` joins them
    mode: RunMode
    origin: int | None  # the snapshot that the run starts from; None if it began with nothing
    to: int
    digest: str
    table_uuid: str
    topic_ids: dict[str, str]
    partitions: dict[str, int]
    after: str | None = None  # the last key whose change was produced, in hexadecimal; empty before the first
    counts: dict[str, int] = field(default_factory=dict)
    at_ms: int = 0
    joined: dict[str, int] = field(default_factory=dict)  # the snapshots of joined tables that go with `to`
    joined_origin: dict[str, int] = field(default_factory=dict)  # those that go with `origin`

    @property
    def number(self) -> int:
        """Greater than that of each run that the plan has seen: workers' clocks do not tell which came later."""
        number, separator, _ = self.run.partition(NUMBER_SEPARATOR)
        return int(number) if separator else 0

    @property
    def order(self) -> tuple[int, int]:
        """Greater for a run that came later; of runs that did not see each other the clock decides."""
        return self.number, self.at_ms

    @property
    def target(self) -> Target:
        """The snapshots of the table, and of those that the SQL joins, to which the run leads."""
        return self.to, self.joined

    @property
    def pair(self) -> tuple[object, ...]:
        """The two states between which the run produces what differs; `after` counts between these two only."""
        return self.mode, self.origin, self.joined_origin, self.to, self.joined

    @property
    def identity(self) -> tuple[object, ...]:
        """What the records look like, and the very table and topics that they belong to."""
        return self.digest, self.table_uuid, self.topic_ids

    @property
    def is_complete(self) -> bool:
        return self.after is None

    @property
    def state(self) -> Target | None:
        """The state that the topics hold of the part's keys; None on the way."""
        return self.target if self.is_complete else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values: they also go to workers that lack this module."""
        return {**asdict(self), "mode": str(self.mode)}

    @classmethod
    def from_bytes(cls, data: bytes | None) -> "Progress | None":
        return None if data is None else read_plain(cls, json.loads(data))


@dataclass(frozen=True)
class PartProgress:
    """The positions of all parts. `raw_records`: each part's newest record in the state topic, None without one."""

    raw_records: tuple[str | None, ...]
    key_forms: tuple[str, ...] = ()  # the headers of these records that say how keys were written

    def get_key_form(self, number: int) -> str:
        return self.key_forms[number] if self.key_forms else ""

    @property
    def parts(self) -> tuple[Progress | None, ...]:
        return tuple(None if text is None else Progress.from_bytes(text.encode()) for text in self.raw_records)

    @property
    def is_new(self) -> bool:
        return all(part is None for part in self.raw_records)

    @property
    def recorded_parts(self) -> tuple[Progress, ...]:
        return tuple(part for part in self.parts if part is not None)

    @property
    def last_position(self) -> Progress | None:
        return max(self.recorded_parts, key=lambda part: part.order, default=None)

    def name_run(self, run_id: str) -> str:
        number = max((part.number for part in self.recorded_parts), default=0) + 1
        return f"{number}{NUMBER_SEPARATOR}{run_id}"

    @property
    def common_position(self) -> Progress | None:
        """The position of all parts; None if they differ, or if not all were compared with the topic yet."""
        known_parts = self.recorded_parts
        last = self.last_position
        if last is None or last.state is None or len(known_parts) < len(self.raw_records):
            return None
        is_one = all((part.state, part.identity) == (last.state, last.identity) for part in known_parts)
        return (
            last
            if is_one and (last.mode != RunMode.TOPIC or all(part.mode == RunMode.TOPIC for part in known_parts))
            else None
        )

    @property
    def unfinished_run(self) -> Progress | None:
        """The run that was recorded last, if the parts have different positions; else None."""
        return None if self.common_position is not None else self.last_position

    @property
    def parts_of_last_run(self) -> tuple[Progress, ...]:
        last = self.last_position
        return tuple(part for part in self.recorded_parts if last is not None and part.run == last.run)
