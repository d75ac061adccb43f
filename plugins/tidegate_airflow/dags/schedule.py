"""When a pipeline flushes: by time, when enough records wait, and back to back while it is far behind."""

from datetime import timedelta
from typing import Any

from airflow.sdk import (
    Asset,
    AssetOrTimeSchedule,
    AssetWatcher,
    Context,
    CronTriggerTimetable,
    DeltaTriggerTimetable,
)
from tidegate.monitoring.backlog import MonitoredPipeline
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.time_text import UNIT_SECONDS

from tidegate_airflow.assets import build_backlog_alias, build_backlog_asset


def build_schedule(pipeline: Pipeline) -> Any:
    """Time, or an event of the pipeline's backlog, whichever comes first."""
    backlog = build_watched_backlog(pipeline)
    timetable = _build_timetable(pipeline)
    return [backlog] if timetable is None else AssetOrTimeSchedule(timetable=timetable, assets=[backlog])


def build_watched_backlog(pipeline: Pipeline) -> Asset:
    """The backlog with what watches it. A DAG must name it so in every place: Airflow takes the last one's watchers."""
    return build_backlog_asset(pipeline.name, build_watchers(pipeline) if pipeline.merge.records_threshold > 0 else [])


def build_watchers(pipeline: Pipeline) -> list[AssetWatcher]:
    """What calls for a flush when enough records wait."""
    from tidegate_airflow.triggers.backlog import BacklogTrigger

    trigger = BacklogTrigger(pipeline.source.kafka, MonitoredPipeline.from_pipeline(pipeline).to_dict())
    return [AssetWatcher(name=build_backlog_asset(pipeline.name).name, trigger=trigger)]


def _build_timetable(pipeline: Pipeline) -> Any:
    if pipeline.merge.cron is not None:
        return CronTriggerTimetable(pipeline.merge.cron, timezone="UTC")
    seconds = pipeline.timer_seconds
    return DeltaTriggerTimetable(timedelta(seconds=seconds)) if seconds > 0 else None


def describe_schedule(pipeline: Pipeline) -> str:
    """When it flushes, in a few words, as a tag: Airflow's list shows no time of a DAG that an asset may start."""
    merge = pipeline.merge
    words = []
    if merge.cron is not None:
        words = [f"cron {merge.cron}"]
    elif merge.is_timed:
        words = [f"every {_format_seconds(merge.interval_seconds)}"]
    words += [f"at {merge.records_threshold} records"] if merge.records_threshold > 0 else []
    return " or ".join(words) or "by hand"


def _format_seconds(seconds: int) -> str:
    letter, unit = next(entry for entry in reversed(UNIT_SECONDS.items()) if seconds % entry[1] == 0)
    return f"{seconds // unit}{letter}"


def compute_min_records(pipeline: Pipeline, context: Context) -> int:
    """How many records must wait in this run: as many as start a flush, if only the heartbeat was due."""
    beats_only = not pipeline.merge.is_timed and context["dag_run"].run_type == "scheduled"
    return pipeline.merge.records_threshold if beats_only else 0


def trigger_next_run(name: str, context: Context, run_params: dict[str, Any]) -> None:
    """Let the next run begin as soon as this one has ended; it is asked for the same as this one."""
    context["outlet_events"][build_backlog_alias(name)].add(build_backlog_asset(name), extra={"asked": run_params})
