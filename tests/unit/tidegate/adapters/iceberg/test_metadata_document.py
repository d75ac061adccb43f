"""Tables of format 3 in a database's catalog: our commits change their metadata's document, and nothing else of it."""

import json
from pathlib import Path
from typing import Any

import pytest
from fakes.format_3 import append_rows, upgrade
from pyiceberg.manifest import ManifestContent
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    RemovePropertiesUpdate,
    RemoveSnapshotRefUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
    UpgradeFormatVersionUpdate,
)
from pyiceberg.types import IntegerType, LongType, NestedField, StringType
from tidegate.adapters.iceberg.catalog import Catalogs
from tidegate.adapters.iceberg.commit import append_snapshot_without_rows, build_tag, commit, cut_branch, seed_table
from tidegate.adapters.iceberg.metadata_document import apply_updates
from tidegate.adapters.iceberg.pyiceberg_private import SnapshotWithoutRows, read_manifests
from tidegate.errors import CommitRefused

NAME = "lake.shop.Orders"
SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "Note", StringType()))
UNKNOWN = {"encryption-keys": [{"key-id": "a", "encrypted-key-metadata": "YQ=="}], "of-format-5": {"b": [1.5, None]}}


@pytest.fixture
def catalogs(tmp_path: Path) -> Catalogs:
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/lake"}
    catalogs = Catalogs({"lake": properties})
    catalogs.catalog("lake").create_namespace("shop")
    catalogs.catalog("lake").create_table("shop.Orders", SCHEMA, properties={"format-version": "2", "a": "é"})
    return catalogs


def load(catalogs: Catalogs) -> Table:
    table = catalogs.table(NAME)
    assert table is not None
    return table


def read_document(table: Table) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(Path(table.metadata_location.removeprefix("file://")).read_text())
    return document


def add_unknown_parts(catalogs: Catalogs) -> None:
    """Leave in the metadata what a later version of Java's library may write."""
    table = load(catalogs)
    path = Path(table.metadata_location.removeprefix("file://"))
    path.write_text(json.dumps(read_document(table) | UNKNOWN))


def branch(name: str, snapshot_id: int, **retention: int) -> SetSnapshotRefUpdate:
    unset = dict.fromkeys(("max_ref_age_ms", "max_snapshot_age_ms", "min_snapshots_to_keep"))
    kept = {**unset, **retention}
    return SetSnapshotRefUpdate(ref_name=name, type=SnapshotRefType.BRANCH, snapshot_id=snapshot_id, **kept)


def list_updates(table: Table) -> dict[str, list[TableUpdate]]:
    """Each commit that the product makes to a destination, and one that keeps a user's retention."""
    older, newer = (entry.snapshot_id for entry in table.history()[-2:])
    return {
        "publish": [
            branch("main", older, max_snapshot_age_ms=5, min_snapshots_to_keep=2),
            SetPropertiesUpdate(updates={"tidegate.shop.position": "{}", "a": "b"}),
            RemoveSnapshotRefUpdate(ref_name="tidegate_shop_1_a"),
            build_tag("tidegate_shop", newer),
        ],
        "properties": [RemovePropertiesUpdate(removals=["a"]), SetPropertiesUpdate(updates={"c": "ü"})],
        "a branch": [branch("tidegate_shop_2_b", newer)],
        "a shorter log": [SetPropertiesUpdate(updates={"write.metadata.previous-versions-max": "2"})],
    }


@pytest.mark.parametrize("case", ["publish", "properties", "a branch", "a shorter log"])
def test_document_of_format_2_becomes_what_pyiceberg_writes_for_the_same_updates(catalogs: Catalogs, case: str) -> None:
    seed_table(load(catalogs), "shop", {"tidegate.shop.position": "{}"})
    append_snapshot_without_rows(load(catalogs), "main", {"n": "1"})
    table = load(catalogs)
    commit(table, [branch("tidegate_shop_1_a", table.metadata.current_snapshot_id or 0)])
    for updates in (list_updates(load(catalogs))[case], [SetPropertiesUpdate(updates={"last": "yes"})]):
        before = load(catalogs)
        commit(before, updates)
        written = read_document(load(catalogs))
        ours = apply_updates(read_document(before), updates, before.metadata_location, written["last-updated-ms"])
        assert ours == written


