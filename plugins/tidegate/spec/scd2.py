"""From when to when a version of a key holds: the columns that a table with history has beside the record's."""

from dataclasses import dataclass


@dataclass(frozen=True)
class History:
    """A row for each version of a key: the names of the columns that say from when to when it holds."""

    valid_from: str = "valid_from"
    valid_to: str = "valid_to"
    is_current: str = "is_current"

    @property
    def columns(self) -> tuple[str, str, str]:
        """All three."""
        return self.valid_from, self.valid_to, self.is_current
