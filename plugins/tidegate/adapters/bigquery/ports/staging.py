"""The port `StagingStore` over BigQuery."""

from tidegate.adapters.bigquery.client.errors import translate_bigquery_errors
from tidegate.adapters.bigquery.ports.port import BigQueryPort
from tidegate.adapters.bigquery.stores import (
    staging,
    staging_requests,
)
from tidegate.jobs.merge_job import AuditAnswers
from tidegate.jobs.record_explanation import RecordExplanation
from tidegate.jobs.stage_outcome import DiscoveredNames, StageOutcome
from tidegate.model.batch import StagedBatch
from tidegate.model.table_state import SignedAttempt
from tidegate.ports.context import Staging


class BigQueryStaging(BigQueryPort):
    """Implements the port `StagingStore`."""

    @translate_bigquery_errors
    def find_landing_folder(self, intermediate: str, batch: int, attempt: str) -> str | None:
        """See the port."""
        return self._get_warehouse(intermediate).folder.to_uri(staging.get_folder(intermediate, batch, attempt))

    @translate_bigquery_errors
    def complete_attempt(
        self, intermediate: str, batch: int, attempt: str, summary: dict[str, str]
    ) -> StageOutcome | None:
        """See the port."""
        warehouse = self._get_warehouse(intermediate)
        staging.load_attempt(warehouse, intermediate, batch, attempt, summary)
        return staging.read_outcome(warehouse, intermediate, attempt)

    @translate_bigquery_errors
    def sign_attempt(self, intermediate: str, signed: SignedAttempt) -> None:
        """See the port."""
        staging_requests.sign_attempt(self._get_warehouse(intermediate), intermediate, signed)

    @translate_bigquery_errors
    def list_signed_attempts(self, intermediate: str) -> list[SignedAttempt]:
        """See the port."""
        return staging_requests.find_signed(self._get_warehouse(intermediate), intermediate)

    @translate_bigquery_errors
    def read_job_outcome(self, intermediate: str, batch: int, attempt: str) -> StageOutcome | None:
        """See the port."""
        return staging.read_job_outcome(
            self._get_warehouse(intermediate), staging.get_folder(intermediate, batch, attempt)
        )

    @translate_bigquery_errors
    def read_discovered_names(self, intermediate: str, batch: int, attempt: str) -> DiscoveredNames | None:
        """See the port."""
        place = staging.get_folder(intermediate, batch, attempt)
        text = staging.read_outcome_text(self._get_warehouse(intermediate), place)
        return None if text is None else DiscoveredNames.from_json(text, f"folder={place}")

    @translate_bigquery_errors
    def read_explanation(self, intermediate: str, batch: int, attempt: str) -> RecordExplanation | None:
        """See the port."""
        place = staging.get_folder(intermediate, batch, attempt)
        text = staging.read_outcome_text(self._get_warehouse(intermediate), place)
        return None if text is None else RecordExplanation.from_json(text, f"folder={place}")

    @translate_bigquery_errors
    def list_staged(self, intermediate: str, table: str) -> list[StagedBatch]:
        """See the port."""
        return staging.list_staged(self._get_warehouse(intermediate), intermediate, table)

    @translate_bigquery_errors
    def read_staged_outcome(self, intermediate: str, attempt: str) -> StageOutcome | None:
        """See the port."""
        return staging.read_outcome(self._get_warehouse(intermediate), intermediate, attempt)

    @translate_bigquery_errors
    def read_staging(self, intermediate: str, table: str) -> Staging | None:
        """See the port: rows are told apart by their attempt, so that there is no snapshot to pin."""
        batches = tuple(self.list_staged(intermediate, table))
        return Staging(batches[-1].snapshot_id, batches) if batches else None

    @translate_bigquery_errors
    def find_highest_batch(self, intermediate: str) -> int:
        """See the port."""
        return staging.find_highest_batch(self._get_warehouse(intermediate), intermediate)

    @translate_bigquery_errors
    def read_audit_answers(self, intermediate: str, attempt: str) -> AuditAnswers | None:
        """See the port: audits are part of the transaction that publishes."""
        return None

    @translate_bigquery_errors
    def clean_up(self, intermediate: str, up_to_batch: int) -> dict[str, int]:
        """See the port."""
        return staging.remove_batches(self._get_warehouse(intermediate), intermediate, up_to_batch)

    @translate_bigquery_errors
    def drop(self, intermediate: str) -> None:
        """See the port."""
        staging.drop_table(self._get_warehouse(intermediate), intermediate)
