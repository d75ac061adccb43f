"""The control table stays small, and no writer's row is lost while another one gathers its files."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from tidegate.adapters.iceberg import history
from tidegate.table.history import FRACTION_FIELDS, INTEGER_FIELDS, TEXT_FIELDS

CONTROL = "shop.tidegate_orders_batches"


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    monkeypatch.setattr(history, "MAX_SNAPSHOTS", 4)
    monkeypatch.setattr(history, "KEPT_SNAPSHOTS", 3)
    return load_catalog("lake", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")


def build_row(batch: int) -> dict[str, Any]:
    empty = dict.fromkeys((*INTEGER_FIELDS, *TEXT_FIELDS, *FRACTION_FIELDS))
    return {**empty, "batch": batch, "published_at_ms": batch}


def read_batches(catalog: Catalog) -> list[int]:
    return sorted(catalog.load_table(CONTROL).scan().to_arrow()["batch"].to_pylist())


def count_data_files(catalog: Catalog) -> int:
    return len(list(catalog.load_table(CONTROL).scan().plan_files()))


def test_row_that_another_table_appends_while_files_are_gathered_stays(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    for batch in range(1, 5):
        history.append_rows(catalog, CONTROL, build_row(batch))
    gather = history._compact_rows

    def append_meanwhile(table: Any) -> None:
        monkeypatch.setattr(history, "_compact_rows", gather)
        history.append_rows(catalog, CONTROL, build_row(100))  # which gathers the files itself
        gather(table)

    monkeypatch.setattr(history, "_compact_rows", append_meanwhile)
    history.append_rows(catalog, CONTROL, build_row(5))
    assert read_batches(catalog) == [1, 2, 3, 4, 5, 100]
    history.append_rows(catalog, CONTROL, build_row(6))
    assert read_batches(catalog) == [1, 2, 3, 4, 5, 6, 100]


@pytest.mark.parametrize("verb", ["_compact_rows", "forget_snapshots"])
def test_row_is_appended_whatever_another_runner_tidies_up_meanwhile(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    for batch in range(1, 5):
        history.append_rows(catalog, CONTROL, build_row(batch))
    tidy = getattr(history, verb)

    def be_late(table: Any) -> None:
        monkeypatch.setattr(history, verb, tidy)
        for batch in range(101, 105):
            history.append_rows(catalog, CONTROL, build_row(batch))
        tidy(table)

    monkeypatch.setattr(history, verb, be_late)
    history.append_rows(catalog, CONTROL, build_row(5))
    assert read_batches(catalog) == [*range(1, 6), *range(101, 105)]
    for batch in (6, 7):
        history.append_rows(catalog, CONTROL, build_row(batch))
    assert read_batches(catalog) == [*range(1, 8), *range(101, 105)]
    assert len(catalog.load_table(CONTROL).metadata.snapshots) <= 5


def test_rows_of_many_batches_lie_in_few_files(catalog: Catalog) -> None:
    for batch in range(1, 12):
        history.append_rows(catalog, CONTROL, build_row(batch))
    assert read_batches(catalog) == [*range(1, 12)]
    assert count_data_files(catalog) <= 4
    assert len(catalog.load_table(CONTROL).metadata.snapshots) <= 5
    assert [row["batch"] for row in history.read_newest_batches(catalog.load_table(CONTROL), 3)] == [11, 10, 9]


def test_batches_that_were_merged_as_one_are_one_commit_and_come_newest_first(catalog: Catalog) -> None:
    history.append_rows(catalog, CONTROL, build_row(1))
    merged_as_one = [build_row(batch) | {"published_at_ms": 9} for batch in (2, 3, 4)]
    history.append_rows(catalog, CONTROL, *merged_as_one)
    table = catalog.load_table(CONTROL)
    assert len(table.metadata.snapshots) == 2
    assert [row["batch"] for row in history.read_newest_batches(table, 5)] == [4, 3, 2, 1]


def test_snapshots_that_others_have_tagged_stay_and_no_others_with_them(catalog: Catalog) -> None:
    for batch in range(1, 3):
        history.append_rows(catalog, CONTROL, build_row(batch))
    table = catalog.load_table(CONTROL)
    tagged = [snapshot.snapshot_id for snapshot in table.metadata.snapshots]
    for name, snapshot_id in zip(("audit-2025", "audit-2026"), tagged, strict=True):
        table.manage_snapshots().create_tag(snapshot_id, name).commit()
    for batch in range(3, 20):
        history.append_rows(catalog, CONTROL, build_row(batch))
    table = catalog.load_table(CONTROL)
    assert read_batches(catalog) == [*range(1, 20)]
    assert len(table.metadata.snapshots) <= 8
    assert [table.scan(snapshot_id=i).to_arrow()["batch"].to_pylist() for i in tagged] == [[1], [2, 1]]


def test_newest_rows_are_read_from_the_files_that_may_hold_them(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch of hundreds of tables has a row for each: as many batches as rows are wanted would be a thousand times
    as many rows.
    """
    history.append_rows(catalog, CONTROL, build_row(0))
    table, read_rows = catalog.load_table(CONTROL), list[int]()
    for batch in range(1, 16):
        rows = [build_row(batch) | {"table": f"t{n}", "published_at_ms": 100 * batch + n} for n in range(4)]
        table.append(pa.Table.from_pylist(rows, schema=history.COLUMNS))
    read = history.ArrowScan.to_table

    def count_rows(scan: Any, tasks: Any) -> Any:
        rows = read(scan, tasks)
        read_rows.append(rows.num_rows)
        return rows

    monkeypatch.setattr("pyiceberg.io.pyarrow.ArrowScan.to_table", count_rows)
    rows = history.read_newest_batches(table, 12)
    assert [(row["batch"], row["table"]) for row in rows] == [
        (batch, f"t{number}") for batch in (15, 14, 13) for number in (3, 2, 1, 0)
    ]
    assert read_rows == [12]
    assert len(history.read_newest_batches(table, 100)) == 61
    catalog.drop_table(CONTROL)
    assert history.read_newest_batches(history._open_table(catalog, CONTROL), 9) == []
