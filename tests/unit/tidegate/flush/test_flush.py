"""A whole flush: the tables, the group's offsets and what is left behind, also when something on the way fails."""

import logging
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from examples import WALKS_OF_CALLS, choose_calls
from fakes import (
    BAD,
    CannotCleanUp,
    CannotRecord,
    Crash,
    CrashAt,
    FailsToMerge,
    PauseAt,
    World,
    build_pipeline,
    build_table,
)
from fakes.broker import MemoryBroker
from tidegate.errors import (
    BadRecord,
    NothingToDo,
    PositionLost,
    PublishedElsewhere,
    RetryLater,
    SomeTablesDelayed,
    TidegateError,
)
from tidegate.flush.clean_up import clean_up, list_tables_to_compact
from tidegate.flush.flush import flush
from tidegate.flush.heartbeat import commit_offsets, heartbeat
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage
from tidegate.monitoring.status import read_status

ORDERS, COPY = "lake.shop.orders", "lake.shop.copy"
TWO = build_pipeline(build_table(ORDERS), build_table(COPY))
GROUP = "tidegate-shop"


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders")
    produce(world, "a", "x")
    return world


def produce(world: World, key: object, name: str | None, partition: int = 0) -> None:
    value = None if name is None else {"id": key, "name": name}
    world.broker.produce("orders", {"id": key}, value, partition)


def read_committed_offsets(world: World) -> dict:
    return world.broker.groups.get(GROUP, {})


def test_flush_brings_rows_position_and_committed_offset_to_the_end_of_the_log(world: World) -> None:
    flushed = flush(world.open_session(build_pipeline()))
    assert [(b.table, b.inserted) for b in flushed.published] == [(ORDERS, 1)]
    assert world.read_rows(ORDERS) == [{"id": "a", "name": "x"}]
    assert read_committed_offsets(world) == {"orders": {0: 1, 1: 0}}


def test_flush_leaves_no_intermediate_row_snapshot_or_branch_behind(world: World) -> None:
    flush(world.open_session(build_pipeline()))
    intermediate = world.destination.tables["lake.shop.orders_shop_tmp"]
    assert (intermediate.read_rows(), len(intermediate.snapshots)) == ([], 1)
    assert not [name for name in intermediate.properties if name.startswith(("tidegate.counted.", "tidegate.staged."))]
    assert set(world.destination.tables[ORDERS].refs) == {"main", "tidegate_shop"}


def test_flush_writes_history(world: World) -> None:
    flush(world.open_session(build_pipeline()))
    (row,) = world.destination.read_history("lake.shop.tidegate_shop_batches", 10)
    assert (row["batch"], row["table"], row["span"], row["read"], row["inserted"]) == (1, ORDERS, 1, 1, 1)


def test_history_that_cannot_be_written_does_not_fail_the_flush(world: World, caplog) -> None:
    with caplog.at_level(logging.WARNING):
        flush(world.open_session(build_pipeline(), destination=CannotRecord(world.destination)))
    assert world.read_rows(ORDERS) == [{"id": "a", "name": "x"}]
    [line] = [line for line in caplog.text.splitlines() if "no history: pipeline=shop batch=1" in line]
    assert f"table={ORDERS}: the batch is published, its row of history is lost: permission denied" in line
    assert "Traceback" not in caplog.text


def test_clean_up_that_fails_does_not_fail_the_flush(world: World, caplog) -> None:
    with caplog.at_level(logging.WARNING):
        flush(world.open_session(build_pipeline(), destination=CannotCleanUp(world.destination)))
    assert read_committed_offsets(world) == {"orders": {0: 1, 1: 0}}
    assert "clean-up failed, the next run tries again: pipeline=shop table=lake.shop.orders batch=1" in caplog.text


def test_next_clean_up_removes_what_a_failed_one_left(world: World) -> None:
    flush(world.open_session(build_pipeline(), destination=CannotCleanUp(world.destination)))
    assert world.destination.tables["lake.shop.orders_shop_tmp"].read_rows() != []
    (report,) = clean_up(world.open_session(build_pipeline()))
    assert (report.published, world.destination.tables["lake.shop.orders_shop_tmp"].read_rows()) == (1, [])


