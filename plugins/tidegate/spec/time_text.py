"""Times between people and milliseconds since 1970: as written on a command line or into a form, and as shown."""

import re
from datetime import UTC, datetime, timedelta

from tidegate.errors import ConfigurationError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EARLIEST = datetime.min.replace(tzinfo=UTC)
LATEST = datetime.max.replace(tzinfo=UTC, microsecond=999_000)
EXAMPLE = "2026-01-01T00:00:00Z"


def parse_timestamp_ms(name: str, text: str, advice: str = f"not a time; write e.g. {EXAMPLE}") -> int:
    """Parse `text` to milliseconds; `ConfigurationError` calls it `name`, and gives the `advice`."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigurationError(f"{name}={text}: {advice}") from error
    if moment.tzinfo is None:
        raise ConfigurationError(f"{name}={text}: a time without a zone; write e.g. {moment.isoformat()}Z")
    return round(moment.timestamp() * 1000)


def to_utc_datetime(milliseconds: int) -> datetime:
    """Return the time in UTC, limited to the years 1 to 9999: microseconds written as milliseconds go beyond."""
    try:
        return EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return EARLIEST if milliseconds < 0 else LATEST


def format_utc(moment: datetime, timespec: str = "milliseconds") -> str:
    """Format as ISO 8601 with a Z, to milliseconds or to `timespec`."""
    return moment.isoformat(timespec=timespec).replace("+00:00", "Z")


def format_time_ms(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else format_utc(to_utc_datetime(milliseconds))


def format_moment(moment: datetime | None) -> str | None:
    """Format as ISO 8601 with milliseconds, Z for UTC; None for None."""
    return None if moment is None else format_utc(moment)


UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
DURATION_PATTERN = re.compile(r"(?:\d+[smhd])+")
DISABLED = -1
MAX_DAYS = 36_500  # what lies longer ago, or is longer off, leaves the years that a time can have


def parse_duration_seconds(value: object) -> int:
    """Return whole seconds of ``60s``, ``10m``, ``7d``, ``1h30m`` or a number; -1 stays -1; else ValueError."""
    if isinstance(value, int) and not isinstance(value, bool):
        return _check_bounds(value)
    if not isinstance(value, str):
        raise ValueError("not a duration; write e.g. 60s, 10m or -1 to disable")
    text = value.strip()
    if re.fullmatch(r"-?\d+", text):
        return _check_bounds(int(text))
    if not DURATION_PATTERN.fullmatch(text):
        raise ValueError("not a duration; write e.g. 60s, 10m or -1 to disable")
    return _check_bounds(sum(int(amount) * UNIT_SECONDS[unit] for amount, unit in re.findall(r"(\d+)([smhd])", text)))


def _check_bounds(seconds: int) -> int:
    if seconds < DISABLED:
        raise ValueError("a duration cannot be negative; write e.g. 60s, 10m or -1 to disable")
    if seconds > MAX_DAYS * UNIT_SECONDS["d"]:
        raise ValueError(f"longer than 100 years; write at most {MAX_DAYS}d")
    return seconds
