"""Times of the day at which records are flushed, as cron writes them."""

from croniter import croniter

from tidegate.durations import parse_duration

FIELDS = 5


def interval_or_cron(value: object) -> int | str:
    """Whole seconds of a duration, or a cron expression with single spaces; ValueError for anything else."""
    if not isinstance(value, str) or len(value.split()) == 1:
        return parse_duration(value)
    expression = " ".join(value.split())
    if len(value.split()) != FIELDS or not croniter.is_valid(expression):
        raise ValueError("not a cron expression; write minute hour day month weekday, e.g. '0 * * * *'")
    return expression
