"""A table of a SQL catalog is loaded many times in a step: its metadata is read once, and never an old one."""

from pathlib import Path

import pytest
from pyiceberg.schema import Schema
from pyiceberg.serializers import FromInputFile
from pyiceberg.types import LongType, NestedField
from tidegate.adapters.iceberg.table.catalogs import Catalogs
from tidegate.adapters.iceberg.table.sql_catalog import MAX_KEPT_METADATA

NAMES = ("lake.shop.orders", "lake.shop.lines")


@pytest.fixture
def properties(tmp_path: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}


@pytest.fixture
def catalogs(properties: dict[str, str]) -> Catalogs:
    made = Catalogs({"lake": properties})
    made.catalog("lake").create_namespace("shop")
    for name in NAMES:
        made.catalog("lake").create_table(name.removeprefix("lake."), Schema(NestedField(1, "id", LongType())))
    return made


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were read."""
    files: list[str] = []
    original = FromInputFile.table_metadata

    def noted(file, *given):
        files.append(file.location)
        return original(file, *given)

    monkeypatch.setattr(FromInputFile, "table_metadata", noted)
    return files


def test_metadata_of_each_table_is_read_once_while_nobody_commits(
    catalogs: Catalogs, properties: dict[str, str], read: list[str]
) -> None:
    fresh = Catalogs({"lake": properties})
    found = [fresh.table(name) for _ in range(3) for name in NAMES]
    assert [one.name() for one in found if one] == [("shop", "orders"), ("shop", "lines")] * 3
    assert sorted(read) == sorted({one.metadata_location for one in found if one})
    assert len(read) == 2


def test_commit_of_another_process_is_seen_by_the_next_load(catalogs: Catalogs, properties: dict[str, str]) -> None:
    before = catalogs.table(NAMES[0])
    other = Catalogs({"lake": properties}).table(NAMES[0])
    assert before is not None
    assert other is not None
    other.transaction().set_properties(owner="somebody else").commit_transaction()
    after = catalogs.table(NAMES[0])
    assert after is not None
    assert (before.properties, after.properties) == ({}, {"owner": "somebody else"})
    assert before.refresh().properties == {"owner": "somebody else"}


def test_own_commits_leave_what_was_loaded_before_as_it_was(catalogs: Catalogs) -> None:
    for number in range(2 * MAX_KEPT_METADATA):
        loaded, beside = catalogs.table(NAMES[0]), catalogs.table(NAMES[0])
        assert loaded is not None
        assert beside is not None
        loaded.transaction().set_properties(round=str(number)).commit_transaction()
        assert loaded.properties == {"round": str(number)}
        assert beside.properties == ({"round": str(number - 1)} if number else {})


def test_lost_metadata_file_is_an_error_of_the_next_process(catalogs: Catalogs, properties: dict[str, str]) -> None:
    table = catalogs.table(NAMES[0])
    assert table is not None
    Path(table.metadata_location.removeprefix("file://")).unlink()
    with pytest.raises(FileNotFoundError):
        Catalogs({"lake": properties}).table(NAMES[0])
