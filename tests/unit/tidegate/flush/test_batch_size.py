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
    choose_partitions,
    compute_batch_size,
    measure_bytes_per_record,
)
from tidegate.flush.flush import flush
from tidegate.flush.plan import plan
from tidegate.model.offsets import Ranges, cap_ranges
from tidegate.spec.pipeline import Merge, Pipeline

CONTROL = "lake.shop.tidegate_shop_batches"
MILLION = 1_000_000


def build_history_row(batch: int, records: int, size: int, **options: Any) -> dict[str, Any]:
    known = {"batch": batch, "read": records, "stage_seconds": 1.0, "seconds": 1.0, "staged_bytes": size}
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
    ("rows", "size"),
    [
        ([], None),
        ([build_history_row(1, 50_000, 50_000 * 100), build_history_row(2, 20_000, 20_000 * 300)], 300.0),
        ([build_history_row(1, 9_999, 10**9)], None),
        ([build_history_row(1, 50_000, 10**9, backfill="x 1/1")], None),
        ([build_history_row(1, 50_000, 10**7), build_history_row(1, 50_000, 5 * 10**6, table="lake.shop.copy")], 300.0),
        ([build_history_row(n, 20_000, 20_000) for n in range(2, 7)] + [build_history_row(1, 90_000, 10**9)], 1.0),
    ],
    ids=["none", "the widest batch", "a small batch", "a backfill", "two tables share a read", "the newest five"],
)
def test_bytes_of_a_record_are_those_of_the_newest_large_batches(
    world: World, rows: list[dict[str, Any]], size: float | None
) -> None:
    remember(world, *rows)
    assert measure_bytes_per_record(world.open_session(build_pipeline())) == size


def test_bytes_of_a_record_are_those_of_all_tables_of_a_batch(world: World) -> None:
    """Of the newest batch one table is published so far."""
    names = [f"lake.shop.t{number}" for number in range(60)]
    remember(world, *(build_history_row(1, 20_000, 40_000, table=name) for name in names))
    world.destination.control[CONTROL].append(build_history_row(2, 20_000, 40_000, table=names[0]))
    assert measure_bytes_per_record(world.open_session(build_pipeline(*map(build_table, names)))) == 120.0


def test_history_that_cannot_be_read_limits_nothing_and_is_told_in_one_line(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unreadable(*_: Any) -> None:
        raise OSError("gone")

    monkeypatch.setattr(world.destination, "read_history", unreadable)
    with caplog.at_level(logging.WARNING):
        assert measure_bytes_per_record(world.open_session(build_pipeline())) is None
    (record,) = caplog.records
    message = "history cannot be read, so batches have the cap of the pipeline file: pipeline=shop: gone"
    assert (record.getMessage(), record.exc_info) == (message, None)


@pytest.mark.parametrize(
    ("merge", "bytes_per_record", "backlog", "records", "is_told"),
    [
        ({}, None, 5 * MILLION, MILLION, False),
        ({}, 100.0, 5 * MILLION, MILLION, False),
        ({"max_bytes": 10**9}, 10_000.0, 5 * MILLION, 100_000, True),
        ({"max_bytes": 0}, 10_000.0, 5 * MILLION, MILLION, False),
        ({"max_bytes": 10**9}, 10.0**9, 5 * MILLION, MIN_BATCH_RECORDS, True),
        ({"max_records": 10}, 10.0**9, 5 * MILLION, 10, False),
        ({"max_bytes": 10**9}, 10_000.0, 90_000, 100_000, False),  # all that waits goes at once
    ],
)
def test_batch_takes_what_its_bytes_allow(
    merge: dict[str, Any], bytes_per_record: float | None, backlog: int, records: int, is_told: bool
) -> None:
    size = compute_batch_size(Merge(**merge), backlog, bytes_per_record)
    assert (size.records, "10000 bytes" in size.reason or "1000000000 bytes" in size.reason) == (records, is_told)


def test_plan_says_why_a_batch_is_smaller_than_it_may_be(world: World, few: None) -> None:
    remember(world, build_history_row(1, 50_000, 50_000 * 200))
    fill(world, 2 * MIN_BATCH_RECORDS)
    planned = plan(world.open_session(build_merge_pipeline(max_bytes=300_000)))
    assert planned.tables[0].ranges.span == 1500
    assert "200 bytes for each record" in planned.size_reason
    assert "merge.max_bytes=300000" in output.format_plan(planned)


def test_tables_in_step_stay_so(world: World, few: None) -> None:
    remember(world, build_history_row(1, 50_000, 50_000 * 200))
    fill(world, 2 * MIN_BATCH_RECORDS)
    pipeline = build_pipeline(build_table("lake.shop.orders"), build_table("lake.shop.copy"))
    planned = plan(world.open_session(replace(pipeline, merge=Merge(max_bytes=300_000))))
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
