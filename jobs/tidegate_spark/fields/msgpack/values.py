"""MessagePack's scalars as their columns hold them, or as the text that becomes them.

Times and decimals become text, which Spark's SQL converts by the rules that all formats share; as keys of maps they
become what they are. The module travels to the workers by value, as the decoder does.
"""

import re
import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import isfinite, isnan
from typing import Any

Shape = dict[str, Any]
EPOCH = datetime(1970, 1, 1)
INTEGER_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
WHOLE_NUMBER_PATTERN = re.compile(r"[+-]?[0-9]+\s*")
DATE_PATTERN = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
# what is a number in all formats: Python reads 1_000 and blanks around it, too
NUMBER_PATTERN = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def convert_leaf(value: Any, shape: Shape) -> Any:  # noqa: PLR0911 (one for each kind of column)
    """A scalar as the column holds it, or as the text that becomes it; None where something would be lost."""
    kind = shape["type"]
    match kind:
        case "BOOLEAN":
            return value if isinstance(value, bool) else None
        case "STRING":
            return value if isinstance(value, str) else None
        case "BINARY":
            return value if isinstance(value, bytes) else None
        case "FLOAT" | "DOUBLE":
            return _to_float(value, kind)
        case "DATE" | "TIMESTAMP" | "TIMESTAMP_NTZ":
            return _to_moment_key(value, kind) if shape["is_key"] else _format_moment(value)
        case _ if kind in INTEGER_BITS:
            return _to_integer(value, kind)
    return _to_decimal_key(value, kind) if shape["is_key"] else _format_decimal(value)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _to_integer(value: Any, kind: str) -> int | None:
    bound = 1 << (INTEGER_BITS[kind] - 1)
    return int(value) if _is_integer(value) and -bound <= value < bound else None


def _to_float(value: Any, kind: str) -> float | None:
    """The number itself: one that was rounded to the column would be another one."""
    if not isinstance(value, float) and not _is_integer(value):
        return None
    number = float(value)
    if isnan(number):
        return number
    try:
        rounded_number = struct.unpack("<f", struct.pack("<f", number))[0] if kind == "FLOAT" else number
    except OverflowError:
        return None
    return number if rounded_number == value else None


def _format_decimal(value: Any) -> str | None:
    """All digits of a number. A text is one too, where nothing but a number stands in it."""
    if isinstance(value, float):
        return format(Decimal(value), "f") if isfinite(value) else None
    if isinstance(value, str):
        return None if value.startswith("{") else value
    return str(value) if _is_integer(value) else None


def _format_moment(value: Any) -> str | None:
    """The text of a time, with its nanoseconds; a count since 1970 as digits, which no text may be."""
    if isinstance(value, str):
        return None if WHOLE_NUMBER_PATTERN.fullmatch(value) else value
    if _is_integer(value):
        return str(value)
    return _format_timestamp(value)


def _format_timestamp(value: Any) -> str | None:
    from msgpack import Timestamp

    if not isinstance(value, Timestamp):
        return None
    try:
        second = EPOCH + timedelta(seconds=value.seconds)
    except OverflowError:
        return None  # outside of the years 1 to 9999
    return f"{second.isoformat()}.{value.nanoseconds:09d}Z"


def _to_moment_key(value: Any, kind: str) -> date | datetime | None:
    if kind == "DATE":
        is_date = isinstance(value, str) and DATE_PATTERN.fullmatch(value)
        try:
            return date.fromisoformat(value) if is_date else None
        except ValueError:
            return None
    text = _format_timestamp(value)
    if text is None or not text.endswith("000Z"):
        return None
    at = datetime.fromisoformat(text.removesuffix("000Z"))
    return at.replace(tzinfo=UTC) if kind == "TIMESTAMP" else at


def _to_decimal_key(value: Any, kind: str) -> Decimal | None:
    text, (precision, scale) = _format_decimal(value), split_decimal(kind)
    if text is None or not NUMBER_PATTERN.fullmatch(text):
        return None
    try:
        number = Decimal(text)
        digits = number.scaleb(scale)
        is_kept = number.is_finite() and digits == digits.to_integral_value() and abs(digits) < 10**precision
    except ArithmeticError:  # beyond all that Python computes with
        return None
    return number if is_kept else None


def split_decimal(kind: str) -> tuple[int, int]:
    """Precision and scale of a decimal's type."""
    precision, _, scale = kind.removeprefix("DECIMAL").strip("() ").partition(",")
    return int(precision), int(scale or 0)
