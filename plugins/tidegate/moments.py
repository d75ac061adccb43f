"""Times that people write on a command line or into a form, in milliseconds since 1970."""

from datetime import datetime

from tidegate.errors import ConfigurationError

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
