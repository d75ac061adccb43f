"""merge_direct: one job reads and merges, and what it cannot judge is staged; whoever comes between changes nothing."""

from collections.abc import Callable

import pytest
from fakes import FailsToMerge, World, build_pipeline, build_table
from fakes.orders import INTERMEDIATE, NAME, make_orders, read_orders, send_orders
from tidegate.errors import BadRecord, NothingToDo, PublishedElsewhere, RetryLater
from tidegate.model.batch import PublishedBatch, StagedBatch
from tidegate.model.position import Position
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.source import Errors
from tidegate.steps.flush import flush
from tidegate.steps.merge_queue import merge_queue
from tidegate.steps.plan import plan
from tidegate.steps.stage import stage

PIPELINE = build_pipeline(direct=True)
MARK = "tidegate.shop.staged-instead"


world = pytest.fixture(make_orders)


def plan_direct_batch(world: World, pipeline: Pipeline = PIPELINE) -> StagedBatch:
    ports = world.build_ports(pipeline)
    (batch,) = stage(ports, plan(ports))
    assert batch.direct
    return batch


def publish(world: World, batch: StagedBatch, pipeline: Pipeline = PIPELINE, **options) -> PublishedBatch:
    return merge_queue(world.build_ports(pipeline, **options), [batch]).total


def test_rows_position_and_counts_are_those_of_a_staged_batch_and_nothing_is_staged(world: World) -> None:
    orders = make_orders()
    for changes in ((), (("a", None), ("c", "1"), ("b", "2"))):
        send_orders(world, *changes)
        send_orders(orders, *changes)
        batch, two = flush(world.build_ports(PIPELINE)), flush(orders.build_ports(build_pipeline()))
        assert read_orders(world) == read_orders(orders)
        assert [(p.inserted, p.updated, p.deleted, p.staged) for p in batch.published] == [
            (p.inserted, p.updated, p.deleted, p.staged) for p in two.published
        ]
    assert read_orders(world) == {"b": "2", "c": "1"}
    assert INTERMEDIATE not in world.destination.tables
    assert (len(world.engine.direct), world.engine.stages) == (2, [])
    table, other_table = world.destination.tables[NAME], orders.destination.tables[NAME]
    properties = Position.from_properties("shop", table.properties)
    assert properties == Position.from_properties("shop", table.snapshots[table.refs["main"]].summary)
    assert properties is not None
    assert properties.offsets == {"orders": {0: 2, 1: 4}}
    assert properties.timestamps.keys() == {"orders"}
    assert properties.valid_through_ms is not None
    words = ("span", "read", "staged", "superseded", "batch")
    history_rows, expected = (list(w.destination.control["lake.shop.tidegate_shop_batches"]) for w in (world, orders))
    assert [[row[word] for word in words] for row in history_rows] == [
        [row[word] for word in words] for row in expected
    ]
    assert set(table.refs) == set(other_table.refs) == {"main", "tidegate_shop"}


def test_record_in_an_unusual_spelling_has_the_batch_staged_and_the_next_fifty(world: World) -> None:
    flush(world.build_ports(PIPELINE))
    world.engine.unusual = lambda row: row["value"] == {"id": "c", "name": "odd"}
    send_orders(world, ("c", "odd"), ("a", None))
    flush(world.build_ports(PIPELINE))
    assert read_orders(world) == {"b": "1", "c": "odd"}
    assert (len(world.engine.direct), len(world.engine.stages)) == (2, 1)
    assert world.destination.tables[NAME].properties[MARK].startswith("2 ")
    for number in range(3, 54):
        send_orders(world, ("c", str(number)))
        flush(world.build_ports(PIPELINE))
        assert len(world.engine.direct) == (2 if number <= 52 else 3), number
    assert read_orders(world) == {"b": "1", "c": "53"}


def test_bad_record_stops_the_batch_as_a_staged_one_does(world: World) -> None:
    flush(world.build_ports(PIPELINE))
    before = dict(world.destination.tables[NAME].refs), dict(world.destination.tables[NAME].properties)
    send_orders(world, ("c", "1"))
    world.broker.produce("orders", {"id": "d"}, "not JSON", 0)
    with pytest.raises(BadRecord, match=r"topic=orders partition=0 offset=1"):
        flush(world.build_ports(PIPELINE))
    assert (world.destination.tables[NAME].refs, world.destination.tables[NAME].properties) == before
    assert read_orders(world) == {"a": "2", "b": "1"}


def test_bad_record_that_may_be_set_aside_is(world: World) -> None:
    pipeline = build_pipeline(build_table(errors=Errors("all", 5)), direct=True)
    world.broker.produce("orders", {"id": "d"}, "not JSON", 0)
    flush(world.build_ports(pipeline))
    assert read_orders(world) == {"a": "2", "b": "1"}
    letters = world.destination.read_dead_letters("lake.shop.tidegate_shop_dead_letters", 9)
    assert (letters.waiting, letters.newest[0].offset) == (1, 1)