def test_result_of_clean_up_has_the_keys_that_compact_and_people_read(world: World) -> None:
    """Airflow stores it between two tasks, and maybe between two versions."""
    flush(world.open_session(build_pipeline(), destination=CannotCleanUp(world.destination)))
    (report,) = clean_up(world.open_session(build_pipeline()))
    counts = {"batches": 1, "snapshots": 1, "files": 1}
    assert report.to_dict() == {"table": ORDERS, "published": 1, **counts, "measure": False, "branches": 0}
    fragmented_report = replace(report, needs_compaction=True)
    assert list_tables_to_compact([report.to_dict(), {**fragmented_report.to_dict(), "table": "other"}]) == ["other"]
    assert list_tables_to_compact([{"table": ORDERS, "published": 10, "batches": 1, "measure": True}]) == [ORDERS]


def test_clean_up_keeps_what_is_staged_and_not_published(world: World) -> None:
    pipeline = build_pipeline()
    flush(world.open_session(pipeline))
    produce(world, "b", "y")
    session = world.open_session(pipeline)
    (staged,) = stage(session, plan(session))
    clean_up(session)
    assert world.destination.list_staged("lake.shop.orders_shop_tmp", ORDERS) == [staged]


def test_clean_up_before_the_first_publish_removes_nothing(world: World) -> None:
    session = world.open_session(build_pipeline())
    stage(session, plan(session))
    before = world.destination.list_staged(f"{ORDERS}_shop_tmp", ORDERS)
    nothing = {"batches": 0, "snapshots": 0, "files": 0}
    assert [report.to_dict() for report in clean_up(session)] == [{"table": ORDERS, "published": None, **nothing}]
    assert world.destination.list_staged(f"{ORDERS}_shop_tmp", ORDERS) == before != []
    assert len(world.destination.tables["lake.shop.orders_shop_tmp"].read_rows()) == 1


def test_clean_up_of_a_table_that_was_rolled_back_cannot_see_its_failure_as_the_flushs(world: World) -> None:
    flush(world.open_session(build_pipeline()))
    world.destination.rollback(ORDERS, world.destination.tables[ORDERS].ancestors()[-1].id)
    (report,) = clean_up(world.open_session(build_pipeline()))
    assert report.failed is None


def test_skipped_flush_still_commits_the_published_offsets_again(world: World) -> None:
    flush(world.open_session(build_pipeline()))
    world.broker.groups.clear()  # the brokers forgot them after offsets.retention.minutes
    with pytest.raises(NothingToDo):
        flush(world.open_session(build_pipeline()))
    assert read_committed_offsets(world) == {"orders": {0: 1, 1: 0}}


def test_heartbeat_never_commits_beyond_what_is_published(world: World) -> None:
    flush(world.open_session(build_pipeline()))
    produce(world, "b", "y")
    assert heartbeat(world.open_session(build_pipeline())).committed == {"orders": {0: 1, 1: 0}}


def test_heartbeat_corrects_what_a_zombie_committed(world: World) -> None:
    flush(world.open_session(build_pipeline()))
    world.broker.commit(GROUP, {"orders": {0: 0, 1: 0}})
    heartbeat(world.open_session(build_pipeline()))
    assert read_committed_offsets(world) == {"orders": {0: 1, 1: 0}}


def test_heartbeat_advances_ignored_topics_to_their_end(world: World) -> None:
    world.broker.create("__debezium-heartbeat.shop")
    world.broker.produce("__debezium-heartbeat.shop", None, {"ts": 1})
    pipeline = build_pipeline(build_table(topics=()), source={"topics": ("orders", "__debezium-heartbeat.shop")})
    flush(world.open_session(pipeline))
    assert read_committed_offsets(world) == {"orders": {0: 1, 1: 0}, "__debezium-heartbeat.shop": {0: 1, 1: 0}}


def test_heartbeat_of_a_pipeline_that_never_published_commits_nothing(world: World) -> None:
    assert heartbeat(world.open_session(build_pipeline())).committed == {}
    assert read_committed_offsets(world) == {}


def test_partition_with_transaction_markers_alone_reaches_lag_zero(world: World) -> None:
    world.broker.transaction("orders", [({"id": "t"}, {"id": "t", "name": "z"})], ending="abort")
    flush(world.open_session(build_pipeline()))
    assert read_committed_offsets(world) == {"orders": {0: 3, 1: 0}}
    world.broker.transaction("orders", [({"id": "t"}, {"id": "t", "name": "z"})], ending="abort")
    flush(world.open_session(build_pipeline()))
    assert read_committed_offsets(world) == {"orders": {0: 5, 1: 0}}


