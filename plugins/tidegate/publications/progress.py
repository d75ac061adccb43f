"""How far a publication has come: one small record per part of its keys, in the publication's own state topic.

A part's newest record is its position. With exactly-once it is written in the same transaction as the changes before
it, so it can neither run ahead of them nor stay behind.
"""

import json
from dataclasses import asdict, dataclass, field
from typing import Any

KEY = b"position"
# what the changes of a run are told from; the last one moves no position: what is published is produced once more
CHANGES, EVERYTHING, TOPIC, AGAIN = "changes", "everything", "topic", "again"


@dataclass(frozen=True)
class Progress:
    """One part's position: its topics hold the table as of snapshot `to`, or, with `after`, are on the way there.

    `after` is the last key whose change was produced, as the letter k and hexadecimal digits, empty before the first;
    the changes of a run are produced in the order of their keys. `origin` is None where the run began with nothing.
    `mode` says what the changes were told from. A run that produces again takes the keys that changed between `origin`
    and `until`, and their rows as of `to`. `joined` are the snapshots of other tables that go with `to`,
    `joined_origin` those that go with `origin`: the same ones where no row of theirs has changed.
    """

    run: str
    mode: str
    origin: int | None
    to: int
    digest: str
    table_uuid: str
    topic_ids: dict[str, str]
    partitions: dict[str, int]
    after: str | None = None
    counts: dict[str, int] = field(default_factory=dict)
    at_ms: int = 0
    until: int | None = None
    joined: dict[str, int] = field(default_factory=dict)
    joined_origin: dict[str, int] = field(default_factory=dict)

    @property
    def target(self) -> tuple[int, dict[str, int]]:
        """Where the run leads: the snapshots of the table and of those that the SQL joins."""
        return self.to, self.joined

    @property
    def is_complete(self) -> bool:
        """Whether every change up to `to` was produced."""
        return self.after is None

    def to_dict(self) -> dict[str, Any]:
        """As it stands in the state topic."""
        return asdict(self)

    @classmethod
    def from_bytes(cls, data: bytes | None) -> "Progress | None":
        """Inverse of what a producer wrote; None for None."""
        return None if data is None else cls(**json.loads(data))


@dataclass(frozen=True)
class Standing:
    """Where all parts stand: `raw` is the newest record of each as it is in the state topic, None without one."""

    raw: tuple[str | None, ...]

    @property
    def parts(self) -> tuple[Progress | None, ...]:
        """The positions, by part."""
        return tuple(None if text is None else Progress.from_bytes(text.encode()) for text in self.raw)

    @property
    def is_new(self) -> bool:
        """Whether nothing was ever produced."""
        return all(part is None for part in self.raw)

    @property
    def unfinished(self) -> Progress | None:
        """The run that some parts have finished or begun and others have not; None where all stand together."""
        known = [part for part in self.parts if part is not None]
        begun = [part for part in known if not part.is_complete]
        if begun:
            return begun[0]
        if len(known) == len(self.raw) and all(part.target == known[0].target for part in known):
            return None
        return max(known, key=lambda part: part.at_ms, default=None)

    @property
    def newest(self) -> tuple[Progress, ...]:
        """What the parts say of the run that was recorded last; none before the first."""
        known = [part for part in self.parts if part is not None]
        last = max(known, key=lambda part: part.at_ms, default=None)
        return tuple(part for part in known if last is not None and part.run == last.run)

    @property
    def settled(self) -> Progress | None:
        """The position, where all parts have the same one."""
        known = [part for part in self.parts if part is not None]
        return known[0] if known and self.unfinished is None else None
