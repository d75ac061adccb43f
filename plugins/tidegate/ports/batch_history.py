"""The port to what was done: batches in the control table, and slices of backfills."""

from typing import Any, Protocol


class BatchHistory(Protocol):
    """What was applied: batches, and the slices of backfills."""

    def append_history(self, control: str, row: dict[str, Any]) -> None:
        """Append one row of history; created if missing."""
        ...

    def read_history(self, control: str, limit: int) -> list[dict[str, Any]]:
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
