"""What a destination does for the steps: its tables, commits, staged rows, dead letters and history."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypedDict

from tidegate.errors import GiveUp
from tidegate.jobs.merge_job import AuditAnswers
from tidegate.jobs.record_explanation import RecordExplanation
from tidegate.jobs.stage_outcome import DiscoveredNames, StageOutcome
from tidegate.model.batch import CostCounts, StagedBatch
from tidegate.model.merge_input import MergeInput
from tidegate.model.offsets import Ranges
from tidegate.model.ownership import Ownership
from tidegate.model.position import Position
from tidegate.model.table_state import (
    DeadLetter,
    DeadLetters,
    FolderLimit,
    Head,
    Rollback,
    SignedAttempt,
    Staging,
    TableCommit,
    TableFiles,
    TableState,
    WaitingLetter,
)
from tidegate.schema.data_types import Column
from tidegate.sql.pruning import Bounds


class TableStore(Protocol):
    """Destination tables, and tables of our own beside them. Tables are named ``catalog.namespace.table``.

    The methods that do something here are those of a destination that looks after its files itself.
    """

    def list_tables(self, namespace: str) -> list[str]:
        """Names, without the namespace, of the tables in ``catalog.namespace``; none where there is no namespace."""
        ...

    def read_state(self, table: str, pipeline: str) -> TableState | None:
        """What stands there now; None where there is no table."""
        ...

    def evolve(self, table: str, columns: tuple[Column, ...], *, add: bool, widen: bool, relax: bool) -> list[str]:
        """Make the table able to hold `columns`; additive only, idempotent; says what it changed."""
        ...

    def find_bounds(self, table: str, values: MergeInput) -> Bounds:
        """Where the rows lie that a merge filled with `values` can touch; in the snapshot that `at` names, if any."""
        ...

    def claim(self, table: str, owner: Ownership) -> Mapping[str, str] | None:
        """Properties of a table of our own, None where there is none. One that 0.1 made is marked; else `GiveUp`."""
        ...

    def list_pipelines(self, table: str) -> tuple[str, ...]:
        """Every pipeline that may have published into what is written of the table, this one among them."""
        ...

    def has_files(self, table: str) -> bool:
        """Whether there is a table of this name whose files somebody has to look after. Measures nothing."""
        return False

    def read_files(self, table: str, exact: bool = False) -> TableFiles | None:
        """What the table consists of, from its metadata; None where there is no table.

        Of a large table small files are those of its newest manifests; `exact` reads all, and costs what it has.
        """
        return None

    def read_property(self, table: str, name: str) -> str | None:
        """One property of a table; None where there is no such property or table."""
        return None

    def list_folder_limits(self, table: str, partition_by: tuple[str, ...]) -> tuple[FolderLimit, ...]:
        """How long values may be that name the folders of the table's files; of one to be made by `partition_by`."""
        return ()

    def count_rows(self, table: str) -> int | None:
        """Rows by the table's own statistics; None where they are not exact."""
        ...

    def forget_deletes(self, deletes: str, before_ms: int, every_ms: int = 0) -> int:
        """Remove remembered deletes of older records; returns how many. One that is dear may go `every_ms` only."""
        ...


NO_BRANCHES_REASON = "the destination has no branches: a merge is written by the transaction that publishes it"


