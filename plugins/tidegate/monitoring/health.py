"""A pipeline's state in one word, and the reason, for somebody who was just woken up."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from tidegate.model.counts import format_number, format_span
from tidegate.model.offsets import RecordAddress
from tidegate.monitoring.reports import PipelineRow


class Health(StrEnum):
    """The state of a pipeline or a publication, the worst first."""

    STUCK = "stuck"
    FAILING = "failing"
    UNKNOWN = "unknown"
    CATCHING_UP = "catching up"
    PAUSED = "paused"
    CURRENT = "current"


WORST_FIRST = tuple(Health)

# A flush that is merely slow shall not look stuck: ten of its intervals, and never less than a quarter of an hour.
STUCK_INTERVALS = 10
MIN_STUCK_SECONDS = 900.0
UNTIMED_PATIENCE_SECONDS = 60.0  # of a pipeline without an interval
TASK_PATTERN = re.compile(r"[\w.]+(\[\d+\])? failed( and will be tried again)?: ")
PLACE_PATTERN = re.compile(
    r"(?=pipeline=|table=|batch=)(pipeline=[^\s:]+ ?)?(table=(?P<table>[^\s:]+) ?)?(batch=[^\s:]+)?: "
)
PUBLICATION_PATTERN = re.compile(r"publication=[^\s:]+:? ")
BAD_RECORD_PATTERN = re.compile(
    r"(?P<count>\d+) records? [^;]*; the first: topic=(?P<topic>\S+) partition=(?P<partition>\d+) "
    r"offset=(?P<offset>\d+) reason=(?P<reason>.*?); nothing was merged; (?P<advice>.*)"
)
FILE_PATTERN = re.compile(r"\S+\.ya?ml(:\d+)?: ")


@dataclass(frozen=True)
class ScheduleState:
    """What the scheduler knows; `failed` says what failed in the last run, None if it went well."""

    paused: bool = False
    failed: str | None = None
    running: bool = False
    # when the run refused the position, and nothing else was wrong; in seconds since the epoch
    refused_at: float | None = None
    is_fixed: bool = False  # each task that failed has succeeded since, in the run that is under way
    stalled: str | None = None  # what the run under way waits for, None if something moves in it


class BadRecordReason(NamedTuple):
    """What a failure says of bad records: how many there are, and the first one's place and reason."""

    records: int
    address: RecordAddress
    reason: str
    advice: str

    def to_fact(self, reason: str) -> str:
        """Return `reason` with the record's place, and how many more there are."""
        topic, partition, offset = self.address
        others = f", and {format_number(self.records - 1)} more" if self.records > 1 else ""
        return f"{reason} · {topic}, partition {partition}, offset {offset}{others}"


def find_bad_record(reason: str) -> BadRecordReason | None:
    found = BAD_RECORD_PATTERN.search(reason)
    if found is None:
        return None
    address = found["topic"], int(found["partition"]), int(found["offset"])
    return BadRecordReason(int(found["count"]), address, found["reason"], found["advice"])


def split_reason(reason: str, *, names_table: bool = False) -> tuple[str, str]:
    """Split a reason into what happened and what to do, each without the names of task, pipeline and batch.

    The table stays with `names_table`, or where several tables each have a line. A mistake of a file is whole in the
    first.
    """
    lines = reason.splitlines()
    parts = [_split_line(line, names_table=names_table or len(lines) > 1) for line in lines]
    return "\n".join(fact for fact, _ in parts), "\n".join(advice for _, advice in parts if advice)


def _split_line(line: str, *, names_table: bool) -> tuple[str, str]:
    table = ""
    while prefix := TASK_PATTERN.match(line) or PLACE_PATTERN.match(line) or PUBLICATION_PATTERN.match(line):
        table = prefix.groupdict().get("table") or table
        line = line[prefix.end() :]
    beginning = f"{table}: " if names_table and table else ""
    if bad := find_bad_record(line):
        return beginning + bad.to_fact(bad.reason), bad.advice
    if FILE_PATTERN.match(line):
        return beginning + line, ""
    fact, _, advice = line.partition("; ")
    return beginning + fact, advice


