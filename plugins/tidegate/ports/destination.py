"""What a destination does for the steps: its tables, commits, staged rows, dead letters and history."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypedDict, TypeVar

from tidegate.errors import GiveUp
from tidegate.jobs.stage_outcome import StageOutcome
from tidegate.jobs.statements_job import JobAnswers
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
    SnapshotLine,
    Staging,
    TableCommit,
    TableFiles,
    TableState,
    WaitingLetter,
)
from tidegate.schema.data_types import Column
from tidegate.sql.pruning import Bounds

JobResult = TypeVar("JobResult")


class TableStore(Protocol):
    """Destination tables, and the product's own beside them, named ``catalog.namespace.table``.

    The methods with a body fit a destination that looks after its files itself.
    """

    def list_tables(self, namespace: str) -> list[str]:
        """Without the namespace; empty for a missing ``catalog.namespace``."""

    def read_state(self, table: str, pipeline: str) -> TableState | None:
        """None without a table."""

    def evolve(self, table: str, columns: tuple[Column, ...], *, add: bool, widen: bool, relax: bool) -> list[str]:
        """Make the table able to hold `columns`; additive only, idempotent; returns a sentence for each change."""

    def find_bounds(self, table: str, values: MergeInput) -> Bounds:
        """Where the rows lie that a merge with `values` can touch; in the snapshot that `at` names, if any."""

    def claim(self, table: str, owner: Ownership) -> Mapping[str, str] | None:
        """Properties of one of the product's tables, None without a table; `GiveUp` for a table of somebody else."""

    def list_pipelines(self, table: str) -> tuple[str, ...]:
        """Every pipeline that may have published into the written branch, this one among them."""

    def has_files(self, table: str) -> bool:
        """Whether the table exists and somebody must look after its files. Measures nothing."""
        return False

    def read_files(self, table: str, exact: bool = False) -> TableFiles | None:
        """What the table consists of, from its metadata; None without a table.

        Of a large table small files are those of its newest manifests; `exact` reads all, whose cost grows with the
        table.
        """
        return None

    def read_property(self, table: str, name: str) -> str | None:
        """None without such a property or table."""
        return None

    def list_folder_limits(self, table: str, partition_by: tuple[str, ...]) -> tuple[FolderLimit, ...]:
        """The maximum length of values that name folders of the table's files; of a new table by `partition_by`."""
        return ()

    def count_rows(self, table: str) -> int | None:
        """By the table's own statistics; None where they are not exact."""

    def forget_deletes(self, deletes: str, before_ms: int, every_ms: int = 0) -> int:
        """Remove remembered deletes of older records; returns how many. A costly removal may wait `every_ms`."""


NO_BRANCHES_REASON = "the destination has no branches: a merge is written by the transaction that publishes it"


