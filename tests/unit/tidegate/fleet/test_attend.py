"""Steps that run once for all members: one that hangs, or fails, takes nothing from the others."""

import threading

import pytest
from fakes import World, build_pipeline, build_table
from tidegate.errors import GiveUp, NothingToDo, RetryLater
from tidegate.fleet import attend
from tidegate.fleet.attend import Limits, attend_members
from tidegate.fleet.members import OpenedMembers
from tidegate.ports.session import Session

NAMES = [f"m{number}" for number in range(6)]


@pytest.fixture
def opened() -> OpenedMembers:
    world = World()
    pipelines = [build_pipeline(build_table(f"lake.shop.{name}"), name=name) for name in NAMES]
    sessions = {pipeline.name: world.open_session(pipeline) for pipeline in pipelines}
    return OpenedMembers(sessions, {"wrong": GiveUp("no catalog")})


def test_member_that_does_not_end_is_left_and_named_and_the_others_are_attended_to(opened: OpenedMembers) -> None:
    release, is_ended = threading.Event(), threading.Event()

    def step(session: Session) -> str:
        name = session.pipeline.name
        if name == "m2":
            release.wait()
            is_ended.set()
        if name == "m3":
            raise GiveUp("its own failure")
        if name == "m4":
            raise NothingToDo("nothing")
        return name

    attendance = attend_members(opened, step, [*NAMES, "wrong", "gone"], Limits(member=1, total=600))
    assert attendance.results == {name: name for name in ("m0", "m1", "m5")}
    assert list(attendance.failures) == ["m2", "m3", "wrong"]
    assert str(attendance.failures["m2"]).startswith(
        "pipeline=m2: not done within 1 s, and the others went on without it"
    )
    assert isinstance(attendance.failures["m2"], RetryLater)
    assert [str(attendance.failures[name]) for name in ("m3", "wrong")] == ["its own failure", "no catalog"]
    release.set()
    assert is_ended.wait(60), "what was left ends by itself"


def build_wide_session(world: World, table_count: int) -> Session:
    tables = [build_table(f"lake.shop.Wide_{number}") for number in range(table_count)]
    return world.open_session(build_pipeline(*tables, name="wide"))


def test_member_of_hundreds_of_tables_has_the_time_that_it_needs_and_one_of_few_has_not(opened: OpenedMembers) -> None:
    """It was left behind in every run, and never cleaned up: 60 seconds were for one of few tables."""
    block = threading.Event()

    def step(session: Session) -> str:
        block.wait(1.5)
        return session.pipeline.name

    both = OpenedMembers({"m0": opened.sessions["m0"], "wide": build_wide_session(World(), 300)})
    limits = Limits(member=0.3, table=0.02, total=0.5)
    for _ in range(2):
        attendance = attend_members(both, step, ["m0", "wide"], limits)
        assert attendance.results == {"wide": "wide"}
        assert str(attendance.failures["m0"]).startswith("pipeline=m0: not ")


def test_tables_that_a_template_has_named_count_for_the_time_of_their_member(
    opened: OpenedMembers, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide_session = build_wide_session(World(), 300)
    monkeypatch.setattr(attend, "expand_template", lambda session: wide_session)
    block = threading.Event()
    outcome = attend_members(opened, lambda _: block.wait(1.0), ["m0"], Limits(member=0.3, table=0.02, total=0.5))
    assert outcome.failures == {}


def test_members_for_which_no_time_is_left_are_not_begun_and_are_others_each_time(opened: OpenedMembers) -> None:
    begun = list[str]()
    block = threading.Event()

    def step(session: Session) -> None:
        begun.append(session.pipeline.name)
        block.wait()

    waiting_names = set[str]()
    for _ in range(120):
        attendance = attend_members(opened, step, NAMES, Limits(member=60, total=0.01))
        assert attendance.failures.keys() == set(NAMES)
        messages = {name: str(problem) for name, problem in attendance.failures.items()}
        idle = {
            name for name in NAMES if messages[name].startswith(f"pipeline={name}: not begun: the pipelines before")
        }
        assert idle, "one took all of the time"
        waiting_names |= set(NAMES) - idle
    block.set()
    assert waiting_names == set(NAMES) == set(begun), "each one has its turn"
