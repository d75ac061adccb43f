"""When the members of a fleet are due: one clock for all, and each member at its own interval."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tidegate.runner.schedule import build_flush_schedule
from tidegate.spec.pipeline import Pipeline

CRON_TICK_SECONDS = 60  # the resolution of a cron expression
BEAT_PAUSE_SECONDS = 60


@dataclass(frozen=True)
class Clock:
    """When a fleet's DAG runs by time: every so many seconds, or at the times of `cron`, in UTC; or never."""

    seconds: int = 0
    cron: str | None = None


def build_clock(members: Collection[Pipeline]) -> Clock:
    """The shortest interval of the members; their cron expression where all have the same.

    A member with another cron expression is looked for every minute. Members without an interval tick with their
    heartbeat.
    """
    crons = {pipeline.merge.cron for pipeline in members}
    if len(crons) == 1 and None not in crons:
        return Clock(cron=crons.pop())
    ticks = [CRON_TICK_SECONDS if member.merge.cron is not None else member.timer_seconds for member in members]
    return Clock(seconds=min((tick for tick in ticks if tick > 0), default=0))


def list_seldom_flushed(pipelines: Mapping[str, Pipeline]) -> dict[str, Pipeline]:
    """Those whose runs, each of which ends with a heartbeat, come less often than their heartbeats shall.

    A pipeline without a fleet is one of a fleet of its own.
    """
    fleets = defaultdict[str, list[Pipeline]](list)
    for name, pipeline in pipelines.items():
        fleets[f"fleet {pipeline.fleet}" if pipeline.fleet is not None else name].append(pipeline)
    seldom = dict[str, Pipeline]()
    for members in fleets.values():
        clock = build_clock(members)
        tick_seconds = clock.seconds if clock.cron is None else members[0].timer_seconds
        seldom |= {member.name: member for member in members if not 0 < tick_seconds <= member.heartbeat.pause_seconds}
    return seldom


def compute_shortest_beat(pipelines: Collection[Pipeline]) -> int:
    """The shortest seconds between two heartbeats of these pipelines, 0 of none."""
    return min((pipeline.heartbeat.pause_seconds for pipeline in pipelines), default=0)


def is_member_due(pipeline: Pipeline, clock: Clock, last: float | None, now: float) -> bool:
    """Whether a run of the fleet that time has started looks at this member. `last` is when it was looked at by time.

    Runs start a little early or late: half a tick decides.
    """
    if clock.cron is not None or (pipeline.merge.cron is None and 0 < pipeline.timer_seconds <= clock.seconds):
        return True
    if pipeline.merge.cron is None and last is None:
        return pipeline.timer_seconds > 0
    # of what is not remembered (a new member, a store that cannot be read), or was noted before the clock was set back,
    # the tick before is taken
    is_known = last is not None and (last <= now or pipeline.merge.cron is None)
    due_ms = build_flush_schedule(pipeline).find_due(last if is_known else now - clock.seconds, now)
    slack = 0.0 if pipeline.merge.cron is not None else clock.seconds / 2
    return due_ms is not None and due_ms - slack <= now


def keeps_own_time(pipeline: Pipeline, clock: Clock) -> bool:
    """Whether the fleet must remember when this member was looked at: it is not due in each run."""
    return clock.cron is None and (pipeline.merge.cron is not None or pipeline.timer_seconds > clock.seconds)


def list_late_heartbeats(
    members: Mapping[str, Pipeline], beats: Mapping[str, float], failed_beats: Mapping[str, float], now: float
) -> list[str]:
    """The members whose committed offsets are to be committed again: their heartbeat's interval is over."""
    return [
        name
        for name, pipeline in members.items()
        if not 0 <= now - beats.get(name, 0.0) < pipeline.heartbeat.pause_seconds
        and not has_failed_just_now(name, failed_beats, now)
    ]


def has_failed_just_now(name: str, failed_beats: Mapping[str, float], now: float) -> bool:
    """Whether the member's heartbeat has failed within the last minute, so that no run without work for it tries again:
    each try may wait for brokers that do not answer.
    """
    return 0 <= now - failed_beats.get(name, 0.0) < BEAT_PAUSE_SECONDS
