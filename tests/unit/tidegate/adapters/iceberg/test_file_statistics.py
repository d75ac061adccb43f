"""What expiry must keep is measured on each branch that leads to a last publish; and whose files orphans may be."""

from pathlib import Path

import pytest
from contract.test_destination import Kit, build_iceberg_kit
from contract_words import FIRST, SECOND, TABLE
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import SetSnapshotRefUpdate
from tidegate.adapters.iceberg.catalog import Catalogs
from tidegate.adapters.iceberg.commit import commit
from tidegate.adapters.iceberg.destination import build_iceberg_destination
from tidegate.adapters.iceberg.files import _normalize_location, measure_files
from tidegate.errors import GiveUp

AGE_MS = 7 * 86_400_000


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return build_iceberg_kit(tmp_path)


@pytest.mark.parametrize("branch", ["main", "staging"])
def test_way_from_a_branch_to_the_last_publish_is_measured_in_snapshots_and_time(kit: Kit, branch: str) -> None:
    kit.port = build_iceberg_destination(kit.port.tables.catalogs, {TABLE: branch})
    kit.seed_table().port.commits.publish(kit.merge_branch(FIRST))
    published = kit.state()
    for number in range(2):
        kit.append(branch, [{"id": str(number), "n": number}], {})
    files = kit.port.tables.read_files(TABLE)
    assert (files.snapshots_since_tag, files.oldest_tagged_ms, files.branch_age_ms) == (3, published.snapshot_ms, None)
    at = kit.state().snapshot_id
    set_snapshot_ref_update = SetSnapshotRefUpdate(
        ref_name=branch, type=SnapshotRefType.BRANCH, snapshot_id=at, max_snapshot_age_ms=AGE_MS
    )
    commit(kit.load(TABLE), (set_snapshot_ref_update,))
    assert kit.port.tables.read_files(TABLE).branch_age_ms == AGE_MS


def test_branch_that_leads_to_no_publish_asks_nothing_of_expiry(kit: Kit) -> None:
    kit.create()
    kit.append("main", [{"id": "x", "n": 0}], {})
    files = kit.port.tables.read_files(TABLE)
    assert (files.snapshots_since_tag, files.oldest_tagged_ms, files.branch_age_ms) == (0, None, None)


@pytest.mark.parametrize("branch", ["main", "staging"])
def test_way_of_a_table_that_was_rolled_back_is_measured_down_to_the_position_that_it_carries(
    kit: Kit, branch: str
) -> None:
    kit.port = build_iceberg_destination(kit.port.tables.catalogs, {TABLE: branch})
    kit.seed_table().port.commits.publish(kit.merge_branch(FIRST))
    carries_position = kit.state()
    kit.append(branch, [{"id": "theirs", "n": 0}], {})
    rolled_back_to = kit.state().snapshot_id
    kit.port.commits.publish(kit.merge_branch(SECOND, attempt="m2"))
    set_snapshot_ref_update = SetSnapshotRefUpdate(
        ref_name=branch, type=SnapshotRefType.BRANCH, snapshot_id=rolled_back_to
    )
    commit(kit.load(TABLE), (set_snapshot_ref_update,))
    for number in range(2):
        kit.append(branch, [{"id": str(number), "n": number}], {})
    state, files = kit.state(), kit.port.tables.read_files(TABLE)
    assert (state.is_rolled_back, state.position) == (True, FIRST)
    seeded = kit.load(TABLE).metadata.snapshots[0]  # main is left there by a pipeline that writes another branch
    oldest_ms = carries_position.snapshot_ms if branch == "main" else seeded.timestamp_ms
    assert (files.snapshots_since_tag, files.oldest_tagged_ms) == (4, oldest_ms)


@pytest.mark.parametrize(("rolled_back", "depth"), [(True, 3), (False, 0)])
def test_branch_that_a_person_keeps_of_what_was_rolled_back_takes_no_way_out_away(
    kit: Kit, rolled_back: bool, depth: int
) -> None:
    """Main left the tag by a rollback, or it never had it: a pipeline writes the other branch alone."""
    kit.port = build_iceberg_destination(kit.port.tables.catalogs, {} if rolled_back else {TABLE: "kept"})
    kit.seed_table().port.commits.publish(kit.merge_branch(FIRST))
    before = kit.state().snapshot_id if rolled_back else kit.load(TABLE).metadata.current_snapshot_id
    kit.port.commits.publish(kit.merge_branch(SECOND, attempt="m2"))
    updates = [
        SetSnapshotRefUpdate(ref_name=ref, type=SnapshotRefType.BRANCH, snapshot_id=at)
        for ref, at in (("kept", kit.state().snapshot_id), ("main", before))
    ]
    commit(kit.load(TABLE), updates)
    for number in range(2):
        kit.append("main", [{"id": str(number), "n": number}], {})
    files = kit.port.tables.read_files(TABLE)
    assert files.snapshots_since_tag == max(depth, 1), "the branch that is kept stands on the tag"


EXPIRY = {"history.expire.min-snapshots-to-keep": "30", "history.expire.max-snapshot-age-ms": "7776000000"}


