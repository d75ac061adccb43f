"""`merge.intermediate_suffix` changes while batches are staged: they are not forgotten, and the way out is told."""

from contextlib import suppress
from dataclasses import replace

import pytest
from fakes import BAD, CrashAt, FailsToMerge, World, build_pipeline, build_table
from fakes.clock import Crash
from fakes.orders import NAME, make_orders, read_orders, send_orders
from tidegate.errors import GiveUp, NothingToDo, SomeTables, TidegateError
from tidegate.flush.clean_up import clean_up
from tidegate.flush.flush import flush
from tidegate.flush.plan import plan
from tidegate.monitoring.status import read_status
from tidegate.reprocess.backfill import apply_backfill, apply_slice, read_open_backfills
from tidegate.reprocess.backfill_plan import parse_request, propose_backfill
from tidegate.reprocess.rebase import propose_moves, rebase_positions
from tidegate.reprocess.replay import replay_dead_letters
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.source import Errors
from unit.tidegate.table.test_templated_tables import build_template, produce, read_keys

COPY, LETTERS = "lake.shop.copy", "lake.shop.tidegate_shop_dead_letters"
BEFORE = build_pipeline(build_table(), build_table(COPY))
FORMER, CURRENT = f"{COPY}_shop_tmp", f"{COPY}_shop_stg"


def rename(pipeline: Pipeline, suffix: str = "_stg") -> Pipeline:
    return replace(pipeline, merge=replace(pipeline.merge, intermediate_suffix=suffix))


AFTER = rename(BEFORE)
MESSAGE = (
    f"pipeline=shop table={COPY}: batches=2 are staged in {FORMER} and not published, and merge.intermediate_suffix is "
    "_stg now: nothing new is read for this table, so that they are not forgotten; set merge.intermediate_suffix: _tmp "
    "again, flush until they are published, and change it then"
)


@pytest.fixture
def world() -> World:
    """Of two tables one cannot be merged: two batches of two partitions wait for it."""
    orders = make_orders()
    engine = FailsToMerge(orders.engine, COPY)
    for _ in range(2):
        with pytest.raises(TidegateError):
            flush(orders.build_ports(BEFORE, engine=engine))
        send_orders(orders, ("a", "3"), ("c", "1"))
    return orders


def read_copy(world: World) -> dict[str, str]:
    return {row["id"]: row["name"] for row in world.read_rows(COPY)}


def flush_all(world: World, pipeline: Pipeline) -> None:
    while True:
        try:
            flush(world.build_ports(pipeline))
        except NothingToDo:
            return


def list_staged_warnings(world: World, pipeline: Pipeline) -> list[str]:
    return [warning for warning in read_status(world.build_ports(pipeline))["warnings"] if "staged" in warning]


def test_staged_batches_of_the_former_suffix_hold_their_table_back_until_it_is_set_again(world: World) -> None:
    planned = plan(world.build_ports(AFTER))
    assert [(refusal.table, refusal.message) for refusal in planned.refusals] == [(COPY, MESSAGE)]
    with pytest.raises(SomeTables, match=r"set merge.intermediate_suffix: _tmp again"):
        flush(world.build_ports(AFTER))
    assert (read_orders(world), read_copy(world)) == ({"a": "3", "b": "1", "c": "1"}, {})
    assert (list_staged_warnings(world, AFTER), list_staged_warnings(world, BEFORE)) == ([MESSAGE], [])
    stages = len(world.engine.stages)
    flush_all(world, BEFORE)
    assert read_copy(world) == read_orders(world) == {"a": "3", "b": "1", "c": "1"}
    assert len(world.engine.stages) == stages + 1  # of what came after; what was staged is not read again
    send_orders(world, ("b", None))
    flush_all(world, AFTER)
    assert read_copy(world) == read_orders(world) == {"a": "3", "c": "1"}
    assert {FORMER, f"{NAME}_shop_tmp"}.isdisjoint(world.destination.tables)
    assert {CURRENT, f"{NAME}_shop_stg"} <= world.destination.tables.keys()


def test_records_that_expired_since_are_not_skipped_though_they_are_staged(world: World) -> None:
    """Without the staged batches the table lacks these records, and a rebase behind them would be the way out."""
    flush_all(world, BEFORE)
    send_orders(world, ("a", "4"), ("b", "4"))
    with pytest.raises(TidegateError):
        flush(world.build_ports(BEFORE, engine=FailsToMerge(world.engine, COPY)))
    for partition in (0, 1):
        world.broker.retain_from("orders", world.broker.partitions["orders"][partition].end, partition)
    with pytest.raises(SomeTables, match=r"batches=1 are staged in lake.shop.copy_shop_tmp and not published"):
        plan(world.build_ports(AFTER))
    flush_all(world, BEFORE)
    assert read_copy(world) == {"a": "4", "b": "4", "c": "1"}


def test_batch_of_a_former_suffix_is_not_published_behind_a_rebase(world: World) -> None:
    flush_one = [move for move in propose_moves(world.build_ports(AFTER), "earliest") if move.table.name == NAME]
    assert flush_one[0].last_unpublished_batch == 0
    flush_all(world, BEFORE)
    engine = FailsToMerge(world.engine, COPY)
    send_orders(world, ("b", "9"))
    with pytest.raises(TidegateError):
        flush(world.build_ports(BEFORE, engine=engine))
    moves = [move for move in propose_moves(world.build_ports(AFTER), "earliest") if move.table.name == COPY]
    assert moves[0].last_unpublished_batch == moves[0].after.batch == 4
    rebase_positions(world.build_ports(AFTER), moves)
    assert not [table for table in plan(world.build_ports(BEFORE)).tables if table.is_resumed and table.table == COPY]
    flush_all(world, AFTER)
    assert read_copy(world) == read_orders(world) == {"a": "3", "b": "9", "c": "1"}


