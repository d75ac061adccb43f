"""Chooses a column's Spark type from the sampled values, and says what the sample cannot tell."""

import math
import re
from base64 import b64decode
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any

from tidegate.model.counts import format_count
from tidegate.sampling.encoded_values import Extension, Fraction, Moment
from tidegate.schema.data_types import Array, DataType, Map, Primitive, Struct

DATE_PATTERN = re.compile(r"\d{4}-\d{2}-\d{2}")
MOMENT_PATTERN = re.compile(
    r"(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}(?::\d{2})?)(?:(?<=:\d{2})\.(\d{1,9}))?(Z|[+-]\d{2}:\d{2})?"
)
NUMBER_PATTERN = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?")
MICROSECOND_DIGITS = 6
BASE64_PATTERN = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
MAX_DECIMAL_BYTES = 16  # of a number of 38 digits


class TextKind(StrEnum):
    """What a text may represent besides text."""

    DATE = "date"
    MOMENT = "moment"  # with an offset from UTC
    LOCAL_MOMENT = "local moment"
    FINE_MOMENT = "fine moment"  # with parts of a microsecond
    NUMBER = "number"
    EMPTY = "empty"
    ENCODED = "encoded"  # base64 of so few bytes that they may be the number of a decimal
    ENCODABLE = "encodable"  # the same, and any word of four letters
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
        """`text`: the number as written."""
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
        scales = [numbers.least_scale for numbers in (self, other_numbers) if numbers.least_scale is not None]
        self.least_scale = min(scales, default=None)
        self.count += other_numbers.count
        for name in ("integer_digits", "scale", "digits"):
            setattr(self, name, max(getattr(self, name), getattr(other_numbers, name)))
        self.has_trailing_zero |= other_numbers.has_trailing_zero
        self.has_exponent |= other_numbers.has_exponent


# of `Observed`, what adds up
COUNTS = (
    "count", "nulls", "booleans", "integers", "floats", "not_finite", "blobs", "moments", "fine_moments", "extensions",
    "objects", "lists",
)  # fmt: skip


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
        """Without nulls."""
        return self.count - self.nulls

    def count_missing(self, name: str) -> int:
        """How many of the objects lack this field."""
        return self.objects - self.fields[name].count

    def add(self, value: Any) -> None:
        self.count += 1
        if value is None:
            self.nulls += 1
        elif isinstance(value, bool):
            self.booleans += 1
        elif isinstance(value, int):
            self.integers += 1
            self.least = value if self.least is None else min(self.least, value)
            self.greatest = value if self.greatest is None else max(self.greatest, value)
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
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other_numbers, name))
        self.texts += other_numbers.texts
        self.fractions.merge(other_numbers.fractions)
        ends = [
            end for observed in (self, other_numbers) for end in (observed.least, observed.greatest) if end is not None
        ]
        self.least, self.greatest = (min(ends), max(ends)) if ends else (None, None)
        for name, inner in other_numbers.fields.items():
            self.fields.setdefault(name, Observed()).merge(inner)
        if other_numbers.element is not None:
            self.element = self.element or Observed()
            self.element.merge(other_numbers.element)


def _find_encoding(text: str) -> TextKind:
    if not BASE64_PATTERN.fullmatch(text) or len(b64decode(text)) > MAX_DECIMAL_BYTES:
        return TextKind.OTHER
    return TextKind.ENCODED if text.endswith("=") else TextKind.ENCODABLE


def find_text_kind(text: str) -> TextKind:
    """By the text's form alone."""
    if not text:
        return TextKind.EMPTY
    is_date = DATE_PATTERN.fullmatch(text) is not None
    match = MOMENT_PATTERN.fullmatch(text)
    if match is None and not is_date:
        return TextKind.NUMBER if NUMBER_PATTERN.fullmatch(text) else _find_encoding(text)
    at = text if match is None else f"{match[1]}T{match[2]}{(match[4] or '').replace('Z', '+00:00')}"
    try:
        datetime.fromisoformat(at)
    except ValueError:
        return TextKind.OTHER
    if match is None:
        return TextKind.DATE
    if (match[3] or "")[MICROSECOND_DIGITS:].strip("0"):
        return TextKind.FINE_MOMENT
    return TextKind.MOMENT if match[4] else TextKind.LOCAL_MOMENT


INT_RANGE = (-(2**31), 2**31 - 1)
BIGINT_RANGE = (-(2**63), 2**63 - 1)
# digits that each DOUBLE keeps, and the integers
MAX_DIGITS = 38
EXACT_DIGITS = 15
EXACT_INTEGER = 2**53
SPARE_DIGITS = 6  # before the point of a DECIMAL, beyond those that were seen
# an object with more names, each in fewer objects, is taken for a map
MAP_FIELDS = 20
MAP_SHARE = 0.3
YEARS = (2001, 2100)
UNITS = {"seconds": 1, "millis": 10**3, "micros": 10**6, "nanos": 10**9}
TIME_NAME_PATTERN = re.compile(
    r"(^|_|\.)(at|ts|on|time|timestamp|date|day|since|until|expires?|created|updated|modified|deleted)(_|$)"
    r"|At$|Time$|Date$|Ts$|timestamp|time_?ms|epoch", re.IGNORECASE
)  # fmt: skip
TEXT = Primitive("STRING")
TEXT_TYPES = {  # where all texts are of one kind
    frozenset({TextKind.DATE}): ("DATE", "ISO dates"),
    frozenset({TextKind.LOCAL_MOMENT}): ("TIMESTAMP_NTZ", "ISO times without an offset"),
    frozenset({TextKind.MOMENT}): ("TIMESTAMP", "ISO times with an offset"),
    frozenset({TextKind.NUMBER}): ("STRING", "numbers in quotes: a DECIMAL(p,s) reads them too"),
}


