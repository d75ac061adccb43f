"""What the steps need from the outside world: the log, the destination, Spark, SQL text and a clock."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tidegate.jobs.stage_job import Job
from tidegate.model.batch import SignedAttempt, StagedBatch
from tidegate.model.leader_epochs import Epochs
from tidegate.model.offsets import Offsets, Ranges
from tidegate.model.ownership import Ownership
from tidegate.model.position import Position
from tidegate.model.table_state import (
    DeadLetters,
    Head,
    Log,
    Message,
    Publication,
    Retention,
    Staging,
    TableFiles,
    TableState,
)
from tidegate.ports.schema_provider import DeclaredSchemas, Schemas
from tidegate.spec.pipeline import Column, Pipeline
from tidegate.sql.pruning import Bounds

__all__ = [
    "Broker", "CommitRefused", "DeadLetters", "Destination", "Engine", "Head", "Log", "Message", "Ports", "Publication",
    "Retention", "Sql", "Staging", "TableFiles", "TableState",
]  # fmt: skip


class Broker(Protocol):
    """Kafka, as far as the steps need it."""

    def topics(self, pattern: str) -> tuple[str, ...]:
        """Names of the existing topics that match the whole pattern."""
        ...

    def log(self, topics: tuple[str, ...], isolation: str) -> Log:
        """Begin and end offsets; `PositionLost` names a topic that does not exist."""
        ...

    def ends(self, topics: tuple[str, ...], isolation: str) -> Offsets:
        """End offsets alone, in one request; what is not there, or does not answer, is left out."""
        ...

    def offsets_at(self, topics: tuple[str, ...], timestamp_ms: int) -> Offsets:
        """First offset at or after a time, the end where there is none."""
        ...

    def compacted(self, topics: tuple[str, ...]) -> tuple[str, ...]:
        """Those whose clean-up policy keeps only the last record of each key."""
        ...

    def timestamp_of(self, topic: str, partition: int, offset: int, isolation: str = "read_committed") -> int | None:
        """Milliseconds of the first record at or after `offset`; None where none comes in time."""
        ...

    def newest(self, ends: Offsets) -> Offsets:
        """Milliseconds of the last record before each partition's end; absent where there is none."""
        ...

    def retention(self, topics: tuple[str, ...]) -> dict[str, Retention]:
        """How long each topic keeps its records."""
        ...

    def group_retention(self) -> float | None:
        """Seconds after its last commit at which an offset of a group is forgotten; None where they will not say."""
        ...

    def send(self, topic: str, records: Sequence[Message]) -> None:
        """Produce records to a topic, created if missing; `RetryLater` if they may not have arrived."""
        ...

    def epochs(self, ranges: Ranges, isolation: str) -> Epochs:
        """For each partition where the brokers keep them: the offsets at which a leader's epoch begins, and it."""
        ...

    def keys(self, ranges: Ranges) -> dict[tuple[str, int], list[bytes | None]]:
        """Keys of a few records from all over the ranges; of large partitions, and only those that come at once."""
        ...

    def committed(self, group: str, topics: tuple[str, ...]) -> Offsets:
        """The group's committed offsets; partitions without one are absent."""
        ...

    def commit(self, group: str, offsets: Offsets, beat_ms: int | None = None) -> int | None:
        """Commit and read back, or `RetryLater`; returns the last heartbeat's time, replaced by one that is given."""
        ...


class CommitRefused(Exception):
    """A requirement of the commit did not hold: load the table again and decide."""


