"""Times of the day at which records are flushed, as cron writes them."""

import re
from datetime import UTC, datetime

from croniter import CroniterBadDateError, croniter

from tidegate.spec.time_text import parse_duration_seconds

FIELD_COUNT = 5
RANDOM = re.compile(r"(?<![A-Z])R(?![A-Z])", re.IGNORECASE)  # croniter's: another time whenever it is read
FIRST_DAY = datetime(2024, 1, 1, tzinfo=UTC)
MAX_DAYS = 366
MAX_TIMES = 100


def parse_interval_or_cron(value: object) -> int | str:
    """Whole seconds of a duration, or a cron expression with single spaces; ValueError for anything else."""
    if not isinstance(value, str) or len(value.split()) == 1:
        return parse_duration_seconds(value)
    expression = " ".join(value.split())
    if len(value.split()) != FIELD_COUNT or RANDOM.search(expression) or not croniter.is_valid(expression):
        raise ValueError(
            "not a cron expression, nor a duration; write minute hour day month weekday, e.g. '0 * * * *', or e.g. 30s"
        )
    try:
        find_longest_pause(expression)
    except CroniterBadDateError:
        raise ValueError("a time that never comes, as a day of another month; correct day and month") from None
    return expression


def find_longest_pause(expression: str) -> int:
    """The most seconds between two of its next times, counted over a year or a hundred times from a fixed day on."""
    times = croniter(expression, FIRST_DAY)
    longest_pause = 0
    last = times.get_next(datetime)
    for _ in range(MAX_TIMES):
        following = times.get_next(datetime)
        longest_pause = max(longest_pause, int((following - last).total_seconds()))
        last = following
        if (following - FIRST_DAY).days > MAX_DAYS:
            break
    return longest_pause