def test_what_the_table_itself_asks_of_expiry_is_told(kit: Kit) -> None:
    kit.create()
    before = kit.port.tables.read_files(TABLE)
    with kit.load(TABLE).transaction() as transaction:
        transaction.set_properties(EXPIRY)
    after = kit.port.tables.read_files(TABLE)
    assert [(files.kept_snapshots, files.kept_ms) for files in (before, after)] == [(0, 0), (30, 90 * 86_400_000)]


@pytest.mark.parametrize("name", ["write.target-file-size-bytes", "commit.manifest.target-size-bytes", *EXPIRY])
def test_size_that_is_no_number_is_told_with_the_way_out(kit: Kit, name: str) -> None:
    kit.create()
    kit.append("main", [{"id": "x", "n": 0}], {})
    with kit.load(TABLE).transaction() as transaction:
        transaction.set_properties({name: "512MB"})
    with pytest.raises(
        GiveUp, match=f"{name}=512MB: not a whole number.*ALTER TABLE `lake`.`shop`.`orders` UNSET TBLPROPERTIES"
    ):
        kit.port.tables.read_files(TABLE)
    with kit.load(TABLE).transaction() as transaction:
        transaction.set_properties({name: "1048576"})
    assert kit.port.tables.read_files(TABLE).data_files == 1


def test_tables_whose_files_lie_among_the_tables_own_are_found(kit: Kit) -> None:
    kit.create()
    catalogs, lake = kit.port.tables.catalogs, kit.port.tables.catalogs.catalog("lake")
    for name in ("shop.orders_2", "shop.ordersx2", "shop.other"):
        lake.create_table(name, kit.load(TABLE).schema())
    assert kit.port.tables.read_files(TABLE, exact=True).nested_tables == ()
    lake.rename_table("shop.orders", "shop.orders_2025")  # it keeps its place, and the next one gets the same
    kit.create()
    lake.create_namespace("shop.orders")
    lake.create_table("shop.orders.lines", kit.load(TABLE).schema(), f"{kit.load(TABLE).location()}/lines")
    second = Catalogs({"copy": {**catalogs._properties["lake"]}}).catalog("copy")
    second.create_namespace("shop")
    second.create_table("shop.orders", kit.load(TABLE).schema())
    files = kit.port.tables.read_files(TABLE, exact=True)
    assert files.nested_tables == ("copy.shop.orders", "lake.shop.orders.lines", "lake.shop.orders_2025")
    assert kit.port.tables.read_files("lake.shop.orders_2", exact=True).nested_tables == ()
    assert kit.port.tables.read_files(TABLE).nested_tables == (), (
        "a look behind a flush removes nothing, and asks nobody"
    )


@pytest.mark.parametrize(
    ("first_spelling", "second_spelling"),
    [
        ("file:///w/shop/orders", "file:/w/shop/orders/"),
        ("/w/shop/orders", "file:///w/shop/orders"),
        ("s3://lake/shop/orders", "s3a://lake/shop/orders/"),
    ],
)
def test_one_place_is_known_by_each_of_its_spellings(first_spelling: str, second_spelling: str) -> None:
    assert _normalize_location(first_spelling) == _normalize_location(second_spelling)
    assert _normalize_location(first_spelling) != _normalize_location(f"{second_spelling.rstrip('/')}x")
    assert _normalize_location("gs://lake/shop/orders") != _normalize_location(first_spelling)


@pytest.mark.parametrize(
    ("data", "metadata", "paths"),
    [
        ("/elsewhere/d", "/elsewhere/m", ("write.data.path", "write.metadata.path")),
        ("{location}x/d", None, ("write.data.path",)), ("/elsewhere/d", "{location}/m", ("write.data.path",)),
        ("{location}", "/elsewhere/m", ("write.metadata.path",)), (None, None, ()),
    ],
)  # fmt: skip
def test_table_whose_new_files_lie_elsewhere_says_by_which_property(
    kit: Kit, data: str | None, metadata: str | None, paths: tuple[str, ...]
) -> None:
    kit.create()
    table = kit.load(TABLE)
    given_paths = {"write.data.path": data, "write.metadata.path": metadata}
    given = {name: path.format(location=table.location()) for name, path in given_paths.items() if path}
    table.metadata.properties.update(given)
    files = measure_files(table, exact=True)
    assert (files.paths_elsewhere, files.has_location) == (paths, True)


def test_table_without_a_file_below_its_location_says_so(kit: Kit, tmp_path: Path) -> None:
    """Its metadata lies elsewhere, and no row has come yet: no property puts its data elsewhere."""
    kit.create()
    table = kit.load(TABLE)
    table.metadata = table.metadata.model_copy(update={"location": f"file://{tmp_path}/nobody/made/it"})
    assert [measure_files(table, exact=exact).has_location for exact in (True, False)] == [False, True]
    table.metadata = table.metadata.model_copy(update={"location": "s3://lake/nobody/made/it"})
    assert measure_files(table, exact=True).has_location


@pytest.mark.parametrize(("value", "keeps"), [(None, False), ("true", False), ("TRUE", False), ("false", True)])
def test_table_whose_files_may_not_be_deleted_says_so(kit: Kit, value: str | None, keeps: bool) -> None:
    kit.create()
    with kit.load(TABLE).transaction() as change:
        change.set_properties({"gc.enabled": value} if value else {})
    assert kit.port.tables.read_files(TABLE, exact=True).forbids_file_deletion is keeps
