"""Which snapshots of an Iceberg table one descends from: a table that records land in each minute has thousands."""

from collections.abc import Iterator

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot

MERGE_COUNTERS = tuple(f"spark.merge-into.num-target-rows-{what}" for what in ("inserted", "updated", "deleted"))
WRITE_COUNTERS = ("added-records", "deleted-records", "added-position-deletes", "added-equality-deletes")
TOTAL_COUNTER = "total-records"  # a writer that sets it leaves out no other counter but one that is zero


class Lineage:
    """One table's snapshots by id. PyIceberg looks for each parent in all of them, which is quadratic."""

    def __init__(self, metadata: TableMetadata) -> None:
        self._snapshots = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}

    def snapshot(self, snapshot_id: int | None) -> Snapshot | None:
        """The snapshot of that id; None where it has expired, or where there is no id."""
        return None if snapshot_id is None else self._snapshots.get(snapshot_id)

    def ancestors(self, newest: Snapshot | None) -> Iterator[Snapshot]:
        """A snapshot and all that it descends from, newest first, as far as they have not expired."""
        while newest is not None:
            yield newest
            newest = self.snapshot(newest.parent_snapshot_id)

    def ancestors_to(self, newest: Snapshot | None, last: Snapshot | None) -> Iterator[Snapshot]:
        """The same, but no farther than to `last`."""
        for snapshot in self.ancestors(newest):
            yield snapshot
            if last is not None and snapshot.snapshot_id == last.snapshot_id:
                return


def has_changed_row_counts(snapshot: Snapshot) -> bool:
    """Whether the count of its changed rows is to be trusted: the format requires no writer to leave counters."""
    summary = snapshot.summary
    if summary is None:
        return False
    counters = (TOTAL_COUNTER, *MERGE_COUNTERS, *WRITE_COUNTERS)
    return summary.operation == Operation.REPLACE or any(name in summary.additional_properties for name in counters)


def count_changed_rows(snapshot: Snapshot) -> int:
    """At most how many rows it changed: what a merge has counted, else rows added and removed."""
    summary = snapshot.summary
    if summary is None or summary.operation == Operation.REPLACE:
        return 0
    properties = summary.additional_properties
    merged = [properties[name] for name in MERGE_COUNTERS if name in properties]
    return sum(map(int, merged or [properties[name] for name in WRITE_COUNTERS if name in properties]))