def test_new_columns_and_snapshots_of_format_2_become_what_pyiceberg_writes(catalogs: Catalogs) -> None:
    """The updates are those that PyIceberg makes itself, and that our catalog would pass on for format 3."""
    seed_table(load(catalogs), "shop", {})
    before = load(catalogs)
    passed_on: list[TableUpdate] = []
    send = before.catalog.commit_table

    def note(table: Table, requirements: Any, updates: Any) -> Any:
        passed_on.extend(updates)
        return send(table, requirements, updates)

    before.catalog.commit_table = note  # type: ignore[method-assign]
    with before.update_schema() as change:
        change.add_column("Score", IntegerType())
    document = read_document(before := load(catalogs))
    passed_on.clear()
    append_snapshot_without_rows(before, "main", {"n": "1"})
    with load(catalogs).update_schema() as change:
        change.rename_column("Score", "score")
    written = read_document(load(catalogs))
    # two commits' updates as one: all but the log of files is the same
    ours = apply_updates(document, passed_on, before.metadata_location, written["last-updated-ms"])
    times = [entry["timestamp-ms"] for entry in written["snapshot-log"]]
    assert ours["snapshot-log"][-1]["timestamp-ms"] >= times[-1]
    for name in ("metadata-log", "snapshot-log"):
        ours.pop(name)
        written.pop(name)
    assert ours == written


def test_commits_to_format_3_keep_what_pyiceberg_does_not_know(catalogs: Catalogs) -> None:
    upgrade(catalogs, NAME)
    add_unknown_parts(catalogs)
    other = Catalogs({"lake": dict(catalogs._properties["lake"])})
    seed_table(load(other), "shop", {"tidegate.shop.position": "{}"})
    append_rows(load(other), "main", [{"id": 1, "Note": "a"}, {"id": 2, "Note": None}])
    append_snapshot_without_rows(load(other), "main", {"n": "1"})
    with load(other).update_schema() as change:
        change.add_column("Score", IntegerType())
    for updates in list_updates(load(other)).values():
        before = read_document(load(other))
        commit(load(other), updates)
        after = read_document(load(other))
        assert {name: after[name] for name in UNKNOWN} == UNKNOWN
        unchanged = {"format-version", "next-row-id", "snapshots", "schemas", "last-sequence-number", "table-uuid"}
        assert {name: after[name] for name in unchanged} == {name: before[name] for name in unchanged}
    table = load(other)
    assert (after["format-version"], after["next-row-id"], after["last-sequence-number"]) == (3, 2, 3)
    assert [(s["first-row-id"], s["added-rows"]) for s in after["snapshots"]] == [(0, 0), (0, 2), (2, 0)]
    assert len(after["metadata-log"]) == 2
    assert table.schema().find_field("Score").field_id == 3
    assert {name: ref["type"] for name, ref in after["refs"].items()} == {
        "main": "branch", "tidegate_shop": "tag", "tidegate_shop_2_b": "branch"
    }  # fmt: skip
    assert after["refs"]["main"]["max-snapshot-age-ms"] == 5
    assert after["current-snapshot-id"] == after["refs"]["main"]["snapshot-id"]


def test_first_snapshot_after_an_upgrade_gives_row_ids_to_all_rows_and_later_ones_keep_them(catalogs: Catalogs) -> None:
    for number in (1, 2):
        rows = [{"id": number * 10 + place, "Note": None} for place in range(number + 1)]
        append_rows(load(catalogs), "main", rows)
    upgrade(catalogs, NAME)
    for number in (1, 2):
        append_snapshot_without_rows(load(catalogs), "main", {"n": str(number)})
        if number == 1:
            append_rows(load(catalogs), "main", [{"id": 99, "Note": "new"}])
    table = load(catalogs)
    document = read_document(table)
    told = [(s.get("first-row-id"), s.get("added-rows")) for s in document["snapshots"]]
    assert told == [(None, None), (None, None), (0, 5), (5, 1), (6, 0)]
    assert document["next-row-id"] == 6
    manifests = read_manifests(table.io, table.current_snapshot())
    ids = sorted((manifest[-1], manifest.added_rows_count) for manifest in manifests)
    assert ids == [(0, 3), (3, 2), (5, 1)]
    assert all(manifest.content == ManifestContent.DATA for manifest in manifests)
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [10, 11, 20, 21, 22, 99]
    assert table.current_snapshot().summary["total-records"] == "6"


