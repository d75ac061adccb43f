"""The port `DeadLetterStore` over Iceberg."""

from collections.abc import Collection, Mapping

from tidegate.adapters.iceberg.ports.port import IcebergPort
from tidegate.adapters.iceberg.stores import dead_letters as iceberg_dead_letters
from tidegate.adapters.iceberg.table.errors import translate_iceberg_errors
from tidegate.model.offsets import Ranges
from tidegate.model.table_state import DeadLetter, DeadLetters, WaitingLetter


class IcebergDeadLetters(IcebergPort):
    """Implements the port `DeadLetterStore`."""

    @translate_iceberg_errors
    def read_dead_letters(self, name: str, limit: int) -> DeadLetters:
        """See the port."""
        loaded_table = self.catalogs.table(name)
        return DeadLetters() if loaded_table is None else iceberg_dead_letters.read_newest_letters(loaded_table, limit)

    @translate_iceberg_errors
    def list_waiting_letters(self, name: str, table: str) -> list[WaitingLetter]:
        """See the port."""
        loaded_table = self.catalogs.table(name)
        return [] if loaded_table is None else iceberg_dead_letters.list_waiting(loaded_table, table)

    @translate_iceberg_errors
    def list_replayed_letters(self, name: str, table: str, attempts: Collection[str]) -> list[WaitingLetter]:
        """See the port."""
        loaded_table = self.catalogs.table(name)
        return [] if loaded_table is None else iceberg_dead_letters.list_replayed(loaded_table, table, attempts)

    @translate_iceberg_errors
    def read_letters_of_attempt(self, name: str, table: str, attempt: str) -> list[DeadLetter]:
        """See the port."""
        loaded_table = self.catalogs.table(name)
        return [] if loaded_table is None else iceberg_dead_letters.read_of_attempt(loaded_table, table, attempt)

    @translate_iceberg_errors
    def copy_dead_letters(self, name: str, table: str, intermediate: str) -> str:
        """See the port."""
        return ""

    @translate_iceberg_errors
    def count_letters_of_others(
        self, name: str, table: str, attempt: str, ranges: Ranges
    ) -> Mapping[tuple[str, int], int]:
        """See the port."""
        loaded_table = self.catalogs.table(name)
        return (
            {}
            if loaded_table is None
            else iceberg_dead_letters.count_letters_of_others(loaded_table, table, attempt, ranges)
        )
