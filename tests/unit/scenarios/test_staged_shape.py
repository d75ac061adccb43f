"""A batch that was staged under another pipeline file is not merged under this one."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest
from fakes import World, build_pipeline, build_table
from tidegate.errors import GiveUp, NothingToDo, PositionLost, SomeTablesFailed
from tidegate.flush.flush import flush, stage_new_batches
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage
from tidegate.model.batch import PlanScope
from tidegate.monitoring.status import read_status
from tidegate.reprocess.rebase import propose_rebase
from tidegate.schema.data_types import Column
from tidegate.spec.pipeline import Pipeline, RiskPolicy, Stage
from tidegate.spec.source import Start, StartKind

ORDERS, LOG = "lake.shop.Orders", "lake.shop.log"
WIDER = (Column("id", "STRING"), Column("name", "STRING"), Column("colour", "STRING"))


def test_batch_staged_before_a_column_was_added_is_staged_again_with_it() -> None:
    world, before, after = World(), build_pipeline(), build_pipeline(build_table(columns=WIDER))
    world.broker.create("orders")
    world.broker.produce("orders", {"id": "a"}, {"id": "a", "name": "x", "colour": "red"})
    stage(world.open_session(before), plan(world.open_session(before)))
    assert plan(world.open_session(before)).tables[0].is_resumed
    assert not plan(world.open_session(after)).tables[0].is_resumed
    flush(world.open_session(after))
    assert world.read_rows("lake.shop.orders") == [{"id": "a", "name": "x", "colour": "red"}]


def build(*, wider: bool = False) -> Pipeline:
    """Two tables of one topic; only one of them gets another column."""
    orders = build_table(ORDERS, columns=WIDER) if wider else build_table(ORDERS)
    return build_pipeline(orders, build_table(LOG, "append"), stage=Stage(10))


def produce(world: World, *keys: str) -> None:
    """One record of each key in both partitions."""
    for key in keys:
        for partition in (0, 1):
            world.broker.produce(
                "orders", {"id": f"{key}{partition}"}, {"id": f"{key}{partition}", "name": key}, partition
            )


def lose_all(world: World) -> None:
    for partition in (0, 1):
        world.broker.retain_from("orders", world.broker.partitions["orders"][partition].end, partition)


def stage_and_lose(world: World, *keys: str) -> None:
    """The records of these keys are staged, and Kafka deletes them before anything is merged."""
    produce(world, *keys)
    stage_new_batches(world.open_session(build()))
    lose_all(world)


def drain(world: World, pipeline: Pipeline) -> None:
    with suppress(NothingToDo):
        for _ in range(10):
            world.clock.tick(600_000)
            flush(world.open_session(pipeline))


def read_ids(world: World, table: str) -> list[str]:
    return sorted(row["id"] for row in world.read_rows(table))


def test_rows_staged_in_another_shape_are_named_where_the_log_has_lost_their_records() -> None:
    """A move of the position, which the message names too, would give them up."""
    world = World()
    world.broker.create("orders", 2)
    produce(world, "a")
    drain(world, build())
    for key, batch in (("b", 2), ("c", 4)):  # a second time too
        stage_and_lose(world, key)
        with pytest.raises(SomeTablesFailed) as failure:
            flush(world.open_session(build(wider=True)))
        (line,) = [line for line in str(failure.value).splitlines() if f"table={ORDERS}: topic" in line]
        assert "so 1 offset is gone before being read, 2 offsets of 2 partitions in all;" in line
        assert f"batch={batch} is staged behind the position, in another shape of the rows" in line
        assert "back to how it was, and run: tidegate flush shop" in line
        statuses = read_status(world.open_session(build(wider=True)))["tables"]
        assert [status["problem"] in line for status in statuses if status["table"] == ORDERS] == [True]
        drain(world, build())
        produce(world, f"after {key}")
        drain(world, build(wider=True))
        assert read_ids(world, ORDERS) == read_ids(world, LOG)
    assert read_ids(world, LOG) == sorted(f"{k}{p}" for k in ("a", "b", "c", "after b", "after c") for p in (0, 1))


def test_table_without_a_position_does_not_begin_behind_what_it_staged_in_another_shape() -> None:
    world = World()
    world.broker.create("orders", 2)
    stage_and_lose(world, "a", "b")
    produce(world, "c")
    changed = build(wider=True)
    assert stage_new_batches(world.open_session(changed)).failure is not None
    with pytest.raises(SomeTablesFailed) as failure:
        flush(world.open_session(changed))
    (line,) = [line for line in str(failure.value).splitlines() if f"table={ORDERS}: topic" in line]
    assert "batch=1 is staged from offset=0 on, in another shape of the rows" in line
    assert "so 2 offsets are gone before being read again, 4 offsets of 2 partitions in all" in line
    assert "back to how it was, and run: tidegate flush shop" in line
    drain(world, build())
    drain(world, changed)
    assert read_ids(world, ORDERS) == read_ids(world, LOG) == ["a0", "a1", "b0", "b1", "c0", "c1"]


def test_table_without_a_position_leaves_out_what_it_staged_in_another_shape_if_it_may() -> None:
    world = World()
    world.broker.create("orders", 2)
    stage_and_lose(world, "a")
    produce(world, "b")
    drain(world, replace(build(wider=True), on_incomplete_start=RiskPolicy.ACCEPT))
    assert (read_ids(world, ORDERS), read_ids(world, LOG)) == (["b0", "b1"], ["a0", "a1", "b0", "b1"])


def test_table_whose_start_lies_behind_what_it_staged_in_another_shape_begins_there() -> None:
    """The start says it: nothing before it is asked for. Of a partition that it does not name the rows are."""
    world = World()
    world.broker.create("orders", 2)
    stage_and_lose(world, "a", "b")
    produce(world, "c")
    changed = build(wider=True)

    def begin_at(offsets: dict[int, int]) -> Pipeline:
        start = Start(StartKind.OFFSETS, offsets={"orders": offsets})
        return replace(changed, source=replace(changed.source, start=start))

    with pytest.raises(SomeTablesFailed, match="partition=1: batch=1 is staged from offset=0 on, in another shape"):
        drain(world, begin_at({0: 2}))
    drain(world, begin_at({0: 2, 1: 2}))
    assert read_ids(world, ORDERS) == ["c0", "c1"]
    assert read_ids(world, LOG) == ["a0", "a1", "b0", "b1", "c0", "c1"]


def recreate_topic(world: World) -> str:
    world.broker.create("orders", 2)
    return "topic=orders was deleted and created again: topic_id=topic-2 recorded=topic-1"


def change_cluster(world: World) -> str:
    world.broker.cluster_id = "cluster-2"
    return "the brokers are another cluster: cluster_id=cluster-2 recorded=cluster-1"


def cut_log(world: World) -> str:
    """Below the end of the second batch only; the log is longer than before by then."""
    for partition in (0, 1):
        world.broker.elect("orders", partition, has=1)
    return "topic=orders partition=0: the log was cut at offset=1 since, 2 offsets of 2 partitions in all;"


OTHER_LOGS = pytest.mark.parametrize("change_log", [recreate_topic, change_cluster, cut_log])


def refuse_flush(world: World, pipeline: Pipeline) -> str:
    """What is said of the table whose columns have changed; nothing of it is staged or published."""
    with pytest.raises(GiveUp) as failure:
        flush(world.open_session(pipeline))
    (line,) = [line for line in str(failure.value).splitlines() if line.startswith(f"pipeline=shop table={ORDERS}: ")]
    return line


def obey_rebase(world: World, pipeline: Pipeline, to: str) -> None:
    session = world.open_session(pipeline)
    propose_rebase(session, to).perform("ann")


@OTHER_LOGS
def test_table_without_a_position_does_not_begin_at_another_log_than_it_staged_in_another_shape(
    change_log: Callable[[World], str],
) -> None:
    world = World()
    world.broker.create("orders", 2)
    for key in ("a", "b"):  # two batches
        produce(world, key)
        stage_new_batches(world.open_session(build()))
    fact = change_log(world)
    produce(world, "c", "d")
    changed = build(wider=True)
    for _ in range(2):
        line = refuse_flush(world, changed)
        assert f"batch=1 is staged in another shape of the rows, and {fact}" in line
        assert "back to how it was, and run: tidegate flush shop" in line
        assert "or set on_incomplete_start: accept if the table may lack them" in line
    statuses = read_status(world.open_session(changed))["tables"]
    assert [status["problem"] in line for status in statuses if status["table"] == ORDERS] == [True]
    with pytest.raises(SomeTablesFailed, match=r"tables=lake\.shop\.log cannot go on"):  # which has a position by now
        flush(world.open_session(build()))
    assert read_ids(world, ORDERS) == read_ids(world, LOG) == ["a0", "a1", "b0", "b1"]
    obey_rebase(world, build(), '{"orders": {"0": 1, "1": 1}}' if change_log is cut_log else "earliest")
    drain(world, changed)
    assert read_ids(world, ORDERS)[-4:] == ["c0", "c1", "d0", "d1"]


@OTHER_LOGS
def test_table_without_a_position_begins_at_another_log_if_it_may_lack_what_it_staged_in_another_shape(
    change_log: Callable[[World], str],
) -> None:
    world = World()
    world.broker.create("orders", 2)
    for key in ("a", "b"):
        produce(world, key)
        stage_new_batches(world.open_session(build()))
    change_log(world)
    produce(world, "c", "d")
    with suppress(SomeTablesFailed):  # the other table's log is another one too
        flush(world.open_session(replace(build(wider=True), on_incomplete_start=RiskPolicy.ACCEPT)))
    kept = ["a0", "a1"] if change_log is cut_log else []
    if change_log is change_cluster:  # a copy of the log
        kept = ["a0", "a1", "b0", "b1"]
    assert read_ids(world, ORDERS) == [*kept, "c0", "c1", "d0", "d1"]


def test_table_with_a_position_does_not_pass_over_what_it_staged_in_another_shape_and_the_log_has_no_more() -> None:
    """Its position is still right: the log was cut behind it, and of a partition that was added it has none."""
    world = World()
    world.broker.create("orders", 2)
    produce(world, "a")
    drain(world, build())
    produce(world, "b")
    stage_new_batches(world.open_session(build()))
    for partition in (0, 1):
        world.broker.elect("orders", partition, has=1)
    produce(world, "c", "d")
    changed = build(wider=True)
    assert "topic=orders partition=0: the log was cut at offset=1" in refuse_flush(world, changed)
    with suppress(SomeTablesFailed):
        flush(world.open_session(build()))
    assert read_ids(world, ORDERS) == ["a0", "a1", "b0", "b1"]
    obey_rebase(world, build(), '{"orders": {"0": 1, "1": 1}}')
    drain(world, changed)
    world.broker.grow("orders", 3)
    world.broker.produce("orders", {"id": "e2"}, {"id": "e2", "name": "e"}, 2)
    accepting = RiskPolicy.ACCEPT
    stage_new_batches(world.open_session(replace(build(wider=True), on_partition_growth=accepting)))
    world.broker.retain_from("orders", 1, 2)
    back = replace(build(), on_partition_growth=accepting)
    line = refuse_flush(world, back)
    assert "partition=2: batch=4 is staged from offset=0 on, in another shape of the rows" in line
    drain(world, replace(changed, on_partition_growth=accepting))
    assert read_ids(world, ORDERS) == read_ids(world, LOG)
    assert "e2" in read_ids(world, ORDERS)


def test_table_that_staged_in_another_shape_what_the_log_still_has_reads_it_again() -> None:
    world = World()
    world.broker.create("orders", 2)
    produce(world, "a")
    stage_new_batches(world.open_session(build()))
    drain(world, build(wider=True))
    assert read_ids(world, ORDERS) == read_ids(world, LOG) == ["a0", "a1"]


@pytest.mark.guard(
    "a stage job does not begin where the log has lost its first records",
    file="plugins/tidegate/flush/staged.py",
    text="    check(False)\n",
    off="",
)
def test_rows_in_another_shape_outlast_a_late_stage_whose_records_the_log_has_lost_since_the_plan() -> None:
    """Its task is cleared hours after the plan. The job would drop them before it finds that it cannot read."""
    world = World()
    world.broker.create("orders", 2)
    produce(world, "a")
    stage_new_batches(world.open_session(build()))
    changed = build(wider=True)
    late_plan = plan(world.open_session(changed), scope=PlanScope.NEW)
    jobs = len(world.engine.jobs)
    lose_all(world)
    for _ in range(2):
        with pytest.raises(PositionLost) as failure:
            stage(world.open_session(changed), late_plan)
    message = str(failure.value)
    assert "topic=orders partition=0 start=0: since the batch was planned the log starts at offset=1, so 1" in message
    assert "so 1 offset is gone before being read, 2 offsets of 2 partitions in all; nothing was staged" in message
    assert len(world.engine.jobs) == jobs
    drain(world, build())
    assert read_ids(world, ORDERS) == read_ids(world, LOG) == ["a0", "a1"]
