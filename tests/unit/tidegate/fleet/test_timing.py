"""When members of a fleet are due: one clock, and each member keeps its own interval."""

from dataclasses import replace

import pytest
from fakes import build_pipeline
from tidegate.fleet.timing import Clock, build_clock, is_member_due, keeps_own_time, list_late_heartbeats
from tidegate.spec.pipeline import Heartbeat, Merge, Pipeline

NOON = 1_800_000_000.0  # at a full minute


def build_timed_pipeline(seconds: int = 60, cron: str | None = None, threshold: int = -1, beat: int = 600) -> Pipeline:
    merge = Merge(interval_seconds=seconds, cron=cron, records_threshold=threshold)
    return replace(build_pipeline(), merge=merge, heartbeat=Heartbeat(interval_seconds=beat))


@pytest.mark.parametrize(
    ("members", "clock"),
    [
        ([build_timed_pipeline(60), build_timed_pipeline(5), build_timed_pipeline(300)], Clock(5)),
        ([build_timed_pipeline(-1, threshold=10), build_timed_pipeline(900)], Clock(600)),
        ([build_timed_pipeline(-1, threshold=10, beat=0)], Clock(600)),
        (
            [build_timed_pipeline(3600, cron="0 * * * *"), build_timed_pipeline(3600, cron="0 * * * *")],
            Clock(cron="0 * * * *"),
        ),
        ([build_timed_pipeline(3600, cron="0 * * * *"), build_timed_pipeline(3600, cron="5 * * * *")], Clock(60)),
        ([build_timed_pipeline(3600, cron="0 * * * *"), build_timed_pipeline(10)], Clock(10)),
        ([], Clock(0)),
    ],
)
def test_the_shortest_interval_is_the_clock_of_all(members: list[Pipeline], clock: Clock) -> None:
    assert build_clock(members) == clock


def test_a_member_of_the_shortest_interval_is_member_due_in_each_run_and_needs_no_memory() -> None:
    assert is_member_due(build_timed_pipeline(5), Clock(5), NOON - 1, NOON)
    assert not keeps_own_time(build_timed_pipeline(5), Clock(5))


@pytest.mark.parametrize(("since", "due"), [(None, True), (294, False), (298, True), (301, True), (-50, True)])
def test_a_longer_interval_is_kept_whatever_the_clock(since: float | None, due: bool) -> None:
    last = None if since is None else NOON - since
    assert is_member_due(build_timed_pipeline(300), Clock(5), last, NOON) is due
    assert keeps_own_time(build_timed_pipeline(300), Clock(5))


def test_a_cron_expression_is_member_due_at_its_time_also_where_nothing_can_be_remembered() -> None:
    hourly = build_timed_pipeline(3600, cron="0 * * * *")
    hour = NOON - NOON % 3600
    looks = [hour + second for second in range(-13, 40, 10)]  # with a store that cannot be read
    assert [at - hour for at in looks if is_member_due(hourly, Clock(10), None, at)] == [7]
    assert is_member_due(hourly, Clock(10), hour - 10, hour + 1)
    assert not is_member_due(hourly, Clock(10), hour + 1, hour + 11)
    assert is_member_due(hourly, Clock(cron="0 * * * *"), None, NOON)


def test_a_member_that_was_looked_at_before_the_clock_was_set_back_is_due_at_its_next_time() -> None:
    hourly = build_timed_pipeline(3600, cron="0 * * * *")
    hour = NOON - NOON % 3600
    looks = [hour + second for second in range(-13, 40, 10)]
    assert [at - hour for at in looks if is_member_due(hourly, Clock(10), hour + 1e8, at)] == [7]


def test_a_member_without_an_interval_is_member_due_with_its_heartbeat_alone() -> None:
    assert is_member_due(build_timed_pipeline(-1, threshold=10), Clock(600), None, NOON)
    without_beats = build_timed_pipeline(-1, threshold=10, beat=0)  # as often as offsets are kept alive
    assert is_member_due(without_beats, Clock(60), None, NOON)
    assert not is_member_due(without_beats, Clock(60), NOON - 500, NOON)


def test_heartbeats_are_late_when_their_interval_is_over_and_never_given_up() -> None:
    members = {
        "new": build_timed_pipeline(),
        "fresh": build_timed_pipeline(),
        "old": build_timed_pipeline(),
        "off": build_timed_pipeline(beat=0),
        "long": build_timed_pipeline(beat=3600),
    }
    beats = {"fresh": NOON - 599, "old": NOON - 600, "off": NOON - 600, "long": NOON - 600}
    assert list_late_heartbeats(members, beats, {}, NOON) == ["new", "old", "off"]
    assert list_late_heartbeats({"set back": build_timed_pipeline()}, {"set back": NOON + 1e8}, {}, NOON) == [
        "set back"
    ]


def test_heartbeat_that_failed_pauses_for_a_minute_and_no_longer() -> None:
    members = {name: build_timed_pipeline() for name in ("just_now", "a_minute_ago", "set_back")}
    failed_beats = {"just_now": NOON - 59, "a_minute_ago": NOON - 60, "set_back": NOON + 1e8}
    assert list_late_heartbeats(members, {}, failed_beats, NOON) == ["a_minute_ago", "set_back"]
