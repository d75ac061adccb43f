"""Where a publication stands against its table, for people and programs: how far behind, what waits, the last run."""

from typing import Any

from tidegate.errors import GiveUp, NothingToDo
from tidegate.model.publication_progress import PartProgress, Progress
from tidegate.monitoring.health import Health, ScheduleState
from tidegate.ports.publication_ports import Behind, PublicationPorts
from tidegate.publications.plan import plan_run

COUNT_NAMES = ("inserted", "updated", "deleted")
MIN_BEHIND_SECONDS = 120.0  # a run that is merely under way shall not look like one that is behind


def read_publication_status(ports: PublicationPorts) -> dict[str, Any]:
    """Where the topic stands against the table; changes nothing.

    `snapshots_behind` and `rows_behind` count what changed rows and is not published, the rows at most;
    `behind_seconds` is the age of the oldest of it. All are 0 when nothing waits.
    """
    publication = ports.publication
    progress, table = ports.topics.read_progress(publication), ports.snapshots.table(publication.table)
    waiting, problem = _plan_next_run(ports)
    position, current = progress.settled or progress.unfinished, table.snapshot_id if table else None
    behind = _measure_lag(ports, position) if waiting or problem else Behind()
    age = None if behind.since_ms is None else max(0.0, (ports.now_ms() - behind.since_ms) / 1000)
    last = describe_last_run(progress)
    return {
        "publication": publication.name,
        "description": publication.description,
        "table": publication.table,
        "topics": list(publication.topics),
        "delivery": publication.delivery,
        "published_snapshot_id": progress.settled.to if progress.settled else None,
        "published_at_ms": last["at_ms"] if last else None,
        "table_snapshot_id": current,
        "snapshots_behind": behind.snapshots,
        "rows_behind": behind.rows,
        "behind_seconds": age if behind.snapshots else 0.0,
        "unfinished": progress.unfinished is not None,
        "waiting": waiting,
        "last_run": last,
        "problem": problem,
    }


def _measure_lag(ports: PublicationPorts, position: Progress | None) -> Behind:
    """What the table and those that the SQL joins have come to since."""
    before = {ports.publication.table: position.to, **position.joined} if position else {}
    lags = []
    for name in (ports.publication.table, *ports.publication.joined):
        table = ports.snapshots.table(name)
        if table is not None and table.snapshot_id is not None:
            lags.append(ports.snapshots.behind(name, before.get(name), table.snapshot_id))
    since = min((one.since_ms for one in lags if one.since_ms is not None), default=None)
    return Behind(sum(one.snapshots for one in lags), sum(one.rows for one in lags), since)


def _plan_next_run(ports: PublicationPorts) -> tuple[dict[str, Any] | None, str | None]:
    """The next run, and why there can be none."""
    try:
        return plan_run(ports).to_dict(), None
    except NothingToDo:
        return None, None
    except GiveUp as reason:
        return None, str(reason)


def describe_last_run(progress: PartProgress) -> dict[str, Any] | None:
    """What the run did that was recorded last: when it ended in milliseconds, between which snapshots, and its changes
    by kind. None before the first.
    """
    parts: tuple[Progress, ...] = progress.newest
    if not parts:
        return None
    return {
        "at_ms": max(part.at_ms for part in parts),
        "from_snapshot_id": parts[0].origin,
        "to_snapshot_id": parts[0].to,
        "compared_with": parts[0].mode,
        **{name: sum(part.counts.get(name, 0) for part in parts) for name in COUNT_NAMES},
    }


def describe_publication_state(row: dict[str, Any], schedule: ScheduleState) -> tuple[Health, str]:
    """State and reason, in the words of pipelines; `row` is a status, or an `error` that may `needs_person`."""
    if row.get("problem") or (row.get("error") and row.get("needs_person")):
        return Health.STUCK, str(row.get("problem") or row["error"])
    lag_text = _describe_lag(row)
    if schedule.paused:
        return Health.PAUSED, row.get("error") or lag_text
    if schedule.failed:
        return Health.FAILING, schedule.failed
    if row.get("error"):
        return Health.UNKNOWN, row["error"]
    is_behind = row["unfinished"] or (row["behind_seconds"] or 0) > MIN_BEHIND_SECONDS
    return (Health.CATCHING_UP if is_behind and row["waiting"] else Health.CURRENT), lag_text


def _describe_lag(row: dict[str, Any]) -> str:
    if not row.get("waiting"):
        return "nothing waits"
    said = f"{row['snapshots_behind']} snapshots with at most {row['rows_behind']} changed rows wait"
    return f"a run is unfinished; {said}" if row["unfinished"] else said


def to_metrics(row: dict[str, Any]) -> dict[str, float]:
    """The numbers of a status for those who watch many, without what nobody can tell."""
    metrics = {
        "snapshots_behind": row["snapshots_behind"],
        "rows_behind": row["rows_behind"],
        "behind": row["behind_seconds"],
        "problems": int(row["problem"] is not None),
    }
    return {name: float(value) for name, value in metrics.items() if value is not None}
