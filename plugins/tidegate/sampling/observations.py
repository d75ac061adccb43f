"""Observes the values in one place of the sampled records: their kinds, ranges, and nested parts."""

import math
import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any

from tidegate.sampling.encoded_values import Extension, Fraction, Moment

DATE_PATTERN = re.compile(r"\d{4}-\d{2}-\d{2}")
MOMENT_PATTERN = re.compile(
    r"(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}(?::\d{2})?)(?:(?<=:\d{2})\.(\d{1,9}))?(Z|[+-]\d{2}:\d{2})?"
)
NUMBER_PATTERN = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?")
MICROSECOND_DIGITS = 6


class TextKind(StrEnum):
    """What a text may represent besides text."""

    DATE = "date"
    MOMENT = "moment"  # with an offset from UTC
    LOCAL_MOMENT = "local moment"
    FINE_MOMENT = "fine moment"  # with parts of a microsecond
    NUMBER = "number"
    EMPTY = "empty"
    OTHER = "other"


@dataclass
class Numbers:
    """Numbers with a fraction: digits before and after the point, digits of integers, and how they are written."""

    count: int = 0
    integer_digits: int = 0
    scale: int = 0
    least_scale: int | None = None
    digits: int = 0
    has_trailing_zero: bool = False
    has_exponent: bool = False

    def add(self, text: str) -> None:
        """One number as it is written."""
        self.count += 1
        try:
            sign_digits = Decimal(text).as_tuple()
        except InvalidOperation:
            return
        exponent = sign_digits.exponent if isinstance(sign_digits.exponent, int) else 0
        scale = max(0, -exponent)
        self.has_exponent |= "e" in text.lower()
        self.has_trailing_zero |= scale > 0 and text.endswith("0")
        self.scale = max(self.scale, scale)
        self.least_scale = scale if self.least_scale is None else min(self.least_scale, scale)
        self.integer_digits = max(self.integer_digits, len(sign_digits.digits) + exponent)
        self.digits = max(self.digits, len("".join(map(str, sign_digits.digits)).rstrip("0")))

    def merge(self, other_numbers: "Numbers") -> None:
        """Those that were seen elsewhere too."""
        scales = [numbers.least_scale for numbers in (self, other_numbers) if numbers.least_scale is not None]
        self.least_scale = min(scales, default=None)
        self.count += other_numbers.count
        for name in ("integer_digits", "scale", "digits"):
            setattr(self, name, max(getattr(self, name), getattr(other_numbers, name)))
        self.has_trailing_zero |= other_numbers.has_trailing_zero
        self.has_exponent |= other_numbers.has_exponent


@dataclass
class Observed:
    """Observed values. `count` includes `nulls`; `fields` are those of objects, `element` that of lists."""

    count: int = 0
    nulls: int = 0
    booleans: int = 0
    integers: int = 0
    least: int | None = None
    greatest: int | None = None
    fractions: Numbers = field(default_factory=Numbers)
    floats: int = 0
    not_finite: int = 0
    texts: Counter[TextKind] = field(default_factory=Counter)
    blobs: int = 0
    moments: int = 0
    fine_moments: int = 0
    extensions: int = 0
    objects: int = 0
    fields: "dict[str, Observed]" = field(default_factory=dict)
    lists: int = 0
    element: "Observed | None" = None

    @property
    def present(self) -> int:
        """The number of values that are not null."""
        return self.count - self.nulls

    def count_missing(self, name: str) -> int:
        """How many of the objects lack this field."""
        return self.objects - self.fields[name].count

    def add(self, value: Any) -> None:
        """One value more."""
        self.count += 1
        if value is None:
            self.nulls += 1
        elif isinstance(value, bool):
            self.booleans += 1
        elif isinstance(value, int):
            self._add_integer(value)
        elif isinstance(value, dict):
            self.objects += 1
            for name, inner in value.items():
                self.fields.setdefault(str(name), Observed()).add(inner)
        elif isinstance(value, list):
            self.lists += 1
            self.element = self.element or Observed()
            for inner in value:
                self.element.add(inner)
        else:
            self._add_other(value)

    def _add_integer(self, value: int) -> None:
        self.integers += 1
        self.least = value if self.least is None else min(self.least, value)
        self.greatest = value if self.greatest is None else max(self.greatest, value)

    def _add_other(self, value: Any) -> None:
        if isinstance(value, Fraction):
            self.fractions.add(value)
        elif isinstance(value, float):
            self.floats += 1
            self.not_finite += not math.isfinite(value)
        elif isinstance(value, Moment):
            self.moments += 1
            self.fine_moments += value.nanoseconds % 1000 != 0
        elif isinstance(value, Extension):
            self.extensions += 1
        elif isinstance(value, bytes):
            self.blobs += 1
        else:
            self.texts[find_text_kind(value)] += 1

    def merge(self, other_numbers: "Observed") -> None:
        """All that was seen elsewhere, as if it had been seen here."""
        for name in ("count", "nulls", "booleans", "integers", "floats", "not_finite", "blobs", "moments"):
            setattr(self, name, getattr(self, name) + getattr(other_numbers, name))
        self.fine_moments = self.fine_moments + other_numbers.fine_moments
        self.extensions = self.extensions + other_numbers.extensions
        self.texts += other_numbers.texts
        self.fractions.merge(other_numbers.fractions)
        ends = [
            end for observed in (self, other_numbers) for end in (observed.least, observed.greatest) if end is not None
        ]
        self.least, self.greatest = (min(ends), max(ends)) if ends else (None, None)
        self.objects = self.objects + other_numbers.objects
        self.lists = self.lists + other_numbers.lists
        for name, inner in other_numbers.fields.items():
            self.fields.setdefault(name, Observed()).merge(inner)
        if other_numbers.element is not None:
            self.element = self.element or Observed()
            self.element.merge(other_numbers.element)


def find_text_kind(text: str) -> TextKind:
    """What the text may represent, judged by its form alone."""
    if not text:
        return TextKind.EMPTY
    if DATE_PATTERN.fullmatch(text):
        return TextKind.DATE if _is_date(text) else TextKind.OTHER
    match = MOMENT_PATTERN.fullmatch(text)
    if match is None:
        return TextKind.NUMBER if NUMBER_PATTERN.fullmatch(text) else TextKind.OTHER
    if not _is_moment(match):
        return TextKind.OTHER
    if (match[3] or "")[MICROSECOND_DIGITS:].strip("0"):
        return TextKind.FINE_MOMENT
    return TextKind.MOMENT if match[4] else TextKind.LOCAL_MOMENT


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_moment(match: re.Match[str]) -> bool:
    try:
        datetime.fromisoformat(f"{match[1]}T{match[2]}{(match[4] or '').replace('Z', '+00:00')}")
    except ValueError:
        return False
    return True