class Destination(Protocol):
    """The tables of one or more catalogs. Tables are named ``catalog.namespace.table``."""

    def tables_in(self, namespace: str) -> list[str]:
        """Names, without the namespace, of the tables in ``catalog.namespace``; none where there is no namespace."""
        ...

    def state(self, table: str, pipeline: str) -> TableState | None:
        """What stands there now; None where there is no table."""
        ...

    def seed(self, table: str, pipeline: str, position: Position) -> None:
        """Give a table without snapshots its first one, empty, with the starting position; refused if it has one."""
        ...

    def evolve(self, table: str, columns: tuple[Column, ...], *, add: bool, widen: bool, relax: bool) -> list[str]:
        """Make the table able to hold `columns`; additive only, idempotent; says what it changed."""
        ...

    def bounds(self, table: str, values: Mapping[str, Any]) -> Bounds:
        """Where the rows lie that a merge filled with `values` can touch; in the snapshot that `at` names, if any."""
        ...

    def has_branches(self, table: str) -> bool:
        """Whether a merge is written beside the table, and seen, before it is published; else the publish does both."""
        ...

    def cut(self, table: str, state: TableState, branch: str) -> None:
        """Start `branch` at the snapshot that `state` was read from; `CommitRefused` if main has moved."""
        ...

    def head(self, table: str, branch: str) -> Head | None:
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

    def snapshots_of(self, table: str, attempt: str) -> list[int]:
        """The snapshots, on whatever branch or on none, that this attempt wrote."""
        ...

    def drop_branches(self, table: str, pipeline: str, up_to_batch: int) -> int:
        """Remove this pipeline's branches of batches up to that one; returns how many."""
        ...

    def landing(self, intermediate: str, batch: int, attempt: str) -> str | None:
        """The folder in which a stage job leaves this attempt's files; None where it writes the table itself."""
        ...

    def land(self, intermediate: str, batch: int, attempt: str, summary: dict[str, str]) -> None:
        """Bring the files that a stage job left in its folder into the table; only then is the attempt finished."""
        ...

    def sign_attempt(self, intermediate: str, signed: SignedAttempt) -> None:
        """Note beside an attempt's files, once its job has ended well, what that job was asked."""
        ...

    def signed_attempts(self, intermediate: str) -> list[SignedAttempt]:
        """Attempts that are signed and whose files are still there."""
        ...

    def left(self, intermediate: str, batch: int, attempt: str) -> dict[str, Any] | None:
        """What a job left last in its `landing`; None if it did not finish."""
        ...

    def staged(self, intermediate: str, table: str) -> list[StagedBatch]:
        """Complete batches that stand in the intermediate table, oldest first; highest attempt of each batch only."""
        ...

    def staged_outcome(self, intermediate: str, attempt: str) -> dict[str, Any] | None:
        """What the stage job of this attempt left behind (with its snapshot id), None if it did not finish."""
        ...

    def staging(self, intermediate: str, table: str) -> Staging | None:
        """What the newest snapshot holds, without batches whose newest attempt is unfinished; None if there is none."""
        ...

    def backfills(self, table: str, pipeline: str) -> list[str]:
        """Of each backfill of `table` that has an intermediate table: what was noted when that was made."""
        ...

    def applied(self, intermediate: str, shape: str) -> frozenset[int]:
        """The slices that a backfill's table says are applied; none where there is no table of that shape."""
        ...

    def mark_applied(self, intermediate: str, number: int) -> None:
        """Say in a backfill's table that a slice is applied; `CommitRefused` if others commit meanwhile."""
        ...

    def drop(self, intermediate: str) -> None:
        """Drop an intermediate table with all its files, also of attempts that were killed; `GiveUp` if not ours."""
        ...

    def forget(self, table: str, pipeline: str, backfill: str) -> None:
        """Remove a backfill's branches, and its mark on the table; `CommitRefused` if others commit meanwhile."""
        ...

    def audit_answers(self, intermediate: str, attempt: str) -> dict[str, Any] | None:
        """What the last merge of this staged attempt found when it asked its audits; None if none did."""
        ...

    def claim(self, table: str, own: Ownership) -> Mapping[str, str] | None:
        """Properties of a table of our own, None where there is none. One that 0.1 made is marked; else `GiveUp`."""
        ...

    def highest_staged(self, intermediate: str) -> int:
        """The highest batch number that was ever written there, 0 for none; not of attempts that are never merged."""
        ...

    def clean_up(self, intermediate: str, up_to_batch: int) -> dict[str, int]:
        """Remove batches up to that one, and later attempts that are never merged, with all files; returns counts."""
        ...

    def pipelines(self, table: str) -> tuple[str, ...]:
        """Every pipeline that may have published into what is written of the table, this one among them."""
        ...

    def forget_deletes(self, deletes: str, before_ms: int, every_ms: int = 0) -> int:
        """Remove remembered deletes of older records; returns how many. One that is dear may go `every_ms` only."""
        ...

    def record(self, control: str, row: dict[str, Any]) -> None:
        """Append one row of history; created if missing."""
        ...

    def history(self, control: str, limit: int) -> list[dict[str, Any]]:
        """The newest rows of history, newest first."""
        ...

    def files(self, table: str) -> TableFiles | None:
        """What the table consists of, from its metadata; None where there is no table."""
        ...

    def property(self, table: str, name: str) -> str | None:
        """One property of a table; None where there is no such property or table."""
        ...

    def dead_letters(self, name: str, limit: int) -> DeadLetters:
        """What stands in a dead-letter table: counts, and the newest `limit` that wait, newest first."""
        ...

    def waiting_dead_letters(self, name: str, table: str) -> list[tuple[str, int, int]]:
        """Topic, partition and offset of each dead letter of `table` that was not replayed."""
        ...

    def dead_letters_of(self, name: str, table: str, attempt: str) -> list[dict[str, Any]]:
        """The dead letters of `table` that one attempt left, with their bytes, in the order of their places."""
        ...

    def copy_dead_letters(self, name: str, table: str, intermediate: str) -> str:
        """Copy those that wait to files beside `intermediate`; their folder, empty where Spark reads them itself."""
        ...

    def dead_letters_of_others(self, name: str, table: str, attempt: str, ranges: Ranges) -> int:
        """Dead letters of `table` in these ranges that another attempt than `attempt` left."""
        ...

    def count_rows(self, table: str) -> int | None:
        """Rows by the table's own statistics; None where they are not exact."""
        ...


class Engine(Protocol):
    """Spark."""

    def run(self, job: Job) -> None:
        """Run one job to its end. What it produced is found in the destination, by attempt."""
        ...


class Sql(Protocol):
    """The statements of ``include/sql``."""

    def render(self, statement: str, **values: Any) -> str:
        """Fill in one statement; a value that is missing is an error."""
        ...


@dataclass(frozen=True)
class Ports:
    """Everything that a step may touch, for one pipeline."""

    pipeline: Pipeline
    broker: Broker
    destination: Destination
    engine: Engine
    sql: Sql
    now_ms: Callable[[], int]
    new_attempt: Callable[[], str]
    schemas: Schemas = field(default_factory=DeclaredSchemas)
    heartbeat_hook: Callable[[str, Offsets], Offsets] | None = None
    dialects: Mapping[str, Sql] = field(default_factory=dict)
    pause: Callable[[float], None] = time.sleep

    def sql_for(self, table: str) -> Sql:
        """The statements in the dialect of the table's catalog; `sql` where that has none of its own."""
        return self.dialects.get(table.split(".", 1)[0], self.sql)
