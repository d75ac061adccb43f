"""What the janitor finds of pipelines whose file is gone, in a real catalog; and what it leaves alone."""

from pathlib import Path
from weakref import ref

import pytest
from pyiceberg.exceptions import BadRequestError
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField
from tidegate.adapters.iceberg import history
from tidegate.adapters.iceberg.catalog import Catalogs
from tidegate.adapters.iceberg.leftovers import find_leftovers
from tidegate.errors import ConfigurationError, GiveUp, RetryLater
from tidegate.model.ownership import SHAPE_PROPERTY, Ownership, PipelineLeftovers, TableKind
from tidegate.wiring.pipeline import find_all_leftovers

SCHEMA = Schema(NestedField(1, "id", LongType()))


def build_mark(kind: str, pipeline: str, table: str = "") -> dict[str, str]:
    return Ownership(TableKind(kind), pipeline, table).properties


@pytest.fixture
def catalogs(tmp_path: Path) -> Catalogs:
    """Pipelines shop and shop_copy write lake.a.orders; the first one has no file. Users have tables of like names."""
    place = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    catalogs = Catalogs({"lake": {"type": "sql", **place}})
    lake = catalogs.catalog("lake")
    lake.create_namespace("a")
    lake.create_namespace("b")
    for table, properties in {
        "a.orders": {}, "b.lines": {}, "b.untouched": {},
        "a.orders_shop_tmp": build_mark("intermediate", "shop", "a.orders"),
        "a.orders_shop_backfill_1f_tmp": build_mark("intermediate", "shop", "a.orders"),
        "a.orders_shop_copy_tmp": build_mark("intermediate", "shop_copy", "a.orders"),
        "a.orders_deletes": build_mark("deletes", "", "a.orders"),
        "b.lines_shop_tmp": {SHAPE_PROPERTY: "0af3", **build_mark("intermediate", "shop", "b.lines")},
        "a.orders_shop_report": {}, "a.orders_shop_tmp_kept": {}, "b.lines_shop_copy_of_march": {},
        "b.tidegate_shop_batches": {}, "b.tidegate_gone_batches": {}, "b.tidegate_shop_dead_letters": {},
    }.items():  # fmt: skip
        lake.create_table(table, SCHEMA, properties=properties)
    lake.create_table("a.tidegate_shop_batches", history.COLUMNS, properties=build_mark("batches", "shop"))
    lake.create_table("a.tidegate_shop_copy_batches", history.COLUMNS, properties=build_mark("batches", "shop_copy"))
    lake.create_table("a.tidegate_shop_dead_letters", SCHEMA, properties=build_mark("dead_letters", "shop"))
    for table in ("a.orders", "b.lines"):
        with lake.load_table(table).transaction() as change:
            change.set_properties({"tidegate.shop.position": "{}", "tidegate.shop_copy.position": "{}"})
    return catalogs


def list_dropped_tables(leftovers: PipelineLeftovers) -> list[str]:
    return [word for word in leftovers.remove if word.startswith("DROP TABLE")]


