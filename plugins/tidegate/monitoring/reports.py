"""The rows that reports are made of: plain data, as JSON and the page show it, with a name and a type for each field.

Numbers of snapshots are text, as browsers round integers of that size. Times are ISO 8601 in UTC; those that end in
``_ms`` are milliseconds. `lag` counts offsets; `lag_seconds` is the age of the oldest unpublished record, 0 if none
waits, None if unknown. With `lag_known` false nothing could be counted, and `lag` is 0.
"""

from typing import Any, Required, TypedDict, final

from tidegate.model.batch import CostCounts
from tidegate.model.offsets import Offsets
from tidegate.ports.destination import BatchCounts
from tidegate.spec.pipeline import FileDescription


class StagingLag(TypedDict):
    """How far staging is behind the log, if it has a clock of its own."""

    lag: int
    lag_seconds: float | None


class TotalLag(TypedDict):
    """The lag of a pipeline's tables together."""

    lag: int
    lag_known: bool


class PartitionStaging(StagingLag):
    """How far one partition is staged: `staged` is the offset of the next record to be staged."""

    staged: int


class PartitionOverview(TypedDict):
    """How far all tables have come in a partition: `published` and `end` are the offsets of the next records.

    `staging` is None if a flush both stages and merges.
    """

    topic: str
    partition: int
    published: int
    end: int
    lag: int
    lag_seconds: float | None
    staging: PartitionStaging | None


class PartitionStatus(PartitionOverview):
    """A partition with its log's begin and the group's committed offset, each None if there is none."""

    begin: int | None
    committed: int | None


class VerificationReport(TypedDict):
    """What the last `verify` of a table has found: keys by what was said of them, of a share of a million of them."""

    at: str | None
    position: Offsets
    sample_per_million: int
    equal: int
    missing: int
    surplus: int
    different: int
    unknowable: int


class HeldReport(TypedDict):
    """A batch that waits for a person: the `rules` that hold it, and the counts of its diff, None for the schema's.

    `rejected_by` is None until somebody has rejected it.
    """

    batch: int
    rules: list[str]
    inserted: int | None
    updated: int | None
    deleted: int | None
    rows: int | None
    table_rows: int | None
    schema_changes: list[str]
    branch: str | None
    digest: str
    rejected_by: str | None


class ApprovedReport(TypedDict):
    """A held batch that `by` has approved, and that no flush has published yet."""

    batch: int
    by: str
    at: str | None


class TableLine(TypedDict):
    """A table in a line; `problem` says why it cannot go on, and the way out, `runbook` names the page about it."""

    table: str
    batch: int | None
    lag: int
    lag_known: bool
    lag_seconds: float | None
    staging: StagingLag | None
    valid_through: str | None
    problem: str | None
    runbook: str | None
    verified: VerificationReport | None
    held: HeldReport | None
    approved: ApprovedReport | None


class TableOverview(TableLine):
    """A table as the page lists it."""

    template: str | None  # the entry of the file whose name records fill in
    open_batches: int
    max_pending: int
    needs_person: bool  # no retry will fix it


class ActionReport(TypedDict):
    """What a person did to a table's position: `action` is the command's word, `by` the user."""

    at: str | None
    by: str
    action: str
    details: str


class TableStatus(TableLine):
    """A table in full; `exists` and `rows` are None if unknown, `open_batches` are the numbers of staged ones.

    `position` is what is merged into it, `staged_to` what is staged, None if a flush does both.
    """

    mode: str
    exists: bool | None
    position: Offsets | None
    snapshot_id: str | None
    rows: int | None
    staged_to: Offsets | None
    rolled_back: bool
    open_batches: list[int]
    actions: list[ActionReport]


class FlushSummary(TypedDict):
    """What the last flush did over all tables: `read` counts records, `inserted`, `updated` and `deleted` rows.

    `seconds` are those of its merges, `stage_seconds` those of its stage job, None if unknown.
    `unknown_records`: those with fields that no column holds.
    """

    batch: int
    published_at: str | None
    seconds: float
    stage_seconds: float | None
    read: int
    inserted: int
    updated: int
    deleted: int
    unknown_records: int
    bytes_written: int | None