class BranchCommits(Protocol):
    """Writes a batch into a destination table: on a branch where there are some, then by compare-and-swap.

    The methods with a body fit a destination without branches, which writes nothing before it publishes and does not
    tell of a rollback.
    """

    def has_branches(self, table: str) -> bool:
        """Whether a merge is written beside the table, visible before its publish; else the publish does both."""
        return False

    def seed(self, table: str, pipeline: str, position: Position) -> None:
        """Give a table its first snapshot, empty, with the starting position; refused if it has one."""

    def start_branch(self, table: str, state: TableState, branch: str) -> None:
        """Start `branch` at the snapshot of `state`; `CommitRefused` if main has moved."""
        raise GiveUp(f"table={table}: {NO_BRANCHES_REASON}")

    def read_head(self, table: str, branch: str) -> Head | None:
        """The branch's newest snapshot; None where the branch is gone."""

    def append_empty(self, table: str, branch: str, summary: dict[str, str]) -> None:
        """Put a snapshot without rows on `branch`."""
        raise GiveUp(f"table={table}: {NO_BRANCHES_REASON}")

    def publish(self, table_commit: TableCommit) -> None:
        """Publish rows and position, or neither. `CommitRefused`: a requirement failed; `OutcomeUnknown`: no answer."""

    def reparent(
        self, table_commit: TableCommit, onto: int, keys: MergeInput | None, summary: dict[str, str] | None = None
    ) -> Head | None:
        """Put a branch onto a newer main; None where a merge with `keys` might differ. Without `keys` it appends.

        `summary`: the snapshot's entries beside what its writer counted; None leaves them.
        """
        return None

    def note(self, table: str, state: TableState, properties: dict[str, str]) -> None:
        """Set properties of the pipeline, if main and they still stand as in `state`; else `CommitRefused`.

        Where only the catalog's own server compares, of two notes within milliseconds the last one stays.
        """
        raise GiveUp(f"table={table}: {NO_BRANCHES_REASON}")

    def fast_forward(self, table: str, branch: str, attempt: str) -> None:
        """Make `branch` main and drop it. `CommitRefused` if main has moved since it was cut, or the branch is gone.

        Done already if main has a snapshot of `attempt`: a repeat call after a lost answer is a success.
        """
        raise GiveUp(f"table={table}: {NO_BRANCHES_REASON}")

    def drop_branch(self, table: str, branch: str) -> None:
        """A missing branch is no error."""
        return

    def drop_branches(self, table: str, pipeline: str, up_to_batch: int, is_gone: Callable[[str], bool]) -> int:
        """Remove this pipeline's branches of batches up to that one, and of backfills that are gone; returns how many.

        0 without the table.

        `is_gone` is asked with the id of a backfill that has a branch, after the branches were read.
        """
        return 0

    def find_rollback(self, table: str, pipeline: str) -> Rollback | None:
        """What a rollback took from this pipeline; None without a trace of one, or if the last publish is gone."""
        return None

    def undo_rollback(self, table: str, pipeline: str, rollback: Rollback, properties: dict[str, str]) -> None:
        """Make the last published snapshot main again and set `properties`, in one commit.

        `CommitRefused` unless main and the tag stand as in `rollback`; `OutcomeUnknown` without an answer.
        """
        raise GiveUp(f"table={table}: {NO_BRANCHES_REASON}")

    def upgrade_format(self, table: str, uuid: str, properties: dict[str, str]) -> None:
        """Raise the table of this `uuid` to Iceberg's format 3 and set `properties`, in one commit; no way back.

        `CommitRefused` for another table, and where another writer was faster.
        """
        raise GiveUp(f"table={table}: only Iceberg's tables have a format; nothing was changed; leave the command out")

    def find_snapshots(self, table: str, attempt: str) -> list[int]:
        """The snapshots of this attempt, on any branch or on none."""
        return []

    def list_rolled_back(self, table: str, name: str) -> frozenset[str]:
        """Values of `name` in summaries of snapshots that the table no longer stands on; empty without a table.

        Except for a snapshot that it may still stand on, behind expired ones.
        """
        return frozenset()

    def read_snapshot_line(self, table: str, pipeline: str) -> SnapshotLine:
        """Which of the snapshots that have not expired the table stands on."""
        return SnapshotLine()


class StagingStore(Protocol):
    """Intermediate tables, in which batches wait for their merge.

    The methods with a body fit a destination that Spark writes itself, or that asks audits in the transaction that
    publishes.
    """

    def find_landing_folder(self, intermediate: str, batch: int, attempt: str) -> str | None:
        """The folder for this attempt's files; None where the stage job writes the table itself."""
        return None

    def complete_attempt(
        self, intermediate: str, batch: int, attempt: str, summary: dict[str, str]
    ) -> StageOutcome | None:
        """Let an attempt count, from here on, and return its counts.

        Loads the files in its folder first. Without the counts, which a job leaves last, does nothing and returns
        None. A repeat call changes nothing.
        """

    def sign_attempt(self, intermediate: str, signed: SignedAttempt) -> None:
        """Note beside an attempt's files, once its job has ended well, what that job was asked."""
        return

    def list_signed_attempts(self, intermediate: str) -> list[SignedAttempt]:
        """Signed attempts whose files are still there."""
        return []

    def read_job_result(
        self, intermediate: str, batch: int, attempt: str, parse: Callable[[str, str], JobResult]
    ) -> JobResult | None:
        """What a stage job has left last, before its attempt is complete; None if it did not finish.

        `parse` gets the text and its place: counts, names of tables, or the explanation of a record.
        """

    def list_staged(self, intermediate: str, table: str) -> list[StagedBatch]:
        """Complete batches in the intermediate table, oldest first; the highest attempt of each batch only."""

    def holds_rows(self, intermediate: str, batches: Sequence[StagedBatch]) -> bool:
        """Whether all rows of `batches`, as staged, can be read at the snapshot of the last of them.

        Not if an attempt that was never merged has written over some of them, or they were removed, before that
        snapshot. A destination that keeps the rows of all attempts side by side has them.
        """
        return True

    def read_staged_outcome(self, intermediate: str, attempt: str) -> StageOutcome | None:
        """The stage job's outcome with its snapshot id, None if it did not finish."""

    def read_staging(self, intermediate: str, table: str) -> Staging | None:
        """What the newest snapshot holds, without batches whose newest attempt is unfinished; None without a table."""

    def find_highest_batch(self, intermediate: str) -> int:
        """The highest batch number ever written there, 0 for none; without attempts that are never merged."""

    def read_job_answers(self, intermediate: str, attempt: str) -> JobAnswers | None:
        """Of the last merge of this staged attempt; None if it asked no audits."""
        return None

    def keep_for_readers(self, intermediate: str) -> None:
        """Let published batches stay until queries of a live view that began before are over.

        Nothing to do where a query reads all its tables as of one moment.
        """
        return

    def clean_up(self, intermediate: str, up_to_batch: int) -> dict[str, int]:
        """Remove batches up to that one, and later attempts that are never merged, with all files; returns counts.

        `passed`: how many numbers it went on by, where other tables of the pipeline took some of them.
        """

    def drop(self, intermediate: str) -> None:
        """With all its files, also of killed attempts; `GiveUp` for another product's table."""

    def drop_unused(self, intermediate: str, before_ms: int) -> bool:
        """Drop it as `drop` does, unless it has changed since `before_ms`; return whether it was dropped.

        Nothing to do where staged rows expire by themselves.
        """
        return False


