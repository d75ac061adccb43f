"""How far a publication is behind its table, and since when: what it tells readers of its topic follows from that."""

from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import SnapshotLogEntry
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.types import LongType, NestedField
from tidegate.adapters.iceberg.catalog import Catalogs
from tidegate.adapters.iceberg.snapshots import IcebergSnapshots
from tidegate.ports.publication_session import SnapshotLag

ONE_ROW = {"added-records": "1", "total-records": "9"}
NO_ROW = {"total-records": "9"}


def build_snapshot(
    number: int, parent: int | None, summary: dict[str, str] | None = None, operation: Operation = Operation.APPEND
) -> Snapshot:
    """A snapshot that was made ten milliseconds after the one before it."""
    counters = Summary(operation, **(ONE_ROW if summary is None else summary))
    return Snapshot(
        snapshot_id=number, parent_snapshot_id=parent, sequence_number=number, timestamp_ms=10 * number,
        manifest_list="none", summary=counters,
    )  # fmt: skip


@pytest.fixture
def empty(tmp_path: Path) -> Table:
    catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    catalog.create_namespace("shop")
    return catalog.create_table("shop.orders", Schema(NestedField(1, "id", LongType())))


def measure(
    empty: Table, monkeypatch: pytest.MonkeyPatch, snapshots: list[Snapshot], log: list[tuple[int, int]], old: int
) -> SnapshotLag:
    """The lag from `old` to the snapshot that became current last; `log` is snapshot and time of each that did."""
    entries = [SnapshotLogEntry(snapshot_id=number, timestamp_ms=at) for number, at in log]
    current = log[-1][0]
    changed = {"snapshots": snapshots, "current_snapshot_id": current, "snapshot_log": entries}
    metadata = empty.metadata.model_copy(update=changed)
    loaded = Table(empty.name(), metadata, empty.metadata_location, empty.io, empty.catalog)
    monkeypatch.setattr(Catalogs, "table", lambda self, name: loaded)
    return IcebergSnapshots(Catalogs({})).measure_lag("lake.shop.orders", old, current)


LINE = [build_snapshot(1, None), build_snapshot(2, 1), build_snapshot(3, 2)]
ON_MAIN = [(1, 10), (2, 20), (3, 30)]


def test_lag_counts_what_was_committed_since_and_begins_with_the_first_of_it(
    empty: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert measure(empty, monkeypatch, LINE, ON_MAIN, 1) == SnapshotLag(2, 2, 20)
    assert measure(empty, monkeypatch, LINE, ON_MAIN, 3) == SnapshotLag(0, 0, None)


@pytest.mark.parametrize(
    "other", [build_snapshot(4, 3, NO_ROW), build_snapshot(4, 3, {}, Operation.REPLACE)], ids=["no row", "compaction"]
)
def test_snapshot_that_changed_no_row_is_no_lag(empty: Table, monkeypatch: pytest.MonkeyPatch, other: Snapshot) -> None:
    assert measure(empty, monkeypatch, [*LINE, other], [*ON_MAIN, (4, 40)], 3) == SnapshotLag(0, 0, None)


@pytest.mark.parametrize("has_summary", [True, False])
def test_snapshot_whose_writer_counted_nothing_may_have_changed_rows(
    empty: Table, monkeypatch: pytest.MonkeyPatch, has_summary: bool
) -> None:
    """A heartbeat would say that the topic has every change."""
    other = build_snapshot(4, 3, {})
    other = other if has_summary else other.model_copy(update={"summary": None})
    assert measure(empty, monkeypatch, [*LINE, other], [*ON_MAIN, (4, 40)], 3) == SnapshotLag(1, 0, 40)


def test_rollback_is_a_lag_since_it_was_done(empty: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    assert measure(empty, monkeypatch, LINE, [*ON_MAIN, (1, 70)], 3) == SnapshotLag(2, 2, 70)


def test_commit_behind_a_rollback_makes_the_lag_no_younger(empty: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows that the rollback took are in the topic since then."""
    later = build_snapshot(9, 1)
    lag = measure(empty, monkeypatch, [*LINE, later], [*ON_MAIN, (1, 70), (9, 90)], 3)
    assert lag == SnapshotLag(3, 3, 70)


def test_rollback_whose_entry_in_the_log_has_expired_is_as_old_as_what_came_behind_it(
    empty: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = build_snapshot(9, 1)
    assert measure(empty, monkeypatch, [*LINE, later], [(9, 90)], 3) == SnapshotLag(3, 3, 90)
