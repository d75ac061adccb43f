"""plan: a leader that lacks what was read has cut the log, and other records stand there now: told, never skipped."""

import json

import pytest
from fakes import World, build_pipeline, build_table
from fakes.faults import _Delegating
from tidegate.errors import NothingToDo, PositionLost, SomeTablesDelayed, SomeTablesFailed, TopicsUnavailable
from tidegate.flush.flush import flush
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage
from tidegate.jobs.stage_job import StageJob
from tidegate.monitoring.status import read_status
from tidegate.ports.session import Job
from tidegate.reprocess.rebase import propose_rebase
from tidegate.table.log import check_same_log

PIPELINE = build_pipeline()
OTHER = "payments"
APART = build_pipeline(build_table(), build_table("lake.shop.copy", topics=(OTHER,)))


@pytest.fixture
def world() -> World:
    """Three records in each of two partitions, all published."""
    world = World()
    for topic in ("orders", OTHER):
        world.broker.create(topic, 2)
    produce(world, 6)
    flush(world.open_session(PIPELINE))
    return world


def produce(world: World, count: int, partition: int | None = None, topic: str = "orders", name: str = "x") -> None:
    for n in range(count):
        key = {"id": f"k{n}"}
        world.broker.produce(topic, key, {**key, "name": name}, partition=n % 2 if partition is None else partition)


def read_epochs(world: World) -> dict[int, int]:
    state = world.open_session(PIPELINE).tables.read_state("lake.shop.orders", PIPELINE.name)
    assert state is not None
    assert state.position is not None
    return state.position.epochs["orders"]


@pytest.mark.guard(
    "a rebase hides no cut of a partition that it does not name",
    file="plugins/tidegate/table/start_offsets.py",
    text="merge_offsets(moved_epochs, keep_partitions(before.epochs, self.unchanged_offsets))",
    off="log.epochs",
)
def test_rebase_of_another_partition_hides_no_cut(world: World) -> None:
    """Nobody has said where the partition that was cut is read from: its leader is still to be asked."""
    world.broker.elect("orders", partition=0, has=1)
    produce(world, 4, partition=0)  # behind the position again
    session = world.open_session(PIPELINE)
    propose_rebase(session, json.dumps({"orders": {"1": 1}})).perform("ann")
    assert read_epochs(world) == {0: 0, 1: 0}
    with pytest.raises(PositionLost, match=r"partition=0 position=3: the log was cut at offset=1"):
        plan(session)
    propose_rebase(session, json.dumps({"orders": {"0": 1}})).perform("ann")
    assert read_epochs(world) == {0: 1, 1: 0}
    assert [batch.ranges.to_dict() for batch in plan(session).tables] == [{"orders": {"0": [1, 5], "1": [1, 3]}}]


@pytest.mark.guard(
    "a log that was cut and has grown again is refused",
    file="plugins/tidegate/table/observed_table.py",
    text="            check_not_cut(observed, end, log)\n",
    off="",
    case="3",
)
@pytest.mark.parametrize("record_count", [0, 1, 3])
def test_log_that_was_cut_is_told_with_the_place_of_the_cut_whether_it_has_grown_again_or_not(
    world: World, record_count: int
) -> None:
    world.broker.elect("orders", partition=0, has=1)
    produce(world, record_count, partition=0)
    produce(world, 1, partition=1)
    with pytest.raises(PositionLost) as error_info:
        plan(world.open_session(PIPELINE))
    for part in (
        "pipeline=shop table=lake.shop.orders: topic=orders partition=0 position=3: the log was cut at offset=1",
        "leader_epoch=1 recorded=0; what was read from there on, 2 offsets,",
        """tidegate rebase shop --to '{"orders": {"0": 1}}'""",
    ):
        assert part in str(error_info.value)
    assert read_status(world.open_session(PIPELINE))["tables"][0]["problem"] == str(error_info.value)


