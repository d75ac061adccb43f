"""Sends what a step asks of a table to the ports, and the engine, of that table's catalog."""

# ruff: noqa: D102 (each method is the port's own)

from collections.abc import Callable, Collection, Mapping
from typing import Generic, TypeVar

from tidegate.jobs.job import Job
from tidegate.jobs.merge_job import AuditAnswers, MergeJob
from tidegate.jobs.record_explanation import RecordExplanation
from tidegate.jobs.stage_outcome import DiscoveredNames, StageOutcome
from tidegate.model.batch import StagedBatch
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
from tidegate.ports.batch_history import BatchHistory, HistoryRow
from tidegate.ports.branch_commits import BranchCommits
from tidegate.ports.dead_letter_store import DeadLetterStore
from tidegate.ports.destination import Destination
from tidegate.ports.engine import Engine
from tidegate.ports.staging_store import StagingStore
from tidegate.ports.table_store import TableStore
from tidegate.schema.column import Column
from tidegate.sql.pruning import Bounds

P = TypeVar("P")


class _Routed(Generic[P]):
    """One port over several catalogs."""

    def __init__(self, by_catalog: Mapping[str, P]) -> None:
        self._by_catalog = by_catalog

    def _route(self, table: str) -> P:
        """The port of the catalog that a table's name begins with."""
        return self._by_catalog[table.split(".", 1)[0]]


class RoutedTables(_Routed[TableStore]):
    """The port `TableStore` over catalogs of several types."""

    def list_tables(self, namespace: str) -> list[str]:
        return self._route(namespace).list_tables(namespace)

    def list_namespaces(self, catalog: str) -> list[str]:
        return self._route(catalog).list_namespaces(catalog)

    def read_state(self, table: str, pipeline: str) -> TableState | None:
        return self._route(table).read_state(table, pipeline)

    def evolve(self, table: str, columns: tuple[Column, ...], *, add: bool, widen: bool, relax: bool) -> list[str]:
        return self._route(table).evolve(table, columns, add=add, widen=widen, relax=relax)

    def find_bounds(self, table: str, values: MergeInput) -> Bounds:
        return self._route(table).find_bounds(table, values)

    def claim(self, table: str, owner: Ownership) -> Mapping[str, str] | None:
        return self._route(table).claim(table, owner)

    def has_mark(self, table: str, own: Ownership) -> bool:
        return self._route(table).has_mark(table, own)

    def list_pipelines(self, table: str) -> tuple[str, ...]:
        return self._route(table).list_pipelines(table)

    def has_files(self, table: str) -> bool:
        return self._route(table).has_files(table)

    def read_files(self, table: str, exact: bool = False) -> TableFiles | None:
        return self._route(table).read_files(table, exact)

    def read_property(self, table: str, name: str) -> str | None:
        return self._route(table).read_property(table, name)

    def list_folder_limits(self, table: str, partition_by: tuple[str, ...]) -> tuple[FolderLimit, ...]:
        return self._route(table).list_folder_limits(table, partition_by)

    def count_rows(self, table: str) -> int | None:
        return self._route(table).count_rows(table)

    def forget_deletes(self, deletes: str, before_ms: int, every_ms: int = 0) -> int:
        return self._route(deletes).forget_deletes(deletes, before_ms, every_ms)


class RoutedCommits(_Routed[BranchCommits]):
    """The port `BranchCommits` over catalogs of several types."""

    def has_branches(self, table: str) -> bool:
        return self._route(table).has_branches(table)

    def seed(self, table: str, pipeline: str, position: Position) -> None:
        self._route(table).seed(table, pipeline, position)

    def start_branch(self, table: str, state: TableState, branch: str) -> None:
        self._route(table).start_branch(table, state, branch)

    def read_head(self, table: str, branch: str) -> Head | None:
        return self._route(table).read_head(table, branch)

    def append_empty(self, table: str, branch: str, summary: dict[str, str]) -> None:
        self._route(table).append_empty(table, branch, summary)

    def publish(self, table_commit: TableCommit) -> None:
        self._route(table_commit.table).publish(table_commit)

    def reparent(
        self, table_commit: TableCommit, onto: int, keys: MergeInput | None, summary: dict[str, str] | None = None
    ) -> Head | None:
        return self._route(table_commit.table).reparent(table_commit, onto, keys, summary)

    def drop_branch(self, table: str, branch: str) -> None:
        self._route(table).drop_branch(table, branch)

    def drop_branches(self, table: str, pipeline: str, up_to_batch: int, is_gone: Callable[[str], bool]) -> int:
        return self._route(table).drop_branches(table, pipeline, up_to_batch, is_gone)

    def find_rollback(self, table: str, pipeline: str) -> Rollback | None:
        return self._route(table).find_rollback(table, pipeline)

    def undo_rollback(self, table: str, pipeline: str, rollback: Rollback, properties: dict[str, str]) -> None:
        self._route(table).undo_rollback(table, pipeline, rollback, properties)

    def find_snapshots(self, table: str, attempt: str) -> list[int]:
        return self._route(table).find_snapshots(table, attempt)

    def list_rolled_back(self, table: str, name: str) -> frozenset[str]:
        return self._route(table).list_rolled_back(table, name)


