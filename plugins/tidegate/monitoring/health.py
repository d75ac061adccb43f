"""A pipeline's state in one word, and the reason, for somebody who was just woken up."""

from dataclasses import dataclass

from tidegate.monitoring.reports import PipelineRow

UNKNOWN, STUCK, PAUSED = "unknown", "stuck", "paused"
FAILING, CATCHING_UP, CURRENT = "failing", "catching up", "current"
WORST_FIRST = (STUCK, FAILING, UNKNOWN, CATCHING_UP, PAUSED, CURRENT)

# A flush that is merely slow shall not look stuck: ten of its intervals, and never less than a quarter of an hour.
STUCK_INTERVALS, MIN_STUCK_SECONDS = 10, 900.0


@dataclass(frozen=True)
class Schedule:
    """What the scheduler knows; `failed` says what failed in the last run, None when it went well."""

    paused: bool = False
    failed: str | None = None
    running: bool = False


def describe_state(row: PipelineRow, schedule: Schedule, interval_seconds: int, now_ms: int) -> tuple[str, str]:
    """State and reason. With an `error`, `row` may hold nothing else.

    Somebody must act: stuck, failing. Somebody may want to know: unknown, catching up, paused. current: nothing.
    """
    if blocked := _find_blocker(row):
        return STUCK, blocked
    if schedule.paused:
        return PAUSED, row.get("error") or (_describe_lag(row) if row["lag"] else "nothing waits")
    if schedule.failed:
        return FAILING, schedule.failed
    if error := row.get("error"):
        return UNKNOWN, error
    return _describe_progress(row, schedule, interval_seconds, now_ms)


def _describe_progress(row: PipelineRow, schedule: Schedule, interval_seconds: int, now_ms: int) -> tuple[str, str]:
    """Of a pipeline that nothing stops: whether it moves, and fast enough."""
    if not row["lag"]:
        return CURRENT, "nothing waits"
    if row["lag"] < row.get("starts_at", 1):
        return CURRENT, f"{row['lag']} records wait: fewer than the {row['starts_at']} that start a flush"
    waited = row["lag_seconds"] or 0
    patience = max(MIN_STUCK_SECONDS, float(STUCK_INTERVALS * interval_seconds))
    idle = None if row["published_ms"] is None else (now_ms - row["published_ms"]) / 1000
    if waited > patience and (idle is None or idle > patience) and not schedule.running:
        return STUCK, f"{_describe_lag(row)}, and nothing was published meanwhile: is the scheduler running?"
    if waited > 2 * max(interval_seconds, 30) or row["open_batches"] > 1:
        return CATCHING_UP, _describe_lag(row)
    return CURRENT, "less than two intervals behind"


def _find_blocker(row: PipelineRow) -> str | None:
    """What only a person can resolve."""
    if row.get("error") and row.get("needs_person"):
        return str(row["error"])
    for table in row.get("tables", ()):
        if table["problem"]:
            return str(table["problem"])
        if table["open_batches"] >= table["max_pending"]:
            return (
                f"table={table['table']}: its queue is full: open_batches={table['open_batches']} "
                f"max_pending={table['max_pending']}; mend what its merge says, or take the table out of the file"
            )
    return None


def _describe_lag(row: PipelineRow) -> str:
    age = "" if row["lag_seconds"] is None else f", the oldest for {round(row['lag_seconds'])} s"
    return f"{row['lag']} records wait{age}"