def test_cut_of_several_partitions_is_told_with_all_that_was_read_behind_the_cuts(world: World) -> None:
    for partition, has in ((0, 1), (1, 2)):
        world.broker.elect("orders", partition, has)
    produce(world, 8)
    with pytest.raises(PositionLost) as error_info:
        plan(world.open_session(PIPELINE))
    for part in (
        "topic=orders partition=0 position=3: the log was cut at offset=1",
        "what was read from there on, 2 offsets, 3 offsets of 2 partitions in all, means other records now",
        """tidegate rebase shop --to '{"orders": {"0": 1, "1": 2}}'""",
    ):
        assert part in str(error_info.value)


def test_printed_way_out_reads_what_stands_behind_the_cut_and_the_next_election_is_no_other_cut(world: World) -> None:
    world.broker.elect("orders", partition=0, has=1)
    produce(world, 4, partition=0, name="new")
    session = world.open_session(PIPELINE)
    propose_rebase(session, json.dumps({"orders": {"0": 1}})).perform("ann")
    flush(world.open_session(PIPELINE))
    assert {row["id"]: row["name"] for row in world.read_rows("lake.shop.orders")} | {"k5": "x"} == {
        "k0": "new", "k1": "new", "k2": "new", "k3": "new", "k4": "x", "k5": "x"
    }  # fmt: skip
    world.broker.elect("orders", partition=0)
    produce(world, 1, partition=0)
    flush(world.open_session(PIPELINE))
    assert read_epochs(world) == {0: 2, 1: 0}


def test_leader_that_has_everything_is_asked_once_and_read_on_from(world: World) -> None:
    world.broker.elect("orders", partition=0)
    with pytest.raises(NothingToDo):
        plan(world.open_session(PIPELINE))
    assert world.broker.log_cut_reads == 0, "nothing is to be read: nobody is asked, however often it is looked at"
    for _ in range(2):
        produce(world, 2)
        flush(world.open_session(PIPELINE))
    assert (world.broker.log_cut_reads, read_epochs(world)) == (1, {0: 1, 1: 0})


def test_partition_that_has_grown_to_the_position_exactly_is_told_before_another_one_records_its_leader(
    world: World,
) -> None:
    world.broker.elect("orders", partition=0, has=1)
    produce(world, 2, partition=0)
    with pytest.raises(NothingToDo):
        plan(world.open_session(PIPELINE))
    produce(world, 1, partition=1)
    with pytest.raises(PositionLost, match="partition=0 position=3: the log was cut at offset=1"):
        plan(world.open_session(PIPELINE))


def test_leader_of_a_staged_batch_is_the_one_that_it_was_planned_under(world: World) -> None:
    world.broker.elect("orders", partition=0)
    produce(world, 4)
    session = world.open_session(PIPELINE)
    stage(session, plan(session))
    world.broker.elect("orders", partition=0, has=4)
    produce(world, 3, partition=0)
    flush(world.open_session(PIPELINE))
    with pytest.raises(PositionLost, match=r"position=5: the log was cut at offset=4 .* leader_epoch=2 recorded=1"):
        plan(world.open_session(PIPELINE))


TWICE = build_pipeline(build_table("lake.shop.Journal", "append"), build_table("lake.shop.copy"))


class _ElectsUncleanly(_Delegating):
    """Spark in front of whose first reads a leader takes over that lacks the last records; others take their places."""

    def __init__(self, world: World, *cuts: int) -> None:
        super().__init__(world.engine)
        self.world, self.cuts = world, list(cuts)

    def run(self, job: Job) -> None:
        if isinstance(job, StageJob) and self.cuts:
            self.world.broker.elect("orders", partition=0, has=self.cuts.pop(0))
            produce(self.world, 4, partition=0, name="new")
        self._port.run(job)


