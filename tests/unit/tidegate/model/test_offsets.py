"""Offsets and ranges: half-open, forward, and never confused between partitions."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidegate.model.offsets import (
    Ranges,
    find_lowest,
    find_missing_ranges,
    format_offsets,
    get_offset,
    iterate_offsets,
    merge_offsets,
    parse_offsets,
)

OFFSETS = st.dictionaries(
    st.sampled_from(["a", "b", "c"]), st.dictionaries(st.integers(0, 12), st.integers(0, 2**62), min_size=1)
)


def test_partition_numbers_read_from_json_are_numbers_again() -> None:
    assert parse_offsets({"t": {"10": "7", "2": 5}}) == {"t": {10: 7, 2: 5}}


def test_offsets_in_a_message_are_written_as_commands_take_them() -> None:
    offsets = {"shop.Orders": {0: 4, 10: 7}, "it's": {1: 0}}
    assert parse_offsets(json.loads(format_offsets(offsets))) == offsets
    many = {"orders": dict.fromkeys(range(22), 1)}
    assert format_offsets(many).endswith('"19": 1}} and 2 partitions more')


def test_partitions_are_ordered_as_numbers_not_as_text() -> None:
    assert [p for _, p, _ in iterate_offsets({"t": {10: 0, 2: 0, 1: 0}})] == [1, 2, 10]


def test_missing_partition_has_no_offset_instead_of_zero() -> None:
    assert get_offset({"t": {0: 3}}, "t", 1) is None
    assert get_offset({"t": {0: 3}}, "u", 0) is None


def test_later_map_wins_when_merged() -> None:
    assert merge_offsets({"t": {0: 1, 1: 1}}, {"t": {1: 9}, "u": {0: 2}}) == {"t": {0: 1, 1: 9}, "u": {0: 2}}


def test_merging_does_not_change_its_arguments() -> None:
    first = {"t": {0: 1}}
    merge_offsets(first, {"t": {0: 2}})
    assert first == {"t": {0: 1}}


def test_low_watermark_ignores_tables_that_do_not_know_a_partition() -> None:
    assert find_lowest({"t": {0: 5, 1: 9}}, {"t": {0: 7}}) == {"t": {0: 5, 1: 9}}


@given(OFFSETS, OFFSETS)
def test_low_watermark_is_never_above_any_table(one: dict, other: dict) -> None:
    low = find_lowest(one, other)
    for topic, partition, offset in [*iterate_offsets(one), *iterate_offsets(other)]:
        assert low[topic][partition] <= offset


@pytest.mark.parametrize("bounds", [(5, 4), (-1, 4), (-2, -1)])
def test_range_that_runs_backwards_is_refused(bounds: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=f"topic=t partition=3 start={bounds[0]} end={bounds[1]}"):
        Ranges({"t": {3: bounds}})


@pytest.mark.parametrize("end", [{"t": {0: 5}}, {"t": {0: 5, 1: 5, 2: 5}}, {"u": {0: 5, 1: 5}}, {}])
def test_ranges_between_different_partitions_are_refused(end: dict) -> None:
    with pytest.raises(ValueError, match="different partitions"):
        Ranges.between({"t": {0: 1, 1: 1}}, end)


def test_end_is_the_first_offset_that_is_not_read() -> None:
    ranges = Ranges.between({"t": {0: 1, 1: 4}}, {"t": {0: 3, 1: 4}})
    assert (ranges.start, ranges.end, ranges.span) == ({"t": {0: 1, 1: 4}}, {"t": {0: 3, 1: 4}}, 2)


@pytest.mark.parametrize(
    ("position", "continues"),
    [
        ({"t": {0: 1, 1: 4}}, True),
        ({"t": {0: 1}}, True),  # a partition that the position does not know yet may join
        ({}, True),
        ({"t": {0: 2, 1: 4}}, False),
        ({"t": {0: 0, 1: 4}}, False),
        ({"t": {0: 1, 1: 4, 2: 0}}, False),  # a partition that the batch left out would be forgotten
        ({"t": {0: 1, 1: 4}, "u": {0: 0}}, False),
    ],
)
def test_batch_continues_only_from_exactly_its_start(position: dict, continues: bool) -> None:
    assert Ranges({"t": {0: (1, 3), 1: (4, 4)}}).continues(position) is continues


def test_only_takes_a_tables_topics() -> None:
    ranges = Ranges({"t": {0: (1, 3)}, "u": {0: (1, 2)}})
    assert ranges.select_topics(("u", "v")) == Ranges({"u": {0: (1, 2)}})


@given(OFFSETS)
def test_ranges_survive_json(offsets: dict) -> None:
    ranges = Ranges.between(offsets, {t: {p: o + 3 for p, o in parts.items()} for t, parts in offsets.items()})
    assert Ranges.from_dict(ranges.to_dict()) == ranges


def test_nothing_is_missing_where_the_end_lies_before_the_start() -> None:
    assert find_missing_ranges({"t": {0: 5, 1: 5}}, {"t": {0: 3, 1: 9}}).to_dict() == {"t": {"0": [5, 5], "1": [5, 9]}}


def test_partition_that_the_position_does_not_know_has_no_later_records() -> None:
    assert find_missing_ranges({"t": {0: 5}}, {}).span == 0
