"""A pipeline in one line, cheap enough to ask of hundreds: how far behind, since when, and what it did last."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.errors import GiveUp, RetryLater
from tidegate.model.batch import StagedBatch
from tidegate.monitoring.reports import FlushSummary, PipelineOverview, RecentActivity, StagingLag, TableOverview
from tidegate.monitoring.status import (
    Times,
    add_lags,
    describe_partitions,
    describe_table_line,
    find_oldest_age,
    read_all_times,
    read_unknown_fields,
)
from tidegate.ports.session import Session
from tidegate.spec.time_text import format_time_ms
from tidegate.table.pipeline_progress import PipelineProgress, TableProgress, find_common_time, read_pipeline_progress
from tidegate.table.queue import count_mergeable

log = logging.getLogger(__name__)
RECENT_ROWS = 10  # of slices and of other batches, beside those of the last flush


def build_overview(progress: PipelineProgress) -> PipelineOverview:
    session = progress.session
    times = read_all_times(progress)
    merge = session.pipeline.merge
    tables = [_describe_table(session, table_progress, times) for table_progress in progress.tables]
    stagings = [lag for table in tables if (lag := table["staging"]) is not None]
    staging: StagingLag = {
        "lag": sum(lag["lag"] for lag in stagings),
        "lag_seconds": find_oldest_age([lag["lag_seconds"] for lag in stagings]),
    }
    published_ms = [
        table_progress.state.snapshot_ms
        for table_progress in progress.tables
        if table_progress.state and table_progress.state.snapshot_ms
    ]
    return {
        "pipeline": session.pipeline.name,
        **session.pipeline.describe_file(),
        **add_lags(tables),
        "lag_seconds": find_oldest_age([table["lag_seconds"] for table in tables]),
        "staging": staging if stagings else None,
        "freshness": find_common_time(table["valid_through"] for table in tables),
        "starts_at": 1 if merge.is_timed else max(1, merge.records_threshold),
        "open_batches": max((table["open_batches"] for table in tables), default=0),
        "published_ms": max(published_ms, default=None),
        "tables": tables,
        "partitions": describe_partitions(progress, times),
    }


def _describe_table(session: Session, progress: TableProgress, times: Times) -> TableOverview:
    template = session.pipeline.template
    return {
        **describe_table_line(progress, times),
        "template": template.name if progress.spec.naming is not None and template is not None else None,
        "open_batches": count_mergeable(progress.queue),
        "max_pending": progress.spec.max_pending,
        "needs_person": isinstance(progress.error, GiveUp) or progress.held is not None,
    }


def read_recent(session: Session) -> RecentActivity:
    """Read the last flush that had rows, and the dead letters that wait; slower than `build_overview`.

    Each is None if its table cannot be read now.
    """
    return {"last_flush": _read_last_flush(session), "dead_letters": count_waiting_letters(session)}


def _read_last_flush(session: Session) -> FlushSummary | None:
    try:
        limit = RECENT_ROWS + len(session.pipeline.tables)  # a batch has a row for each of its tables
        history = session.history.read_history(session.history_table, limit)
    except (GiveUp, RetryLater) as reason:
        log.warning("pipeline=%s: no history: %s", session.pipeline.name, reason)
        return None
    flushed = [row for row in history if not row["backfill"]]
    if not flushed:
        return None
    rows = [row for row in flushed if row["batch"] == flushed[0]["batch"]]
    stage_seconds = [row["stage_seconds"] for row in rows if row["stage_seconds"] is not None]
    bytes_written = [row["bytes_written"] for row in rows if row["bytes_written"] is not None]
    return {
        "batch": rows[0]["batch"],
        "published_at": format_time_ms(rows[0]["published_at_ms"]),
        "seconds": round(sum(row["seconds"] for row in rows), 2),
        "stage_seconds": max(stage_seconds, default=None),
        "read": max(row["read"] for row in rows),
        "inserted": sum(row["inserted"] for row in rows),
        "updated": sum(row["updated"] for row in rows),
        "deleted": sum(row["deleted"] for row in rows),
        "unknown_records": sum(unknown.records for row in rows if (unknown := read_unknown_fields(row))),
        "bytes_written": sum(bytes_written) if len(bytes_written) == len(rows) else None,
    }


def count_waiting_letters(session: Session) -> int | None:
    try:
        return session.dead_letters.read_dead_letters(session.letters_table, 0).waiting
    except (GiveUp, RetryLater) as reason:
        log.warning("pipeline=%s: dead letters are not counted: %s", session.pipeline.name, reason)
        return None


@dataclass(frozen=True)
class RunMetrics:
    """What is measured at the end of a run. Ages are in seconds; None is unknown."""

    lag: int | None
    behind: float | None  # the age of the oldest unpublished record, 0 if there is none
    valid_through_age: float | None  # of the time up to which every table is complete
    open_batches: int
    dead_letters: int | None
    problems: int  # tables that cannot go on
    unstaged: int | None = None
    unstaged_behind: float | None = None

    def to_values(self) -> dict[str, float]:
        return {name: float(value) for name, value in vars(self).items() if value is not None}


def measure_pipeline(session: Session) -> RunMetrics:
    progress = read_pipeline_progress(session)
    row = build_overview(progress)
    staging = row["staging"]
    valid_through_ms = find_common_time(table_progress.valid_through_ms for table_progress in progress.tables)
    age = None if valid_through_ms is None else max(0.0, (session.now_ms() - valid_through_ms) / 1000)
    return RunMetrics(
        lag=row["lag"] if row["lag_known"] else None,
        behind=row["lag_seconds"],
        valid_through_age=age,
        open_batches=row["open_batches"],
        dead_letters=count_waiting_letters(session),
        problems=sum(table["problem"] is not None for table in row["tables"]),
        unstaged=staging["lag"] if staging else None,
        unstaged_behind=staging["lag_seconds"] if staging else None,
    )


def to_stage_metrics(queue: Iterable[StagedBatch]) -> dict[str, float]:
    """What is measured of a table's staged batches: the records with fields that no column holds."""
    unknown_records = sum(batch.unknown_fields.records for batch in queue if batch.unknown_fields is not None)
    return {"batch.unknown_records": float(unknown_records)}


def to_merge_metrics(published_batch: Mapping[str, Any]) -> dict[str, float]:
    count_names = ("seconds", "staged", "inserted", "updated", "deleted", "bytes_written")
    return {f"batch.{name}": float(published_batch[name]) for name in count_names if published_batch[name] is not None}
