"""complete: an hour is told once, and not before each of its records is in the table."""

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from fakes import World, build_pipeline, build_table
from tidegate.errors import NothingToDo, TableRemoved
from tidegate.flush.complete import MAX_PERIODS, list_complete_periods, read_completeness
from tidegate.flush.flush import flush
from tidegate.model.position import Position
from tidegate.spec.runtime import Period

HOUR = 3_600_000
MIDNIGHT = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
HOURS = 1000


def compute_time(hours: float) -> int:
    return MIDNIGHT + int(hours * HOUR)


@pytest.mark.parametrize(
    ("period", "last", "begun", "end_hour", "expected"),
    [
        (Period.HOUR, None, 0.5, 1.9, []),
        (Period.HOUR, None, 0.5, 2, ["2026-01-01T01"]),
        (Period.HOUR, None, 0.5, 3.1, ["2026-01-01T01", "2026-01-01T02"]),
        (Period.HOUR, None, 1, 3, ["2026-01-01T02"]),  # a record of 01:00:00.000 may lie before the table's first
        (Period.HOUR, "2026-01-01T01", 0.5, 2.5, []),
        (Period.HOUR, "2026-01-01T01", 9.5, 3, ["2026-01-01T02"]),  # what was told counts more than a lost begin
        (Period.HOUR, "2025-12-31T23", -9, 0.999, []),
        (Period.DAY, None, 1, 47.9, []),
        (Period.DAY, None, 1, 48, ["2026-01-02"]),
        (Period.DAY, "2026-01-31", 1, 24 * 33, ["2026-02-01", "2026-02-02"]),
    ],
)
def test_periods_that_are_complete(
    period: Period, last: str | None, begun: float, end_hour: float, expected: list[str]
) -> None:
    assert list_complete_periods(period, last, compute_time(begun), compute_time(end_hour)) == expected


@pytest.mark.guard(
    "an hour is reported only after the valid-through time",
    file="plugins/tidegate/flush/complete.py",
    text="    while start + length <= to_utc_datetime(through_ms):\n",
    off="    while start <= to_utc_datetime(through_ms):\n",
)
def test_millisecond_before_the_end_of_an_hour_is_too_early() -> None:
    assert list_complete_periods(Period.HOUR, "2026-01-01T00", compute_time(0), compute_time(2) - 1) == []
    assert list_complete_periods(Period.HOUR, "2026-01-01T00", compute_time(0), compute_time(2)) == ["2026-01-01T01"]


def test_long_pause_is_told_by_several_runs_without_a_hole() -> None:
    periods: list[str] = []
    while new := list_complete_periods(Period.HOUR, max(periods, default=None), compute_time(0.5), compute_time(HOURS)):
        assert len(new) <= MAX_PERIODS
        periods += new
    assert len(periods) == len(set(periods)) == HOURS - 1
    assert periods == sorted(periods)


def _walk_log(dice: random.Random, partitions: int) -> Iterator[tuple[dict[int, int], dict[int, int]]]:
    """Flushes of a log whose partitions come late, each by itself, as (timestamps published, next of each)."""
    logs = {}
    for partition in range(partitions):
        now, times = compute_time(0), []
        while now < compute_time(HOURS + 60):
            now += int(dice.expovariate(1 / (0.4 * HOUR)))
            times.append(now - now % dice.choice((1, 1000, HOUR)) if now % 7 == 0 else now)
        logs[partition] = sorted(times)
    read_counts = dict.fromkeys(logs, 0)
    while any(read_counts[log] < len(logs[log]) for log in logs):
        for log, times in logs.items():
            if dice.random() < 0.6:  # the others are late: for one flush, or for many
                read_counts[log] = min(len(times), read_counts[log] + dice.choice((1, 1, 2, 5, 40)))
        read_times = {log: logs[log][read_counts[log] - 1] for log in logs if read_counts[log]}
        waiting_times = {log: logs[log][read_counts[log]] for log in logs if read_counts[log] < len(logs[log])}
        yield read_times, waiting_times


@pytest.mark.parametrize("seed", range(5))
def test_of_a_thousand_hours_with_late_partitions_none_is_told_early_and_each_is_told_once(seed: int) -> None:
    dice, periods, begun = random.Random(seed), list[str](), None
    for read_times, waiting_times in _walk_log(dice, partitions=4):
        position = Position({"t": dict.fromkeys(range(4), 1)}, timestamps={"t": read_times})
        valid_through = position.valid_through_ms
        if valid_through is None:
            continue
        begun = max(read_times.values()) if begun is None else begun
        new = list_complete_periods(Period.HOUR, max(periods, default=None), begun, valid_through)
        for key in new:
            end = int(datetime.strptime(key, "%Y-%m-%dT%H").replace(tzinfo=UTC).timestamp() * 1000) + HOUR
            assert [ms for ms in waiting_times.values() if ms < end] == [], f"{key} was told early"
        if dice.random() < 0.8:  # else the task dies before its success: nothing of it was told
            periods += new
    assert len(periods) == len(set(periods)) >= HOURS
    assert periods == sorted(periods)
    hours = [datetime.strptime(key, "%Y-%m-%dT%H") for key in periods]
    assert {(later - earlier).total_seconds() for earlier, later in pairwise(hours)} == {3600}


PIPELINE = replace(
    build_pipeline(build_table("lake.shop.orders"), source={"topics": ("orders",)}), complete=Period.HOUR
)


