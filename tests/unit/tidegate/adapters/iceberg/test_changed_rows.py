"""How many rows a snapshot changed, as its summary tells, and whether it tells that at all."""

import pytest
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from tidegate.adapters.iceberg.lineage import count_changed_rows, has_changed_row_counts


@pytest.mark.parametrize(
    ("operation", "counters", "tells", "rows"),
    [
        (Operation.APPEND, {}, False, 0),
        (Operation.OVERWRITE, {"engine-name": "other"}, False, 0),
        (Operation.APPEND, {"total-records": "7"}, True, 0),
        (Operation.APPEND, {"added-records": "1", "total-records": "8"}, True, 1),
        (Operation.OVERWRITE, {"spark.merge-into.num-target-rows-updated": "2", "added-records": "5"}, True, 2),
        (Operation.REPLACE, {}, True, 0),
    ],
)
def test_snapshot_without_counters_does_not_tell_its_rows(
    operation: Operation, counters: dict[str, str], tells: bool, rows: int
) -> None:
    snapshot = Snapshot(snapshot_id=1, timestamp_ms=1, manifest_list="m", summary=Summary(operation, **counters))
    assert (has_changed_row_counts(snapshot), count_changed_rows(snapshot)) == (tells, rows)


def test_snapshot_without_a_summary_tells_nothing() -> None:
    assert not has_changed_row_counts(Snapshot(snapshot_id=1, timestamp_ms=1, manifest_list="m"))