class RoutedStaging(_Routed[StagingStore]):
    """The port `StagingStore` over catalogs of several types."""

    def find_landing_folder(self, intermediate: str, batch: int, attempt: str) -> str | None:
        return self._route(intermediate).find_landing_folder(intermediate, batch, attempt)

    def complete_attempt(
        self, intermediate: str, batch: int, attempt: str, summary: dict[str, str]
    ) -> StageOutcome | None:
        return self._route(intermediate).complete_attempt(intermediate, batch, attempt, summary)

    def sign_attempt(self, intermediate: str, signed: SignedAttempt) -> None:
        self._route(intermediate).sign_attempt(intermediate, signed)

    def list_signed_attempts(self, intermediate: str) -> list[SignedAttempt]:
        return self._route(intermediate).list_signed_attempts(intermediate)

    def read_job_outcome(self, intermediate: str, batch: int, attempt: str) -> StageOutcome | None:
        return self._route(intermediate).read_job_outcome(intermediate, batch, attempt)

    def read_discovered_names(self, intermediate: str, batch: int, attempt: str) -> DiscoveredNames | None:
        return self._route(intermediate).read_discovered_names(intermediate, batch, attempt)

    def read_explanation(self, intermediate: str, batch: int, attempt: str) -> RecordExplanation | None:
        return self._route(intermediate).read_explanation(intermediate, batch, attempt)

    def list_staged(self, intermediate: str, table: str) -> list[StagedBatch]:
        return self._route(intermediate).list_staged(intermediate, table)

    def read_staged_outcome(self, intermediate: str, attempt: str) -> StageOutcome | None:
        return self._route(intermediate).read_staged_outcome(intermediate, attempt)

    def read_staging(self, intermediate: str, table: str) -> Staging | None:
        return self._route(intermediate).read_staging(intermediate, table)

    def find_highest_batch(self, intermediate: str) -> int:
        return self._route(intermediate).find_highest_batch(intermediate)

    def read_audit_answers(self, intermediate: str, attempt: str) -> AuditAnswers | None:
        return self._route(intermediate).read_audit_answers(intermediate, attempt)

    def clean_up(self, intermediate: str, up_to_batch: int) -> dict[str, int]:
        return self._route(intermediate).clean_up(intermediate, up_to_batch)

    def drop(self, intermediate: str) -> None:
        self._route(intermediate).drop(intermediate)


class RoutedDeadLetters(_Routed[DeadLetterStore]):
    """The port `DeadLetterStore` over catalogs of several types."""

    def read_dead_letters(self, name: str, limit: int) -> DeadLetters:
        return self._route(name).read_dead_letters(name, limit)

    def list_waiting_letters(self, name: str, table: str) -> list[WaitingLetter]:
        return self._route(name).list_waiting_letters(name, table)

    def list_replayed_letters(self, name: str, table: str, attempts: Collection[str]) -> list[WaitingLetter]:
        return self._route(name).list_replayed_letters(name, table, attempts)

    def read_letters_of_attempt(self, name: str, table: str, attempt: str) -> list[DeadLetter]:
        return self._route(name).read_letters_of_attempt(name, table, attempt)

    def copy_dead_letters(self, name: str, table: str, intermediate: str) -> str:
        return self._route(name).copy_dead_letters(name, table, intermediate)

    def count_letters_of_others(
        self, name: str, table: str, attempt: str, ranges: Ranges
    ) -> Mapping[tuple[str, int], int]:
        return self._route(name).count_letters_of_others(name, table, attempt, ranges)


class RoutedHistory(_Routed[BatchHistory]):
    """The port `BatchHistory` over catalogs of several types."""

    def append_history(self, control: str, row: HistoryRow) -> None:
        self._route(control).append_history(control, row)

    def read_history(self, control: str, limit: int) -> list[HistoryRow]:
        return self._route(control).read_history(control, limit)

    def list_backfills(self, table: str, pipeline: str) -> list[str]:
        return self._route(table).list_backfills(table, pipeline)

    def list_applied_slices(self, intermediate: str, shape: str) -> frozenset[int]:
        return self._route(intermediate).list_applied_slices(intermediate, shape)

    def mark_applied(self, intermediate: str, number: int) -> None:
        self._route(intermediate).mark_applied(intermediate, number)

    def forget_backfill(self, table: str, pipeline: str, backfill: str) -> None:
        self._route(table).forget_backfill(table, pipeline, backfill)


def route_by_catalog(by_catalog: Mapping[str, Destination]) -> Destination:
    """The ports of one destination over catalogs of several types."""
    kinds = list(by_catalog.values())
    if all(kind is kinds[0] for kind in kinds):
        return kinds[0]
    return Destination(
        tables=RoutedTables({name: kind.tables for name, kind in by_catalog.items()}),
        commits=RoutedCommits({name: kind.commits for name, kind in by_catalog.items()}),
        staging=RoutedStaging({name: kind.staging for name, kind in by_catalog.items()}),
        dead_letters=RoutedDeadLetters({name: kind.dead_letters for name, kind in by_catalog.items()}),
        history=RoutedHistory({name: kind.history for name, kind in by_catalog.items()}),
    )


class RoutedEngine:
    """Spark, but for the statements of tables whose catalog has an engine of its own."""

    def __init__(self, spark: Engine, by_catalog: Mapping[str, Engine]) -> None:
        self._spark = spark
        self._by_catalog = by_catalog

    def run(self, job: Job) -> None:
        """Run one job to its end."""
        table = job.table if isinstance(job, MergeJob) else ""
        self._by_catalog.get(table.split(".", 1)[0], self._spark).run(job)
