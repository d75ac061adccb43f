"""The file leads to other tables of the pipeline's own than its first flush has made: what waits there is not lost."""

import json
from dataclasses import replace

import pytest
from fakes import BAD, FailsToMerge, World, build_pipeline, build_table
from fakes.orders import NAME, make_orders, read_orders, send_orders
from tidegate.errors import GiveUp, NothingToDo, TidegateError
from tidegate.flush.flush import flush
from tidegate.flush.heartbeat import heartbeat
from tidegate.flush.merge_queue import merge_queue
from tidegate.flush.plan import plan
from tidegate.merge.owed import ALL_LETTERS
from tidegate.monitoring.status import read_status
from tidegate.reprocess.backfill_plan import parse_request, propose_backfill
from tidegate.reprocess.discard import propose_discards
from tidegate.reprocess.rebase import propose_moves, propose_rebase, rebase_position
from tidegate.reprocess.replay import replay_dead_letters
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.source import Errors
from unit.tidegate.table.test_templated_tables import build_template, produce, read_keys

COPY = "lake.shop.Copy"
PIPELINE = build_pipeline(build_table(), build_table(COPY))
ERRORS = Errors("all")
ORDERS, SALES = (build_table(name, errors=ERRORS) for name in ("lake.shop.orders", "lake.sales.Orders"))
REFUSED = (
    "its staged batches, dead letters and history lie where the file does not look: {words}; set it back: name a table "
    "of that namespace first in the file, and that merge.intermediate_suffix; or, when no dead letter waits there, go "
    "on from the same offsets with new tables: tidegate rebase shop --to '{{}}'"
)
SUFFIX_WORDS = "tidegate.shop.intermediate-suffix=_tmp and the file says _stg"
HOME_WORDS = "tidegate.shop.home=lake.shop and the file says lake.sales"


def rename(pipeline: Pipeline, suffix: str = "_stg") -> Pipeline:
    return replace(pipeline, merge=replace(pipeline.merge, intermediate_suffix=suffix))


def flush_all(world: World, pipeline: Pipeline) -> None:
    while True:
        try:
            flush(world.open_session(pipeline))
        except NothingToDo:
            return


def read_copy(world: World) -> dict[str, str]:
    return {row["id"]: row["name"] for row in world.read_rows(COPY)}


def read_destinations(world: World) -> dict[str, dict[str, int]]:
    tables = world.destination.tables.items()
    return {name: dict(table.refs) for name, table in tables if not name.endswith(("_tmp", "_stg"))}


def refuse(world: World, pipeline: Pipeline, words: str) -> None:
    """Neither a flush nor a heartbeat changes a table or an offset, and status says why."""
    before = read_destinations(world)
    with pytest.raises(GiveUp) as refusal:
        flush(world.open_session(pipeline))
    assert REFUSED.format(words=words) in str(refusal.value)
    problems = {table["problem"] for table in read_status(world.open_session(pipeline))["tables"]}
    assert problems == {str(refusal.value)}
    committed = json.dumps(world.broker.groups)
    heartbeat(world.open_session(pipeline))
    assert json.dumps(world.broker.groups) == committed
    assert read_destinations(world) == before


@pytest.fixture
def world() -> World:
    """Of two tables one cannot be merged: two batches of two partitions wait for it."""
    orders = make_orders()
    for _ in range(2):
        with pytest.raises(TidegateError):
            flush(orders.open_session(PIPELINE, engine=FailsToMerge(orders.engine, COPY)))
        send_orders(orders, ("a", "3"), ("c", "1"))
    return orders


@pytest.mark.guard(
    "a file that leads to other tables of the pipeline's own is refused by every plan",
    file="plugins/tidegate/table/observed_table.py",
    text="            check_home(table)\n",
    off="            pass\n",
)
def test_batches_that_wait_under_another_suffix_are_not_forgotten(world: World) -> None:
    for _ in range(2):
        refuse(world, rename(PIPELINE), SUFFIX_WORDS)
    stages = len(world.engine.stages)
    flush_all(world, PIPELINE)
    assert read_copy(world) == read_orders(world) == {"a": "3", "b": "1", "c": "1"}
    assert len(world.engine.stages) == stages + 1, "of what came after; what was staged is not read again"
    send_orders(world, ("b", None))
    with pytest.raises(TidegateError):
        flush(world.open_session(PIPELINE, engine=FailsToMerge(world.engine, COPY)))
    for partition in (0, 1):  # nothing but the staged batch has the delete any more
        world.broker.retain_from("orders", world.broker.partitions["orders"][partition].end, partition)
    refuse(world, rename(PIPELINE), SUFFIX_WORDS)
    flush_all(world, PIPELINE)
    assert read_copy(world) == read_orders(world) == {"a": "3", "c": "1"}


