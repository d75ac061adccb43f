"""The port to the tables of bad records."""

from collections.abc import Collection, Mapping
from typing import Protocol

from tidegate.model.offsets import Ranges
from tidegate.model.table_state import DeadLetter, DeadLetters, WaitingLetter


class DeadLetterStore(Protocol):
    """Dead-letter tables: bad records, with their bytes, until they are replayed."""

    def read_dead_letters(self, name: str, limit: int) -> DeadLetters:
        """What stands in a dead-letter table: counts, and the newest `limit` that wait, newest first."""
        ...

    def list_waiting_letters(self, name: str, table: str) -> list[WaitingLetter]:
        """Where each dead letter of `table` lies that was not replayed."""
        ...

    def list_replayed_letters(self, name: str, table: str, attempts: Collection[str]) -> list[WaitingLetter]:
        """Where each dead letter of `table` lies that one of these staged attempts of replays has read."""
        ...

    def read_letters_of_attempt(self, name: str, table: str, attempt: str) -> list[DeadLetter]:
        """The dead letters of `table` that one attempt left, with their bytes, in the order of their places."""
        ...

    def copy_dead_letters(self, name: str, table: str, intermediate: str) -> str:
        """Copy those that wait to files beside `intermediate`; their folder, empty where Spark reads them itself."""
        return ""

    def count_letters_of_others(
        self, name: str, table: str, attempt: str, ranges: Ranges
    ) -> Mapping[tuple[str, int], int]:
        """Dead letters of `table` in these ranges that another attempt than `attempt` left, by topic and partition.

        A partition without any is not among them.
        """
        ...
