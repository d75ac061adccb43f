"""A batch is as large as what waits, within the pipeline's caps and by what the batches before it took."""

import logging
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from fakes import World, build_pipeline, build_table
from hypothesis import given
from hypothesis import strategies as st
from tidegate.cli import output
from tidegate.flush.batch_size import (
    MIN_BATCH_RECORDS,
    MeasuredThroughput,
    choose_partitions,
    compute_batch_size,
    measure_throughput,
)
from tidegate.flush.flush import flush
from tidegate.flush.plan import plan
from tidegate.model.offsets import Ranges, cap_ranges
from tidegate.spec.pipeline import Merge, Pipeline

CONTROL = "lake.shop.tidegate_shop_batches"
MILLION = 1_000_000


def build_history_row(
    batch: int, records: int, stage_seconds: float, seconds: float = 0.0, **options: Any
) -> dict[str, Any]:
    known = {"batch": batch, "read": records, "stage_seconds": stage_seconds, "seconds": seconds, "staged_bytes": 0}
    return {**known, "backfill": None, "table": "lake.shop.orders", "published_at_ms": batch, **options}


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders")
    return world


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """History is asked for a backlog that a test can make."""
    monkeypatch.setattr("tidegate.flush.batch_size.HISTORY_MIN_BACKLOG_RECORDS", MIN_BATCH_RECORDS)


def remember(world: World, *rows: dict[str, Any]) -> None:
    world.destination.control[CONTROL] = list(rows)


def build_merge_pipeline(**options: Any) -> Pipeline:
    return replace(build_pipeline(), merge=Merge(**options))


@pytest.mark.parametrize(
    ("rows", "rate"),
    [
        ([], None),
        ([build_history_row(1, 50_000, 100.0, 25.0)], 400.0),
        (
            [
                build_history_row(1, 50_000, 100.0),
                build_history_row(2, 60_000, 100.0),
                build_history_row(3, 10_000, 100.0),
            ],
            600.0,
        ),
        ([build_history_row(1, 50_000, 5.0, 4.9)], None),  # what every batch costs took the time
        ([build_history_row(1, 9_999, 100.0)], None),
        ([build_history_row(1, 50_000, 0.0, 100.0)], None),  # resumed: its staging was another run's
        ([build_history_row(1, 50_000, 100.0, backfill="x 1/1")], None),
        (
            [build_history_row(n, 20_000, 100.0) for n in range(2, 7)] + [build_history_row(1, 90_000, 100.0)],
            200.0,
        ),  # the newest five tell
    ],
)
def test_rate_is_that_of_the_fastest_of_the_newest_batches_that_tell(world: World, rows: list, rate: float) -> None:
    remember(world, *rows)
    assert measure_throughput(world.open_session(build_pipeline())).records_per_second == rate


def test_tables_share_a_batchs_read_and_its_merges_add_up(world: World) -> None:
    rows = [
        build_history_row(1, 50_000, 100.0, 50.0, staged_bytes=10_000_000),
        build_history_row(1, 50_000, 100.0, 50.0, staged_bytes=5_000_000),
    ]
    remember(world, rows[0], rows[1] | {"table": "lake.shop.copy"})
    assert measure_throughput(world.open_session(build_pipeline())) == MeasuredThroughput(250.0, 300.0)


def remember_tables(world: World, tables: int, batches: int, seconds: float) -> Pipeline:
    """The history of a pipeline of so many tables, whose merges took so long each."""
    names = [f"lake.shop.t{number}" for number in range(tables)]
    remember(
        world,
        *(
            build_history_row(batch, 50_000, 100.0, seconds, table=name, published_at_ms=1000 * batch + number)
            for batch in range(1, batches + 1)
            for number, name in enumerate(names)
        ),
    )
    return build_pipeline(*(build_table(name) for name in names))


@pytest.mark.parametrize("tables", [1, 2, 10, 12, 40, 100])
def test_batch_of_which_only_some_tables_rows_are_read_tells_no_rate(world: World, tables: int) -> None:
    """The merges of the others would not count, and the next batch would take a multiple of `merge.batch_time`."""
    pipeline = remember_tables(world, tables, batches=9, seconds=10.0)
    rate = measure_throughput(world.open_session(pipeline)).records_per_second
    assert rate == pytest.approx(50_000 / (100 + 10 * tables))