def test_rebase_to_the_same_offsets_goes_on_under_the_new_suffix_and_reads_staged_records_again(world: World) -> None:
    flush_all(world, PIPELINE)
    send_orders(world, ("b", "9"), ("c", None))
    with pytest.raises(TidegateError):
        flush(world.open_session(PIPELINE, engine=FailsToMerge(world.engine, COPY)))
    renamed = rename(PIPELINE)
    moves = propose_moves(world.open_session(renamed), "{}")
    assert [move.last_unpublished_batch for move in moves] == [0, moves[1].after.batch]
    for move in moves:
        rebase_position(world.open_session(renamed), move, "ann")
    flush_all(world, renamed)
    assert read_copy(world) == read_orders(world) == {"a": "3", "b": "9"}
    refuse(world, PIPELINE, "tidegate.shop.intermediate-suffix=_stg and the file says _tmp")
    propose_rebase(world.open_session(PIPELINE), "{}").perform("ann")
    assert not list_resumed(world, PIPELINE), "no batch of before the moves is published"
    send_orders(world, ("b", "10"))
    flush_all(world, PIPELINE)
    assert read_copy(world) == read_orders(world) == {"a": "3", "b": "10"}


def list_resumed(world: World, pipeline: Pipeline) -> list[str]:
    try:
        return [batch.table for batch in plan(world.open_session(pipeline)).tables if batch.is_resumed]
    except NothingToDo:
        return []


@pytest.mark.guard(
    "a publish of a file that has changed since is refused",
    file="plugins/tidegate/merge/attempt.py",
    text="            check_home(attempt.table)\n",
    off="            pass\n",
)
def test_file_that_changes_between_stage_and_merge_publishes_nothing(world: World) -> None:
    flush_all(world, PIPELINE)
    send_orders(world, ("a", "4"), ("b", "4"))
    with pytest.raises(TidegateError):
        flush(world.open_session(PIPELINE, engine=FailsToMerge(world.engine, COPY)))
    staged = world.open_session(PIPELINE).staging.list_staged(f"{COPY}_shop_tmp", COPY)[-1:]
    moved = build_pipeline(build_table("lake.sales.orders"), build_table(COPY))
    result = merge_queue(world.open_session(moved), staged)
    assert HOME_WORDS in str(result.failure)
    assert read_copy(world)["a"] == "3"
    flush_all(world, PIPELINE)
    assert read_copy(world) == read_orders(world) == {"a": "4", "b": "4", "c": "1"}


def test_table_that_only_a_staged_batch_tells_of_is_not_lost_with_its_name() -> None:
    """The names of the batch count as read: no later record would bring these rows in."""
    world, pipeline = World(), build_template()
    world.broker.create("orders")
    for number, kind in enumerate(("order", "line")):
        produce(world, str(number), kind)
    with pytest.raises(TidegateError):
        flush(world.open_session(pipeline, engine=FailsToMerge(world.engine, "lake.shop.line")))
    refuse(world, rename(pipeline), SUFFIX_WORDS)
    assert (read_keys(world, "order"), read_keys(world, "line")) == (["0"], [])
    flush_all(world, pipeline)
    assert (read_keys(world, "order"), read_keys(world, "line")) == (["0"], ["1"])


@pytest.mark.parametrize("moved", [build_pipeline(SALES, ORDERS), build_pipeline(SALES)], ids=["reordered", "removed"])
def test_dead_letters_beside_another_first_table_are_not_forgotten(moved: Pipeline) -> None:
    world, pipeline = World(), build_pipeline(ORDERS, SALES)
    world.broker.create("orders", 2)
    for partition in (0, 1):
        world.broker.produce("orders", {"id": f"bad-{partition}"}, BAD, partition)
        world.broker.produce("orders", {"id": f"good-{partition}"}, {"id": f"good-{partition}", "name": "x"}, partition)
    flush(world.open_session(pipeline))
    world.broker.produce("orders", {"id": "more"}, BAD, 0)
    request = parse_request('{"orders": {"0": [0, 1], "1": [0, 2]}}', None, None)
    for _ in range(2):
        refuse(world, moved, HOME_WORDS)
        session = world.open_session(moved)
        for attempt in (replay_dead_letters, lambda session: propose_discards(session, ALL_LETTERS)):
            with pytest.raises(GiveUp, match=HOME_WORDS):
                attempt(session)
        with pytest.raises(GiveUp, match=HOME_WORDS):
            propose_backfill(session, request)
    flush_all(world, pipeline)
    world.engine.fixed_values |= {0: {"id": "bad", "name": "fixed"}}
    assert [result.tried for result in replay_dead_letters(world.open_session(pipeline))] == [3, 3]
    session = world.open_session(moved)
    propose_rebase(session, "{}").perform("ann")
    world.broker.produce("orders", {"id": "last"}, {"id": "last", "name": "y"}, 1)
    flush_all(world, moved)
    assert "last" in {row["id"] for row in world.read_rows(SALES.name)}


def test_first_batch_that_was_never_published_is_staged_again_under_the_new_suffix() -> None:
    world, pipeline = make_orders(), build_pipeline()
    with pytest.raises(TidegateError):
        flush(world.open_session(pipeline, engine=FailsToMerge(world.engine, NAME)))
    flush_all(world, rename(pipeline))
    assert read_orders(world) == {"a": "2", "b": "1"}
    refuse(world, pipeline, "tidegate.shop.intermediate-suffix=_stg and the file says _tmp")
