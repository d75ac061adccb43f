"""Which pipelines publish into a branch of a real Iceberg table: those of other branches are not waited for."""

from dataclasses import replace
from pathlib import Path

import pytest
from contract.test_destination import Kit, build_iceberg_kit
from contract_words import FIRST, PIPELINE, START, TABLE
from tidegate.adapters.iceberg.destination import build_iceberg_destination

pytestmark = pytest.mark.real


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    """A table with a row of the user's, pipeline shop on main, and pipeline other on the branch staging."""
    iceberg_kit = build_iceberg_kit(tmp_path)
    iceberg_kit.create()
    iceberg_kit.append("main", [{"id": "theirs", "n": 0}], {})
    iceberg_kit.port = build_iceberg_destination(iceberg_kit.port.tables.catalogs, {TABLE: "staging"})
    iceberg_kit.port.commits.publish(iceberg_kit.merge_branch(FIRST, "other", attempt="o1"))
    iceberg_kit.port = build_iceberg_destination(iceberg_kit.port.tables.catalogs, {})
    iceberg_kit.port.commits.publish(iceberg_kit.merge_branch(FIRST))
    return iceberg_kit


def test_pipeline_of_another_branch_is_not_waited_for(kit: Kit) -> None:
    assert kit.port.tables.list_pipelines(TABLE) == (PIPELINE,)
    kit.port = build_iceberg_destination(kit.port.tables.catalogs, {TABLE: "staging"})
    assert kit.port.tables.list_pipelines(TABLE) == ("other",)


def test_pipeline_whose_last_publish_was_rolled_back_is_waited_for(kit: Kit) -> None:
    """Also where a branch of the user's still names the snapshot."""
    kit.port.commits.publish(kit.merge_branch(replace(START, batch=1), "third", attempt="t1"))
    before = kit.state().snapshot_id
    kit.port.commits.publish(kit.merge_branch(FIRST, "third", attempt="t2"))
    table = kit.load(TABLE)
    table.manage_snapshots().create_branch(kit.state().snapshot_id, "kept").commit()
    kit.rollback(before)
    assert kit.port.tables.read_state(TABLE, "third").is_rolled_back
    assert kit.port.tables.list_pipelines(TABLE) == (PIPELINE, "third")


def test_pipeline_whose_only_publish_was_rolled_back_is_waited_for(kit: Kit) -> None:
    before = kit.state().snapshot_id
    kit.port.commits.publish(kit.merge_branch(FIRST, "third", attempt="t1"))
    kit.rollback(before)
    assert kit.port.tables.list_pipelines(TABLE) == (PIPELINE, "third")


def test_pipeline_whose_properties_were_removed_is_known_by_its_tag(kit: Kit) -> None:
    kit.forget_properties()
    assert kit.port.tables.list_pipelines(TABLE) == (PIPELINE,)
