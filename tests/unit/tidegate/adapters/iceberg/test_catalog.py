"""A table of a SQL catalog is loaded many times in a step: its metadata is read once, and never an old one."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField
from tidegate.adapters.iceberg.catalog import Catalogs
from tidegate.adapters.iceberg.destination import build_iceberg_destination
from tidegate.adapters.iceberg.pyiceberg_private import MAX_KEPT_METADATA
from tidegate.errors import ConfigurationError, GiveUp
from tidegate.model.ownership import Ownership, TableKind

NAMES = ("lake.shop.orders", "lake.shop.lines")


@pytest.fixture
def properties(tmp_path: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}


@pytest.fixture
def catalogs(properties: dict[str, str]) -> Catalogs:
    catalogs = Catalogs({"lake": properties})
    catalogs.catalog("lake").create_namespace("shop")
    for name in NAMES:
        catalogs.catalog("lake").create_table(name.removeprefix("lake."), Schema(NestedField(1, "id", LongType())))
    return catalogs


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were read."""
    files: list[str] = []
    original = FromInputFile.table_metadata

    def noted(file, *arguments):
        files.append(file.location)
        return original(file, *arguments)

    monkeypatch.setattr(FromInputFile, "table_metadata", noted)
    return files


def test_metadata_of_each_table_is_read_once_while_nobody_commits(
    catalogs: Catalogs, properties: dict[str, str], read: list[str]
) -> None:
    new_catalogs = Catalogs({"lake": properties})
    tables = [new_catalogs.table(name) for _ in range(3) for name in NAMES]
    assert [column.name() for column in tables if column] == [("shop", "orders"), ("shop", "lines")] * 3
    assert sorted(read) == sorted({table.metadata_location for table in tables if table})
    assert len(read) == 2


def test_commit_of_another_process_is_seen_by_the_next_load(catalogs: Catalogs, properties: dict[str, str]) -> None:
    before = catalogs.table(NAMES[0])
    other_table = Catalogs({"lake": properties}).table(NAMES[0])
    assert before is not None
    assert other_table is not None
    other_table.transaction().set_properties(owner="somebody else").commit_transaction()
    after = catalogs.table(NAMES[0])
    assert after is not None
    assert (before.properties, after.properties) == ({}, {"owner": "somebody else"})
    assert before.refresh().properties == {"owner": "somebody else"}


def test_own_commits_leave_what_was_loaded_before_as_it_was(catalogs: Catalogs) -> None:
    for number in range(2 * MAX_KEPT_METADATA):
        loaded_table, second_table = catalogs.table(NAMES[0]), catalogs.table(NAMES[0])
        assert loaded_table is not None
        assert second_table is not None
        loaded_table.transaction().set_properties(round=str(number)).commit_transaction()
        assert loaded_table.properties == {"round": str(number)}
        assert second_table.properties == ({"round": str(number - 1)} if number else {})


def path_of(table: Table | None) -> Path:
    assert table is not None
    return Path(table.metadata_location.removeprefix("file://"))


def test_table_whose_metadata_file_is_gone_is_refused_with_its_ways_out_and_hides_no_other(
    catalogs: Catalogs, properties: dict[str, str]
) -> None:
    lost, new_catalogs = path_of(catalogs.table(NAMES[0])), Catalogs({"lake": properties})
    lost.unlink()
    tables = build_iceberg_destination(new_catalogs).tables
    with pytest.raises(
        GiveUp, match=rf"^table={NAMES[0]}: the catalog names a metadata file that is not there: .*{lost}"
    ):
        tables.read_state(NAMES[0], "p")
    assert tables.read_state(NAMES[1], "p") is not None
    new_catalogs.catalog("lake").drop_table("shop.orders")  # "take its name out of the catalog"
    assert tables.read_state(NAMES[0], "p") is None


def test_metadata_file_that_a_commit_let_go_meanwhile_is_looked_for_where_it_is_now(
    catalogs: Catalogs, properties: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, original = catalogs.table(NAMES[0]), FromInputFile.table_metadata
    assert table is not None
    locations: list[str] = []

    def commit_first(file: Any, *arguments: Any) -> Any:
        locations.append(file.location)
        if len(locations) == 1:
            table.transaction().set_properties(owner="somebody else").commit_transaction()
            Path(file.location.removeprefix("file://")).unlink()
        return original(file, *arguments)

    monkeypatch.setattr(FromInputFile, "table_metadata", commit_first)
    loaded_table = Catalogs({"lake": properties}).table(NAMES[0])
    assert loaded_table is not None
    assert (loaded_table.properties, len(locations)) == ({"owner": "somebody else"}, 2)


@pytest.mark.parametrize("name", ["orders#1", "orders?1"])
def test_table_whose_path_pyiceberg_would_cut_short_is_refused_and_nothing_beside_it_is_touched(
    catalogs: Catalogs, properties: dict[str, str], name: str
) -> None:
    """Such a table's folder is `orders` to PyIceberg, which is another table's."""
    location = path_of(catalogs.table(NAMES[0])).parent.parent
    with closing(sqlite3.connect(properties["uri"].removeprefix("sqlite:///"))) as database:
        metadata_location = f"file://{location}{name.removeprefix('orders')}/metadata/00000-a.metadata.json"
        database.execute(
            "INSERT INTO iceberg_tables VALUES ('lake', 'shop', ?, ?, NULL, 'TABLE')", (name, metadata_location)
        )
        database.commit()
    destination = build_iceberg_destination(Catalogs({"lake": properties}))
    before = sorted(location.rglob("*"))
    for look in (lambda: destination.tables.claim(f"lake.shop.{name}", Ownership(TableKind.INTERMEDIATE, "p")),
                 lambda: destination.staging.drop(f"lake.shop.{name}")):  # fmt: skip
        with pytest.raises(GiveUp, match=r"PyIceberg takes # and \? for the end of a path"):
            look()
    assert sorted(location.rglob("*")) == before


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "lake",
            r"^catalog=lake connection=rest: host=h: its port must be a number, 1 to 65535, and is not; write host",
        ),
        ("pond", r"^object store of catalog=pond of catalogs\.yaml: an address without a host; write host:port$"),
    ],
)
def test_address_of_a_catalog_that_is_none_is_refused_in_words(name: str, message: str) -> None:
    properties = {
        "lake": {"type": "rest", "uri": "http://u:geheim@h:rest/catalog"},
        "pond": {"type": "rest", "uri": "http://127.0.0.1", "s3.endpoint": "https://:9000"},
    }
    with pytest.raises(ConfigurationError, match=message) as error_info:
        Catalogs({name: properties[name]}, {"lake": "rest"}).catalog(name)
    assert "geheim" not in str(error_info.value)
