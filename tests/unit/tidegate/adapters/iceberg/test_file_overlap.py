"""A file of which anything is unknown may hold a batch's keys; only files that cannot are ruled out."""

from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.typedef import Record
from pyiceberg.types import IntegerType, LongType, NestedField, StringType, StructType, UUIDType
from tidegate.adapters.iceberg import pruning
from tidegate.adapters.iceberg.pruning import KeyRange, find_overlap, find_table_field
from tidegate.sql.pruning import Overlap

ID, LINE, INNER = 1, 2, 4
RECENT = KeyRange(("id",), LongType(), 100, 200, nulls=False)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    catalog.create_namespace("shop")
    inner = StructType(NestedField(INNER, "part", LongType()))
    columns = (NestedField(ID, "id", LongType()), NestedField(LINE, "line", StringType()), NestedField(3, "k", inner))
    return catalog.create_table("shop.orders", Schema(*columns))


def add(table: Table, rows: int = 10, nulls: dict[int, int] | None = None, **bounds: tuple[bytes, bytes]) -> None:
    """A data file with these statistics."""
    ids = {"id": ID, "line": LINE, "part": INNER}
    known = {ids[name]: ends for name, ends in bounds.items()}
    file = DataFile.from_args(
        content=DataFileContent.DATA, file_path=f"{table.location()}/data/{rows}.parquet",
        file_format=FileFormat.PARQUET, partition=Record(), record_count=rows, file_size_in_bytes=1,
        null_value_counts=dict.fromkeys(known, 0) if nulls is None else nulls,
        lower_bounds={number: low for number, (low, _) in known.items()},
        upper_bounds={number: high for number, (_, high) in known.items()},
    )  # fmt: skip
    with table.transaction() as change, change.update_snapshot().fast_append() as files:
        files.append_data_file(file)


def encode_numbers(low: int, high: int) -> tuple[bytes, bytes]:
    return to_bytes(LongType(), low), to_bytes(LongType(), high)


def find_overlap_now(table: Table, *ranges: KeyRange) -> Overlap | None:
    current = table.current_snapshot()
    assert current is not None
    return find_overlap(table, current.snapshot_id, ranges or (RECENT,))


@pytest.mark.guard(
    "a batch is appended only where none of its keys can be in the table",
    file="plugins/tidegate/adapters/iceberg/pruning.py",
    text="    return bool(high < key_range.low or low > key_range.high)\n",
    off="    return bool(high <= key_range.low or low > key_range.high)\n",
    case="0-100-1",
)
@pytest.mark.parametrize(
    ("low", "high", "near_files"),
    [(0, 99, 0), (0, 100, 1), (150, 160, 1), (200, 300, 1), (201, 300, 0), (0, 900, 1), (-5, -1, 0)],
)
def test_file_whose_keys_end_before_or_begin_after_the_batchs_is_ruled_out(
    table: Table, low: int, high: int, near_files: int
) -> None:
    add(table, id=encode_numbers(low, high))
    assert find_overlap_now(table) == Overlap(near_files, 10 * near_files)


def test_rows_of_all_files_that_are_left_are_counted(table: Table) -> None:
    for rows, first in ((10, 0), (20, 150), (30, 180), (40, 500)):
        add(table, rows, id=encode_numbers(first, first + 40))
    assert find_overlap_now(table) == Overlap(2, 50)


@pytest.mark.parametrize("ends", [(b"a", "bä".encode()[:-1]), ("ä".encode()[:-1], b"b"), (b"\xff", b"\xff")])
def test_file_whose_bounds_were_cut_within_a_letter_may_hold_the_keys(table: Table, ends: tuple[bytes, bytes]) -> None:
    add(table, 10, line=ends)
    add(table, 20, line=(b"a", b"b"))
    assert find_overlap_now(table, KeyRange(("line",), StringType(), "c", "d", nulls=False)) == Overlap(1, 10)


def test_file_without_statistics_may_hold_the_keys(table: Table) -> None:
    add(table)
    assert find_overlap_now(table) == Overlap(1, 10)


def test_one_part_of_the_key_that_lies_apart_is_enough(table: Table) -> None:
    add(table, id=encode_numbers(100, 200), line=(b"a", b"c"))
    apart = KeyRange(("line",), StringType(), "d", "e", nulls=False)
    assert find_overlap_now(table, RECENT, apart) == Overlap()
    assert find_overlap_now(table, RECENT, KeyRange(("line",), StringType(), "b", "e", nulls=False)) == Overlap(1, 10)