def test_tables_are_looked_at_one_after_the_other_and_not_kept(
    catalogs: Catalogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The metadata of a table that is flushed each minute takes some fifty megabytes, and a catalog has hundreds."""
    read, read_tables, counts = catalogs.table, list[ref[Table]](), list[int]()

    def read_counted(name: str) -> Table | None:
        table = read(name)
        read_tables.append(ref(table))
        counts.append(sum(reference() is not None for reference in read_tables))
        return table

    monkeypatch.setattr(catalogs, "table", read_counted)
    _, failures = find_leftovers(catalogs, "lake", {"shop_copy"})
    assert (failures, len(counts), max(counts)) == ([], 17, 2), "the next one, and the one before it"


def test_tables_and_marks_of_a_pipeline_without_a_file_are_told(catalogs: Catalogs) -> None:
    [leftover], _ = find_leftovers(catalogs, "lake", {"shop_copy"})
    assert leftover.pipeline == "shop"
    assert leftover.tables == [
        "lake.a.orders_shop_backfill_1f_tmp", "lake.a.orders_shop_tmp", "lake.a.tidegate_shop_batches",
        "lake.a.tidegate_shop_dead_letters", "lake.b.lines_shop_tmp",
    ]  # fmt: skip
    assert sorted(leftover.destinations) == ["lake.a.orders", "lake.b.lines"]
    assert "DROP TABLE `lake`.`a`.`orders_shop_tmp` PURGE" in leftover.remove
    assert "ALTER TABLE `lake`.`a`.`orders` UNSET TBLPROPERTIES ('tidegate.shop.position')" in leftover.remove


def test_tables_in_namespaces_of_namespaces_are_told_too(catalogs: Catalogs) -> None:
    lake = catalogs.catalog("lake")
    for space in ("a.eu", "a.eu.west"):
        lake.create_namespace(space)
    lake.create_table("a.eu.west.tidegate_far_batches", history.COLUMNS, properties=build_mark("batches", "far"))
    lake.create_table("a.eu.orders_far_tmp", SCHEMA, properties=build_mark("intermediate", "far", "a.eu.orders"))
    lake.create_table("a.eu.orders", SCHEMA, properties={"tidegate.far.position": "{}"})
    [leftover], _ = find_leftovers(catalogs, "lake", {"shop", "shop_copy"})
    assert leftover.pipeline == "far"
    assert leftover.tables == ["lake.a.eu.orders_far_tmp", "lake.a.eu.west.tidegate_far_batches"]
    assert leftover.destinations == ["lake.a.eu.orders"]


@pytest.mark.parametrize("answer", ["refused", "ignored"])
def test_catalog_without_namespaces_in_others_is_read_all_the_same(
    catalogs: Catalogs, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    lake = catalogs.catalog("lake")

    def list_flat(namespace: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        if namespace and answer == "refused":
            raise BadRequestError("parent is not supported")
        return [("a",), ("b",)]

    monkeypatch.setattr(lake, "list_namespaces", list_flat)
    [leftover], failures = find_leftovers(catalogs, "lake", {"shop_copy"})
    assert (leftover.pipeline, len(leftover.tables), failures) == ("shop", 5, [])


@pytest.mark.parametrize("properties", [True, False])
def test_tag_that_keeps_snapshots_for_ever_is_told_when_nothing_else_of_its_pipeline_is_left(
    catalogs: Catalogs, properties: bool
) -> None:
    lake = catalogs.catalog("lake")
    table, position = lake.load_table("b.untouched"), {"tidegate.gone.position": "{}"}
    table.append(SCHEMA.as_arrow().empty_table(), snapshot_properties=position)
    table.manage_snapshots().create_tag(table.current_snapshot().snapshot_id, "tidegate_gone").commit()
    table.append(SCHEMA.as_arrow().empty_table())
    table.manage_snapshots().create_tag(table.current_snapshot().snapshot_id, "tidegate_of_a_user").commit()
    if properties:
        with table.transaction() as change:
            change.set_properties(position)
    [leftover], _ = find_leftovers(catalogs, "lake", {"shop", "shop_copy"})
    unset = ["ALTER TABLE `lake`.`b`.`untouched` UNSET TBLPROPERTIES ('tidegate.gone.position')"] if properties else []
    assert (leftover.pipeline, leftover.tables, leftover.destinations) == ("gone", [], ["lake.b.untouched"])
    assert leftover.remove == [
        "ALTER TABLE `lake`.`b`.`untouched` DROP TAG IF EXISTS `tidegate_gone`", *unset,
        "kafka-consumer-groups.sh --delete --group tidegate-gone",
    ]  # fmt: skip


def test_branches_that_keep_snapshots_for_ever_are_told_with_what_is_left_of_their_pipeline(catalogs: Catalogs) -> None:
    """Of an attempt that died, of a backfill, and of a batch that waits for an approval; in the memory too."""
    lake = catalogs.catalog("lake")
    for name, branches in {
        "a.orders": ("tidegate_shop_7_Ab1", "tidegate_shop_backfill_1f_2_c3", "tidegate_shop_copy_7_Ab1", "shop_7_ab1"),
        "a.orders_deletes": ("tidegate_shop_7_Ab1", "tidegate_shop_copy_9_d4"),
    }.items():
        table = lake.load_table(name)
        table.append(SCHEMA.as_arrow().empty_table())
        for branch in branches:
            table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, branch).commit()
    [leftover], _ = find_leftovers(catalogs, "lake", {"shop_copy"})
    assert leftover.destinations == ["lake.a.orders", "lake.b.lines"]
    assert [command for command in leftover.remove if "BRANCH" in command] == [
        "ALTER TABLE `lake`.`a`.`orders` DROP BRANCH IF EXISTS `tidegate_shop_7_Ab1`",
        "ALTER TABLE `lake`.`a`.`orders` DROP BRANCH IF EXISTS `tidegate_shop_backfill_1f_2_c3`",
        "ALTER TABLE `lake`.`a`.`orders_deletes` DROP BRANCH IF EXISTS `tidegate_shop_7_Ab1`",
    ]


def test_nothing_is_told_while_every_pipeline_has_its_file(catalogs: Catalogs) -> None:
    assert find_leftovers(catalogs, "lake", {"shop", "shop_copy"}) == ([], [])


def test_no_statement_drops_a_table_of_the_users_or_of_another_pipeline(catalogs: Catalogs) -> None:
    """Not even one whose name reads like a table of ours: only a mark makes it ours."""
    [leftover], _ = find_leftovers(catalogs, "lake", {"shop_copy"})
    assert sorted(list_dropped_tables(leftover)) == [f"DROP TABLE {_quote(name)} PURGE" for name in leftover.tables]
    names = "orders lines untouched orders_shop_report orders_shop_tmp_kept lines_shop_copy_of_march orders_deletes"
    users = {f"`{name}`" for name in (*names.split(), "orders_shop_copy_tmp", "tidegate_gone_batches")}
    assert not [
        word for word in list_dropped_tables(leftover) if any(user in word for user in users) or "`b`.`tidegate" in word
    ]


def test_both_pipelines_are_told_each_with_its_own(catalogs: Catalogs) -> None:
    (shop, copy), _ = find_leftovers(catalogs, "lake", set())
    assert [shop.pipeline, copy.pipeline] == ["shop", "shop_copy"]
    assert copy.tables == ["lake.a.orders_shop_copy_tmp", "lake.a.tidegate_shop_copy_batches"]
    assert not set(shop.tables) & set(copy.tables)


def test_table_that_cannot_be_read_hides_nothing_of_the_others(catalogs: Catalogs, tmp_path: Path) -> None:
    for name in ("a.orders_shop_tmp", "b.lines"):
        Path(catalogs.catalog("lake").load_table(name).metadata_location.removeprefix("file://")).unlink()
    [leftover], failures = find_leftovers(catalogs, "lake", {"shop_copy"})
    assert leftover.tables == [
        "lake.a.orders_shop_backfill_1f_tmp", "lake.a.tidegate_shop_batches", "lake.a.tidegate_shop_dead_letters",
        "lake.b.lines_shop_tmp",
    ]  # fmt: skip
    assert leftover.destinations == ["lake.a.orders"]
    messages = [(type(error), str(error).partition(":")[0]) for error in failures]
    assert messages == [(GiveUp, "table=lake.a.orders_shop_tmp"), (GiveUp, "table=lake.b.lines")]


CATALOGS = """
silent: {type: iceberg, properties: {type: rest, uri: 'http://127.0.0.1:9', warehouse: w}}
refused: {type: iceberg, connection: nobody_knows, properties: {type: sql, uri: 'sqlite:////x', warehouse: 'file:///x'}}
broken: {type: iceberg, properties: {type: sql}}
lake: {type: iceberg, properties: {type: sql, uri: 'sqlite:///FOLDER/catalog.db', warehouse: 'file://FOLDER/warehouse'}}
"""


def test_catalogs_that_fail_hide_nothing_of_the_others_and_are_named(catalogs: Catalogs, tmp_path: Path) -> None:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "catalogs.yaml").write_text(CATALOGS.replace("FOLDER", str(tmp_path)))
    leftovers, failures = find_all_leftovers(tmp_path, lambda _: None)
    assert [(pipeline_leftovers.pipeline, len(pipeline_leftovers.tables)) for pipeline_leftovers in leftovers] == [
        ("shop", 5),
        ("shop_copy", 2),
    ]
    silent, refused_catalog, broken_catalog = failures
    assert type(silent) is RetryLater
    assert str(silent).startswith("catalog=silent of catalogs.yaml address=127.0.0.1:9 took no connection")
    assert (type(refused_catalog), "nobody_knows" in str(refused_catalog)) == (ConfigurationError, True)
    assert (type(broken_catalog), str(broken_catalog).startswith("catalog=broken: ")) == (ConfigurationError, True)


def _quote(name: str) -> str:
    return ".".join(f"`{part}`" for part in name.split("."))
