"""When the members of a fleet are due: one clock for all, each member at its own interval."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tidegate.runner.schedule import build_flush_schedule
from tidegate.spec.pipeline import Pipeline

CRON_TICK_SECONDS = 60  # the resolution of a cron expression
BEAT_PAUSE_SECONDS = 60


@dataclass(frozen=True)
class Clock:
    """When a fleet's DAG runs: every so many seconds, or at the times of `cron`, in UTC; or never."""

    seconds: int = 0
    cron: str | None = None


def build_clock(members: Collection[Pipeline]) -> Clock:
    """The members' shortest interval, or their cron expression where all have the same."""
    crons = {pipeline.merge.cron for pipeline in members}
    if len(crons) == 1 and None not in crons:
        return Clock(cron=crons.pop())
    # without an interval a member ticks with its heartbeat; another cron expression is checked every minute
    ticks = [CRON_TICK_SECONDS if member.merge.cron is not None else member.timer_seconds for member in members]
    return Clock(seconds=min(ticks, default=0))


def list_seldom_flushed(pipelines: Mapping[str, Pipeline]) -> dict[str, Pipeline]:
    """Pipelines whose runs, which end with a heartbeat, come less often than their heartbeats must."""
    fleets = defaultdict[str, list[Pipeline]](list)
    for name, pipeline in pipelines.items():
        # a pipeline without a fleet is a fleet of its own
        fleets[f"fleet {pipeline.fleet}" if pipeline.fleet is not None else name].append(pipeline)
    seldom = dict[str, Pipeline]()
    for members in fleets.values():
        clock = build_clock(members)
        tick_seconds = clock.seconds if clock.cron is None else members[0].timer_seconds
        seldom |= {member.name: member for member in members if not 0 < tick_seconds <= member.heartbeat.pause_seconds}
    return seldom


def compute_shortest_beat(pipelines: Collection[Pipeline]) -> int:
    """Seconds between heartbeats; 0 without pipelines."""
    return min((pipeline.heartbeat.pause_seconds for pipeline in pipelines), default=0)


def is_member_due(pipeline: Pipeline, clock: Clock, last: float | None, now: float) -> bool:
    """Whether a scheduled run looks at this member. `last`: when one last did."""
    if clock.cron is not None:
        return True
    if pipeline.merge.cron is None and (last is None or pipeline.timer_seconds <= clock.seconds):
        return True
    # of what is not remembered (a new member, a store that cannot be read), or was noted before the clock was set back,
    # the tick before is taken
    is_known = last is not None and (last <= now or pipeline.merge.cron is None)
    due_at = build_flush_schedule(pipeline).find_due(last if is_known else now - clock.seconds, now)
    # runs start a little early or late: half a tick decides
    slack = 0.0 if pipeline.merge.cron is not None else clock.seconds / 2
    return due_at is not None and due_at - slack <= now


def keeps_own_time(pipeline: Pipeline, clock: Clock) -> bool:
    """Whether the fleet must remember when this member was looked at: not every run looks at it."""
    return clock.cron is None and (pipeline.merge.cron is not None or pipeline.timer_seconds > clock.seconds)


def list_late_heartbeats(
    members: Mapping[str, Pipeline], beats: Mapping[str, float], failed_beats: Mapping[str, float], now: float
) -> list[str]:
    """Members whose committed offsets must be committed again."""
    return [
        name
        for name, pipeline in members.items()
        if not 0 <= now - beats.get(name, 0.0) < pipeline.heartbeat.pause_seconds
        and not has_failed_just_now(name, failed_beats, now)
    ]


def has_failed_just_now(name: str, failed_beats: Mapping[str, float], now: float) -> bool:
    """Whether the member's heartbeat failed within the last minute."""
    # each try may wait for brokers that do not answer, so a run without work does not try again
    return 0 <= now - failed_beats.get(name, 0.0) < BEAT_PAUSE_SECONDS
