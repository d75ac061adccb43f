"""Where records come from: topics, start, isolation, and what happens to bad records."""

from dataclasses import dataclass, field
from enum import StrEnum

from tidegate.spec.formats import KeyFormat, ValueFormat


class StartKind(StrEnum):
    """Where a table without a position begins."""

    EARLIEST = "earliest"
    LATEST = "latest"
    GROUP = "group"
    TIMESTAMP = "timestamp"
    OFFSETS = "offsets"


@dataclass(frozen=True)
class Start:
    """Where a table without a position begins, with the time or the offsets that `kind` needs."""

    kind: StartKind = StartKind.EARLIEST
    timestamp_ms: int | None = None
    offsets: dict[str, dict[int, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Errors:
    """What a bad record does: `tolerance` none fails at the first; all sets it aside, and sends it to any `topic`."""

    tolerance: str = "none"
    max_per_batch: int = 1000
    topic: str | None = None

    @property
    def max_dead_letters(self) -> int | None:
        """The most bad records of one batch that are set aside, None where the first one fails the batch."""
        return self.max_per_batch if self.tolerance == "all" else None


@dataclass(frozen=True)
class Source:
    """The topics and how their records are read. `kafka` is a connection id or inline librdkafka settings."""

    kafka: str | dict[str, str]
    topics: tuple[str, ...]
    topic_pattern: str | None
    group: str
    start: Start = Start()
    isolation: str = "read_committed"
    key: KeyFormat = field(default_factory=KeyFormat)
    value: ValueFormat = field(default_factory=ValueFormat)
    metadata: dict[str, str] = field(default_factory=dict)
    errors: Errors = field(default_factory=Errors)
    verify_integrity: bool = False