@dataclass(frozen=True)
class Guess:
    """A type with remarks about it. `checks` are remarks on guesses that may be wrong."""

    type: DataType
    remarks: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()

    def nest_in(self, name: str) -> "Guess":
        """For a part of a column; each remark gets the part's name."""
        return Guess(
            self.type,
            tuple(f"{name}: {text}" for text in self.remarks),
            tuple(f"{name}: {text}" for text in self.checks),
        )


def guess_type(observed: Observed, name: str, *, keeps_text: bool = True) -> Guess:
    """The type of a column called `name`. `keeps_text`: a STRING holds the text of anything, as in JSON."""
    kinds = _list_kinds(observed)
    if not kinds:
        return Guess(TEXT, checks=("only null was seen; STRING is no more than a placeholder",))
    if len(kinds) > 1:
        way_out = "; STRING keeps the text of each"
        way_out = way_out if keeps_text else ", and no type holds both: such records are bad; leave it out"
        return Guess(TEXT, checks=(f"{' and '.join(kinds)} were seen{way_out}",))
    finer = f"{observed.fine_moments} have parts of a microsecond and are bad without value.nanoseconds: truncate"
    guesses: dict[str, Callable[[], Guess]] = {
        "booleans": lambda: Guess(Primitive("BOOLEAN")),
        "integers": lambda: _guess_integer(observed, name),
        "numbers": lambda: _guess_number(observed),
        "texts": lambda: _guess_text(observed),
        "bytes": lambda: Guess(Primitive("BINARY")),
        "times": lambda: Guess(Primitive("TIMESTAMP"), (), (finer,) if observed.fine_moments else ()),
        "lists": lambda: _guess_list(observed, name, keeps_text),
        "objects": lambda: _guess_object(observed, keeps_text),
        "extensions": lambda: Guess(TEXT, (), ("values of an extension type, which no column holds; leave it out",)),
    }
    return guesses[kinds[0]]()


def _list_kinds(observed: Observed) -> list[str]:
    numbers = observed.fractions.count + observed.floats
    counts = {
        "booleans": observed.booleans,
        "numbers": numbers + observed.integers if numbers else 0,
        "integers": 0 if numbers else observed.integers,
        "texts": observed.texts.total(),
        "bytes": observed.blobs,
        "times": observed.moments,
        "lists": observed.lists,
        "objects": observed.objects,
        "extensions": observed.extensions,
    }
    return [kind for kind, number in counts.items() if number]


def _guess_integer(observed: Observed, name: str) -> Guess:
    least = observed.least or 0
    greatest = observed.greatest or 0
    remark = f"{least} to {greatest}"
    if BIGINT_RANGE[0] <= least and greatest <= BIGINT_RANGE[1]:
        fits = "; INT would hold these" if INT_RANGE[0] <= least and greatest <= INT_RANGE[1] else ""
        return Guess(Primitive("BIGINT"), (remark + fits,), _suspect_time(observed, name))
    if max(len(str(abs(least))), len(str(abs(greatest)))) <= MAX_DIGITS:
        return Guess(Primitive("DECIMAL(38,0)"), (f"{remark}: beyond BIGINT",))
    return Guess(TEXT, (), (f"{remark}: more than 38 digits, which no number holds; STRING keeps them",))


def _suspect_time(observed: Observed, name: str) -> tuple[str, ...]:
    """Remarks on integers that may be times: they are never taken for times."""
    least = observed.least or 0
    greatest = observed.greatest or 0
    is_called_so = TIME_NAME_PATTERN.search(name) is not None
    for unit, factor in UNITS.items():
        begin, end = (datetime(year, 1, 1, tzinfo=UTC).timestamp() * factor for year in YEARS)
        if begin <= least and greatest < end and (is_called_so or unit != "seconds"):
            at = datetime.fromtimestamp(greatest / factor, UTC)
            return (
                f"may be a time in {unit} (the latest would be {at:%Y-%m-%d}); if so declare TIMESTAMP and "
                f"value.timestamp_unit: {{{name}: {unit}}}",
            )
    if re.search(r"date|day", name, re.IGNORECASE) and least >= 10_000 and greatest < 40_000:
        return ("may be a date in days since 1970; a change event's DATE column reads such numbers",)
    return ()


