"""When work is due by time."""

from dataclasses import dataclass
from datetime import UTC, datetime
from zlib import crc32

from croniter import croniter

from tidegate.spec.pipeline import Pipeline
from tidegate.spec.publication import Publication

# Of its interval, after the process began: the earliest first maintenance or verification, and the time over which
# those of many pipelines are spread. Not more: a process that is started again each night would never come to some.
FIRST_SHARE = 0.1
SPREAD_SHARE = 0.1


@dataclass(frozen=True)
class Schedule:
    """When work is due: at the times of `cron` (UTC), else every `interval_seconds`, else only when called."""

    interval_seconds: int | None = None
    cron: str | None = None
    at_least: int = 0  # records that must wait when the time has come; a call needs none
    delay_seconds: float = 0.0  # of the first start after the process began
    runs_at_start: bool = False  # due once at the start: the call for it may have come to a process that has ended

    def find_due(self, last: float | None, now: float, began: float = 0.0) -> float | None:
        """Return the Unix time of the next start, which may be past; None for never.

        `last` is when it last ran, `began` when the process did.
        """
        if self.cron is not None:
            after = datetime.fromtimestamp(now if last is None else last, UTC)
            return float(croniter(self.cron, after).get_next(float))
        if self.interval_seconds is None:
            return now if self.runs_at_start and last is None else None
        if last is None:
            return began + self.delay_seconds if self.delay_seconds else now
        return now if last > now else last + self.interval_seconds  # a clock that was set back


def build_flush_schedule(pipeline: Pipeline) -> Schedule:
    """For flushes, for merges beside a clock of staging, or for the heartbeat alone."""
    merge = pipeline.merge
    if merge.cron is not None:
        return Schedule(cron=merge.cron)
    at_least = 0 if merge.is_timed else merge.records_threshold
    return Schedule(pipeline.timer_seconds, at_least=at_least)


def build_stage_schedule(pipeline: Pipeline) -> Schedule:
    """For staging beside the merges; never due if a flush does both."""
    return Schedule(pipeline.stage.interval_seconds, pipeline.stage.cron)


def build_heartbeat_schedule(pipeline: Pipeline) -> Schedule:
    """For heartbeats beside the flushes; never due if flushes, each of which ends with one, come as often."""
    pause_seconds = pipeline.heartbeat.pause_seconds
    return Schedule() if 0 < pipeline.timer_seconds <= pause_seconds else Schedule(pause_seconds)


def build_maintenance_schedule(pipeline: Pipeline) -> Schedule:
    return _spread(pipeline, pipeline.maintenance.interval_seconds)


def build_verify_schedule(pipeline: Pipeline) -> Schedule:
    return _spread(pipeline, pipeline.verify.interval_seconds)


def _spread(pipeline: Pipeline, seconds: int) -> Schedule:
    place = crc32(pipeline.name.encode()) / 2**32
    # spread by name, so that not all pipelines are due at once; a restarted process does not begin with it each time
    delay_seconds = seconds * (FIRST_SHARE + SPREAD_SHARE * place)
    return Schedule(seconds, delay_seconds=delay_seconds) if seconds > 0 else Schedule()


def build_publication_schedule(publication: Publication) -> Schedule:
    """Without an interval it follows its tables, or is run by hand."""
    if publication.interval_seconds > 0:
        return Schedule(publication.interval_seconds)
    return Schedule(runs_at_start=publication.on_table_change)