def describe_pipeline_state(
    row: PipelineRow, schedule: ScheduleState, interval_seconds: int, now_ms: int
) -> tuple[Health, str]:
    """Return state and reason. With an `error`, `row` may hold nothing else.

    Somebody must act: stuck, failing. Somebody may want to know: unknown, catching up, paused. current: nothing.
    """
    if blocked := _find_blocker(row):
        return Health.STUCK, blocked
    if schedule.paused:
        trouble = row.get("error") or _find_unreadable_table(row)
        return Health.PAUSED, trouble or (_describe_lag(row) if row["lag"] else "nothing waits")
    is_fixed = schedule.is_fixed and len(row.get("tables", ())) == 1
    if schedule.failed and not is_fixed and not _is_accepted_since(row, schedule):
        return Health.FAILING, schedule.failed
    if error := row.get("error") or _find_unreadable_table(row):
        return Health.UNKNOWN, error
    return _describe_progress(row, schedule, interval_seconds, now_ms)


def _is_accepted_since(row: PipelineRow, schedule: ScheduleState) -> bool:
    if schedule.refused_at is None or row.get("error") or _find_unreadable_table(row):
        return False
    return (row.get("read_at") or 0.0) > schedule.refused_at


def _describe_progress(
    row: PipelineRow, schedule: ScheduleState, interval_seconds: int, now_ms: int
) -> tuple[Health, str]:
    if not row["lag"]:
        return Health.CURRENT, "nothing waits"
    if row["lag"] < row.get("starts_at", 1):
        return (
            Health.CURRENT,
            f"{_count_waiting(row)}: fewer than the {format_number(row['starts_at'])} that start a flush",
        )
    lag_seconds = row["lag_seconds"] or 0
    patience = max(MIN_STUCK_SECONDS, float(STUCK_INTERVALS * interval_seconds))
    idle = None if row["published_ms"] is None else (now_ms - row["published_ms"]) / 1000
    is_idle = not schedule.running or schedule.stalled is not None
    if lag_seconds > patience and (idle is None or idle > patience) and is_idle:
        idle_text = f"{_describe_lag(row)}, and nothing was published meanwhile"
        remedy = f": {schedule.stalled}" if schedule.stalled else "; check that the scheduler runs, then flush now"
        return Health.STUCK, idle_text + remedy
    if lag_seconds > (2 * interval_seconds or UNTIMED_PATIENCE_SECONDS) or _has_long_queue(row):
        return Health.CATCHING_UP, _describe_lag(row)
    if row["lag_seconds"] is None:
        return Health.CURRENT, f"{_count_waiting(row)}, the brokers do not say since when"
    return Health.CURRENT, "less than two intervals behind" if interval_seconds else _describe_lag(row)


def _has_long_queue(row: PipelineRow) -> bool:
    # between two merges, a clock of staging adds batches
    if row.get("staging") is None:
        return row["open_batches"] > 1
    return any(2 * table["open_batches"] >= table["max_pending"] for table in row["tables"])


def _find_blocker(row: PipelineRow) -> str | None:
    if row.get("error") and row.get("needs_person"):
        return str(row["error"])
    for table in row.get("tables", ()):
        if table["problem"] and table["needs_person"]:
            return str(table["problem"])
        if table["open_batches"] >= table["max_pending"]:
            return (
                f"table={table['table']}: its queue is full: open_batches={table['open_batches']} "
                f"max_pending={table['max_pending']}; fix what its merge says, or take the table out of the file"
            )
    return None


def _find_unreadable_table(row: PipelineRow) -> str | None:
    return next((table["problem"] for table in row["tables"] if table["problem"]), None)


def _describe_lag(row: PipelineRow) -> str:
    age = "" if row["lag_seconds"] is None else f", the oldest for {format_span(row['lag_seconds'])}"
    return f"{_count_waiting(row)}{age}"


def _count_waiting(row: PipelineRow) -> str:
    return "1 record waits" if row["lag"] == 1 else f"{format_number(row['lag'])} records wait"
