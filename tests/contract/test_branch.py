"""A named branch in place of main, over {memory, real Iceberg}: reading, branching, publishing, refusing."""

from dataclasses import replace
from pathlib import Path

import pytest
from contract.test_destination import FIRST, PIPELINE, START, TABLE, Kit, build_iceberg_kit, build_memory_kit
from tidegate.adapters.iceberg.destination import build_iceberg_destination
from tidegate.errors import CommitRefused, GiveUp

BRANCH = "staging"


@pytest.fixture(params=["memory", *(pytest.param(name, marks=pytest.mark.real) for name in ("iceberg", "iceberg_3"))])
def kit(request: pytest.FixtureRequest, tmp_path: Path) -> Kit:
    if request.param == "memory":
        kit = build_memory_kit()
        kit.port.tables.branches[TABLE] = BRANCH
        return kit
    kit = build_iceberg_kit(tmp_path, version=3 if request.param == "iceberg_3" else 2)
    kit.port = build_iceberg_destination(kit.port.tables.catalogs, {TABLE: BRANCH})
    return kit


def read_ids(kit: Kit) -> list[str]:
    """What readers of main see."""
    return sorted(row["id"] for row in kit.read_rows(TABLE))


def publish_to_branch(kit: Kit) -> Kit:
    """A table with a row on main, and a batch published to the branch."""
    kit.create()
    kit.append("main", [{"id": "theirs", "n": 0}], {})
    kit.port.commits.publish(kit.merge_branch(FIRST))
    return kit


@pytest.mark.repeats("test_publish_makes_the_branch_from_main_and_moves_no_other[iceberg_3]", "iceberg_3")
def test_table_without_snapshots_shows_nothing_and_its_branch_carries_the_start(kit: Kit) -> None:
    kit.create()
    kit.port.commits.seed(TABLE, PIPELINE, START)
    assert kit.state().position == START
    assert (
        kit.port.commits.read_head(TABLE, BRANCH).snapshot_id == kit.port.commits.read_head(TABLE, "main").snapshot_id
    )
    kit.port.commits.publish(kit.merge_branch(FIRST))
    assert (read_ids(kit), kit.port.tables.count_rows(TABLE), kit.state().position) == ([], 1, FIRST)
    with pytest.raises(CommitRefused):
        kit.port.commits.seed(TABLE, PIPELINE, START)


def test_publish_makes_the_branch_from_main_and_moves_no_other(kit: Kit) -> None:
    before = publish_to_branch(kit).port.commits.read_head(TABLE, "main").snapshot_id
    assert (read_ids(kit), kit.port.tables.count_rows(TABLE)) == (["theirs"], 2)
    head = kit.port.commits.read_head(TABLE, BRANCH)
    assert (head.parent_id, kit.state().snapshot_id) == (before, head.snapshot_id)
    second = replace(FIRST, offsets={"t": {0: 9}}, batch=2, staged_attempt="s2")
    kit.append("main", [{"id": "later", "n": 0}], {})
    kit.port.commits.publish(kit.merge_branch(second, attempt="m2"))
    assert (read_ids(kit), kit.port.tables.count_rows(TABLE)) == (["later", "theirs"], 3)
    assert (kit.state().position, kit.state().is_rolled_back) == (second, False)


@pytest.mark.repeats("test_publish_makes_the_branch_from_main_and_moves_no_other[iceberg_3]", "iceberg_3")
def test_publish_is_refused_when_the_branch_came_or_moved_meanwhile(kit: Kit) -> None:
    kit.create()
    kit.append("main", [{"id": "theirs", "n": 0}], {})
    late = kit.merge_branch(FIRST, attempt="late")
    kit.port.commits.publish(kit.merge_branch(FIRST))
    with pytest.raises(CommitRefused):
        kit.port.commits.publish(late)
    later = kit.merge_branch(replace(FIRST, batch=2), attempt="later")
    kit.append(BRANCH, [{"id": "foreign", "n": 0}], {})
    with pytest.raises(CommitRefused):
        kit.port.commits.publish(later)
    assert kit.port.tables.count_rows(TABLE) == 3


@pytest.mark.repeats("test_publish_makes_the_branch_from_main_and_moves_no_other[iceberg_3]", "iceberg_3")
def test_cut_is_refused_when_the_branch_moved(kit: Kit) -> None:
    state = publish_to_branch(kit).state()
    kit.append(BRANCH, [{"id": "foreign", "n": 0}], {})
    with pytest.raises(CommitRefused):
        kit.port.commits.start_branch(TABLE, state, "tidegate_shop_2_m2")


def test_tag_in_place_of_a_branch_is_refused(tmp_path: Path) -> None:
    kit = build_iceberg_kit(tmp_path).seed_table()
    kit.port = build_iceberg_destination(kit.port.tables.catalogs, {TABLE: "tidegate_shop"})
    with pytest.raises(GiveUp, match="branch=tidegate_shop is a tag there"):
        kit.state()
