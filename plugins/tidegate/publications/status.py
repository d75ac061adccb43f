"""How far a publication is behind its table, what its next run would be, and what its last run did."""

from dataclasses import asdict, dataclass
from typing import Any

from tidegate.errors import GiveUp, NothingToDo
from tidegate.model.counts import format_large_count
from tidegate.model.publication_progress import PartProgress, Progress, RunMode
from tidegate.monitoring.health import MIN_STUCK_SECONDS, STUCK_INTERVALS, Health, ScheduleState
from tidegate.ports.publication_session import PublicationSession, SnapshotLag
from tidegate.publications.plan import PlannedRun, find_current_snapshot, plan_run
from tidegate.spec.publication import Publication

COUNT_NAMES = ("inserted", "updated", "deleted")
MIN_BEHIND_SECONDS = 120.0  # a run that is merely under way shall not look like one that is behind


@dataclass(frozen=True, kw_only=True)
class LastRun:
    """The last recorded run: when it ended, its two snapshots, and its changes by kind."""

    at_ms: int
    from_snapshot_id: int | None
    to_snapshot_id: int
    compared_with: str
    inserted: int
    updated: int
    deleted: int


@dataclass(frozen=True, kw_only=True)
class PublicationStatus:
    """How far the topic is behind the table."""

    publication: str
    description: str
    table: str
    topics: tuple[str, ...]
    delivery: str
    published_snapshot_id: int | None
    published_at_ms: int | None
    table_snapshot_id: int | None
    snapshots_behind: int  # unpublished snapshots that changed rows
    rows_behind: int  # at most so many rows
    behind_seconds: float | None  # the age of the oldest, None if unknown
    unfinished: bool
    waiting: PlannedRun | None  # the next run
    last_run: LastRun | None
    problem: str | None  # why there can be no next run

    def to_dict(self) -> dict[str, Any]:
        return {
            **vars(self),
            "topics": list(self.topics),
            "waiting": self.waiting.to_dict() if self.waiting else None,
            "last_run": asdict(self.last_run) if self.last_run else None,
        }


@dataclass(frozen=True, kw_only=True)
class PublicationReading:
    """The last status of a publication, None before the first, and the error that prevented a newer one."""

    publication: str
    status: PublicationStatus | None = None
    error: str | None = None
    is_looking: bool = False  # the first look is under way, and has not taken too long
    needs_person: bool = False  # only a person can resolve the `error`
    read_at: float | None = None  # in seconds since the epoch
    # how long changes may wait before a run begins; None if a person starts the runs
    patience_seconds: float | None = None


def compute_patience(publication: Publication) -> float | None:
    """Return how long changes may wait without a run: ten intervals, at least a quarter of an hour.

    None if only a person starts the runs.
    """
    if publication.interval_seconds <= 0 and not publication.on_table_change:
        return None
    return max(MIN_STUCK_SECONDS, float(STUCK_INTERVALS * publication.interval_seconds))


def read_publication_status(session: PublicationSession) -> PublicationStatus:
    publication = session.publication
    progress = session.topics.read_progress(publication)
    current = find_current_snapshot(session, publication.table)
    waiting = None
    problem = None
    is_known = True
    try:
        waiting = plan_run(session)
    except NothingToDo:
        # of a table that is gone nobody knows what was written into it since
        names = (publication.table, *publication.joined_tables)
        is_known = None not in [find_current_snapshot(session, name) for name in names]
    except GiveUp as reason:
        problem = str(reason)
    behind = _measure_lag(session, progress) if waiting or problem else SnapshotLag()
    age = None if behind.since_ms is None else max(0.0, (session.now_ms() - behind.since_ms) / 1000)
    last = describe_last_run(progress)
    return PublicationStatus(
        publication=publication.name,
        description=publication.description,
        table=publication.table,
        topics=publication.topics,
        delivery=publication.delivery,
        published_snapshot_id=progress.common_position.to if progress.common_position else None,
        published_at_ms=last.at_ms if last else None,
        table_snapshot_id=current,
        snapshots_behind=behind.snapshots,
        rows_behind=behind.rows,
        behind_seconds=age if behind.snapshots or not is_known else 0.0,
        unfinished=progress.unfinished_run is not None,
        waiting=waiting,
        last_run=last,
        problem=problem,
    )


