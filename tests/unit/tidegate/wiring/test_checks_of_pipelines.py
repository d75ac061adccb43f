"""One pipeline's topics: what its own reads say of a partition without a leader, a group, and a wrong clock."""

from typing import Any

import pytest
from fakes import World, build_pipeline
from seeded_mistakes import require_found
from tidegate.adapters.kafka.errors import NoLeader, explain_no_leader
from tidegate.diagnosis.finding import Severity
from tidegate.errors import GiveUp
from tidegate.wiring import doctor
from tidegate.wiring.doctor import check_topics


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders")
    world.broker.produce("orders", {"id": "a"}, {"id": "a", "name": "x"}, 0)
    return world


def raise_error(error: Exception) -> Any:
    def call(*_: Any) -> Any:
        raise error

    return call


def test_topic_that_can_be_read_is_right(world: World) -> None:
    [finding] = check_topics(world.open_session(build_pipeline()))
    assert (finding.check, finding.severity) == ("kafka.topics", Severity.OK)


def test_partition_without_a_leader_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    error = explain_no_leader("b:1", NoLeader([("orders", 1)]))
    monkeypatch.setattr(world.broker, "read_log", raise_error(error))
    require_found("topic-without-leader", check_topics(world.open_session(build_pipeline())))


def test_group_that_may_not_be_read_is_found_and_the_topics_are_right(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world.broker, "read_committed", raise_error(GiveUp("group=g: refused; give READ on the group")))
    findings = list(check_topics(world.open_session(build_pipeline())))
    assert [(finding.check, finding.severity) for finding in findings] == [
        ("kafka.group", Severity.ERROR),
        ("kafka.topics", Severity.OK),
    ]


def test_newest_record_of_any_partition_may_be_of_tomorrow(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.time, "time", lambda: 1_000.0)
    times = {"orders": {0: 900_000, 1: 87_400_000}}
    monkeypatch.setattr(world.broker, "read_newest_timestamps", lambda _: times, raising=False)
    require_found("records-of-tomorrow", check_topics(world.open_session(build_pipeline())))
