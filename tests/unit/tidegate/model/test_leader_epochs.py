"""Epoch boundaries are found by looking at few records, whatever gaps the log has."""

from hypothesis import given
from hypothesis import strategies as st
from tidegate.model.kafka_log import find_epoch_starts


class Log:
    """Records as (offset, epoch); counts how often it was looked at."""

    def __init__(self, records: list[tuple[int, int | None]], end: int) -> None:
        self.records, self.end, self.looks = records, end, 0

    def __call__(self, offset: int) -> tuple[int, int | None] | None:
        self.looks += 1
        assert offset < self.end
        return next(((at, epoch) for at, epoch in self.records if at >= offset), None)


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3)), max_size=40), st.integers(0, 5))
def test_every_record_gets_the_epoch_it_was_written_under(steps: list[tuple[int, int]], tail: int) -> None:
    records, offset, epoch = [], 10, 0
    for gap, step in steps:
        epoch += step // 2
        records.append((offset, epoch))
        offset += gap
    log = Log(list(records), offset + tail)
    begun = find_epoch_starts(log, 10, offset + tail)
    epochs_by_offset = {at: max((b for b in begun if b[0] <= at), default=(0, None))[1] for at, _ in records}
    assert epochs_by_offset == dict(records)
    assert [e for _, e in begun] == sorted({e for _, e in records})


def test_range_of_one_epoch_costs_two_looks() -> None:
    log = Log([(n, 7) for n in range(1_000)], 1_000)
    assert find_epoch_starts(log, 0, 1_000) == [(0, 7)]
    assert log.looks == 2


def test_one_change_in_a_long_range_costs_few_looks() -> None:
    log = Log([(n, int(n >= 70_000)) for n in range(100_000)], 100_000)
    assert find_epoch_starts(log, 0, 100_000) == [(0, 0), (70_000, 1)]
    assert log.looks < 30


def test_records_without_an_epoch_have_none() -> None:
    assert find_epoch_starts(Log([(0, None), (1, None)], 2), 0, 2) == []
    assert find_epoch_starts(Log([], 5), 0, 5) == []
