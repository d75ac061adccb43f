"""The cap on one batch: small partitions whole, large ones share what is left, none starves."""

from hypothesis import given
from hypothesis import strategies as st
from tidegate.model.offsets import Ranges, cap_ranges

BACKLOGS = st.lists(st.integers(0, 10**6), min_size=1, max_size=12)
STARTS = st.integers(0, 10**9)
CAPS = st.integers(1, 10**6)


def cut(start: int, backlogs: list[int], cap: int) -> Ranges:
    begin = {"t": dict.fromkeys(range(len(backlogs)), start)}
    return cap_ranges(begin, {"t": {p: start + size for p, size in enumerate(backlogs)}}, cap)


def list_sizes(ranges: Ranges) -> list[int]:
    return [end - start for _, _, start, end in ranges]


def test_everything_is_taken_when_it_fits() -> None:
    assert list_sizes(cut(7, [3, 0, 5], 8)) == [3, 0, 5]


def test_small_backlog_is_taken_whole_and_large_ones_share_the_rest() -> None:
    assert list_sizes(cut(0, [2, 100, 100], 12)) == [2, 5, 5]


def test_rest_of_an_uneven_share_is_not_lost() -> None:
    assert sum(list_sizes(cut(0, [100, 100, 100], 10))) == 10


def test_log_that_ends_before_the_start_takes_nothing_instead_of_running_backwards() -> None:
    ranges = cap_ranges({"t": {0: 5, 1: 5}}, {"t": {0: 5}}, 10)
    assert ranges == Ranges({"t": {0: (5, 5), 1: (5, 5)}})


@given(STARTS, BACKLOGS, CAPS)
def test_cap_is_used_up_exactly(start: int, backlogs: list[int], cap: int) -> None:
    assert sum(list_sizes(cut(start, backlogs, cap))) == min(cap, sum(backlogs))


@given(STARTS, BACKLOGS, CAPS)
def test_no_partition_is_read_beyond_its_end(start: int, backlogs: list[int], cap: int) -> None:
    assert all(
        0 <= taken <= backlog for taken, backlog in zip(list_sizes(cut(start, backlogs, cap)), backlogs, strict=True)
    )


@given(BACKLOGS, CAPS)
def test_no_partition_starves_beside_a_large_one(backlogs: list[int], cap: int) -> None:
    share = cap // len(backlogs)
    for taken, backlog in zip(list_sizes(cut(0, backlogs, cap)), backlogs, strict=True):
        assert taken >= min(backlog, share)


@given(BACKLOGS, CAPS)
def test_partition_that_waits_is_not_behind_another_by_more_than_the_remainder(backlogs: list[int], cap: int) -> None:
    takes = list_sizes(cut(0, backlogs, cap))
    waiting_takes = [taken for taken, backlog in zip(takes, backlogs, strict=True) if taken < backlog]
    assert not waiting_takes or max(takes) - min(waiting_takes) <= 1


@given(BACKLOGS, CAPS)
def test_repeated_batches_reach_the_end(backlogs: list[int], cap: int) -> None:
    end = {"t": dict(enumerate(backlogs))}
    position = {"t": dict.fromkeys(range(len(backlogs)), 0)}
    batches = 0
    while (ranges := cap_ranges(position, end, max(cap, 5000))).span:
        position, batches = ranges.end, batches + 1
    assert position == end
    assert batches == -(-sum(backlogs) // max(cap, 5000))
