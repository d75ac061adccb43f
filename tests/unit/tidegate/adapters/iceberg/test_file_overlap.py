"""A file of which anything is unknown may hold a batch's keys; only files that cannot are ruled out."""

from dataclasses import replace
from pathlib import Path

import pytest
from examples import choose_number
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.catalog import load_catalog
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.typedef import Record
from pyiceberg.types import DateType, DecimalType, IntegerType, LongType, NestedField, StringType, StructType, UUIDType
from tidegate.adapters.iceberg import pruning
from tidegate.adapters.iceberg.pruning import KeyRange, find_overlap, find_roundest, find_table_field
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
    found = find_now(table, *(ranges or (RECENT,)))
    return found and found[0]


def find_now(table: Table, *ranges: KeyRange) -> tuple[Overlap, tuple[KeyRange, ...]] | None:
    current = table.current_snapshot()
    assert current is not None
    return find_overlap(table, current.snapshot_id, ranges)


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
    found = find_overlap(table, cut.snapshot_id, (RECENT,))
    assert found is not None
    assert found[0] == Overlap()
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


def find_rounded(table: Table, *ranges: KeyRange) -> list[tuple[int, int]]:
    """The ends that a merge's statement has."""
    found = find_now(table, *ranges)
    assert found is not None
    return [(key_range.low, key_range.high) for key_range in found[1]]


def test_batches_of_equal_shape_have_the_same_constants(table: Table) -> None:
    add(table, 20_000, id=encode_numbers(0, 19_999))
    batches = ((3, 19_970), (41, 19_999), (0, 19_000), (900, 18_500))
    rounded = {find_rounded(table, replace(RECENT, low=low, high=high))[0] for low, high in batches}
    assert rounded == {(0, 24_576)}


def test_single_keys_of_a_table_have_some_constants_in_common(table: Table) -> None:
    add(table, 100_000, id=encode_numbers(1, 1_000_000))
    rounded = {find_rounded(table, replace(RECENT, low=key, high=key))[0] for key in range(100, 1_000_000, 7_777)}
    assert len(rounded) < 40


@settings(max_examples=choose_number(1000), deadline=None)
@given(
    ends=st.lists(st.tuples(st.integers(-500, 500), st.integers(0, 300)), max_size=6),
    low=st.integers(-400, 400),
    width=st.integers(0, 400),
)
def test_rounder_range_holds_the_batchs_and_rules_out_the_same_files(
    ends: list[tuple[int, int]], low: int, width: int
) -> None:
    key_range = replace(RECENT, low=low, high=low + width)
    files = [pruning._FileEnds(10, False, ((first, first + more),)) for first, more in ends]
    rounded = pruning._round_range(key_range, files, 0)
    assert rounded.low <= low <= low + width <= rounded.high
    for first, more in ends:
        is_ruled_out = first + more < low or first > low + width
        assert is_ruled_out == (first + more < rounded.low or first > rounded.high)


def test_range_reaches_into_few_more_rows_of_a_large_file(table: Table) -> None:
    add(table, 1_000_000, id=encode_numbers(1, 1_000_000))
    ((low, high),) = find_rounded(table, replace(RECENT, low=400_000, high=480_000))
    assert 390_000 <= low <= 400_000
    assert 480_000 <= high <= 490_000


def test_rounder_numbers_are_still_of_the_keys_type(table: Table) -> None:
    with table.update_schema() as update:
        update.add_column("day", DateType())
        update.add_column("small", IntegerType())
    added = [(name, table.schema().find_field(name)) for name in ("day", "small")]
    ranges = [KeyRange((name,), field.field_type, -(2**31) + 1, 2**31 - 2, nulls=False) for name, field in added]
    files = [pruning._FileEnds(10, False, ((-(2**31) + 1, 2**31 - 2),))]
    rounded = [pruning._round_range(key_range, files, 0) for key_range in ranges]
    assert [(key_range.low, key_range.high) for key_range in rounded] == [(-(2**31), 2**31 - 2)] * 2


def test_ranges_stay_as_they_are_where_a_file_says_nothing_or_spark_passes_constants_as_data(table: Table) -> None:
    add(table, id=encode_numbers(0, 1000), line=(b"a", b"z"))
    texts = KeyRange(("line",), StringType(), "c", "d", nulls=False)
    assert find_now(table, texts) == (Overlap(1, 10), (texts,))
    add(table, line=(b"a", b"z"))
    assert find_now(table, RECENT) == (Overlap(2, 20), (RECENT,))
    price = KeyRange(("price",), DecimalType(6, 2), 1, 9, nulls=False)
    assert pruning._round_range(price, [pruning._FileEnds(1, False, ((0, 10),))], 0) == price


@pytest.mark.parametrize(
    ("first", "last", "roundest"),
    [(5, 7, 6), (-7, -5, -6), (7, 9, 8), (-9, 9, 0), (0, 5, 0), (-5, 0, 0), (13, 13, 13), (1000, 1100, 1024),
     (-(2**63), -(2**63), -(2**63)), (2**63 - 1, 2**63 - 1, 2**63 - 1)],
)  # fmt: skip
def test_roundest_number_is_divided_by_the_highest_power_of_two(first: int, last: int, roundest: int) -> None:
    assert find_roundest(first, last) == roundest