@pytest.fixture
def world() -> World:
    world = World()
    world.clock.ms = compute_time(24)
    world.broker.create("orders", 2)
    return world


def test_table_without_rows_of_each_partition_tells_nothing(world: World) -> None:
    with pytest.raises(NothingToDo, match="it is not known yet"):
        read_completeness(world.open_session(PIPELINE), "lake.shop.orders")
    world.broker.produce("orders", {"id": "a"}, {"id": "a", "name": "x"}, 0)
    flush(world.open_session(PIPELINE))
    with pytest.raises(NothingToDo, match="it is not known yet"):
        read_completeness(world.open_session(PIPELINE), "lake.shop.orders")


def test_begin_is_the_newest_record_and_the_end_the_slowest_partition(world: World) -> None:
    for partition, ms in ((0, compute_time(1)), (1, compute_time(2))):
        world.broker.produce("orders", {"id": str(partition)}, {"id": "a", "name": "x"}, partition, timestamp=ms)
    flush(world.open_session(PIPELINE))
    assert read_completeness(world.open_session(PIPELINE), "lake.shop.orders") == (compute_time(2), compute_time(1))


@pytest.mark.guard(
    "of several pipelines of a table the slowest decides which hours are reported",
    file="plugins/tidegate/flush/complete.py",
    text="min(through, recorded.valid_through_ms)\n",
    off="through\n",
)
def test_slower_pipeline_of_the_same_table_holds_its_hours_back(world: World) -> None:
    changed_table = replace(
        build_pipeline(build_table("lake.shop.orders", topics=("late",)), name="slow"), complete=Period.HOUR
    )
    world.broker.create("late", 1)
    world.broker.produce("late", {"id": "z"}, {"id": "z", "name": "x"}, 0, timestamp=compute_time(1.5))
    for partition in (0, 1):
        world.broker.produce(
            "orders", {"id": str(partition)}, {"id": "a", "name": "x"}, partition, timestamp=compute_time(5)
        )
    flush(world.open_session(PIPELINE))
    assert read_completeness(world.open_session(PIPELINE), "lake.shop.orders") == (compute_time(5), compute_time(5))
    flush(world.open_session(changed_table))
    assert read_completeness(world.open_session(PIPELINE), "lake.shop.orders") == (compute_time(5), compute_time(1.5))
    assert read_completeness(world.open_session(changed_table), "lake.shop.orders") == (
        compute_time(5),
        compute_time(1.5),
    )


@pytest.mark.guard(
    "no hour is reported before the clock says that it is over",
    file="plugins/tidegate/flush/complete.py",
    text="min(begin_ms, now + MAX_AHEAD_MS), min(through, now)\n",
    off="min(begin_ms, now + MAX_AHEAD_MS), through\n",
)
def test_hour_that_is_not_over_yet_is_not_complete_whatever_a_producers_clock_says(world: World) -> None:
    world.clock.ms = compute_time(10)
    for partition, ms in ((0, compute_time(9)), (1, compute_time(9))):
        world.broker.produce("orders", {"id": str(partition)}, {"id": "a", "name": "x"}, partition, timestamp=ms)
    flush(world.open_session(PIPELINE))
    for partition in (0, 1):  # microseconds, taken for milliseconds
        key = {"id": str(2 + partition)}
        world.broker.produce("orders", key, {"id": "a", "name": "x"}, partition, timestamp=compute_time(10) * 1000)
    flush(world.open_session(PIPELINE))
    world.clock.ms = compute_time(10)
    begun, valid_through = read_completeness(world.open_session(PIPELINE), "lake.shop.orders")
    assert (begun, valid_through) == (compute_time(11), compute_time(10))
    assert list_complete_periods(Period.HOUR, "2026-01-01T07", begun, valid_through) == [
        "2026-01-01T08",
        "2026-01-01T09",
    ]


def test_records_without_a_time_tell_nothing(world: World) -> None:
    for partition in (0, 1):
        world.broker.produce("orders", {"id": str(partition)}, {"id": "a", "name": "x"}, partition, timestamp=-1)
    flush(world.open_session(PIPELINE))
    with pytest.raises(NothingToDo, match="it is not known yet"):
        read_completeness(world.open_session(PIPELINE), "lake.shop.orders")


def test_only_the_table_that_is_asked_for_is_read(world: World) -> None:
    """Each table has a task of its own: of fifty tables each run would read 2,500."""
    pipeline = build_pipeline(build_table("lake.shop.orders"), build_table("lake.shop.customers", topics=("orders",)))
    for partition in (0, 1):
        world.broker.produce("orders", {"id": "a"}, {"id": "a", "name": "x"}, partition, timestamp=compute_time(1))
    flush(world.open_session(pipeline))
    calls = list[str]()
    session = world.open_session(pipeline, hook=lambda call, moment: calls.append(call) if moment == "before" else None)
    assert read_completeness(session, "lake.shop.orders") == (compute_time(1), compute_time(1))
    assert calls.count("tables.read_state") == 1


def test_table_that_the_file_names_no_more_is_skipped_with_a_sentence(world: World) -> None:
    with pytest.raises(TableRemoved, match=r"table=lake\.shop\.gone is not in the file any more"):
        read_completeness(world.open_session(build_pipeline()), "lake.shop.gone")