class DeadLetterStore(Protocol):
    """Dead-letter tables: bad records, with their bytes, until they are replayed."""

    def read_dead_letters(self, name: str, limit: int) -> DeadLetters:
        """Counts, and the newest `limit` that wait, newest first."""

    def list_waiting_letters(self, name: str, table: str) -> list[WaitingLetter]:
        """Places of the dead letters of `table` that were not replayed."""

    def list_replayed_letters(self, name: str, table: str, attempts: Collection[str]) -> list[WaitingLetter]:
        """Places of the dead letters of `table` that one of these staged attempts of replays has read."""

    def read_letters_of_attempt(self, name: str, table: str, attempt: str) -> list[DeadLetter]:
        """The dead letters of `table` from one attempt, with their bytes, in the order of their places."""

    def copy_dead_letters(self, name: str, table: str, intermediate: str) -> str:
        """Copy those that wait to files beside `intermediate`; returns the folder, empty if Spark reads them itself."""
        return ""

    def count_letters_of_others(
        self, name: str, table: str, attempts: Sequence[str], ranges: Ranges
    ) -> Mapping[tuple[str, int], int]:
        """Dead letters of `table` in these ranges from other attempts, by topic and partition; absent without any."""


class BatchCounts(TypedDict):
    """What became of a batch: records up to `dead_lettered`, then rows, then the seconds of its merge."""

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

    `span` counts offsets. `ranges` and `unknown_fields` are JSON, times end in ``_ms``. `backfill` names the slice,
    None for a batch of the log. `run` is what ran it.
    """

    batch: int
    table: str
    attempt: str
    ranges: str
    span: int
    stage_seconds: float | None
    staged_bytes: int | None
    written_as: str | None
    unknown_fields: str | None
    staged_snapshot_id: int | None
    snapshot_id: int | None
    published_at_ms: int
    valid_through_ms: int | None
    backfill: str | None
    run: str | None


class BatchHistory(Protocol):
    """What was applied: batches, and the slices of backfills."""

    def append_history(self, control: str, *rows: HistoryRow) -> None:
        """Creates a missing history."""

    def read_history(self, control: str, limit: int) -> list[HistoryRow]:
        """Newest first."""

    def list_backfills(self, table: str, pipeline: str) -> list[str]:
        """The notes of the backfills of `table` that have an intermediate table."""

    def list_applied_slices(self, intermediate: str, shape: str) -> frozenset[int]:
        """The slices marked as applied; empty without a table of that shape."""

    def mark_applied(self, intermediate: str, number: int) -> None:
        """`CommitRefused` if others commit meanwhile."""

    def forget_backfill(self, table: str, pipeline: str, backfill: str) -> None:
        """Remove a backfill's branches, and its mark on the table; `CommitRefused` if others commit meanwhile."""


@dataclass(frozen=True)
class Destination:
    """One type of destination, or several behind one front.

    - `tables`, `commits`: destination tables, and the commits to them.
    - `staging`, `dead_letters`, `history`: the pipeline's own tables beside them.
    """

    tables: TableStore
    commits: BranchCommits
    staging: StagingStore
    dead_letters: DeadLetterStore
    history: BatchHistory
