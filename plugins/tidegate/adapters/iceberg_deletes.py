"""The table that remembers deletes or changes, in Iceberg: how those leave it that no late record comes after."""

from pyiceberg.table import Table
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID

from tidegate.adapters.iceberg_commit import MAIN, commit
from tidegate.adapters.iceberg_history import forget_snapshots
from tidegate.moments import moment_at
from tidegate.ownership import KIND, MEMORIES

CHANGED = "_tidegate_timestamp"  # as tables that remember whole changes have it, beside the user's own columns


def forget(table: Table, before_ms: int) -> int:
    """Remove deletes whose record is older; returns how many. `CommitRefused` where a merge has written meanwhile."""
    if table.metadata.properties.get(KIND) not in MEMORIES:
        return 0  # the next merge marks it, if it is ours
    column = CHANGED if CHANGED in table.schema().column_names else "timestamp"
    old = f"{column} < '{moment_at(before_ms).isoformat()}'"
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
