"""The table that remembers deletes, in Iceberg: how those leave it that no late record can come after any more."""

from datetime import UTC, datetime

from pyiceberg.table import Table
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID

from tidegate.adapters.iceberg_commit import MAIN, commit
from tidegate.adapters.iceberg_history import forget_snapshots


def forget(table: Table, before_ms: int) -> int:
    """Remove deletes whose record is older; returns how many. `CommitRefused` where a merge has written meanwhile."""
    old = f"timestamp < '{datetime.fromtimestamp(before_ms / 1000, UTC).isoformat()}'"
    rows, current = int(table.scan(row_filter=old).count()), table.current_snapshot()
    if rows and current:
        transaction = table.transaction()
        transaction.delete(old)
        required = (
            AssertTableUUID(uuid=table.metadata.table_uuid),
            AssertRefSnapshotId(ref=MAIN, snapshot_id=current.snapshot_id),
        )
        commit(table, required, transaction._updates)
    forget_snapshots(table.refresh())
    return rows
