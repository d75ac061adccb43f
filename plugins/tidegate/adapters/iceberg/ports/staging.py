"""The port `StagingStore` over Iceberg."""

from contextlib import suppress

from tidegate.adapters.iceberg.ports.port import IcebergPort
from tidegate.adapters.iceberg.stores import staging as iceberg_staging
from tidegate.adapters.iceberg.table.errors import translate_iceberg_errors
from tidegate.errors import CommitRefused, RetryLater
from tidegate.jobs.merge_job import AuditAnswers
from tidegate.jobs.record_explanation import RecordExplanation
from tidegate.jobs.stage_outcome import DiscoveredNames, StageOutcome
from tidegate.model.batch import StagedBatch
from tidegate.model.table_state import SignedAttempt, Staging

MAX_COMMITS = 10


class IcebergStaging(IcebergPort):
    """Implements the port `StagingStore`."""

    @translate_iceberg_errors
    def find_landing_folder(self, intermediate: str, batch: int, attempt: str) -> str | None:
        """See the port: Spark writes Iceberg's tables itself."""
        return None

    @translate_iceberg_errors
    def complete_attempt(
        self, intermediate: str, batch: int, attempt: str, summary: dict[str, str]
    ) -> StageOutcome | None:
        """See the port: one commit, tried again where other commits to the table are faster."""
        for _ in range(MAX_COMMITS):
            loaded_table = self.catalogs.table(intermediate)
            with suppress(CommitRefused):
                return None if loaded_table is None else iceberg_staging.complete_attempt(loaded_table, attempt)
        raise RetryLater(
            f"intermediate={intermediate} batch={batch} attempt={attempt}: other commits to the table were faster "
            f"{MAX_COMMITS} times; it will be tried again"
        )

    @translate_iceberg_errors
    def sign_attempt(self, intermediate: str, signed: SignedAttempt) -> None:
        """See the port: Spark leaves no files."""

    @translate_iceberg_errors
    def list_signed_attempts(self, intermediate: str) -> list[SignedAttempt]:
        """See the port: Spark leaves no files."""
        return []

    @translate_iceberg_errors
    def read_job_outcome(self, intermediate: str, batch: int, attempt: str) -> StageOutcome | None:
        """See the port: no job leaves files for Iceberg."""
        return None

    @translate_iceberg_errors
    def read_discovered_names(self, intermediate: str, batch: int, attempt: str) -> DiscoveredNames | None:
        """See the port: no job leaves files for Iceberg."""
        return None

    @translate_iceberg_errors
    def read_explanation(self, intermediate: str, batch: int, attempt: str) -> RecordExplanation | None:
        """See the port."""
        loaded_table = self.catalogs.table(intermediate)
        return None if loaded_table is None else iceberg_staging.read_explanation(loaded_table, attempt)

    @translate_iceberg_errors
    def list_staged(self, intermediate: str, table: str) -> list[StagedBatch]:
        """See the port."""
        loaded_table = self.catalogs.table(intermediate)
        return [] if loaded_table is None else iceberg_staging.list_staged(loaded_table, table)

    @translate_iceberg_errors
    def read_staged_outcome(self, intermediate: str, attempt: str) -> StageOutcome | None:
        """See the port."""
        loaded_table = self.catalogs.table(intermediate)
        return None if loaded_table is None else iceberg_staging.read_outcome(loaded_table, attempt)

    @translate_iceberg_errors
    def read_staging(self, intermediate: str, table: str) -> Staging | None:
        """See the port."""
        loaded_table = self.catalogs.table(intermediate)
        return None if loaded_table is None else iceberg_staging.read_newest_staging(loaded_table, table)

    @translate_iceberg_errors
    def find_highest_batch(self, intermediate: str) -> int:
        """See the port."""
        loaded_table = self.catalogs.table(intermediate)
        return 0 if loaded_table is None else iceberg_staging.find_highest_batch(loaded_table)

    @translate_iceberg_errors
    def read_audit_answers(self, intermediate: str, attempt: str) -> AuditAnswers | None:
        """See the port."""
        loaded_table = self.catalogs.table(intermediate)
        return None if loaded_table is None else iceberg_staging.read_audit_answers(loaded_table, attempt)

    @translate_iceberg_errors
    def clean_up(self, intermediate: str, up_to_batch: int) -> dict[str, int]:
        """See the port."""
        loaded_table = self.catalogs.table(intermediate)
        return {} if loaded_table is None else iceberg_staging.remove_batches(loaded_table, up_to_batch)

    @translate_iceberg_errors
    def drop(self, intermediate: str) -> None:
        """See the port."""
        loaded_table = self.catalogs.table(intermediate)
        if loaded_table is not None:
            iceberg_staging.drop_table(loaded_table)
