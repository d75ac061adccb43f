"""A commit by a clock that is behind would close a table to Iceberg's own readers: it is not made, and said."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from contract.test_destination import Kit, build_iceberg_kit
from contract_words import FIRST, PIPELINE, STAGED, TABLE
from pyiceberg.table import Table
from pyiceberg.table import update as iceberg_update
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import AddSnapshotUpdate
from tidegate.errors import RetryLater

MINUTE_MS = 60_000


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return build_iceberg_kit(tmp_path)


def commit_by_another_clock(table: Table, ahead_ms: int, branch: str = "main") -> None:
    """A snapshot by somebody whose clock is so far ahead of this machine's."""
    add = iceberg_update._apply_table_update.registry[AddSnapshotUpdate]

    def add_ahead(update: AddSnapshotUpdate, *arguments: Any) -> Any:
        time = update.snapshot.timestamp_ms + ahead_ms
        return add(
            update.model_copy(update={"snapshot": update.snapshot.model_copy(update={"timestamp_ms": time})}),
            *arguments,
        )

    iceberg_update._apply_table_update.register(AddSnapshotUpdate)(add_ahead)
    try:
        table.append(pa.Table.from_pylist([], schema=table.schema().as_arrow()), branch=branch)
    finally:
        iceberg_update._apply_table_update.register(AddSnapshotUpdate)(add)


def is_readable(metadata: TableMetadata) -> bool:
    """As Iceberg's Java library checks each table that it opens."""
    for log in (metadata.snapshot_log, metadata.metadata_log):
        times = [*(entry.timestamp_ms for entry in log), metadata.last_updated_ms]
        if any(later - earlier < -MINUTE_MS for earlier, later in pairwise(times)):
            return False
    return True


def test_commit_that_nobody_could_read_is_not_made_and_tells_the_clocks(kit: Kit) -> None:
    publication = kit.seed_table().merge_branch(FIRST)
    kit.stage(1, "a1", 3)
    commit_by_another_clock(kit.load(TABLE), 10 * MINUTE_MS, "others")
    commit_by_another_clock(kit.load(STAGED), 10 * MINUTE_MS)
    before = {name: kit.load(name).metadata for name in (TABLE, STAGED)}
    state = kit.port.tables.read_state(TABLE, PIPELINE)
    assert state is not None
    for step in (
        lambda: kit.port.commits.start_branch(TABLE, state, "tidegate_p_9_x"),
        lambda: kit.port.commits.publish(publication),
        lambda: kit.port.commits.append_empty(TABLE, "main", {}),
        lambda: kit.port.commits.drop_branch(TABLE, publication.branch),
        lambda: kit.port.staging.clean_up(STAGED, 1),
    ):
        with pytest.raises(RetryLater, match=r"ahead of this machine's clock by seconds=(599|600).*NTP.*tried again"):
            step()
    assert {name: kit.load(name).metadata for name in (TABLE, STAGED)} == before
    assert all(map(is_readable, before.values()))


def test_clocks_that_differ_by_less_than_iceberg_minds_hold_nobody_up(kit: Kit) -> None:
    kit.seed_table()
    commit_by_another_clock(kit.load(TABLE), MINUTE_MS // 2)
    kit.port.commits.append_empty(TABLE, "main", {"told": "yes"})
    after = kit.load(TABLE)
    assert after.current_snapshot().summary["told"] == "yes"
    assert is_readable(after.metadata)