def test_table_that_only_a_staged_batch_tells_of_is_not_lost_with_its_name() -> None:
    """The names of the batch count as read: no later record would bring these rows in."""
    world, pipeline = World(), build_template()
    world.broker.create("orders")
    for number, kind in enumerate(("order", "line")):
        produce(world, str(number), kind)
    with pytest.raises(TidegateError):
        flush(world.build_ports(pipeline, engine=FailsToMerge(world.engine, "lake.shop.line")))
    for _ in range(2):
        with suppress(NothingToDo), pytest.raises(GiveUp, match=r"table=lake.shop.line: batches=1 are staged in"):
            flush(world.build_ports(rename(pipeline)))
    assert (read_keys(world, "order"), read_keys(world, "line")) == (["0"], [])
    flush_all(world, pipeline)
    assert (read_keys(world, "order"), read_keys(world, "line")) == (["0"], ["1"])


def test_open_backfill_goes_on_under_the_new_suffix_and_leaves_no_table() -> None:
    world = make_orders()
    pipeline = build_pipeline(build_table(), build_table(COPY), max_records=2)
    flush_all(world, pipeline)
    request = parse_request('{"orders": {"0": [0, 1], "1": [0, 2]}}', None, None)
    planned = propose_backfill(world.build_ports(pipeline), request).backfill
    apply_slice(world.build_ports(pipeline), planned, 2)
    ports = world.build_ports(rename(pipeline))
    assert propose_backfill(ports, request).backfill == planned
    apply_backfill(ports, planned, lambda _: None)
    assert read_open_backfills(ports) == {}
    assert not [name for name in world.destination.tables if "_backfill_" in name]
    assert read_orders(world) == read_copy(world) == {"a": "2", "b": "1"}


def test_dead_letters_that_wait_for_their_topic_are_sent_before_the_former_table_goes() -> None:
    world = make_orders()
    pipeline = build_pipeline(build_table(errors=Errors("all", 9, "broken")))
    world.broker.create("broken", 1)
    for partition in (0, 1):
        world.broker.produce("orders", {"id": f"bad{partition}"}, BAD, partition)

    def refuse(call: str, moment: str) -> None:
        if (call, moment) == ("broker.send", "before"):
            raise GiveUp("no right to write")

    flush(world.build_ports(pipeline, refuse))
    assert [report.failed is None for report in clean_up(world.build_ports(pipeline, refuse))] == [False]
    send_orders(world, ("a", "3"))
    flush_all(world, rename(pipeline))
    assert len(world.broker.sent_messages) == 2
    assert f"{NAME}_shop_tmp" not in world.destination.tables


def test_former_table_that_may_not_be_dropped_holds_up_no_batch(caplog: pytest.LogCaptureFixture) -> None:
    world, former = make_orders(), f"{NAME}_shop_tmp"
    flush_all(world, build_pipeline())

    def refuse(call: str, moment: str) -> None:
        if (call, moment) == ("staging.drop", "before"):
            raise GiveUp("403 forbidden")

    send_orders(world, ("a", "3"))
    flush(world.build_ports(rename(build_pipeline()), refuse))
    assert read_orders(world) == {"a": "3", "b": "1"}
    messages = [record.getMessage() for record in caplog.records if "by hand" in record.getMessage()]
    assert messages == [
        f"pipeline=shop table={former}: the staged rows of a former merge.intermediate_suffix are published, and were "
        "not dropped: 403 forbidden; drop the table by hand"
    ]


@pytest.mark.parametrize("pipeline_name", ["shop_x", "shopx"])
def test_table_of_a_pipeline_with_a_longer_name_is_none_of_a_former_suffix(pipeline_name: str) -> None:
    world = make_orders()
    with pytest.raises(TidegateError):
        flush(world.build_ports(build_pipeline(name=pipeline_name), engine=FailsToMerge(world.engine, NAME)))
    flush(world.build_ports(build_pipeline()))
    assert read_orders(world) == {"a": "2", "b": "1"}
    assert f"{NAME}_{pipeline_name}_tmp" in world.destination.tables


@pytest.mark.parametrize("mode", ["append", "upsert_delete"])
def test_replay_that_was_killed_under_the_former_suffix_is_ended_and_leaves_no_table(mode: str) -> None:
    """Each letter comes in once, wherever the replay ended: what it has published is known from its table alone."""
    errors, number, published = Errors("all", 9), 0, 0
    pipeline = build_pipeline(build_table(mode=mode, errors=errors), source={"errors": errors})
    while True:
        world = World()
        world.broker.create("orders", 2)
        for partition, key in enumerate("ab"):
            world.broker.produce("orders", {"id": key}, BAD, partition)
        flush(world.build_ports(pipeline))
        world.engine.fixed_values |= {0: {"id": "a", "name": "1"}}
        number += 1
        crash = CrashAt(number)
        with suppress(Crash):
            replay_dead_letters(world.build_ports(pipeline, crash))
            break
        published += bool(world.read_rows(NAME))
        for _ in range(2):
            replay_dead_letters(world.build_ports(rename(pipeline)))
        assert len(world.read_rows(NAME)) == len(world.read_rows(f"{LETTERS}")), number
        assert not [row for row in world.read_rows(LETTERS) if row["replayed_at"] is None], number
        assert not [name for name in world.destination.tables if "_backfill_replay" in name], number
    assert 0 < published < number
