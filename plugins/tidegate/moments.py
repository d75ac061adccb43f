"""Times between people and milliseconds since 1970: as written on a command line or into a form, and as shown."""

from datetime import UTC, datetime, timedelta

from tidegate.errors import ConfigurationError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EARLIEST, LATEST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC, microsecond=999_000)
EXAMPLE = "2026-01-01T00:00:00Z"


def time_ms(name: str, text: str, instead: str = f"not a time; write e.g. {EXAMPLE}") -> int:
    """`text` as milliseconds; ConfigurationError calls it `name`, and tells what may stand there."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigurationError(f"{name}={text}: {instead}") from error
    if moment.tzinfo is None:
        raise ConfigurationError(f"{name}={text}: a time without a zone; write e.g. {text}Z")
    return round(moment.timestamp() * 1000)


def moment_at(milliseconds: int) -> datetime:
    """The time in UTC, in the years 1 to 9999: a producer that writes microseconds as milliseconds goes beyond them."""
    try:
        return EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return EARLIEST if milliseconds < 0 else LATEST
