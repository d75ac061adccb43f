"""Which of a pipeline's dead letters a person means: by table, topic, reason, time or place."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tidegate.model.table_state import WaitingLetter


@dataclass(frozen=True)
class LetterFilter:
    """Each condition that is given must hold; without any, all letters are meant.

    `reason` is a part of the message, in whatever letters; `since_ms` is the time from which a letter was written.
    `places` are topics, partitions and offsets, empty for all.
    """

    table: str | None = None
    topic: str | None = None
    reason: str | None = None
    since_ms: int | None = None
    places: frozenset[tuple[str, int, int]] = frozenset()

    @property
    def is_given(self) -> bool:
        """Whether there is any condition."""
        return self != ALL_LETTERS

    def matches(self, letter: WaitingLetter) -> bool:
        """Whether this letter, of the table that is meant, is among those."""
        place = (letter.topic, letter.partition, letter.offset)
        return (
            (self.topic is None or letter.topic == self.topic)
            and (self.reason is None or self.reason.casefold() in letter.message.casefold())
            and (self.since_ms is None or _is_since(letter.written_at, self.since_ms))
            and (not self.places or place in self.places)
        )

    def matches_row(self, row: Mapping[str, Any]) -> bool:
        """The same of a row of the dead-letter table, whose table counts too."""
        names = ("topic", "partition", "offset", "message", "written_at")
        letter = WaitingLetter(**{name: row[name] for name in names}, topic_id=row.get("topic_id"))
        return self.table in (None, row["table"]) and self.matches(letter)


ALL_LETTERS = LetterFilter()


def _is_since(written_at: datetime | None, since_ms: int) -> bool:
    return written_at is not None and written_at >= datetime.fromtimestamp(since_ms / 1000, UTC)
