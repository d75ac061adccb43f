"""Which of a pipeline's dead letters a person means: by table, topic, reason, time or place."""

from dataclasses import dataclass
from datetime import UTC, datetime

from tidegate.model.table_state import DeadLetter, WaitingLetter


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

    def matches_letter(self, letter: DeadLetter) -> bool:
        """The same of a whole letter, whose table counts too."""
        return self.table in (None, letter.table) and self.matches(letter.place)


ALL_LETTERS = LetterFilter()


def _is_since(written_at: datetime | None, since_ms: int) -> bool:
    return written_at is not None and written_at >= datetime.fromtimestamp(since_ms / 1000, UTC)
