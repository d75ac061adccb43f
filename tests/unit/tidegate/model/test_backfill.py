"""Slices: a range cut in the log's order, what a set of pieces covers, and the mark of what is applied."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidegate.model.backfill import Backfill, TableBackfill, cut_into_slices, find_reach
from tidegate.model.offsets import Ranges
from tidegate.reprocess.backfill_plan import ProposedBackfill

RANGES = st.dictionaries(st.integers(0, 4), st.tuples(st.integers(0, 50), st.integers(0, 80)), min_size=1).map(
    lambda parts: Ranges({"t": {p: (start, start + length) for p, (start, length) in parts.items()}})
)


@given(RANGES, st.integers(1, 40))
def test_slices_follow_each_other_and_make_up_the_whole_range(ranges: Ranges, size: int) -> None:
    slices = cut_into_slices(ranges, size)
    assert sum(piece.span for piece in slices) == ranges.span
    assert all(0 < part_range.span <= size for part_range in slices)
    following = ranges.start
    for slice in slices:
        assert slice.start == following
        following = slice.end
    assert following == ranges.end or not slices


@given(RANGES, st.integers(1, 40))
def test_slices_are_counted_without_being_cut(ranges: Ranges, size: int) -> None:
    tables = (TableBackfill("lake.shop.orders", ranges),)
    backfill = Backfill.build("shop", asked="", max_records=size, tables=tables, cluster_id="c", topic_ids={})
    assert backfill.slice_count == len(cut_into_slices(ranges, size))


def test_slices_of_a_range_that_makes_billions_are_counted_at_once() -> None:
    tables = (TableBackfill("lake.shop.orders", Ranges({"orders": {0: (0, 10**15)}})),)
    backfill = Backfill.build("shop", asked="", max_records=1000, tables=tables, cluster_id="c", topic_ids={})
    assert backfill.slice_count == 10**12


@given(RANGES, st.integers(1, 40), st.data())
def test_what_is_covered_ends_at_the_first_gap(ranges: Ranges, size: int, data: st.DataObject) -> None:
    pieces = cut_into_slices(ranges, size)
    kept_slices = [kept_slice for kept_slice in pieces if data.draw(st.booleans())]
    reach = find_reach(kept_slices, ranges.start)
    offsets = {(p, o) for kept_slice in kept_slices for _, p, start, end in kept_slice for o in range(start, end)}
    for _, partition, start, end in ranges:
        expected = next((o for o in range(start, end) if (partition, o) not in offsets), end)
        assert reach["t"][partition] == expected


def test_overlapping_pieces_of_two_runners_cover_what_either_does() -> None:
    pieces = [Ranges({"t": {0: (5, 9)}}), Ranges({"t": {0: (5, 7)}}), Ranges({"t": {0: (8, 12)}})]
    assert find_reach(pieces, {"t": {0: 5}}) == {"t": {0: 12}}


def build_backfill(**options: object) -> Backfill:
    content = {
        "asked": "x",
        "max_records": 10,
        "tables": (TableBackfill("a", Ranges({"t": {0: (0, 25)}})), TableBackfill("b", Ranges({"t": {0: (0, 5)}}))),
        "cluster_id": "c",
        "topic_ids": {"t": "i"},
        **options,
    }
    return Backfill.build("shop", **content)


def test_backfill_survives_json() -> None:
    assert Backfill.from_dict(build_backfill().to_dict()) == build_backfill()


def test_numbers_run_from_the_newest_slice_of_the_longest_table_to_the_first() -> None:
    assert build_backfill().numbers == [3, 2, 1]


@pytest.mark.parametrize("changes", [{"max_records": 11}, {"topic_ids": {"t": "j"}}, {"asked": "y"}])
def test_another_content_is_another_backfill(changes: dict) -> None:
    assert build_backfill().id == build_backfill().id
    assert build_backfill(**changes).id != build_backfill().id


def test_slices_are_cut_once_however_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand slices of a hundred partitions take seconds: for each slice again it would be a quarter of an hour."""
    cuts = list[Ranges]()

    def cut(ranges: Ranges, max_records: int) -> list[Ranges]:
        cuts.append(ranges)
        return cut_into_slices(ranges, max_records)

    monkeypatch.setattr("tidegate.model.backfill.cut_into_slices", cut)
    ranges = Ranges({"orders": {0: (0, 300), 1: (0, 200)}})
    tables = tuple(TableBackfill(name, ranges) for name in ("lake.shop.orders", "lake.shop.copy"))
    backfill = Backfill.build("shop", asked="", max_records=10, tables=tables, cluster_id="c", topic_ids={})
    assert len(ProposedBackfill(backfill, (), False).to_batches()) == len(backfill.numbers) == 50
    assert len(cuts) == 2


def test_task_of_a_slice_says_how_many_offsets_it_has() -> None:
    ranges = Ranges({"orders": {0: (0, 11)}})
    tables = (TableBackfill("lake.shop.orders", ranges),)
    backfill = Backfill.build("shop", asked="", max_records=10, tables=tables, cluster_id="c", topic_ids={})
    slices = [batch["slice"] for batch in ProposedBackfill(backfill, (), False).to_batches()]
    assert sorted(slices) == ["1 of 2: 10 offsets", "2 of 2: 1 offset"]