def _guess_number(observed: Observed) -> Guess:
    numbers = observed.fractions
    if observed.floats or not numbers.count:
        remarks = (f"{format_count(observed.not_finite, 'value')} NaN or infinite",) if observed.not_finite else ()
        return Guess(Primitive("DOUBLE"), remarks)
    greatest_integer = max(abs(observed.least or 0), abs(observed.greatest or 0))
    digits = max(numbers.integer_digits, len(str(greatest_integer)) if observed.integers else 1, 1)
    mixed = (f"{observed.integers} of them whole",) if observed.integers else ()
    is_fixed = numbers.least_scale == numbers.scale > 1 and numbers.has_trailing_zero and not numbers.has_exponent
    if is_fixed and digits + numbers.scale <= MAX_DIGITS:
        precision = min(MAX_DIGITS, max(18, digits + numbers.scale + SPARE_DIGITS))
        check = f"always {numbers.scale} decimal places, so it is a DECIMAL; a record with more would be bad"
        return Guess(Primitive(f"DECIMAL({precision},{numbers.scale})"), mixed, (check,))
    if (numbers.digits > EXACT_DIGITS and not numbers.has_exponent) or greatest_integer > EXACT_INTEGER:
        if digits + numbers.scale > MAX_DIGITS:
            return Guess(TEXT, mixed, ("more than 38 digits, which no number holds; STRING keeps them",))
        scale = min(MAX_DIGITS - digits, max(numbers.scale, 6))
        digits_found = f"up to {numbers.digits} digits, which DOUBLE would round"
        check = f"{digits_found}; a record with more than {scale} decimal places is bad"
        return Guess(Primitive(f"DECIMAL(38,{scale})"), mixed, (check,))
    check = f"up to {format_count(numbers.scale, 'decimal place')}; if these are amounts, declare DECIMAL(p,s)"
    return Guess(Primitive("DOUBLE"), mixed, (check,))


def _guess_text(observed: Observed) -> Guess:
    kinds = frozenset(observed.texts)
    if kinds in TEXT_TYPES:
        name, remark = TEXT_TYPES[kinds]
        return Guess(Primitive(name), (remark,))
    moments = kinds & {TextKind.MOMENT, TextKind.LOCAL_MOMENT, TextKind.FINE_MOMENT}
    if kinds == {TextKind.MOMENT, TextKind.LOCAL_MOMENT}:
        local = observed.texts[TextKind.LOCAL_MOMENT]
        return Guess(Primitive("TIMESTAMP"), (), (f"{local} of {observed.present} have no offset and are read as UTC",))
    if kinds == moments and moments:
        check = "times with parts of a microsecond, for which TIMESTAMP has no place; see value.nanoseconds"
        return Guess(TEXT, (), (check,))
    if kinds & {TextKind.DATE, *moments} and TextKind.EMPTY in kinds:
        return Guess(TEXT, (), (f"dates or times, and {observed.texts[TextKind.EMPTY]} empty texts that are none",))
    if TextKind.ENCODED in kinds and kinds <= {TextKind.ENCODED, TextKind.ENCODABLE, TextKind.NUMBER}:
        check = "always base64 of few bytes, as Debezium writes a DECIMAL; set its decimal.handling.mode to string"
        return Guess(TEXT, (), (check,))
    return Guess(TEXT)


def _guess_list(observed: Observed, name: str, keeps_text: bool) -> Guess:
    element = observed.element
    if element is None or not element.count:
        return Guess(Array(TEXT), checks=("only empty lists were seen; STRING elements are a placeholder",))
    inner = guess_type(element, name, keeps_text=keeps_text).nest_in("elements")
    return Guess(Array(inner.type), inner.remarks, inner.checks)


def _guess_object(observed: Observed, keeps_text: bool) -> Guess:
    if not observed.fields:
        return Guess(Map(TEXT, TEXT), checks=("only empty objects were seen; MAP<STRING, STRING> is a placeholder",))
    is_odd = any(not name.strip() or not name.isprintable() for name in observed.fields)
    if is_odd or len({name.casefold() for name in observed.fields}) < len(observed.fields):
        check = "names inside of it differ only in case, or are empty or no text, which no STRUCT holds"
        return Guess(TEXT if keeps_text else Map(TEXT, TEXT), checks=(check,))
    share = sum(inner.count for inner in observed.fields.values()) / len(observed.fields)
    if len(observed.fields) > MAP_FIELDS and share < MAP_SHARE * observed.objects:
        values = Observed()
        for part in observed.fields.values():
            values.merge(part)
        inner = guess_type(values, "", keeps_text=keeps_text).nest_in("values")
        check = (
            f"{len(observed.fields)} names, each in few of {format_count(observed.objects, 'object')}: taken for a map"
        )
        return Guess(Map(TEXT, inner.type), inner.remarks, (check, *inner.checks))
    parts = {name: guess_type(inner, name, keeps_text=keeps_text) for name, inner in observed.fields.items()}
    nested = [guess.nest_in(name) for name, guess in parts.items()]
    checks = tuple(check for guess in nested for check in guess.checks)
    return Guess(Struct(tuple((name, guess.type) for name, guess in parts.items())), (), checks)