def test_committed_offset_does_not_fall_back_behind_an_empty_batch(world: World) -> None:
    """The position follows an empty batch only at the next heartbeat; what the group reports must not go back."""
    flush(world.open_session(build_pipeline()))
    world.broker.transaction("orders", [({"id": "t"}, {"id": "t", "name": "z"})], ending="abort")
    for _ in range(3):
        with suppress(NothingToDo):
            flush(world.open_session(build_pipeline()))
        assert read_committed_offsets(world) == {"orders": {0: 3, 1: 0}}


def test_empty_batch_is_not_read_twice(world: World) -> None:
    flush(world.open_session(build_pipeline()))
    world.broker.transaction("orders", [({"id": "t"}, {"id": "t", "name": "z"})], ending="abort")
    flush(world.open_session(build_pipeline()))
    with pytest.raises(NothingToDo):
        flush(world.open_session(build_pipeline()))
    produce(world, "b", "y")
    flush(world.open_session(build_pipeline()))
    assert [stage.ranges.by_topic["orders"][0] for stage in world.engine.stages] == [(0, 1), (1, 3), (3, 4)]


def test_commit_without_any_position_is_nothing_to_do(world: World) -> None:
    with pytest.raises(NothingToDo):
        commit_offsets(world.open_session(build_pipeline()))


@pytest.mark.guard(
    "the low watermark",
    file="plugins/tidegate/table/watermark.py",
    text="    lowest = find_lowest(*(mark for _, mark in marks))\n",
    off="    lowest = dict(next((mark for _, mark in marks), {}))\n",
)
def test_group_gets_the_low_watermark_of_all_tables(world: World) -> None:
    engine = FailsToMerge(world.engine, COPY)
    engine.is_broken = False
    flush(world.open_session(TWO, engine=engine))
    produce(world, "b", "y")
    engine.is_broken = True
    with pytest.raises(SomeTablesDelayed):
        flush(world.open_session(TWO, engine=engine))
    assert read_committed_offsets(world) == {"orders": {0: 1, 1: 0}}


def test_failing_table_does_not_hold_up_the_other_and_the_run_is_red(world: World) -> None:
    with pytest.raises(SomeTablesDelayed, match=r"1 table failed:\nSpark failed in merge: table=lake.shop.copy"):
        flush(world.open_session(TWO, engine=FailsToMerge(world.engine, COPY)))
    assert world.read_rows(ORDERS) == [{"id": "a", "name": "x"}]
    assert world.read_rows(COPY) == []


