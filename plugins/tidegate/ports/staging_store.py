"""The port to intermediate tables: attempts that stage jobs left there, and batches that are complete."""

from typing import Protocol

from tidegate.jobs.merge_job import AuditAnswers
from tidegate.jobs.record_explanation import RecordExplanation
from tidegate.jobs.stage_outcome import DiscoveredNames, StageOutcome
from tidegate.model.batch import StagedBatch
from tidegate.model.table_state import SignedAttempt, Staging


class StagingStore(Protocol):
    """Intermediate tables, in which batches wait for their merge.

    The methods that do something here are those of a destination that Spark writes itself, and of one that asks audits
    in the transaction that publishes.
    """

    def find_landing_folder(self, intermediate: str, batch: int, attempt: str) -> str | None:
        """The folder in which a stage job leaves this attempt's files; None where it writes the table itself."""
        return None

    def complete_attempt(
        self, intermediate: str, batch: int, attempt: str, summary: dict[str, str]
    ) -> StageOutcome | None:
        """Let what a stage job has left count: from here on, and not before, the attempt is staged. Returns its counts.

        Files in its folder are brought into the table first. Without the counts that a job leaves last nothing is
        done, and the answer is None. A repeat call changes nothing.
        """
        ...

    def sign_attempt(self, intermediate: str, signed: SignedAttempt) -> None:
        """Note beside an attempt's files, once its job has ended well, what that job was asked."""
        return

    def list_signed_attempts(self, intermediate: str) -> list[SignedAttempt]:
        """Attempts that are signed and whose files are still there."""
        return []

    def read_job_outcome(self, intermediate: str, batch: int, attempt: str) -> StageOutcome | None:
        """The counts that a stage job left last in its landing folder; None if it did not finish."""
        return None

    def read_discovered_names(self, intermediate: str, batch: int, attempt: str) -> DiscoveredNames | None:
        """The names that a job left last in its landing folder; None if it did not finish."""
        return None

    def read_explanation(self, intermediate: str, batch: int, attempt: str) -> RecordExplanation | None:
        """What a job that explains a record left, in the table or in its landing folder; None if it did not finish."""
        ...

    def list_staged(self, intermediate: str, table: str) -> list[StagedBatch]:
        """Complete batches that stand in the intermediate table, oldest first; highest attempt of each batch only."""
        ...

    def read_staged_outcome(self, intermediate: str, attempt: str) -> StageOutcome | None:
        """What the stage job of this attempt left behind (with its snapshot id), None if it did not finish."""
        ...

    def read_staging(self, intermediate: str, table: str) -> Staging | None:
        """What the newest snapshot holds, without batches whose newest attempt is unfinished; None if there is none."""
        ...

    def find_highest_batch(self, intermediate: str) -> int:
        """The highest batch number that was ever written there, 0 for none; not of attempts that are never merged."""
        ...

    def read_audit_answers(self, intermediate: str, attempt: str) -> AuditAnswers | None:
        """What the last merge of this staged attempt found when it asked its audits; None if none did."""
        return None

    def clean_up(self, intermediate: str, up_to_batch: int) -> dict[str, int]:
        """Remove batches up to that one, and later attempts that are never merged, with all files; returns counts."""
        ...

    def drop(self, intermediate: str) -> None:
        """Drop an intermediate table with all its files, also of attempts that were killed; `GiveUp` if not ours."""
        ...
