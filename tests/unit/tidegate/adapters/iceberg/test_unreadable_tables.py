"""Tables that Spark cannot open are refused before any job, by flushes and publications, with the way out."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from fakes.format_3 import upgrade
from pyiceberg.schema import Schema
from pyiceberg.types import (
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
    TimeType,
    UnknownType,
)
from tidegate.adapters.iceberg import history
from tidegate.adapters.iceberg.catalog import Catalogs
from tidegate.adapters.iceberg.destination import build_iceberg_destination
from tidegate.adapters.iceberg.leftovers import ConnectorNotes, find_leftovers
from tidegate.adapters.iceberg.snapshots import IcebergSnapshots
from tidegate.errors import GiveUp, RetryLater
from tidegate.model.ownership import Ownership, TableKind, describe_control
from tidegate.sinks.world import ControlTopic

OPENS = ListType(4, StructType(NestedField(5, "at", TimeType())), element_required=False)
ALIKE = StructType(NestedField(4, "city", StringType()), NestedField(5, "City", StringType()))
NANOS = MapType(4, StringType(), 5, TimestampNanoType(), value_required=False)
UNKNOWN_TYPE = "Spark opens no table with a column of this type"
TIME = f"type=time: {UNKNOWN_TYPE}"
CASES = "Spark compares names without case"
COLUMNS = {
    f"column=closes {TIME}": NestedField(2, "closes", TimeType()),
    f"column=opens.element.at {TIME}": NestedField(3, "opens", OPENS),
    f"column=paid type=timestamptz_ns: {UNKNOWN_TYPE}": NestedField(2, "paid", TimestamptzNanoType()),
    f"column=paid.value type=timestamp_ns: {UNKNOWN_TYPE}": NestedField(3, "paid", NANOS),
    f"column=what type=unknown: {UNKNOWN_TYPE}": NestedField(2, "what", UnknownType()),
    f"columns=id, ID: {CASES}": NestedField(2, "ID", StringType()),
    f"columns=at.city, at.City: {CASES}": NestedField(3, "at", ALIKE),
}


@pytest.mark.parametrize("reason", COLUMNS)
def test_table_that_spark_does_not_open_is_refused_until_the_column_is_dropped(tmp_path: Path, reason: str) -> None:
    place = {"uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}
    catalogs = Catalogs({"lake": {"type": "sql", **place}})
    lake = catalogs.catalog("lake")
    lake.create_namespace("shop")
    iceberg_table = lake.create_table("shop.hours", Schema(NestedField(1, "id", LongType())))
    if "_ns" in reason or "unknown" in reason:
        upgrade(catalogs, "lake.shop.hours")
        iceberg_table = lake.load_table("shop.hours")
    with iceberg_table.update_schema() as change:
        change.add_column(COLUMNS[reason].name, COLUMNS[reason].field_type)
    tables, snapshots = build_iceberg_destination(catalogs).tables, IcebergSnapshots(catalogs)
    for look in (lambda: tables.read_state("lake.shop.hours", "p"), lambda: snapshots.read_table("lake.shop.hours")):
        with pytest.raises(GiveUp) as error_info:
            look()
        assert str(error_info.value).startswith(f"table=lake.shop.hours {reason}")
        assert "drop" in str(error_info.value)
    with iceberg_table.update_schema() as change:
        change.delete_column(COLUMNS[reason].name)
    state, now = tables.read_state("lake.shop.hours", "p"), snapshots.read_table("lake.shop.hours")
    assert state is not None
    assert now is not None
    assert ([c.name for c in state.columns], now.snapshot_id) == (["id"], None)


def _set_format_3(metadata: dict[str, Any], kind: str) -> None:
    metadata |= {"format-version": 3, "next-row-id": 0}
    metadata["schemas"][0]["fields"][1]["type"] = kind


def _nest_in_list(metadata: dict[str, Any]) -> None:
    inner = {"type": "list", "element-id": 3, "element": "variant", "element-required": False}
    metadata["schemas"][0]["fields"][1]["type"] = inner


UNKNOWN: dict[str, tuple[str, Callable[[dict[str, Any]], Any]]] = {
    "variant": ("variant", lambda metadata: _set_format_3(metadata, "variant")),
    "variant in a list": ("variant", _nest_in_list),
    "geometry": ("geometry(OGC:CRS84)", lambda metadata: _set_format_3(metadata, "geometry(OGC:CRS84)")),
    "format 4": ("'4'", lambda metadata: metadata.update({"format-version": 4})),
}


def _write_metadata(catalogs: Catalogs, table: str, change: Callable[[dict[str, Any]], Any]) -> Path:
    """The table as another engine, which knows more, has left it in the catalog."""
    lake = catalogs.catalog("lake")
    path = Path(lake.load_table(table).metadata_location.removeprefix("file://"))
    metadata = json.loads(path.read_text())
    change(metadata)
    changed = path.with_name("00009-changed.metadata.json")
    changed.write_text(json.dumps(metadata))
    with suppress(Exception):  # PyIceberg reads what it has registered
        lake.register_table(f"{table}_changed", f"file://{changed}")
    return changed


@pytest.fixture
def shop(tmp_path: Path) -> Catalogs:
    """A table of two columns, and one that carries a pipeline's mark."""
    place = {"uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}
    catalogs = Catalogs({"lake": {"type": "sql", **place}})
    lake = catalogs.catalog("lake")
    lake.create_namespace("shop")
    lake.create_table("shop.hours", Schema(NestedField(1, "id", LongType()), NestedField(2, "at", StringType())))
    properties = {"tidegate.gone.position": "{}"}
    lake.create_table("shop.lines", Schema(NestedField(1, "id", LongType())), properties=properties)
    return catalogs


@pytest.mark.parametrize("case", UNKNOWN)
def test_table_with_what_pyiceberg_does_not_know_is_refused_once_and_for_all(shop: Catalogs, case: str) -> None:
    word, change = UNKNOWN[case]
    _write_metadata(shop, "shop.hours", change)
    tables, snapshots = build_iceberg_destination(shop).tables, IcebergSnapshots(shop)
    name = "lake.shop.hours_changed"
    for look in (lambda: tables.read_state(name, "p"), lambda: snapshots.read_table(name)):
        with pytest.raises(GiveUp) as error_info:
            look()
        assert str(error_info.value).startswith(f"table={name}: PyIceberg cannot read its metadata: ")
        assert word in str(error_info.value)
        assert str(error_info.value).endswith("; use a table of format 2 or 3 without it")
        assert "\n" not in str(error_info.value)
        assert "pydantic" not in str(error_info.value)


OWN_TABLES = {
    TableKind.INTERMEDIATE: "lake.shop.orders_p_tmp",
    TableKind.NAMES: "lake.shop.tidegate_p_names",
    TableKind.BATCHES: "lake.shop.tidegate_p_batches",
}


def _make_format_3(location: str) -> None:
    path = Path(location.removeprefix("file://"))
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format-version": 3, "next-row-id": 0}))


@pytest.mark.parametrize("kind", OWN_TABLES)
def test_own_table_that_somebody_made_one_of_format_3_is_told_with_what_makes_it_anew(
    shop: Catalogs, kind: TableKind
) -> None:
    name = OWN_TABLES[kind]
    own = describe_control(name) if kind is TableKind.BATCHES else Ownership(kind, "p")
    identifier, schema = name.removeprefix("lake."), Schema(NestedField(1, "id", LongType()))
    table = shop.catalog("lake").create_table(identifier, schema, properties=own.properties)
    _make_format_3(table.metadata_location)
    other_process = Catalogs({"lake": dict(shop._properties["lake"])})
    lake, tables = other_process.catalog("lake"), build_iceberg_destination(other_process).tables
    looks: list[Callable[[], Any]] = [lambda: tables.claim(name, own)]
    if kind is TableKind.BATCHES:
        looks.append(lambda: history.append_rows(lake, identifier, {}))
    for look in looks:
        with pytest.raises(GiveUp) as error_info:
            look()
        assert str(error_info.value).startswith(f"table={name} format-version=3 kind={kind}: ")
        quoted = ".".join(f"`{part}`" for part in name.split("."))
        assert str(error_info.value).endswith(f"it is created again: DROP TABLE {quoted} PURGE")
    lake.drop_table(identifier)
    assert tables.claim(name, own) is None


def test_metadata_that_is_cut_short_may_be_whole_the_next_time(shop: Catalogs) -> None:
    changed = _write_metadata(shop, "shop.hours", lambda metadata: metadata.update({"format-version": 4}))
    changed.write_text(changed.read_text()[:200])
    with pytest.raises(RetryLater, match=r"table=lake\.shop\.hours_changed: .* tried again"):
        build_iceberg_destination(shop).tables.read_state("lake.shop.hours_changed", "p")


def test_janitor_and_import_pass_over_a_table_that_no_pipeline_can_have_written(
    shop: Catalogs, caplog: pytest.LogCaptureFixture
) -> None:
    _write_metadata(shop, "shop.hours", UNKNOWN["variant"][1])
    [leftover], failures = find_leftovers(shop, "lake", set())
    assert (leftover.pipeline, leftover.destinations, failures) == ("gone", ["lake.shop.lines"], [])
    assert "table=lake.shop.hours_changed: PyIceberg cannot read it" in caplog.text
    assert ConnectorNotes(shop).list_noted("lake", ControlTopic("control", "group", "offsets", "")) == ()


def test_view_of_a_tables_name_is_refused_and_no_table_that_is_still_to_be_made(shop: Catalogs) -> None:
    view = "INSERT INTO iceberg_tables VALUES ('lake', 'shop', 'late', 'file:/v.metadata.json', NULL, 'VIEW')"
    place = shop.catalog("lake").properties["uri"].removeprefix("sqlite:///").partition("?")[0]
    with closing(sqlite3.connect(place)) as database:
        database.execute(view)  # as Spark makes it
        database.commit()
    tables, snapshots = build_iceberg_destination(shop).tables, IcebergSnapshots(shop)
    for look in (lambda: tables.read_state("lake.shop.late", "p"), lambda: snapshots.read_table("lake.shop.late")):
        with pytest.raises(GiveUp, match=r"table=lake\.shop\.late is a view: .*; rename the view, or name a table"):
            look()
    assert tables.read_state("lake.shop.later", "p") is None
    assert snapshots.read_table("lake.shop.later") is None