@pytest.mark.guard(
    "a batch with NULL in its key overlaps a file with NULLs",
    file="plugins/tidegate/adapters/iceberg/pruning.py",
    text=("    if key_range.nulls and missing != 0:\n        return False\n"),
    off="",
    case="True-nulls0-1",
)
@pytest.mark.parametrize(
    ("staged", "nulls", "near_files"),
    [(True, {LINE: 1}, 1), (True, {}, 1), (True, {LINE: 0}, 0), (False, {LINE: 1}, 0), (False, {}, 0)],
)
def test_null_meets_null(table: Table, staged: bool, nulls: dict[int, int], near_files: int) -> None:
    add(table, nulls=nulls, line=(b"a", b"c"))
    assert find_overlap_now(table, KeyRange(("line",), StringType(), "x", "z", nulls=staged)) == Overlap(
        near_files, 10 * near_files
    )


def test_file_of_nulls_alone_holds_no_key_with_a_value(table: Table) -> None:
    add(table, nulls={ID: 10})
    assert find_overlap_now(table) == Overlap()
    assert find_overlap_now(table, KeyRange(("id",), LongType(), 1, 2, nulls=True)) == Overlap(1, 10)


def test_key_in_a_struct_is_found_by_its_way(table: Table) -> None:
    add(table, part=encode_numbers(5, 9))
    assert find_overlap_now(table, KeyRange(("k", "part"), LongType(), 10, 11, nulls=False)) == Overlap()
    assert find_overlap_now(table, KeyRange(("k", "part"), LongType(), 9, 11, nulls=False)) == Overlap(1, 10)


def test_widened_column_is_compared_by_the_narrow_files_bounds_too(table: Table) -> None:
    add(table, id=(to_bytes(IntegerType(), -7), to_bytes(IntegerType(), 150)))
    assert find_overlap_now(table) == Overlap(1, 10)
    assert find_overlap_now(table, KeyRange(("id",), IntegerType(), 151, 160, nulls=False)) == Overlap()


def test_column_of_another_type_or_none_tells_nothing(table: Table) -> None:
    add(table, id=encode_numbers(0, 5))
    assert find_overlap_now(table, KeyRange(("id",), StringType(), "x", "z", nulls=False)) is None
    assert find_overlap_now(table, KeyRange(("gone",), LongType(), 10, 11, nulls=False)) is None
    assert find_overlap_now(table, KeyRange(("id", "deeper"), LongType(), 10, 11, nulls=False)) is None


def test_snapshot_that_is_cut_decides_and_no_later_one(table: Table) -> None:
    add(table, id=encode_numbers(0, 5))
    cut = table.current_snapshot()
    assert cut is not None
    add(table, id=encode_numbers(100, 105))
    assert find_overlap(table, cut.snapshot_id, (RECENT,)) == Overlap()
    assert find_overlap_now(table) == Overlap(1, 10)


def test_files_that_were_deleted_do_not_count(table: Table) -> None:
    add(table, id=encode_numbers(100, 105))
    with table.transaction() as change, change.update_snapshot().overwrite() as files:
        for task in table.scan().plan_files():
            files.delete_data_file(task.file)
    assert find_overlap_now(table) == Overlap()


def test_table_of_too_many_files_is_not_read(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    for first in range(3):
        add(table, id=encode_numbers(first, first))
    assert find_overlap_now(table) == Overlap()
    monkeypatch.setattr(pruning, "MAX_FILES", 2)
    assert find_overlap_now(table) is None
    monkeypatch.undo()
    monkeypatch.setattr(pruning, "MAX_MANIFESTS", 2)
    assert find_overlap_now(table) is None


def test_uuid_is_no_text_that_leaves_files_unread(table: Table) -> None:
    """Iceberg orders UUIDs in another way than Spark their texts, and would leave files unread that hold the key."""
    with table.update_schema() as update:
        update.add_column("uuid", UUIDType())
    at_hand = (RECENT, KeyRange(("line",), StringType(), "a", "b", nulls=False))
    bounds = [
        key_range.leaf
        for key_range in (*at_hand, KeyRange(("uuid",), StringType(), "0", "f", nulls=False))
        if is_comparable(table, key_range)
    ]
    assert bounds == [("id",), ("line",)]


def is_comparable(table: Table, key_range: KeyRange) -> bool:
    return find_table_field(table, key_range) is not None
