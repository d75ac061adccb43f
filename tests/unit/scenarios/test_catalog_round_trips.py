"""What one flush asks of the catalog and the brokers: bounded, step by step, however long the tables live.

A higher number here is a slower flush for everybody: raise it only for something that a flush cannot do without.
"""

import pytest
from fakes import World, build_pipeline, build_table
from fakes.counted import Calls
from fakes.queueing import stage_behind
from tidegate.errors import NothingToDo
from tidegate.flush.flush import flush
from unit.tidegate.table.test_templated_tables import build_template
from unit.tidegate.table.test_templated_tables import produce as produce_kind

# calls of one flush with rows: those of the pipeline, and those of each table
MOST = {
    "plan": (1, 4),  # the log; position, what is staged, its highest number, and files that an earlier run has left
    # the ids of the topics, Spark, and the ids behind it; position, shape, both folders, counts, the batch
    "stage": (3, 6),
    "flush": (0, 1),  # the position, before a queue is drained
    "merge": (0, 11),  # five around Spark's statements, six to cut, to look at the head, and to publish
    "record_history": (0, 1),
    "commit_offsets": (2, 2),  # the ids of the topics, whose offsets may be another log's, the commit; position, staged
    "clean_up": (0, 3),  # position, batches, branches
    "heartbeat": (2, 2),
}
IDLE = {"plan": (1, 2), "clean_up": (0, 3), "heartbeat": (2, 2)}
TABLES = ("lake.shop.orders", "lake.shop.copy", "lake.shop.third")


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders")
    return world


def count_flush_calls(world: World, pipeline) -> Calls:
    """The calls of a flush."""
    with Calls().watch_calls() as calls:
        flush(world.open_session(pipeline, calls.count_call))
    return calls


def produce(world: World, name: str) -> None:
    world.broker.produce("orders", {"id": "a"}, {"id": "a", "name": name}, 0)


def compute_bounds(most: dict[str, tuple[int, int]], tables: int) -> dict[str, int]:
    return {step: per_flush + each * tables for step, (per_flush, each) in most.items()}


@pytest.mark.parametrize("tables", [1, 2, 3])
def test_flush_asks_a_fixed_number_of_times_for_each_table(world: World, tables: int) -> None:
    pipeline = build_pipeline(*(build_table(name) for name in TABLES[:tables]))
    most, totals = compute_bounds(MOST, tables), []
    for number in range(4):
        produce(world, str(number))
        totals.append(count_flush_calls(world, pipeline).totals)
    assert {step: number for step, number in totals[-1].items() if number > most[step]} == {}
    assert totals[1] == totals[2] == totals[3]


def test_batches_that_are_merged_as_one_enter_history_by_one_call(world: World) -> None:
    pipeline = build_pipeline()
    for number in range(3):
        produce(world, str(number))
        stage_behind(world, pipeline)
    calls = count_flush_calls(world, pipeline)
    assert calls.totals["record_history"] == 1
    session = world.open_session(pipeline)
    assert [row["batch"] for row in session.history.read_history(session.history_table, 9)] == [3, 2, 1]


def test_flush_without_work_reads_each_position_and_the_log(world: World) -> None:
    pipeline = build_pipeline()
    produce(world, "1")
    flush(world.open_session(pipeline))
    with Calls().watch_calls() as calls, pytest.raises(NothingToDo):
        flush(world.open_session(pipeline, calls.count_call))
    most = compute_bounds(IDLE, 1)
    assert {step: number for step, number in calls.totals.items() if number > most[step]} == {}


def count_listings(calls: Calls) -> dict[str, int]:
    """By step, how often a namespace was listed."""
    listings = {step: calls["tables.list_tables"] for step, calls in calls.by_step.items()}
    return {step: number for step, number in listings.items() if number}


def test_no_step_but_the_first_lists_a_namespace(world: World) -> None:
    """Records name the tables: they are looked for once in a flush, and once more when a batch names new ones."""
    for key, kind, listings in [("1", "order", 2), ("2", "line", 2), ("3", "order", 1), ("4", "line", 1)]:
        produce_kind(world, key, kind)
        assert count_listings(count_flush_calls(world, build_template())) == {"expand_template": listings}


def test_flush_without_a_template_lists_nothing(world: World) -> None:
    pipeline = build_pipeline(*(build_table(name) for name in TABLES))
    for number in range(2):
        produce(world, str(number))
        assert count_listings(count_flush_calls(world, pipeline)) == {}
