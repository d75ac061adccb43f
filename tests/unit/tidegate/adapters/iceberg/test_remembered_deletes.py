"""Remembered deletes go when their time is over, for little work: files that are not worth it are left as they are."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from fakes import format_3
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table
from tidegate.adapters.iceberg import commit as iceberg_commit
from tidegate.adapters.iceberg import table as iceberg_table
from tidegate.adapters.iceberg.catalog import Catalogs
from tidegate.adapters.iceberg.table import forget_old_deletes
from tidegate.errors import CommitRefused, GiveUp
from tidegate.model.ownership import KIND_PROPERTY

COLUMNS = pa.schema([("id", pa.int64()), ("timestamp", pa.timestamp("us", tz="UTC"))])


@pytest.fixture(params=["timestamp", "_tidegate_timestamp"])
def table(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    monkeypatch.setattr(iceberg_table, "SMALL_FILE_ROWS", 10)
    catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    catalog.create_namespace("shop")
    columns = COLUMNS.set(1, COLUMNS.field(1).with_name(request.param))
    return catalog.create_table("shop.deletes", columns, properties={KIND_PROPERTY: "deletes"})


def remember(table: Table, times: dict[int, int | None]) -> str:
    """One file of deletes, with the milliseconds of their records; its path."""
    before = list_files(table)
    moments = [None if ms is None else datetime.fromtimestamp(ms / 1000, UTC) for ms in times.values()]
    columns = [pa.array(times), pa.array(moments, COLUMNS.field(1).type)]
    table.append(pa.Table.from_arrays(columns, names=table.schema().column_names))
    (added,) = list_files(table) - before
    return added


def list_files(table: Table) -> set[str]:
    return {task.file.file_path for task in table.scan().plan_files()}


def read_ids(table: Table) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def test_files_that_are_over_go_unread_and_newer_ones_stay_as_they_are(table: Table) -> None:
    old = [remember(table, {n: n for n in range(start, start + 20)}) for start in (0, 20)]
    new = remember(table, {n: n for n in range(40, 60)})
    for path in old:
        Path(path.removeprefix("file://")).unlink()
    assert forget_old_deletes(table, 40) == 40
    assert (list_files(table), read_ids(table)) == ({new}, [*range(40, 60)])
    assert forget_old_deletes(table, 40) == 0


def test_row_of_the_very_time_stays(table: Table) -> None:
    remember(table, {n: n for n in range(41)})
    assert (forget_old_deletes(table, 40), read_ids(table)) == (40, [40])


def test_row_of_a_time_that_python_does_not_have_is_written_again_and_stays(table: Table) -> None:
    """A producer wrote microseconds for Kafka's milliseconds; its record may be a delete like any other."""
    name, metrics = table.schema().column_names[1], "write.metadata.metrics.column."
    with table.transaction() as change:  # Spark writes such times, and PyIceberg no bounds of them
        change.set_properties({f"{metrics}{name}": "none"})
    times = pa.array([0, 1_700_000_000_000_000_000], COLUMNS.field(1).type)
    table.append(pa.Table.from_arrays([pa.array([1, 2]), times], names=table.schema().column_names))
    with table.transaction() as change:
        change.remove_properties(f"{metrics}{name}")
    assert (forget_old_deletes(table, 40), read_ids(table)) == (1, [2])
    assert forget_old_deletes(table.refresh(), 1_700_000_000_000) == 0


def test_large_file_is_written_again_once_half_of_its_time_is_over(table: Table) -> None:
    first, second = remember(table, {n: n for n in range(100)}), remember(table, {n: n + 50 for n in range(100, 150)})
    snapshots = len(table.metadata.snapshots)
    assert forget_old_deletes(table, 49) == 0
    assert (list_files(table.refresh()), len(table.metadata.snapshots)) == ({first, second}, snapshots)
    assert forget_old_deletes(table, 50) == 50
    assert read_ids(table) == [*range(50, 150)]
    assert first not in list_files(table)
    assert second in list_files(table)


def test_small_files_are_written_again_up_to_a_few_rows_the_oldest_first(table: Table) -> None:
    remember(table, {1: 100, 2: 900, 3: 900, 4: 900})
    remember(table, {5: 0, 6: 1000, 7: 1000, 8: 1000})
    late = remember(table, {9: 290, 10: 900, 11: 900, 12: 900})
    assert forget_old_deletes(table, 300) == 2
    assert read_ids(table) == [2, 3, 4, 6, 7, 8, 9, 10, 11, 12]
    assert late in list_files(table)
    assert forget_old_deletes(table, 300) == 1
    assert read_ids(table) == [2, 3, 4, 6, 7, 8, 10, 11, 12]


def test_delete_without_a_time_stays(table: Table) -> None:
    remember(table, {1: 100, 2: None, 3: 200})
    remember(table, {**dict.fromkeys(range(10, 30), 100), 30: None})
    assert forget_old_deletes(table, 300) == 22
    assert read_ids(table) == [2, 30]
    assert forget_old_deletes(table, 300) == 0


def test_merge_that_remembers_more_meanwhile_is_not_undone(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    remember(table, {1: 100})
    commit = iceberg_commit.commit

    def late(*arguments: object) -> None:
        remember(table.catalog.load_table("shop.deletes"), {2: 150})
        commit(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(iceberg_commit, "commit", late)
    with pytest.raises(CommitRefused):
        forget_old_deletes(table, 300)
    assert read_ids(table.refresh()) == [1, 2]


def test_memory_that_somebody_made_one_of_format_3_is_refused_and_keeps_its_deletes(tmp_path: Path) -> None:
    place = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}
    catalogs = Catalogs({"lake": place})
    catalogs.catalog("lake").create_namespace("shop")
    catalogs.catalog("lake").create_table("shop.deletes", COLUMNS, properties={KIND_PROPERTY: "deletes"})
    table = catalogs.table("lake.shop.deletes")
    assert table is not None
    remember(table, {1: 1, 2: 2})
    format_3.upgrade(catalogs, "lake.shop.deletes")
    upgraded = catalogs.table("lake.shop.deletes")
    assert upgraded is not None
    with pytest.raises(
        GiveUp, match=r"table=lake\.shop\.deletes format-version=3 kind=deletes: .*#a-table-of-format-3"
    ):
        forget_old_deletes(upgraded, 40)
    assert read_ids(upgraded) == [1, 2]
