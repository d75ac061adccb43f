"""Where records come from: topics, start, isolation, and what happens to bad records."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tidegate.formats.registry import FORMATS
from tidegate.schema.data_types import Column
from tidegate.schema.inferred_types import Infer


@dataclass(frozen=True)
class KeyFormat:
    """How a record's key is read. `fields` are key columns before the prefix; `columns` is None without a schema.

    `options` are the format's own, never a secret. `into` names the one struct column of the whole key. `from_value`
    takes the fields from the value, whatever the record's key is.
    """

    format: str = "json"
    fields: tuple[str, ...] = ()
    prefix: str = ""
    columns: tuple[Column, ...] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    into: str | None = None
    from_value: bool = False


@dataclass(frozen=True)
class ValueFormat:
    """How a record's value is read."""

    format: str = "json"
    columns: tuple[Column, ...] | None = None
    fields_include: str = "ALL"
    # what integers count in columns that hold a time, for all or by column; None refuses them
    timestamp_unit: str | dict[str, str] | None = None
    options: dict[str, Any] = field(default_factory=dict)  # the format's own, never a secret
    unavailable: str | None = None  # what the source writes in place of a large value that did not change
    nanoseconds: str | dict[str, str] = "refuse"  # refuse or truncate them, for all columns or by column
    unknown_fields: str = "warn"  # what becomes of a field that no column holds: warn, add, refuse or ignore
    infer: Infer = field(default_factory=Infer)  # which columns records make, where they are added
    # columns that records have made, and that the destination may not have yet; each as it is after it has grown
    added: tuple[Column, ...] = ()

    @property
    def adds_columns(self) -> bool:
        return self.unknown_fields == "add"

    @property
    def applies_truncates(self) -> bool:
        return bool(self.options.get("truncate") == "apply")

    @property
    def time_rules(self) -> object:
        return self.timestamp_unit if self.nanoseconds == "refuse" else (self.timestamp_unit, self.nanoseconds)

    def truncates(self, column: str) -> bool:
        nanoseconds = self.nanoseconds
        words = {} if isinstance(nanoseconds, str) else {name.casefold(): word for name, word in nanoseconds.items()}
        return (nanoseconds if isinstance(nanoseconds, str) else words.get(column.casefold())) == "truncate"


KAFKA_TYPES = {
    "topic": "STRING",
    "partition": "INT",
    "headers": "MAP<STRING, BINARY>",
    "header-list": "ARRAY<STRUCT<`key`: STRING, `value`: BINARY>>",
    "leader-epoch": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "timestamp-type": "STRING",
}
# of the schema that a registry gave the record's writer
SCHEMA_TYPES = {
    f"{part}.schema-{word}": kind
    for part in ("key", "value")
    for word, kind in (("id", "BIGINT"), ("subject", "STRING"), ("version", "STRING"))
}
# other types that hold each value of a word; times of BIGINT count milliseconds, as the record does
_KAFKA_CASTS = {"partition": ("BIGINT",), "timestamp": ("BIGINT", "TIMESTAMP_NTZ")}
_CAST = " AS "


def name_cast(word: str, kind: str) -> str:
    """The metadata word of a column that has another type than the word's own; the word itself for that one."""
    return word if kind == METADATA_TYPES.get(word) else f"{word}{_CAST}{kind}"


def split_cast(word: str) -> tuple[str, str]:
    """The word whose value the column shows, and the type that it is cast to; empty where it keeps the word's own."""
    source, _, kind = word.partition(_CAST)
    return source, kind


_ALL_WORDS = (KAFKA_TYPES, SCHEMA_TYPES, *(record_format.metadata for record_format in FORMATS.values()))
_ALL_CASTS = (_KAFKA_CASTS, *(record_format.metadata_casts for record_format in FORMATS.values()))
METADATA_TYPES = {word: kind for words in _ALL_WORDS for word, kind in words.items()} | {
    f"{word}{_CAST}{kind}": kind for casts in _ALL_CASTS for word, kinds in casts.items() for kind in kinds
}


def order_metadata(metadata: dict[str, str]) -> dict[str, str]:
    """Order the words of the value format before Kafka's, else as the user wrote them."""
    return dict(sorted(metadata.items(), key=lambda item: not item[1].startswith("value.")))


def list_known_words(value_format: str) -> tuple[str, ...]:
    return (*FORMATS[value_format].metadata, *KAFKA_TYPES, *SCHEMA_TYPES)


def find_topic_column(metadata: Mapping[str, str]) -> str | None:
    """Return the first column that shows a record's topic."""
    return next((column for column, word in metadata.items() if word == "topic"), None)


def to_file_form(word: str) -> str | dict[str, str]:
    source, kind = split_cast(word)
    return {"from": source, "type": kind} if kind else source


def list_types_of_word(word: str, value_format: str) -> tuple[str, ...]:
    """The word's own type, and those that it may be cast to without loss."""
    return (METADATA_TYPES[word], *{**_KAFKA_CASTS, **FORMATS[value_format].metadata_casts}.get(word, ()))


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
        """The most bad records of one batch that are set aside, None if the first one fails the batch."""
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
    errors: Errors = field(default_factory=Errors)
    verify_integrity: bool = False