def test_table_that_catches_up_alone_makes_no_earlier_batch_look_fast(world: World) -> None:
    pipeline = remember_tables(world, 12, batches=9, seconds=10.0)
    for row in world.destination.control[CONTROL]:
        row["published_at_ms"] += 100_000 if row["table"] == "lake.shop.t0" else 0
    rate = measure_throughput(world.open_session(pipeline)).records_per_second
    assert rate == pytest.approx(50_000 / (100 + 10 * 12))


def test_the_fastest_batch_tells_the_rate_and_the_widest_one_the_bytes(world: World) -> None:
    remember(
        world,
        build_history_row(1, 50_000, 100.0, staged_bytes=50_000 * 100),
        build_history_row(2, 20_000, 100.0, staged_bytes=20_000 * 300),
        build_history_row(3, 30_000, 100.0, staged_bytes=30_000 * 200),
    )
    assert measure_throughput(world.open_session(build_pipeline())) == MeasuredThroughput(500.0, 300.0)


def test_history_that_cannot_be_read_limits_nothing_and_is_told_in_one_line(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unreadable(*_: Any) -> None:
        raise OSError("gone")

    monkeypatch.setattr(world.destination, "read_history", unreadable)
    with caplog.at_level(logging.WARNING):
        assert measure_throughput(world.open_session(build_pipeline())) == MeasuredThroughput()
    (record,) = caplog.records
    message = "history cannot be read, so batches have the cap of the pipeline file: pipeline=shop: gone"
    assert (record.getMessage(), record.exc_info) == (message, None)


@pytest.mark.parametrize(
    ("merge", "throughput", "backlog", "records", "reason"),
    [
        ({}, MeasuredThroughput(), 5 * MILLION, MILLION, ""),
        ({}, MeasuredThroughput(500.0), 5 * MILLION, 300_000, "500 records a second, and merge.batch_time=600s"),
        ({}, MeasuredThroughput(50_000.0), 5 * MILLION, MILLION, ""),
        (
            {"catch_up_records": 9 * MILLION},
            MeasuredThroughput(5_000.0),
            5 * MILLION,
            3 * MILLION,
            "5000 records a second",
        ),
        ({"batch_seconds": 0}, MeasuredThroughput(500.0), 5 * MILLION, MILLION, ""),
        (
            {"max_bytes": 10**9},
            MeasuredThroughput(500.0, 10_000.0),
            5 * MILLION,
            100_000,
            "10000 bytes for each record",
        ),
        ({"max_bytes": 0}, MeasuredThroughput(None, 10_000.0), 5 * MILLION, MILLION, ""),
        ({}, MeasuredThroughput(0.1), 5 * MILLION, MIN_BATCH_RECORDS, "0 records a second"),
        ({"max_records": 10}, MeasuredThroughput(0.1), 5 * MILLION, 10, ""),
        ({}, MeasuredThroughput(500.0), 200_000, 300_000, ""),  # all that waits goes at once: there is nothing to tell
    ],
)
def test_batch_takes_what_its_time_and_its_bytes_allow(
    merge: dict, throughput: MeasuredThroughput, backlog: int, records: int, reason: str
) -> None:
    size = compute_batch_size(World().open_session(build_merge_pipeline(**merge)), backlog, throughput)
    assert size.records == records
    assert reason in size.reason
    assert bool(reason) == bool(size.reason)


def test_plan_says_why_a_batch_is_smaller_than_it_may_be(world: World, few: None) -> None:
    remember(world, build_history_row(1, 50_000, 100.0))
    fill(world, 2 * MIN_BATCH_RECORDS)
    planned = plan(world.open_session(build_merge_pipeline(batch_seconds=3)))
    assert planned.tables[0].ranges.span == 1500
    assert "500 records a second" in planned.size_reason
    assert "merge.batch_time=3s" in output.format_plan(planned)


def test_tables_in_step_stay_so(world: World, few: None) -> None:
    remember(world, build_history_row(1, 50_000, 100.0))
    fill(world, 2 * MIN_BATCH_RECORDS)
    pipeline = build_pipeline(build_table("lake.shop.orders"), build_table("lake.shop.copy"))
    planned = plan(world.open_session(replace(pipeline, merge=Merge(batch_seconds=3))))
    first, second = (batch.ranges for batch in planned.tables)
    assert first == second == Ranges.from_dict({"orders": {"0": [0, 1500], "1": [0, 0]}})


def test_small_backlog_asks_no_history(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse_to_read(*_: Any) -> None:
        raise AssertionError("asked")

    monkeypatch.setattr(world.destination, "read_history", refuse_to_read)
    fill(world, 3)
    assert plan(world.open_session(build_pipeline())).size_reason == ""


def test_history_tells_what_staging_took_and_wrote(world: World) -> None:
    world.broker.produce("orders", {"id": "a"}, {"id": "a", "name": "x"}, 0)
    session = world.open_session(build_pipeline())
    slow = iter(range(0, 10**9, 1500))
    flush(replace(session, now_ms=lambda: next(slow)))
    (row,) = world.destination.read_history(CONTROL, 9)
    assert (row["stage_seconds"], row["staged_bytes"] > 0) == (1.5, True)


def fill(world: World, records: int) -> None:
    for number in range(records):
        world.broker.produce("orders", {"id": number}, None, 0)


@pytest.mark.parametrize("max_records", [1, 2, 3])
def test_batches_smaller_than_the_number_of_partitions_read_each_of_them_in_turn(max_records: int) -> None:
    """The other partitions get more records than a batch takes, as fast as they are read."""
    world = World()
    world.broker.create("orders", 2)
    world.broker.create("other", 3)
    pipeline = build_pipeline(build_table(topics=()), source={"topics": ("orders", "other")}, max_records=max_records)
    world.broker.produce("orders", {"id": "rare"}, {"id": "rare", "name": "x"}, partition=0)
    world.broker.produce("other", {"id": "seldom"}, {"id": "seldom", "name": "x"}, partition=2)
    for number in range(5):
        for topic, partition in [("orders", 1), ("other", 0), ("other", 1)]:
            for n in range(2):
                key = {"id": f"{topic}-{partition}-{number}-{n}"}
                world.broker.produce(topic, key, {**key, "name": "x"}, partition=partition)
        flush(world.open_session(pipeline))
    ids = {row["id"] for row in world.read_rows("lake.shop.orders")}
    assert {"rare", "seldom", "orders-1-0-0", "other-0-0-0", "other-1-0-0"} <= ids
    assert len(ids) == 5 * max_records


PARTITIONS = 7


@given(st.integers(0, 10**6))
def test_no_waiting_partition_is_passed_over_longer_than_one_round(seed: int) -> None:
    chance = Random(seed)
    begin = chance.randrange(1000)
    start, end = ({"t": dict.fromkeys(range(PARTITIONS), begin)} for _ in range(2))
    records_since_turn = dict.fromkeys(range(PARTITIONS), 0)
    for _ in range(30):
        for partition in range(PARTITIONS):
            end["t"][partition] += chance.randrange(3)
        cap = chance.randint(1, PARTITIONS)
        ranges = cap_ranges(start, choose_partitions(start, end, cap), cap)
        assert ranges.span == min(cap, sum(end["t"].values()) - sum(start["t"].values()))
        for _, partition, first, stop in ranges:
            waits = first == stop < end["t"][partition]
            records_since_turn[partition] = records_since_turn[partition] + ranges.span if waits else 0
        assert max(records_since_turn.values()) < 2 * PARTITIONS
        start = ranges.end


def test_partitions_take_turns_only_if_a_batch_cannot_read_all_of_them() -> None:
    start, end = {"t": {0: 5, 1: 5, 2: 5}}, {"t": {0: 5, 1: 6, 2: 90}}
    assert choose_partitions(start, end, 2) == end
    assert choose_partitions(start, end, 1) == {"t": {1: 6}}
    assert choose_partitions({"t": {0: 5, 1: 6, 2: 5}}, {"t": {0: 5, 1: 7, 2: 90}}, 1) == {"t": {1: 7}}
    assert choose_partitions({"t": {0: 5, 1: 7, 2: 5}}, {"t": {0: 5, 1: 8, 2: 90}}, 1) == {"t": {2: 90}}