def test_batch_without_rows_waits_as_a_staged_one(world: World) -> None:
    pipeline = build_pipeline(build_table(mode="upsert"), direct=True)
    flush(world.build_ports(pipeline))
    snapshots = len(world.destination.tables[NAME].snapshots)
    send_orders(world, ("a", None))
    flush(world.build_ports(pipeline))
    assert read_orders(world) == {"a": "2", "b": "1"}
    assert len(world.destination.tables[NAME].snapshots) == snapshots
    assert len(world.destination.list_staged(INTERMEDIATE, NAME)) == 1


@pytest.mark.parametrize("stages", [False, True])
def test_retry_after_the_publish_publishes_nothing_twice(world: World, stages: bool) -> None:
    world.engine.unusual = lambda _: stages
    batch = plan_direct_batch(world)
    first = publish(world, batch)
    snapshots = len(world.destination.tables[NAME].snapshots)
    result = publish(world, batch)
    assert (first.outcome, result.outcome) == ("published", "already published")
    assert result.snapshot_id == first.snapshot_id
    assert len(world.destination.tables[NAME].snapshots) == snapshots
    assert len(world.destination.control["lake.shop.tidegate_shop_batches"]) == 1
    assert read_orders(world) == {"a": "2", "b": "1"}


def test_of_two_runners_one_publishes(world: World) -> None:
    flush(world.build_ports(PIPELINE))
    send_orders(world, ("c", "1"), ("a", None))
    direct_batch, other_batch = plan_direct_batch(world), plan_direct_batch(world)
    publish(world, direct_batch)
    with pytest.raises(PublishedElsewhere):
        publish(world, other_batch)
    assert read_orders(world) == {"b": "1", "c": "1"}
    assert set(world.destination.tables[NAME].refs) == {"main", "tidegate_shop"}
    assert [row["batch"] for row in world.destination.control["lake.shop.tidegate_shop_batches"]] == [1, 2]


MOMENTS = ("engine.run_direct", "commits.reparent", "commits.publish")


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("own", [False, True], ids=["a foreign writer", "another run of the pipeline"])
def test_whoever_comes_between_loses_no_row_and_doubles_none(world: World, moment: str, own: bool) -> None:
    flush(world.build_ports(PIPELINE))
    send_orders(world, ("c", "1"), ("a", None))
    calls: list[str] = []

    def meet(call: str, call_moment: str) -> None:
        if (call, call_moment) == (moment, "before") and not calls:
            calls.append(call)
            if own:
                flush(world.build_ports(PIPELINE))
            else:
                world.destination.append_foreign_rows(NAME, {"id": "z", "name": "theirs"})

    batch = plan_direct_batch(world)
    ports = world.build_ports(PIPELINE, meet)
    if own:
        with pytest.raises(PublishedElsewhere):
            _ = merge_queue(ports, [batch]).total
    else:
        _ = merge_queue(ports, [batch]).total
    assert calls == [moment]
    assert read_orders(world) == {"b": "1", "c": "1"} | ({} if own else {"z": "theirs"})
    assert set(world.destination.tables[NAME].refs) == {"main", "tidegate_shop"}
    with pytest.raises(NothingToDo):
        flush(world.build_ports(PIPELINE))


def test_failed_merge_leaves_no_branch_and_the_next_flush_takes_more(world: World) -> None:
    flush(world.build_ports(PIPELINE))
    send_orders(world, ("c", "1"))
    with pytest.raises(RetryLater, match="Spark failed in merge"):
        flush(world.build_ports(PIPELINE, engine=FailsToMerge(world.engine, NAME)))
    assert set(world.destination.tables[NAME].refs) == {"main", "tidegate_shop"}
    send_orders(world, ("c", "2"))
    (published,) = flush(world.build_ports(PIPELINE)).published
    assert (published.batch, published.ranges.span, read_orders(world)) == (2, 2, {"a": "2", "b": "1", "c": "2"})


def _lose_counts(world: World) -> None:
    run = world.engine.run_direct
    world.engine.run_direct = lambda job: type(run(job))(None)  # type: ignore[method-assign]


def _lose_a_record(world: World) -> None:
    run = world.engine.run_direct

    def count_less(job):
        outcome = run(job)
        return type(outcome)(type(outcome.stage_outcome)(**{**vars(outcome.stage_outcome), "staged": 1}))

    world.engine.run_direct = count_less  # type: ignore[method-assign]


@pytest.mark.parametrize(("loss", "tries"), [(_lose_counts, 3), (_lose_a_record, 1)])
def test_counts_that_are_lost_or_do_not_add_up_have_the_batch_staged(
    world: World, loss: Callable[[World], None], tries: int
) -> None:
    loss(world)
    flush(world.build_ports(PIPELINE))
    assert read_orders(world) == {"a": "2", "b": "1"}
    assert (len(world.engine.direct), len(world.engine.stages)) == (tries, 1)
    assert world.destination.tables[NAME].properties[MARK].startswith("1 ")
