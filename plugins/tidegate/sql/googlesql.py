"""Names, text and constants as GoogleSQL writes them: one place for quoting what is sent to BigQuery."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r"}


def _escape(text: str, quote: str) -> str:
    return "".join(_ESCAPES.get(char, f"\\{quote}" if char == quote else char) for char in text)


def quote(name: str) -> str:
    """One identifier in backquotes."""
    return f"`{_escape(name, '`')}`"


def quote_name(table: str) -> str:
    """A dotted table name, each part in backquotes."""
    return ".".join(quote(part) for part in table.split("."))


def render_literal(text: str) -> str:
    """A string literal."""
    return f"'{_escape(text, chr(39))}'"


def render_constant(value: Any) -> str | None:
    """A value as a constant that prunes partitions and blocks; None for types that are never compared with one."""
    match value:
        case bool() | None:
            found = None
        case int():
            found = str(value)
        case str():
            found = render_literal(value)
        case Decimal():
            found = f"{'BIGNUMERIC' if _is_big_numeric(value) else 'NUMERIC'} '{value:f}'"
        case datetime() if value.tzinfo is not None:
            found = f"TIMESTAMP '{value.astimezone(UTC).isoformat(sep=' ')}'"
        case datetime():
            found = f"DATETIME '{value.isoformat(sep=' ')}'"
        case date():
            found = f"DATE '{value.isoformat()}'"
        case _:
            found = None
    return found


def _is_big_numeric(value: Decimal) -> bool:
    """Whether NUMERIC, with 29 digits before the point and 9 behind it, is too small."""
    _, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    return scale > 9 or len(digits) + int(exponent) > 29
