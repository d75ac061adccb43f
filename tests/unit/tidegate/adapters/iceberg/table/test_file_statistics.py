"""What expiry must keep is measured on each branch that leads to a pipeline's last publish."""

from pathlib import Path

import pytest
from contract.test_destination import Kit, in_iceberg
from contract_words import FIRST, TABLE
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import SetSnapshotRefUpdate
from tidegate.adapters.iceberg.destination import build_iceberg_destination
from tidegate.adapters.iceberg.table.commit import commit

AGE_MS = 7 * 86_400_000


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return in_iceberg(tmp_path)


@pytest.mark.parametrize("branch", ["main", "staging"])
def test_way_from_a_branch_to_the_last_publish_is_measured_in_snapshots_and_time(kit: Kit, branch: str) -> None:
    kit.port = build_iceberg_destination(kit.port.tables.catalogs, {TABLE: branch})
    kit.seeded().port.commits.publish(kit.merged(FIRST))
    published = kit.state()
    for number in range(2):
        kit.append(branch, [{"id": str(number), "n": number}], {})
    found = kit.port.tables.read_files(TABLE)
    assert (found.since_tagged, found.tagged_ms, found.branch_age_ms) == (3, published.snapshot_ms, None)
    at = kit.state().snapshot_id
    asked = SetSnapshotRefUpdate(
        ref_name=branch, type=SnapshotRefType.BRANCH, snapshot_id=at, max_snapshot_age_ms=AGE_MS
    )
    commit(kit.load(TABLE), (), (asked,))
    assert kit.port.tables.read_files(TABLE).branch_age_ms == AGE_MS


def test_branch_that_leads_to_no_publish_asks_nothing_of_expiry(kit: Kit) -> None:
    kit.create()
    kit.append("main", [{"id": "x", "n": 0}], {})
    found = kit.port.tables.read_files(TABLE)
    assert (found.since_tagged, found.tagged_ms, found.branch_age_ms) == (0, None, None)
