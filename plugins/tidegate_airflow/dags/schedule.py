"""When a pipeline flushes: by time, when enough records wait, and back to back while it is far behind."""

from datetime import timedelta
from typing import Any

from airflow.sdk import (
    Asset,
    AssetAlias,
    AssetOrTimeSchedule,
    AssetWatcher,
    Context,
    CronTriggerTimetable,
    DeltaTriggerTimetable,
)
from tidegate.monitoring.backlog import Watch
from tidegate.spec.pipeline import Pipeline


def schedule(pipeline: Pipeline) -> Any:
    """Time, or an event of the pipeline's backlog, whichever comes first."""
    trigger = _watcher(pipeline) if pipeline.merge.records_threshold > 0 else []
    backlog = Asset(_backlog(pipeline.name), watchers=trigger)
    timetable = _timetable(pipeline)
    return [backlog] if timetable is None else AssetOrTimeSchedule(timetable=timetable, assets=[backlog])


def _watcher(pipeline: Pipeline) -> list[AssetWatcher]:
    from tidegate_airflow.triggers.backlog import BacklogTrigger

    trigger = BacklogTrigger(pipeline.source.kafka, Watch.of(pipeline).to_dict())
    return [AssetWatcher(name=_backlog(pipeline.name), trigger=trigger)]


def _timetable(pipeline: Pipeline) -> Any:
    """Without an interval the heartbeat's is kept, so that what is committed never expires; such runs flush nothing."""
    merge, beat = pipeline.merge, pipeline.heartbeat.interval_seconds
    if merge.cron is not None:
        return CronTriggerTimetable(merge.cron, timezone="UTC")
    seconds = merge.interval_seconds if merge.is_timed else beat
    return DeltaTriggerTimetable(timedelta(seconds=seconds)) if seconds > 0 else None


def least(pipeline: Pipeline, context: Context) -> int:
    """How many records must wait in this run: as many as start a flush, if only the heartbeat was due."""
    beats_only = not pipeline.merge.is_timed and context["dag_run"].run_type == "scheduled"
    return pipeline.merge.records_threshold if beats_only else 0


def more(name: str) -> AssetAlias:
    """What the last task of a run declares, so that it may call for the next run."""
    return AssetAlias(_backlog(name))


def call_next_run(name: str, context: Context, asked: dict[str, Any]) -> None:
    """Let the next run begin as soon as this one has ended; it is asked for the same as this one."""
    context["outlet_events"][more(name)].add(Asset(_backlog(name)), extra={"asked": asked})


def _backlog(name: str) -> str:
    return f"tidegate_{name}_backlog"
