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
from tidegate.monitoring.backlog import MonitoredPipeline
from tidegate.spec.pipeline import Pipeline


def build_schedule(pipeline: Pipeline) -> Any:
    """Time, or an event of the pipeline's backlog, whichever comes first."""
    trigger = _build_watchers(pipeline) if pipeline.merge.records_threshold > 0 else []
    backlog = Asset(_format_backlog_name(pipeline.name), watchers=trigger)
    timetable = _build_timetable(pipeline)
    return [backlog] if timetable is None else AssetOrTimeSchedule(timetable=timetable, assets=[backlog])


def _build_watchers(pipeline: Pipeline) -> list[AssetWatcher]:
    from tidegate_airflow.triggers.backlog import BacklogTrigger

    trigger = BacklogTrigger(pipeline.source.kafka, MonitoredPipeline.from_pipeline(pipeline).to_dict())
    return [AssetWatcher(name=_format_backlog_name(pipeline.name), trigger=trigger)]


def _build_timetable(pipeline: Pipeline) -> Any:
    """Without an interval the heartbeat's is kept, so that what is committed never expires; such runs flush nothing."""
    merge, beat = pipeline.merge, pipeline.heartbeat.interval_seconds
    if merge.cron is not None:
        return CronTriggerTimetable(merge.cron, timezone="UTC")
    seconds = merge.interval_seconds if merge.is_timed else beat
    return DeltaTriggerTimetable(timedelta(seconds=seconds)) if seconds > 0 else None


def compute_min_records(pipeline: Pipeline, context: Context) -> int:
    """How many records must wait in this run: as many as start a flush, if only the heartbeat was due."""
    beats_only = not pipeline.merge.is_timed and context["dag_run"].run_type == "scheduled"
    return pipeline.merge.records_threshold if beats_only else 0


def build_backlog_alias(name: str) -> AssetAlias:
    """What the last task of a run declares, so that it may call for the next run."""
    return AssetAlias(_format_backlog_name(name))


def trigger_next_run(name: str, context: Context, run_params: dict[str, Any]) -> None:
    """Let the next run begin as soon as this one has ended; it is asked for the same as this one."""
    context["outlet_events"][build_backlog_alias(name)].add(
        Asset(_format_backlog_name(name)), extra={"asked": run_params}
    )


def _format_backlog_name(name: str) -> str:
    return f"tidegate_{name}_backlog"
