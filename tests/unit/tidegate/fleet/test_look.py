"""One look at all members of a fleet: the brokers are asked once, and each member's failure is its own."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
from fakes import World, build_pipeline, build_table
from fakes.broker import MemoryBroker
from tidegate.errors import ConfigurationError, PositionLost, RetryLater
from tidegate.fleet.attend import attend_members
from tidegate.fleet.members import MemberLook, OpenedMembers, look_at_members
from tidegate.flush.flush import flush, stage_new_batches
from tidegate.flush.heartbeat import commit_offsets
from tidegate.model.kafka_log import Log
from tidegate.model.offsets import Ranges
from tidegate.ports.session import Session
from tidegate.spec.pipeline import Pipeline, Stage

TOPICS = ("carts", "orders", "users", "wishes")


class Cluster(MemoryBroker):
    """Brokers that note what they are asked together, and alone."""

    def __init__(self) -> None:
        super().__init__()
        self.together: list[set[str]] = []
        self.alone: list[tuple[str, ...]] = []
        self._ahead: set[str] = set()

    def read_names_ahead(self) -> None:
        """Nothing to keep."""

    def read_ahead(self, topics: Iterable[str], isolation: str) -> None:
        self.together.append(set(topics))
        self._ahead = self.together[-1] & self.partitions.keys()

    def read_log(self, topics: tuple[str, ...], isolation: str) -> Log:
        if not set(topics) <= self._ahead:
            self.alone.append(topics)
        return super().read_log(topics, isolation)


def build_reading_pipeline(topic: str) -> Pipeline:
    """A pipeline of two tables that reads one topic of two partitions."""
    tables = (build_table(f"lake.shop.{topic}{suffix}", topics=(topic,)) for suffix in ("", "_too"))
    return build_pipeline(*tables, name=topic)


@pytest.fixture
def world() -> World:
    world = World()
    world.broker = world.engine.broker = Cluster()
    for topic in TOPICS:
        world.broker.create(topic, 2)
        for number in range(4):
            world.broker.produce(topic, {"id": f"k{number}"}, {"id": f"k{number}", "name": "x"}, partition=number % 2)
    return world


def open_all(world: World, **ports_by_topic: Session) -> OpenedMembers:
    return OpenedMembers(
        {topic: ports_by_topic.get(topic) or world.open_session(build_reading_pipeline(topic)) for topic in TOPICS}
    )


def index_by_name(looks: list[MemberLook]) -> dict[str, MemberLook]:
    return {look.name: look for look in looks}


def test_members_with_work_are_planned_and_idle_ones_are_not_and_the_brokers_are_asked_once(world: World) -> None:
    flush(world.open_session(build_reading_pipeline("users")))
    world.broker.alone.clear()
    looks = index_by_name(look_at_members(open_all(world), {}))
    assert list(looks) == list(TOPICS)
    assert {name for name, look in looks.items() if look.plan} == {"carts", "orders", "wishes"}
    assert looks["users"] == MemberLook("users", has_begun=True)
    plan = looks["orders"].plan
    assert plan is not None
    assert {table.table for table in plan.tables} == {"lake.shop.orders", "lake.shop.orders_too"}
    assert plan.tables[0].ranges == Ranges({"orders": {0: (0, 2), 1: (0, 2)}})
    assert world.broker.together == [set(TOPICS)]
    assert world.broker.alone == []


def test_a_member_that_fails_keeps_its_reason_and_takes_no_other_down(world: World) -> None:
    class Gone:
        def read_state(self, *_: object) -> None:
            raise RetryLater("catalog=lake is away")

        list_tables = read_state

    flush(world.open_session(build_reading_pipeline("carts")))
    world.broker.create("carts", 2)  # made anew: it is another topic
    failing_session = replace(world.open_session(build_reading_pipeline("users")), tables=Gone())  # type: ignore[arg-type]
    members = replace(
        open_all(world, users=failing_session), failures={"zebras": ConfigurationError("connection=x is missing")}
    )
    looks = index_by_name(look_at_members(members, {}))
    assert isinstance(looks["carts"].error, PositionLost)
    assert isinstance(looks["users"].error, RetryLater)
    assert isinstance(looks["zebras"].error, ConfigurationError)
    assert looks["orders"].plan is not None
    assert looks["wishes"].plan is not None


def test_tables_are_read_before_the_log_so_that_another_run_s_publish_looks_like_no_loss(world: World) -> None:
    class Late(Cluster):
        def read_ahead(self, topics: Iterable[str], isolation: str) -> None:
            assert topics_read == set(TOPICS), "a table was read behind the log"
            super().read_ahead(topics, isolation)

    topics_read = set[str]()
    late = Late()
    late.partitions, late.ids = world.broker.partitions, world.broker.ids
    sessions = {}
    for topic in TOPICS:

        def note(call: str, moment: str, topic: str = topic) -> None:
            if call == "tables.read_state":
                topics_read.add(topic)

        sessions[topic] = replace(world.open_session(build_reading_pipeline(topic), note), broker=late)
    assert all(look.plan for look in look_at_members(OpenedMembers(sessions), {}))


def test_a_member_waits_for_as_many_records_as_start_its_flush(world: World) -> None:
    looks = index_by_name(look_at_members(open_all(world), {"orders": 5, "users": 4}))
    assert looks["orders"].is_postponed
    assert looks["users"].plan is not None


def test_a_member_with_a_clock_of_staging_is_planned_by_what_is_staged_and_the_others_by_the_log(world: World) -> None:
    clocked = replace(build_reading_pipeline("carts"), stage=Stage(10))
    members = open_all(world, carts=world.open_session(clocked))
    assert index_by_name(look_at_members(members, {}))["carts"] == MemberLook("carts")
    stage_new_batches(world.open_session(clocked))
    world.broker.produce("carts", {"id": "later"}, {"id": "later", "name": "x"})
    looks = index_by_name(look_at_members(members, {"carts": 4}))
    plan = looks["carts"].plan
    assert plan is not None
    assert [(batch.is_resumed, batch.ranges.span) for batch in plan.tables] == [(True, 4), (True, 4)]
    assert (plan.offsets_left, looks["carts"].has_begun) == (0, True)
    others = looks["orders"].plan
    assert others is not None
    assert not any(batch.is_resumed for batch in others.tables)
    assert index_by_name(look_at_members(members, {"carts": 5}))["carts"].is_postponed, "four rows of each table"


def test_a_step_runs_for_each_member_and_failures_stay_beside_results(world: World) -> None:
    flush(world.open_session(build_reading_pipeline("orders")))
    flush(world.open_session(build_reading_pipeline("users")))
    world.broker.groups.clear()

    def commit(session: Session) -> object:
        if session.pipeline.name == "users":
            raise RetryLater("the coordinator is away")
        return commit_offsets(session)

    attendance = attend_members(open_all(world), commit, TOPICS)
    assert attendance.results == {"orders": {"orders": {0: 2, 1: 2}}}
    assert {name: str(problem) for name, problem in attendance.failures.items()} == {"users": "the coordinator is away"}
    assert set(world.broker.groups) == {"tidegate-orders"}, "carts and wishes have no position yet"
