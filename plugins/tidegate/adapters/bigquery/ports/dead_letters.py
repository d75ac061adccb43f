"""The port `DeadLetterStore` over BigQuery."""

from collections.abc import Collection, Mapping

from tidegate.adapters.bigquery.client.errors import translate_bigquery_errors
from tidegate.adapters.bigquery.ports.port import BigQueryPort
from tidegate.adapters.bigquery.stores import dead_letters as bigquery_dead_letters
from tidegate.adapters.bigquery.stores import staging
from tidegate.model.offsets import Ranges
from tidegate.model.table_state import DeadLetter, DeadLetters, WaitingLetter


class BigQueryDeadLetters(BigQueryPort):
    """Implements the port `DeadLetterStore`."""

    @translate_bigquery_errors
    def read_dead_letters(self, name: str, limit: int) -> DeadLetters:
        """See the port."""
        return bigquery_dead_letters.read_newest_letters(self._get_warehouse(name), name, limit)

    @translate_bigquery_errors
    def list_waiting_letters(self, name: str, table: str) -> list[WaitingLetter]:
        """See the port."""
        return bigquery_dead_letters.list_waiting(self._get_warehouse(name), name, table)

    @translate_bigquery_errors
    def list_replayed_letters(self, name: str, table: str, attempts: Collection[str]) -> list[WaitingLetter]:
        """See the port."""
        return bigquery_dead_letters.list_replayed(self._get_warehouse(name), name, table, attempts)

    @translate_bigquery_errors
    def read_letters_of_attempt(self, name: str, table: str, attempt: str) -> list[DeadLetter]:
        """See the port."""
        return bigquery_dead_letters.read_of_attempt(self._get_warehouse(name), name, table, attempt)

    @translate_bigquery_errors
    def copy_dead_letters(self, name: str, table: str, intermediate: str) -> str:
        """See the port: Spark has no reader of BigQuery tables."""
        return bigquery_dead_letters.copy_waiting(
            self._get_warehouse(name), name, table, f"{staging.get_folder(intermediate)}/letters"
        )

    @translate_bigquery_errors
    def count_letters_of_others(
        self, name: str, table: str, attempt: str, ranges: Ranges
    ) -> Mapping[tuple[str, int], int]:
        """See the port."""
        return bigquery_dead_letters.count_letters_of_others(self._get_warehouse(name), name, table, attempt, ranges)