def _measure_lag(session: PublicationSession, progress: PartProgress) -> SnapshotLag:
    before = _list_published_snapshots(session.publication.table, progress)
    lags = [
        session.snapshots.measure_lag(name, before.get(name), current)
        for name in (session.publication.table, *session.publication.joined_tables)
        if (current := find_current_snapshot(session, name)) is not None
    ]
    since = min((lag.since_ms for lag in lags if lag.since_ms is not None), default=None)
    return SnapshotLag(sum(lag.snapshots for lag in lags), sum(lag.rows for lag in lags), since)


def _list_published_snapshots(table: str, progress: PartProgress) -> dict[str, int | None]:
    """The snapshots that the topics hold whole: a run that is under way has not brought in what it began for."""
    position = progress.common_position or progress.unfinished_run
    if position is None:
        return {}
    if progress.common_position is None and position.mode in (RunMode.CHANGES, RunMode.EVERYTHING):
        return {table: position.origin, **position.joined_origin}
    return {table: position.to, **position.joined}


def describe_last_run(progress: PartProgress) -> LastRun | None:
    parts: tuple[Progress, ...] = progress.parts_of_last_run
    if not parts:
        return None
    return LastRun(
        at_ms=max(part.at_ms for part in parts),
        from_snapshot_id=parts[0].origin,
        to_snapshot_id=parts[0].to,
        compared_with=parts[0].mode,
        **{name: sum(part.counts.get(name, 0) for part in parts) for name in COUNT_NAMES},
    )


def describe_publication_state(reading: PublicationReading, schedule: ScheduleState) -> tuple[Health, str]:
    status = reading.status
    error = reading.error or ""
    problem = (status.problem if status else None) or (error if reading.needs_person else None)
    if problem:
        return Health.STUCK, problem
    lag_text = _describe_lag(status)
    if schedule.paused:
        return Health.PAUSED, error or lag_text
    if schedule.failed:
        return Health.FAILING, schedule.failed
    if error or status is None:
        return Health.UNKNOWN, error
    if stall := _find_stall(reading, status, schedule):
        return Health.STUCK, f"{lag_text}, and nothing was published meanwhile: {stall}"
    is_behind = status.unfinished or (status.behind_seconds or 0) > MIN_BEHIND_SECONDS
    return (Health.CATCHING_UP if is_behind and status.waiting else Health.CURRENT), lag_text


def _find_stall(reading: PublicationReading, status: PublicationStatus, schedule: ScheduleState) -> str | None:
    waited_seconds = (status.behind_seconds or 0) if status.waiting else 0
    if schedule.stalled and waited_seconds > MIN_STUCK_SECONDS:
        return schedule.stalled
    patience = reading.patience_seconds
    if patience is None or schedule.running or waited_seconds <= patience:
        return None
    published_at_ms = status.published_at_ms
    if published_at_ms is not None and (reading.read_at or 0.0) - published_at_ms / 1000 <= patience:
        return None
    return (
        "no run is under way, as its DAG was paused when the table changed, or another writer changed the table; start "
        "a run"
    )


def _describe_lag(status: PublicationStatus | None) -> str:
    if status is None or status.waiting is None:
        return "nothing waits"
    is_one = status.snapshots_behind == 1
    snapshots = format_large_count(status.snapshots_behind, "snapshot")
    rows = format_large_count(status.rows_behind, "changed row")
    lag_text = f"{snapshots} with at most {rows} {'waits' if is_one else 'wait'}"
    return f"a run is unfinished; {lag_text}" if status.unfinished else lag_text


def to_metrics(status: PublicationStatus) -> dict[str, float]:
    metrics = {
        "snapshots_behind": status.snapshots_behind,
        "rows_behind": status.rows_behind,
        "behind": status.behind_seconds,
        "problems": int(status.problem is not None),
    }
    return {name: float(value) for name, value in metrics.items() if value is not None}
