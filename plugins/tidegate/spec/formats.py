"""How keys and values of records are encoded, as the pipeline file states it."""

from dataclasses import dataclass, field
from typing import Any

from tidegate.schema.column import Column


@dataclass(frozen=True)
class KeyFormat:
    """How a record's key is read. `fields` are key columns before the prefix; `columns` is None without a schema.

    `options` are the format's own, never a secret. `into` names the one struct column that holds the whole key in place
    of a column for each field. `from_value` takes the fields from the value, whatever the record's key is.
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
    """How a record's value is read. `timestamp_unit` says what integers count in columns that hold a time: seconds,
    millis, micros or nanos, for all columns or for each by its name; None refuses them.

    `options` are the format's own, never a secret. `unavailable` is what the source writes in place of a large value
    that did not change, None for nothing. `nanoseconds` is what becomes of them in columns that hold a time, which have
    no place for them: refuse or truncate, for all columns or for each by its name.
    """

    format: str = "json"
    columns: tuple[Column, ...] | None = None
    fields_include: str = "ALL"
    timestamp_unit: str | dict[str, str] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    unavailable: str | None = None
    nanoseconds: str | dict[str, str] = "refuse"

    @property
    def applies_truncates(self) -> bool:
        """Whether a truncate of the source table empties the destination."""
        return bool(self.options.get("truncate") == "apply")

    @property
    def time_rules(self) -> object:
        """All that is said of columns that hold a time: the unit, with what becomes of nanoseconds if they are cut."""
        return self.timestamp_unit if self.nanoseconds == "refuse" else (self.timestamp_unit, self.nanoseconds)

    def truncates(self, column: str) -> bool:
        """Whether what is finer than a microsecond is cut off in this column."""
        nanoseconds = self.nanoseconds
        words = {} if isinstance(nanoseconds, str) else {name.casefold(): word for name, word in nanoseconds.items()}
        return (nanoseconds if isinstance(nanoseconds, str) else words.get(column.casefold())) == "truncate"