def test_upgrade_is_a_commit_with_requirements_and_another_one_changes_nothing(catalogs: Catalogs) -> None:
    seed_table(load(catalogs), "shop", {})
    stale = load(catalogs)
    append_snapshot_without_rows(load(catalogs), "main", {})
    moved = [SetPropertiesUpdate(updates={"x": "y"}), UpgradeFormatVersionUpdate(format_version=3)]
    head = stale.metadata.current_snapshot_id
    with pytest.raises(CommitRefused):
        commit(stale, moved, (AssertRefSnapshotId(ref="main", snapshot_id=head),))
    assert load(catalogs).metadata.format_version == 2
    for _ in range(2):
        commit(load(catalogs), [UpgradeFormatVersionUpdate(format_version=3)])
        append_snapshot_without_rows(load(catalogs), "main", {})
    document = read_document(load(catalogs))
    assert (document["format-version"], document["next-row-id"], len(document["snapshots"])) == (3, 0, 4)


def test_commit_that_changes_nothing_writes_no_file_and_another_tables_commit_is_refused(catalogs: Catalogs) -> None:
    upgrade(catalogs, NAME)
    seed_table(load(catalogs), "shop", {"a": "b"})
    table = load(catalogs)
    commit(table, [branch("main", table.metadata.current_snapshot_id or 0)])
    assert load(catalogs).metadata_location == table.metadata_location
    with pytest.raises(CommitRefused):
        seed_table(load(catalogs), "shop", {})
    catalogs.catalog("lake").drop_table("shop.Orders")
    catalogs.catalog("lake").create_table("shop.Orders", SCHEMA)
    with pytest.raises(CommitRefused, match="UUID"):
        commit(table, [SetPropertiesUpdate(updates={"a": "c"})])


def test_snapshot_whose_number_two_others_have_taken_is_refused_and_the_next_try_gets_another(
    catalogs: Catalogs,
) -> None:
    """As in format 2, where PyIceberg finds it: Java's library opens no table whose last number went back."""
    upgrade(catalogs, NAME)
    seed_table(load(catalogs), "shop", {})
    table = load(catalogs)
    head = table.metadata.current_snapshot_id or 0
    for name in "abc":
        cut_branch(load(catalogs), (str(table.metadata.table_uuid), head), name)
    for _ in range(2):
        slow = load(catalogs)
        snapshot = SnapshotWithoutRows(slow, slow.metadata.refs["a"].snapshot_id, {"n": "slow"})
        updates = [snapshot.write(), branch("a", snapshot.snapshot_id)]
        append_snapshot_without_rows(load(catalogs), "b", {})
        append_snapshot_without_rows(load(catalogs), "c", {})
        with pytest.raises(CommitRefused, match="sequence number"):
            commit(slow, updates)
        append_snapshot_without_rows(load(catalogs), "a", {"n": "again"})
    document = read_document(load(catalogs))
    assert [snapshot["sequence-number"] for snapshot in document["snapshots"]] == [1, 2, 3, 4, 5, 6, 7]
    assert document["last-sequence-number"] == 7


def test_table_of_a_writer_that_knew_no_branches_keeps_main(catalogs: Catalogs) -> None:
    seed_table(load(catalogs), "shop", {})
    upgrade(catalogs, NAME)
    table = load(catalogs)
    document = {name: value for name, value in read_document(table).items() if name != "refs"}
    Path(table.metadata_location.removeprefix("file://")).write_text(json.dumps(document))
    head = table.metadata.current_snapshot_id
    other = Catalogs({"lake": dict(catalogs._properties["lake"])})
    commit(load(other), [build_tag("tidegate_shop", head or 0)])
    references = read_document(load(other))["refs"]
    assert {name: ref["snapshot-id"] for name, ref in references.items()} == {"main": head, "tidegate_shop": head}