def read_log_and_tables(world: World) -> tuple[list[str], list[str], set[str]]:
    """The records' names that the log holds, those of the table that is appended to, and the keys of the other."""
    in_log = [record.value["name"] for log in world.broker.partitions["orders"] for record in log.records]
    journal = [row["name"] for row in world.read_rows("lake.shop.Journal")]
    return sorted(in_log), sorted(journal), {row["id"] for row in world.read_rows("lake.shop.copy")}


@pytest.mark.guard(
    "a staged batch is not of a log that was cut while it was read",
    file="plugins/tidegate/table/log.py",
    text="cuts = session.broker.find_log_cuts(ends, epochs) if epochs else {}",
    off="cuts = dict[str, dict[int, int]]()",
)
def test_log_that_is_cut_between_plan_and_read_leaves_no_batch_and_the_next_flush_doubles_no_row(world: World) -> None:
    """The position would keep the plan's leader, and the way out from that would append the new records once more."""
    flush(world.open_session(TWICE))
    engine = _ElectsUncleanly(world, 4, 5)
    for cut in (4, 5):
        produce(world, 3, partition=0, name=f"lost at {cut}")
        produce(world, 1, partition=1, name=f"stays {cut}")
        with pytest.raises(PositionLost, match=f"partition=0: the log was cut at offset={cut} .* since the batch was"):
            flush(world.open_session(TWICE, engine=engine))
    assert engine.cuts == []
    flush(world.open_session(TWICE, engine=engine))
    in_log, journal, keys = read_log_and_tables(world)
    assert journal == in_log
    assert keys == {"k0", "k1", "k2", "k3", "k4", "k5"}
    with pytest.raises(NothingToDo):
        flush(world.open_session(TWICE))


def test_message_of_a_log_that_is_cut_in_several_partitions_counts_them_all(world: World) -> None:
    produce(world, 6)
    planned = plan(world.open_session(PIPELINE))
    for partition in (0, 1):
        world.broker.elect("orders", partition, has=5 - partition)
        produce(world, 9, partition)
    with pytest.raises(PositionLost, match=r"planned=\d+, 3 offsets of 2 partitions in all; nothing was merged"):
        check_same_log(world.open_session(PIPELINE), "here", planned.tables[0].ranges, planned)


def test_leader_that_has_everything_costs_no_second_read(world: World) -> None:
    flush(world.open_session(TWICE))
    produce(world, 3, partition=0, name="kept")
    jobs = len(world.engine.stages)
    flush(world.open_session(TWICE, engine=_ElectsUncleanly(world, 6)))
    flush(world.open_session(TWICE))
    in_log, journal, _ = read_log_and_tables(world)
    assert journal == in_log
    assert len(world.engine.stages) == jobs + 2


def test_cut_topic_stops_its_own_table_alone(world: World) -> None:
    produce(world, 2, topic=OTHER)
    flush(world.open_session(APART))
    world.broker.elect("orders", partition=0, has=0)
    for topic in ("orders", OTHER):
        produce(world, 8, topic=topic)
    with pytest.raises(SomeTablesFailed, match="the log was cut at offset=0"):
        flush(world.open_session(APART))
    assert len(world.read_rows("lake.shop.copy")) == 8


def test_topic_without_a_leader_delays_its_own_table_alone_and_loses_nothing(world: World) -> None:
    produce(world, 2, topic=OTHER)
    flush(world.open_session(APART))
    for topic in ("orders", OTHER):
        produce(world, 8, topic=topic)
    world.broker.leaderless_topics.add("orders")
    with pytest.raises(SomeTablesDelayed, match=r"no offset is known now of topics=\['orders'\]"):
        flush(world.open_session(APART))
    assert (len(world.read_rows("lake.shop.orders")), len(world.read_rows("lake.shop.copy"))) == (6, 8)
    with pytest.raises(TopicsUnavailable):
        plan(world.open_session(PIPELINE))
    world.broker.leaderless_topics.clear()
    flush(world.open_session(APART))
    assert len(world.read_rows("lake.shop.orders")) == 8