def test_table_that_another_runner_published_first_hides_nothing_of_the_others(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    calls: list[str] = []

    def publish_copy(call: str, moment: str) -> None:
        if (call, moment) == ("engine.run", "before") and not calls:
            calls.append(call)
            with suppress(SomeTablesDelayed):
                flush(world.open_session(TWO, engine=FailsToMerge(world.engine, ORDERS)))

    result = flush(world.open_session(TWO, publish_copy))
    assert [(batch.table, batch.inserted) for batch in result.published] == [(ORDERS, 1)]
    assert re.search(f"another run published first; nothing needs repair: .*table={COPY}", caplog.text)
    assert world.read_rows(COPY) == world.read_rows(ORDERS) == [{"id": "a", "name": "x"}]
    assert read_committed_offsets(world) == {"orders": {0: 1, 1: 0}}


class GroupOfOthers:
    """Brokers at which another client commits to the pipeline's group, always just before the offsets are read back."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)

    def commit(self, group: str, offsets: Any, beat_ms: int | None = None) -> int | None:
        raise RetryLater(f"group={group}: another client commits to this group, or it has members")


def test_failed_table_is_told_although_the_group_is_in_other_hands_too(world: World) -> None:
    outside = {"engine": FailsToMerge(world.engine, COPY), "broker": GroupOfOthers(world.broker)}
    with pytest.raises(
        SomeTablesDelayed, match=r"1 table failed:\nSpark failed in merge: table=lake.shop.copy"
    ) as error_info:
        flush(world.open_session(TWO, **outside))
    assert [batch.table for batch in error_info.value.published] == [ORDERS]
    with pytest.raises(RetryLater, match="another client commits to this group"):
        flush(world.open_session(TWO, broker=GroupOfOthers(world.broker)))
    assert world.read_rows(COPY) == world.read_rows(ORDERS) == [{"id": "a", "name": "x"}]


def test_bad_record_is_told_although_the_group_is_in_other_hands_too(world: World, caplog) -> None:
    world.broker.produce("orders", {"id": "b"}, BAD)
    with pytest.raises(BadRecord, match="1 record cannot be decoded"):
        flush(world.open_session(build_pipeline(), broker=GroupOfOthers(world.broker)))
    assert "another client commits to this group" not in caplog.text, "nothing is published, so nothing is committed"
    flush(world.open_session(build_pipeline()), stop_offsets={"orders": {0: 1}})
    with pytest.raises(BadRecord, match="1 record cannot be decoded"):
        flush(world.open_session(build_pipeline(), broker=GroupOfOthers(world.broker)))
    assert "another client commits to this group" in caplog.text


def test_table_that_never_published_holds_the_group_back(world: World) -> None:
    """Nothing of `copy` is published: what the group reports must not say that its records are done."""
    with pytest.raises(SomeTablesDelayed):
        flush(world.open_session(TWO, engine=FailsToMerge(world.engine, COPY)))
    assert read_committed_offsets(world).get("orders", {}).get(0, 0) == 0


def test_next_flush_finishes_the_failed_table_without_reading_kafka_again(world: World) -> None:
    with pytest.raises(SomeTablesDelayed):
        flush(world.open_session(TWO, engine=FailsToMerge(world.engine, COPY)))
    stages = len(world.engine.stages)
    flush(world.open_session(TWO))
    assert world.read_rows(COPY) == world.read_rows(ORDERS) == [{"id": "a", "name": "x"}]
    assert len(world.engine.stages) == stages
    assert read_committed_offsets(world) == {"orders": {0: 1, 1: 0}}


def test_failed_table_catches_up_with_what_the_others_read_meanwhile(world: World) -> None:
    engine = FailsToMerge(world.engine, COPY)
    for name in ("x2", "x3"):
        with pytest.raises(SomeTablesDelayed):
            flush(world.open_session(TWO, engine=engine))
        produce(world, "a", name)
    for _ in range(3):
        flush_rest_too(world)
    assert world.read_rows(COPY) == world.read_rows(ORDERS) == [{"id": "a", "name": "x3"}]


def flush_rest_too(world: World) -> None:
    try:
        flush(world.open_session(TWO))
    except NothingToDo:
        return


def test_only_table_that_fails_fails_with_its_own_reason(world: World) -> None:
    with pytest.raises(RetryLater, match="Spark failed in merge"):
        flush(world.open_session(build_pipeline(), engine=FailsToMerge(world.engine, ORDERS)))


def test_bad_record_publishes_nothing_at_all(world: World) -> None:
    world.broker.produce("orders", {"id": "b"}, BAD)
    for _ in range(2):
        with pytest.raises(BadRecord, match="offset=1"):
            flush(world.open_session(TWO))
    assert (world.read_rows(ORDERS), read_committed_offsets(world)) == ([], {})


def test_capped_batches_reach_the_end(world: World) -> None:
    for n in range(9):
        produce(world, f"k{n}", "x")
    pipeline = build_pipeline(max_records=4)
    batches = [flush(world.open_session(pipeline)).published[0].batch for _ in range(3)]
    with pytest.raises(NothingToDo):
        flush(world.open_session(pipeline))
    assert (batches, len(world.read_rows(ORDERS))) == ([1, 2, 3], 10)


@pytest.mark.parametrize(
    ("mode", "rows"),
    [
        ("upsert_delete", [("b", "2")]),
        ("upsert", [("a", "1"), ("b", "2")]),
        ("delete", [("b", "1"), ("b", "2")]),
        ("append", [("a", "0"), ("a", "1"), ("b", "1"), ("b", "2")]),
    ],
)
@pytest.mark.parametrize("cap", [1, 2, 3, 100])
def test_result_does_not_depend_on_where_batches_are_cut(world: World, mode: str, rows: list, cap: int) -> None:
    world.broker.create("orders")
    for key, name in [("a", "0"), ("a", "1"), ("b", "1"), ("a", None), ("b", "2")]:
        produce(world, key, name)
    pipeline = build_pipeline(build_table(mode=mode), max_records=cap)
    for _ in range(6):
        try:
            flush(world.open_session(pipeline))
        except NothingToDo:
            break
    assert [(r["id"], r["name"]) for r in world.read_rows(ORDERS)] == rows


def test_null_in_a_composite_key_matches_itself(world: World) -> None:
    world.broker.create("orders")
    table = build_table(keys=("id", "part"))
    for name in ("1", "2", "3"):
        world.broker.produce("orders", {"id": "a", "part": None}, {"id": "a", "part": None, "name": name})
        flush(world.open_session(build_pipeline(table)))
    assert world.read_rows(ORDERS) == [{"id": "a", "part": None, "name": "3"}]


def test_tombstones_alone_make_a_table_and_reach_the_end(world: World) -> None:
    world.broker.create("orders")
    produce(world, "a", None)
    flush(world.open_session(build_pipeline()))
    assert (world.read_rows(ORDERS), read_committed_offsets(world)) == ([], {"orders": {0: 1, 1: 0}})


def test_ignored_tombstones_reach_lag_zero_in_upsert_only_tables(world: World) -> None:
    pipeline = build_pipeline(build_table(mode="upsert"))
    flush(world.open_session(pipeline))
    produce(world, "a", None)
    flush(world.open_session(pipeline))
    assert (world.read_rows(ORDERS), read_committed_offsets(world)) == (
        [{"id": "a", "name": "x"}],
        {"orders": {0: 2, 1: 0}},
    )


def test_compacted_topic_gives_the_same_table(world: World) -> None:
    for name in ("1", "2", None, "4"):
        produce(world, "a", name)
    world.broker.compact("orders")
    flush(world.open_session(build_pipeline()))
    assert (world.read_rows(ORDERS), read_committed_offsets(world)) == (
        [{"id": "a", "name": "4"}],
        {"orders": {0: 5, 1: 0}},
    )


def test_status_reads_everything_and_changes_nothing(world: World) -> None:
    flush(world.open_session(build_pipeline()))
    produce(world, "b", "y")

    def refuse_writes(call: str, moment: str) -> None:
        assert call.split(".")[1] not in {
            "commit",
            "run",
            "publish",
            "start_branch",
            "clean_up",
            "append_history",
            "seed",
        }

    status = read_status(world.open_session(build_pipeline(), refuse_writes))
    (table,) = status["tables"]
    partitions = [
        (partition["partition"], partition["lag"], partition["published"], partition["end"])
        for partition in status["partitions"]
    ]
    assert (status["lag"], partitions) == (1, [(0, 1, 1, 2), (1, 0, 0, 0)])
    assert (table["batch"], table["rows"], table["lag"], table["open_batches"]) == (1, 1, 1, [])
    assert status["batches"][0]["batch"] == 1


def test_status_counts_what_was_read_and_holds_no_rows_as_done(world: World) -> None:
    """The position follows later; lag would stay above 0 behind an aborted transaction until then."""
    flush(world.open_session(build_pipeline()))
    world.broker.transaction("orders", [({"id": "t"}, {"id": "t", "name": "z"})], ending="abort")
    assert read_status(world.open_session(build_pipeline()))["lag"] == 2
    flush(world.open_session(build_pipeline()))
    status = read_status(world.open_session(build_pipeline()))
    assert (status["lag"], status["partitions"][0]["lag"], status["partitions"][0]["committed"]) == (0, 0, 3)


def test_status_beside_a_flush_tells_of_no_log_cut_short(world: World) -> None:
    flush(world.open_session(build_pipeline()))

    def other_run(call: str, moment: str) -> None:
        if (call, moment) in (("tables.read_state", "before"), ("broker.read_log", "after")):
            produce(world, "b", "y")
            flush(world.open_session(build_pipeline()))

    status = read_status(world.open_session(build_pipeline(), other_run))
    assert [table["problem"] for table in status["tables"]] == [None]


def test_killed_at_any_call_of_a_flush_the_next_one_gives_the_same_table() -> None:
    """Protocol, what must hold: 1. Every call of every port, before and after it took effect."""
    expected = [{"id": "a", "name": "3"}, {"id": "c", "name": "1"}]
    crashes = 0
    for world, crash in iterate_crashes():
        crashes += 1
        assert (world.read_rows(ORDERS), world.read_rows(COPY)) == (expected, expected), f"killed {crash.at}"
        assert read_committed_offsets(world) == {"orders": {0: 6, 1: 0}}, f"killed {crash.at}"
    assert crashes > 60 // WALKS_OF_CALLS


def test_rubbish_of_a_killed_flush_is_removed_by_the_next_one_without_new_records() -> None:
    """A quiet topic may send nothing for weeks; the staged rows of its last batch must not wait for that."""
    for world, crash in iterate_crashes(first=4):
        for name in ("orders", "copy"):
            assert world.destination.tables[f"lake.shop.{name}_shop_tmp"].read_rows() == [], f"killed {crash.at}"
            assert len(world.destination.tables[f"lake.shop.{name}"].refs) == 2, f"killed {crash.at}"


def test_two_runners_at_any_interleaving_publish_once() -> None:
    """Protocol, what must hold: 2. One runner stands still at any call while another one runs a whole flush."""
    append = build_pipeline(build_table(mode="append"))
    for number in choose_calls(500):
        world = World()
        world.broker.create("orders")
        for name in ("1", "2"):
            produce(world, "a", name)
        pause = PauseAt(number, lambda world=world: flush_quietly(world, append))
        with suppress(NothingToDo, PublishedElsewhere, RetryLater):
            flush(world.open_session(append, pause))
        flush_quietly(world, append)
        assert [r["name"] for r in world.read_rows(ORDERS)] == ["1", "2"], f"paused at call {number}"
        if pause.calls < number:
            break
    assert number > 30


def build_changing_world() -> World:
    world = World()
    world.broker.create("orders")
    for key, name in [("a", "1"), ("b", "1"), ("a", "2")]:
        produce(world, key, name)
    flush(world.open_session(TWO))
    for key, name in [("a", "3"), ("b", None), ("c", "1")]:
        produce(world, key, name)
    return world


def flush_quietly(world: World, pipeline) -> None:
    try:
        flush(world.open_session(pipeline))
    except TidegateError:
        return


def iterate_crashes(first: int = 1) -> Iterator[tuple[World, CrashAt]]:
    """A world for each call at which its first flush was killed, when the flushes behind that one have ended."""
    for number in choose_calls(500, first):
        world, crash = build_changing_world(), CrashAt(number)
        try:
            flush(world.open_session(TWO, crash))
        except Crash:
            finish(world)
            yield world, crash
        else:
            return


def finish(world: World) -> None:
    """Flush until nothing is left; a repeated attempt may be needed once."""
    for _ in range(4):
        try:
            flush(world.open_session(TWO))
        except NothingToDo:
            return
        except RetryLater:
            continue
    raise AssertionError("the pipeline never came to rest")


@pytest.mark.guard(
    "the group does not pass a table that has not read a partition",
    file="plugins/tidegate/table/watermark.py",
    text=" for p, offset in lowest[topic].items() if p in known_partitions}",
    off=" for p, offset in lowest[topic].items()}",
)
def test_group_does_not_pass_a_table_that_has_not_read_a_new_partition_or_topic(world: World) -> None:
    """Of a partition that only the other table has read, nothing is published in all of them."""
    source = {"topics": (), "topic_pattern": "orders.*"}
    tables = (build_table(ORDERS, topics=()), build_table(COPY, topics=()))
    pipeline = build_pipeline(*tables, source=source, on_partition_growth="accept")
    flush(world.open_session(pipeline))
    world.broker.grow("orders", 3)
    world.broker.create("orders.more", 2)
    produce(world, "c", "y", 2)
    world.broker.produce("orders.more", {"id": "d"}, {"id": "d", "name": "y"}, 1)
    with pytest.raises(SomeTablesDelayed):
        flush(world.open_session(pipeline, engine=FailsToMerge(world.engine, COPY)))
    assert read_committed_offsets(world) == {"orders": {0: 1, 1: 0}}
    flush(world.open_session(pipeline))
    assert read_committed_offsets(world) == {"orders": {0: 1, 1: 0, 2: 1}, "orders.more": {0: 0, 1: 1}}


@pytest.mark.parametrize("several", [False, True], ids=["one table", "two tables, both refused"])
def test_pipeline_that_plan_refuses_keeps_its_groups_offsets_and_its_leftovers_go(world: World, several: bool) -> None:
    """It may stand still for weeks: brokers would forget the offsets, and a killed run's staged rows would stay."""
    pipeline = TWO if several else build_pipeline()
    flush(world.open_session(pipeline, destination=CannotCleanUp(world.destination)))
    assert world.destination.tables[f"{ORDERS}_shop_tmp"].read_rows() != []
    produce(world, "b", "y")
    produce(world, "c", "z")
    world.broker.retain_from("orders", 2)
    for _ in range(2):
        world.broker.groups.clear()
        with pytest.raises(PositionLost):
            flush(world.open_session(pipeline))
        assert read_committed_offsets(world) == {"orders": {0: 1, 1: 0}}
        for table in pipeline.tables:
            assert world.destination.tables[f"{table.name}_shop_tmp"].read_rows() == []