class BranchCommits(Protocol):
    """Writes a batch into a destination table: on a branch where there are some, then by compare-and-swap.

    The methods that do something here are those of a destination without branches, which writes nothing before it
    publishes, and where nothing tells of a rollback.
    """

    def has_branches(self, table: str) -> bool:
        """Whether a merge is written beside the table, and seen, before it is published; else the publish does both."""
        return False

    def seed(self, table: str, pipeline: str, position: Position) -> None:
        """Give a table without snapshots its first one, empty, with the starting position; refused if it has one."""
        ...

    def start_branch(self, table: str, state: TableState, branch: str) -> None:
        """Start `branch` at the snapshot that `state` was read from; `CommitRefused` if main has moved."""
        raise GiveUp(f"table={table}: {NO_BRANCHES_REASON}")

    def read_head(self, table: str, branch: str) -> Head | None:
        """The branch's newest snapshot; None where the branch is gone."""
        ...

    def append_empty(self, table: str, branch: str, summary: dict[str, str]) -> None:
        """Put a snapshot without rows on `branch`."""
        raise GiveUp(f"table={table}: {NO_BRANCHES_REASON}")

    def publish(self, table_commit: TableCommit) -> None:
        """Publish rows and position, or neither. `CommitRefused`: a requirement failed; `OutcomeUnknown`: no answer."""
        ...

    def reparent(
        self, table_commit: TableCommit, onto: int, keys: MergeInput | None, summary: dict[str, str] | None = None
    ) -> Head | None:
        """Put a branch onto a newer main, None where a merge with `keys` might differ; `keys` None: it appends.

        `summary` is what the snapshot tells beside what its writer counted; None leaves that as it is.
        """
        return None

    def drop_branch(self, table: str, branch: str) -> None:
        """Remove one branch; nothing happens where it is gone."""
        return

    def drop_branches(self, table: str, pipeline: str, up_to_batch: int, is_gone: Callable[[str], bool]) -> int:
        """Remove this pipeline's branches of batches up to that one, and of backfills that are gone; returns how many.

        `is_gone` is asked with the id of a backfill that has a branch, after the branches were read.
        """
        return 0

    def find_rollback(self, table: str, pipeline: str) -> Rollback | None:
        """What a rollback took from this pipeline; None where nothing tells of one, or the last publish is gone."""
        return None

    def undo_rollback(self, table: str, pipeline: str, rollback: Rollback, properties: dict[str, str]) -> None:
        """Make the last published snapshot main again and set `properties`, in one commit.

        `CommitRefused` unless main and the tag stand as in `rollback`; `OutcomeUnknown` when no answer came.
        """
        raise GiveUp(f"table={table}: {NO_BRANCHES_REASON}")

    def find_snapshots(self, table: str, attempt: str) -> list[int]:
        """The snapshots, on whatever branch or on none, that this attempt wrote."""
        return []

    def list_rolled_back(self, table: str, name: str) -> frozenset[str]:
        """What snapshots tell under this name in their summaries, where the table stands on none of them any more.

        A snapshot on which it may stand, as expiry took those in between, is none of them; none without a table.
        """
        return frozenset()


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

    def holds_rows(self, intermediate: str, batches: Sequence[StagedBatch]) -> bool:
        """Whether all rows of `batches`, as each was staged, can be read at the snapshot of the last of them.

        Not so where an attempt that was never merged has written over some of them, or they were removed, before that
        snapshot. A destination that keeps the rows of all attempts side by side has them.
        """
        return True

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
        self, name: str, table: str, attempts: Sequence[str], ranges: Ranges
    ) -> Mapping[tuple[str, int], int]:
        """Dead letters of `table` in these ranges that other attempts than `attempts` left, by topic and partition.

        A partition without any is not among them.
        """
        ...


class BatchCounts(TypedDict):
    """What became of a batch: records up to `dead_lettered`, then rows, then the seconds that its merge took."""

    read: int
    staged: int
    superseded: int
    filtered: int
    ignored: int
    dead_lettered: int
    inserted: int
    updated: int
    deleted: int
    seconds: float


class HistoryRow(BatchCounts, CostCounts):
    """What one batch, or one slice of a backfill, did to one table.

    `span` counts offsets. `ranges` is JSON, times end in ``_ms``.
    `backfill` names the slice, None for a batch of the log.
    """

    batch: int
    table: str
    attempt: str
    ranges: str
    span: int
    stage_seconds: float | None
    staged_bytes: int | None
    written_as: str | None
    staged_snapshot_id: int | None
    snapshot_id: int | None
    published_at_ms: int
    valid_through_ms: int | None
    backfill: str | None


class BatchHistory(Protocol):
    """What was applied: batches, and the slices of backfills."""

    def append_history(self, control: str, row: HistoryRow) -> None:
        """Append one row of history; created if missing."""
        ...

    def read_history(self, control: str, limit: int) -> list[HistoryRow]:
        """The newest rows of history, newest first."""
        ...

    def list_backfills(self, table: str, pipeline: str) -> list[str]:
        """Of each backfill of `table` that has an intermediate table: what was noted when that was made."""
        ...

    def list_applied_slices(self, intermediate: str, shape: str) -> frozenset[int]:
        """The slices that a backfill's table says are applied; none where there is no table of that shape."""
        ...

    def mark_applied(self, intermediate: str, number: int) -> None:
        """Say in a backfill's table that a slice is applied; `CommitRefused` if others commit meanwhile."""
        ...

    def forget_backfill(self, table: str, pipeline: str, backfill: str) -> None:
        """Remove a backfill's branches, and its mark on the table; `CommitRefused` if others commit meanwhile."""
        ...


@dataclass(frozen=True)
class Destination:
    """One type of destination, or several behind one front."""

    tables: TableStore
    commits: BranchCommits
    staging: StagingStore
    dead_letters: DeadLetterStore
    history: BatchHistory
