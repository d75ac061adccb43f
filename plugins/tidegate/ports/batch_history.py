"""The port to what was done: batches in the control table, and slices of backfills."""

from typing import Protocol, TypedDict

from tidegate.model.publish_cost import CostCounts


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
