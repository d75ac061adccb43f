"""The port to the catalogs that hold destination tables."""

from collections.abc import Mapping
from typing import Any, Protocol

from tidegate.model.batch import SignedAttempt, StagedBatch
from tidegate.model.offsets import Ranges
from tidegate.model.ownership import Ownership
from tidegate.model.position import Position
from tidegate.model.table_state import DeadLetters, Head, Publication, Staging, TableFiles, TableState
from tidegate.schema.column import Column
from tidegate.sql.pruning import Bounds


class Destination(Protocol):
    """The tables of one or more catalogs. Tables are named ``catalog.namespace.table``."""

    def list_tables(self, namespace: str) -> list[str]:
        """Names, without the namespace, of the tables in ``catalog.namespace``; none where there is no namespace."""
        ...

    def read_state(self, table: str, pipeline: str) -> TableState | None:
        """What stands there now; None where there is no table."""
        ...

    def seed(self, table: str, pipeline: str, position: Position) -> None:
        """Give a table without snapshots its first one, empty, with the starting position; refused if it has one."""
        ...

    def evolve(self, table: str, columns: tuple[Column, ...], *, add: bool, widen: bool, relax: bool) -> list[str]:
        """Make the table able to hold `columns`; additive only, idempotent; says what it changed."""
        ...

    def find_bounds(self, table: str, values: Mapping[str, Any]) -> Bounds:
        """Where the rows lie that a merge filled with `values` can touch; in the snapshot that `at` names, if any."""
        ...

    def has_branches(self, table: str) -> bool:
        """Whether a merge is written beside the table, and seen, before it is published; else the publish does both."""
        ...

    def start_branch(self, table: str, state: TableState, branch: str) -> None:
        """Start `branch` at the snapshot that `state` was read from; `CommitRefused` if main has moved."""
        ...

    def read_head(self, table: str, branch: str) -> Head | None:
        """The branch's newest snapshot; None where the branch is gone."""
        ...

    def append_empty(self, table: str, branch: str, summary: dict[str, str]) -> None:
        """Put a snapshot without rows on `branch`."""
        ...

    def publish(self, publication: Publication) -> None:
        """The law. `CommitRefused` when a requirement failed, `OutcomeUnknown` when no answer came."""
        ...

    def reparent(self, publication: Publication, onto: int, keys: Mapping[str, Any] | None) -> Head | None:
        """Put a branch onto a newer main, None where a merge with `keys` might differ; `keys` None: it appends."""
        ...

    def drop_branch(self, table: str, branch: str) -> None:
        """Remove one branch; nothing happens where it is gone."""
        ...

    def find_snapshots(self, table: str, attempt: str) -> list[int]:
        """The snapshots, on whatever branch or on none, that this attempt wrote."""
        ...

    def drop_branches(self, table: str, pipeline: str, up_to_batch: int) -> int:
        """Remove this pipeline's branches of batches up to that one; returns how many."""
        ...

    def find_landing_folder(self, intermediate: str, batch: int, attempt: str) -> str | None:
        """The folder in which a stage job leaves this attempt's files; None where it writes the table itself."""
        ...

    def load_staged_files(self, intermediate: str, batch: int, attempt: str, summary: dict[str, str]) -> None:
        """Bring the files that a stage job left in its folder into the table; only then is the attempt finished."""
        ...

    def sign_attempt(self, intermediate: str, signed: SignedAttempt) -> None:
        """Note beside an attempt's files, once its job has ended well, what that job was asked."""
        ...

    def signed_attempts(self, intermediate: str) -> list[SignedAttempt]:
        """Attempts that are signed and whose files are still there."""
        ...

    def read_job_outcome(self, intermediate: str, batch: int, attempt: str) -> dict[str, Any] | None:
        """What a job left last in its `landing`; None if it did not finish."""
        ...

    def list_staged(self, intermediate: str, table: str) -> list[StagedBatch]:
        """Complete batches that stand in the intermediate table, oldest first; highest attempt of each batch only."""
        ...

    def read_staged_outcome(self, intermediate: str, attempt: str) -> dict[str, Any] | None:
        """What the stage job of this attempt left behind (with its snapshot id), None if it did not finish."""
        ...

    def read_staging(self, intermediate: str, table: str) -> Staging | None:
        """What the newest snapshot holds, without batches whose newest attempt is unfinished; None if there is none."""
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

    def drop(self, intermediate: str) -> None:
        """Drop an intermediate table with all its files, also of attempts that were killed; `GiveUp` if not ours."""
        ...

    def forget_backfill(self, table: str, pipeline: str, backfill: str) -> None:
        """Remove a backfill's branches, and its mark on the table; `CommitRefused` if others commit meanwhile."""
        ...

    def read_audit_answers(self, intermediate: str, attempt: str) -> dict[str, Any] | None:
        """What the last merge of this staged attempt found when it asked its audits; None if none did."""
        ...

    def claim(self, table: str, own: Ownership) -> Mapping[str, str] | None:
        """Properties of a table of our own, None where there is none. One that 0.1 made is marked; else `GiveUp`."""
        ...

    def find_highest_batch(self, intermediate: str) -> int:
        """The highest batch number that was ever written there, 0 for none; not of attempts that are never merged."""
        ...

    def clean_up(self, intermediate: str, up_to_batch: int) -> dict[str, int]:
        """Remove batches up to that one, and later attempts that are never merged, with all files; returns counts."""
        ...

    def list_pipelines(self, table: str) -> tuple[str, ...]:
        """Every pipeline that may have published into what is written of the table, this one among them."""
        ...

    def forget_deletes(self, deletes: str, before_ms: int, every_ms: int = 0) -> int:
        """Remove remembered deletes of older records; returns how many. One that is dear may go `every_ms` only."""
        ...

    def append_history(self, control: str, row: dict[str, Any]) -> None:
        """Append one row of history; created if missing."""
        ...

    def read_history(self, control: str, limit: int) -> list[dict[str, Any]]:
        """The newest rows of history, newest first."""
        ...

    def read_files(self, table: str, exact: bool = False) -> TableFiles | None:
        """What the table consists of, from its metadata; None where there is no table.

        Of a large table small files are those of its newest manifests; `exact` reads all, and costs what it has.
        """
        ...

    def read_property(self, table: str, name: str) -> str | None:
        """One property of a table; None where there is no such property or table."""
        ...

    def read_dead_letters(self, name: str, limit: int) -> DeadLetters:
        """What stands in a dead-letter table: counts, and the newest `limit` that wait, newest first."""
        ...

    def list_waiting_letters(self, name: str, table: str) -> list[tuple[str, int, int]]:
        """Topic, partition and offset of each dead letter of `table` that was not replayed."""
        ...

    def read_letters_of_attempt(self, name: str, table: str, attempt: str) -> list[dict[str, Any]]:
        """The dead letters of `table` that one attempt left, with their bytes, in the order of their places."""
        ...

    def copy_dead_letters(self, name: str, table: str, intermediate: str) -> str:
        """Copy those that wait to files beside `intermediate`; their folder, empty where Spark reads them itself."""
        ...

    def count_letters_of_others(self, name: str, table: str, attempt: str, ranges: Ranges) -> int:
        """Dead letters of `table` in these ranges that another attempt than `attempt` left."""
        ...

    def count_rows(self, table: str) -> int | None:
        """Rows by the table's own statistics; None where they are not exact."""
        ...