class RecentActivity(TypedDict, total=False):
    """The last flush that had rows in it, and how many dead letters wait; each None if it cannot be read."""

    last_flush: FlushSummary | None
    dead_letters: int | None


class PipelineOverview(FileDescription, total=False):
    """A pipeline in a line; `starts_at`: how many offsets must wait before a flush starts."""

    pipeline: Required[str]
    lag: int
    lag_known: bool
    lag_seconds: float | None
    staging: StagingLag | None
    freshness: str | None
    starts_at: int
    open_batches: int
    published_ms: int | None  # when the last snapshot of any table was published, None before the first
    tables: list[TableOverview]
    partitions: list[PartitionOverview]


class ReadingColumns(TypedDict, total=False):
    """What the page says of a reading, and what Airflow knows of the DAG.

    `fact` and `advice` are the two parts of `reason`: what happened, and what to do. With an `error` the rest may be
    missing or old; `needs_person`: no retry will fix it. `read_at`: seconds since the epoch, None before the first
    reading. `looking`: the first look is under way, and has not taken too long.
    """

    error: str | None
    looking: bool
    needs_person: bool
    read_at: float | None
    state: str
    reason: str
    fact: str
    advice: str
    runbook: str | None
    dag_id: str | None
    paused: bool | None
    next_run: str | None


class PipelineRow(ReadingColumns, PipelineOverview, RecentActivity, total=False):
    """A pipeline as the page lists it; what was not read yet is missing.

    `partition_count` and `table_count` are all of them; a long list has only some in `partitions` and `tables`.
    """

    partition_count: int
    table_count: int
    last_run: dict[str, Any] | None


class PublicationRow(ReadingColumns, total=False):
    """A publication as the page lists it; ids are texts."""

    publication: Required[str]
    description: str
    table: str
    topics: list[str]
    delivery: str
    published_snapshot_id: str | None
    published_at_ms: int | None
    table_snapshot_id: str | None
    snapshots_behind: int
    rows_behind: int
    behind_seconds: float | None
    unfinished: bool
    waiting: dict[str, Any] | None
    last_run: dict[str, Any] | None
    problem: str | None
    last_dag_run: dict[str, Any] | None


class UnknownFieldReport(TypedDict):
    """A field that no column holds, the records that hold something in it, and the type of a column for it."""

    name: str
    records: int
    type: str


class UnknownFieldsReport(TypedDict):
    """What a batch's records hold beside the columns: see `UnknownFields`; `message` says how to declare it."""

    records: int
    fields: list[UnknownFieldReport]
    others: int
    message: str


class BatchReport(BatchCounts, CostCounts):
    """A published batch of one table; `span` counts offsets, `gaps` those without a record, the rest as in `Counts`.

    `backfill` names the slice, None for a batch of the log. What a destination does not count is None.
    """

    batch: int
    table: str
    span: int
    gaps: int
    stage_seconds: float | None
    backfill: str | None
    published_at: str | None
    valid_through: str | None
    unknown_fields: UnknownFieldsReport | None


class BackfillStatus(TypedDict):
    """A backfill under way, stopped or given up, with the slices that each table has."""

    backfill: str
    tables: list[str]
    slices: int
    applied: dict[str, list[int]]


class DeadLetterStatus(TypedDict):
    """Dead letters that wait and that were replayed, and the newest; None if they cannot be read."""

    dead_letters: int | None
    dead_letters_replayed: int | None
    newest_dead_letter: dict[str, Any] | None


@final
class UnknownStatus(TypedDict):
    """A pipeline that cannot be read at all, and why."""

    pipeline: str
    error: str


@final
class PipelineStatus(DeadLetterStatus):
    """All that `bin/tidegate status` says of a pipeline."""

    pipeline: str
    description: str
    group: str
    freshness: str | None
    lag: int
    lag_known: bool
    tables: list[TableStatus]
    partitions: list[PartitionStatus]
    batches: list[BatchReport]
    backfills: list[BackfillStatus]
    warnings: list[str]
