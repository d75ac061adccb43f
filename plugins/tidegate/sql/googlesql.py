"""Names, text and constants as GoogleSQL writes them: one place for quoting what is sent to BigQuery."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r"}


def _escape(text: str, quote: str) -> str:
    return "".join(_ESCAPES.get(char, f"\\{quote}" if char == quote else char) for char in text)


def quote(name: str) -> str:
    return f"`{_escape(name, '`')}`"


def quote_name(table: str) -> str:
    """Quote each part of a dotted table name. The project of a domain, ``example.com:name``, is one part."""
    domain, colon, path = table.rpartition(":")
    project, *parts = path.split(".")
    return ".".join(quote(part) for part in (f"{domain}{colon}{project}", *parts))


def render_literal(text: str) -> str:
    return f"'{_escape(text, chr(39))}'"


def render_constant(value: Any) -> str | None:
    """Return a value as a constant that prunes partitions and blocks; None for types that are never compared."""
    match value:
        case bool() | None:
            constant = None
        case int():
            constant = str(value)
        case str():
            constant = render_literal(value)
        case Decimal():
            constant = f"{'BIGNUMERIC' if _is_big_numeric(value) else 'NUMERIC'} '{value:f}'"
        case datetime() if value.tzinfo is not None:
            constant = f"TIMESTAMP '{value.astimezone(UTC).isoformat(sep=' ')}'"
        case datetime():
            constant = f"DATETIME '{value.isoformat(sep=' ')}'"
        case date():
            constant = f"DATE '{value.isoformat()}'"
        case _:
            constant = None
    return constant


def _is_big_numeric(value: Decimal) -> bool:
    _, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    return scale > 9 or len(digits) + int(exponent) > 29
