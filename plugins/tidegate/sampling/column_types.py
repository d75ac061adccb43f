"""Proposes columns of sampled rows: a Spark type from the values of each, and what the sample cannot tell."""

import math
import re
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

from tidegate.model.counts import format_count
from tidegate.sampling.encoded_values import Extension, Fraction, Moment
from tidegate.schema.data_types import Array, DataType, Map, Primitive, Struct, format_type
from tidegate.sql.spark import quote_if_needed

DATE_PATTERN = re.compile(r"\d{4}-\d{2}-\d{2}")
MOMENT_PATTERN = re.compile(
    r"(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}(?::\d{2})?)(?:(?<=:\d{2})\.(\d{1,9}))?(Z|[+-]\d{2}:\d{2})?"
)
NUMBER_PATTERN = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?")
MICROSECOND_DIGITS = 6
MAX_UTC_OFFSET = timedelta(hours=18)  # as Spark reads it
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
    if not _is_held_by_columns(at):
        return TextKind.OTHER
    if match is None:
        return TextKind.DATE
    if (match[3] or "")[MICROSECOND_DIGITS:].strip("0"):
        return TextKind.FINE_MOMENT
    return TextKind.MOMENT if match[4] else TextKind.LOCAL_MOMENT


def _is_held_by_columns(at: str) -> bool:
    try:
        moment = datetime.fromisoformat(at)
        offset = moment.utcoffset() or timedelta()
        moment.replace(tzinfo=UTC) - offset  # fails for a year outside of 1 to 9999 in UTC
    except (ValueError, OverflowError):
        return False
    return abs(offset) <= MAX_UTC_OFFSET


KINDS = {  # of values, by their types
    bool: "booleans",
    Fraction: "numbers",
    float: "numbers",
    int: "integers",
    str: "texts",
    bytes: "bytes",
    Moment: "times",
    list: "lists",
    dict: "objects",
    Extension: "extensions",
}


@dataclass(frozen=True)
class Observed:
    """The values of a column, or of a part of one, in the order of their records."""

    values: Sequence[Any] = ()

    @cached_property
    def by_kind(self) -> dict[str, list[Any]]:
        """The values that are not null."""
        by_kind = {kind: list[Any]() for kind in KINDS.values()}
        for value in self.values:
            if value is not None:
                by_kind[KINDS[type(value)]].append(value)
        return by_kind

    @cached_property
    def fields(self) -> "dict[str, Observed]":
        """What the objects hold, by the fields' names."""
        values = dict[str, list[Any]]()
        for data in self.by_kind["objects"]:
            for name, value in data.items():
                values.setdefault(str(name), []).append(value)
        return {name: Observed(inner) for name, inner in values.items()}

    @property
    def objects(self) -> int:
        return len(self.by_kind["objects"])

    @property
    def present(self) -> int:
        """Without nulls."""
        return sum(map(len, self.by_kind.values()))

    @property
    def nulls(self) -> int:
        return len(self.values) - self.present

    def count_missing(self, name: str) -> int:
        """How many of the objects lack this field."""
        return self.objects - len(self.fields[name].values)


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
NANOSECONDS = (-62_135_596_800 * 10**9, 253_402_300_800 * 10**9)  # of the years 1 to 9999, since 1970
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
    kinds = [kind for kind, values in observed.by_kind.items() if values]
    if "numbers" in kinds and "integers" in kinds:  # a number is written without its fraction where that is 0
        kinds.remove("integers")
    if not kinds:
        return Guess(TEXT, checks=("only null was seen; STRING is no more than a placeholder",))
    if len(kinds) > 1:
        way_out = "; STRING keeps the text of each"
        if any(isinstance(number, float) and not math.isfinite(number) for number in observed.by_kind["numbers"]):
            way_out += ", but for NaN and infinite numbers, which are bad"
        way_out = way_out if keeps_text else ", and no type holds both: such records are bad; leave it out"
        return Guess(TEXT, checks=(f"{' and '.join(kinds)} were seen{way_out}",))
    values = observed.by_kind
    guesses: dict[str, Callable[[], Guess]] = {
        "booleans": lambda: Guess(Primitive("BOOLEAN")),
        "integers": lambda: _guess_integer(values["integers"], name),
        "numbers": lambda: _guess_number(values["numbers"], values["integers"]),
        "texts": lambda: _guess_text(values["texts"]),
        "bytes": lambda: Guess(Primitive("BINARY")),
        "times": lambda: _guess_time(values["times"]),
        "lists": lambda: _guess_list(values["lists"], name, keeps_text),
        "objects": lambda: _guess_object(observed, keeps_text),
        "extensions": lambda: Guess(TEXT, (), ("values of an extension type, which no column holds; leave it out",)),
    }
    return guesses[kinds[0]]()


def _guess_integer(integers: Sequence[int], name: str) -> Guess:
    least = min(integers)
    greatest = max(integers)
    remark = f"{least} to {greatest}"
    if BIGINT_RANGE[0] <= least and greatest <= BIGINT_RANGE[1]:
        fits = "; INT would hold these" if INT_RANGE[0] <= least and greatest <= INT_RANGE[1] else ""
        return Guess(Primitive("BIGINT"), (remark + fits,), _suspect_time(least, greatest, name))
    if max(len(str(abs(least))), len(str(abs(greatest)))) <= MAX_DIGITS:
        return Guess(Primitive("DECIMAL(38,0)"), (f"{remark}: beyond BIGINT",))
    return Guess(TEXT, (), (f"{remark}: more than 38 digits, which no number holds; STRING keeps them",))


def _suspect_time(least: int, greatest: int, name: str) -> tuple[str, ...]:
    """Remarks on integers that may be times: they are never taken for times."""
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


class _Fraction(NamedTuple):
    """How a number is written: `digits` are all but the zeros at its end."""

    integer_digits: int
    scale: int
    digits: int
    ends_with_zero: bool
    has_exponent: bool


def _read_fraction(text: str) -> _Fraction | None:
    try:
        _, digits, exponent = Decimal(text).as_tuple()
    except InvalidOperation:  # its exponent is beyond all bounds
        return None
    shift = exponent if isinstance(exponent, int) else 0
    return _Fraction(
        integer_digits=len(digits) + shift,
        scale=max(0, -shift),
        digits=len("".join(map(str, digits)).rstrip("0")),
        ends_with_zero=text.endswith("0"),
        has_exponent="e" in text.lower(),
    )


def _guess_number(numbers: Sequence[Fraction | float], integers: Sequence[int]) -> Guess:
    floats = [number for number in numbers if isinstance(number, float)]
    too_large = sum(isinstance(number, Fraction) and math.isinf(float(number)) for number in numbers)
    all_numbers = len(numbers) + len(integers)
    beyond = {f"{too_large} of {all_numbers} are beyond DOUBLE, which are bad": too_large}
    if floats:
        not_finite = sum(not math.isfinite(number) for number in floats)
        remarks = (f"{format_count(not_finite, 'value')} NaN or infinite",) if not_finite else ()
        lost = sum(not _is_double(number) for number in integers)
        check = f"{lost} of {all_numbers} are whole numbers that DOUBLE does not hold, which are bad"
        return Guess(Primitive("DOUBLE"), remarks, _list_met({check: lost} | beyond))
    fractions = [fraction for number in numbers if (fraction := _read_fraction(str(number))) is not None]
    scale = max((fraction.scale for fraction in fractions), default=0)
    significant_digits = max((fraction.digits for fraction in fractions), default=0)
    has_exponent = any(fraction.has_exponent for fraction in fractions)
    greatest_integer = max(map(abs, integers), default=0)
    integer_digits = max([len(str(greatest_integer)), *(fraction.integer_digits for fraction in fractions)])
    mixed = (f"{len(integers)} of them whole",) if integers else ()
    is_fixed = scale > 1 and all(fraction.scale == scale for fraction in fractions) and not has_exponent
    if is_fixed and any(fraction.ends_with_zero for fraction in fractions) and integer_digits + scale <= MAX_DIGITS:
        precision = min(MAX_DIGITS, max(18, integer_digits + scale + SPARE_DIGITS))
        check = f"always {scale} decimal places, so it is a DECIMAL; a record with more would be bad"
        return Guess(Primitive(f"DECIMAL({precision},{scale})"), mixed, (check,))
    if (significant_digits > EXACT_DIGITS and not has_exponent) or greatest_integer > EXACT_INTEGER:
        if integer_digits + scale > MAX_DIGITS:
            return Guess(TEXT, mixed, ("more than 38 digits, which no number holds; STRING keeps them",))
        kept_scale = min(MAX_DIGITS - integer_digits, max(scale, 6))
        digits_found = f"up to {significant_digits} digits, which DOUBLE would round"
        check = f"{digits_found}; a record with more than {kept_scale} decimal places is bad"
        return Guess(Primitive(f"DECIMAL(38,{kept_scale})"), mixed, (check,))
    check = f"up to {format_count(scale, 'decimal place')}; if these are amounts, declare DECIMAL(p,s)"
    return Guess(Primitive("DOUBLE"), mixed, (check, *_list_met(beyond)))


def _is_double(number: int) -> bool:
    try:
        return float(number) == number
    except OverflowError:
        return False


def _guess_text(texts: Sequence[str]) -> Guess:
    counts = Counter(map(find_text_kind, texts))
    kinds = frozenset(counts)
    if kinds in TEXT_TYPES:
        name, remark = TEXT_TYPES[kinds]
        return Guess(Primitive(name), (remark,))
    moments = kinds & {TextKind.MOMENT, TextKind.LOCAL_MOMENT, TextKind.FINE_MOMENT}
    if kinds == {TextKind.MOMENT, TextKind.LOCAL_MOMENT}:
        local = counts[TextKind.LOCAL_MOMENT]
        return Guess(Primitive("TIMESTAMP"), (), (f"{local} of {len(texts)} have no offset and are read as UTC",))
    if kinds == moments and moments:
        check = "times with parts of a microsecond, for which TIMESTAMP has no place; see value.nanoseconds"
        return Guess(TEXT, (), (check,))
    if kinds & {TextKind.DATE, *moments} and TextKind.EMPTY in kinds:
        return Guess(TEXT, (), (f"dates or times, and {counts[TextKind.EMPTY]} empty texts that are none",))
    if TextKind.ENCODED in kinds and kinds <= {TextKind.ENCODED, TextKind.ENCODABLE, TextKind.NUMBER}:
        check = "always base64 of few bytes, as Debezium writes a DECIMAL; set its decimal.handling.mode to string"
        return Guess(TEXT, (), (check,))
    return Guess(TEXT)


def _guess_time(moments: Sequence[Moment]) -> Guess:
    fine = sum(moment.nanoseconds % 1000 != 0 for moment in moments)
    outside = sum(not NANOSECONDS[0] <= moment.nanoseconds < NANOSECONDS[1] for moment in moments)
    counts = {
        f"{fine} have parts of a microsecond and are bad without value.nanoseconds: truncate": fine,
        f"{outside} lie outside of the years 1 to 9999 and are bad": outside,
    }
    return Guess(Primitive("TIMESTAMP"), (), _list_met(counts))


def _list_met(counts: Mapping[str, int]) -> tuple[str, ...]:
    """The sentences about values of which there is one."""
    return tuple(sentence for sentence, count in counts.items() if count)


def _guess_list(lists: Sequence[list[Any]], name: str, keeps_text: bool) -> Guess:
    elements = [element for values in lists for element in values]
    if not elements:
        return Guess(Array(TEXT), checks=("only empty lists were seen; STRING elements are a placeholder",))
    inner = guess_type(Observed(elements), name, keeps_text=keeps_text).nest_in("elements")
    return Guess(Array(inner.type), inner.remarks, inner.checks)


def _guess_object(observed: Observed, keeps_text: bool) -> Guess:
    if not observed.fields:
        return Guess(Map(TEXT, TEXT), checks=("only empty objects were seen; MAP<STRING, STRING> is a placeholder",))
    names = [name for data in observed.by_kind["objects"] for name in data]
    if not all(isinstance(name, str) for name in names):  # only MessagePack has such, and no struct of them
        values = [value for data in observed.by_kind["objects"] for value in data.values()]
        key = guess_type(Observed(names), "", keeps_text=False).nest_in("keys")
        inner = guess_type(Observed(values), "", keeps_text=keeps_text).nest_in("values")
        return Guess(Map(key.type, inner.type), (*key.remarks, *inner.remarks), (*key.checks, *inner.checks))
    is_odd = any(not name.strip() or not name.isprintable() for name in observed.fields)
    if is_odd or len({name.casefold() for name in observed.fields}) < len(observed.fields):
        check = "names inside of it differ only in case, or are empty or no text, which no STRUCT holds"
        return Guess(TEXT if keeps_text else Map(TEXT, TEXT), checks=(check,))
    share = sum(len(inner.values) for inner in observed.fields.values()) / len(observed.fields)
    if len(observed.fields) > MAP_FIELDS and share < MAP_SHARE * observed.objects:
        values = [value for part in observed.fields.values() for value in part.values]
        inner = guess_type(Observed(values), "", keeps_text=keeps_text).nest_in("values")
        check = (
            f"{len(observed.fields)} names, each in few of {format_count(observed.objects, 'object')}: taken for a map"
        )
        return Guess(Map(TEXT, inner.type), inner.remarks, (check, *inner.checks))
    parts = {name: guess_type(inner, name, keeps_text=keeps_text) for name, inner in observed.fields.items()}
    nested = [guess.nest_in(name) for name, guess in parts.items()]
    checks = tuple(check for guess in nested for check in guess.checks)
    return Guess(Struct(tuple((name, guess.type) for name, guess in parts.items())), (), checks)


# ---- columns, of types that were guessed or stated


@dataclass(frozen=True)
class ProposedColumn:
    """A column with its type as DDL, remarks, and what a person has to check."""

    name: str
    type: str
    remarks: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()

    @property
    def ddl(self) -> str:
        return f"{quote_if_needed(self.name)} {self.type}"


def render_ddl_type(data_type: DataType) -> str:
    """With backquotes only where they are needed."""
    return format_type(data_type, quote_if_needed)


def propose_columns(
    observed: Observed, stated: Mapping[str, Guess], *, keeps_text: bool, may_lack: bool = False
) -> tuple[list[ProposedColumn], list[str]]:
    """Columns in the order of their first occurrence, and problems of fields without a column.

    A type that the source states takes precedence over the sample. `may_lack`: a missing field is no finding.
    """
    columns = list[ProposedColumn]()
    problems = list[str]()
    names = [*stated, *(name for name in observed.fields if name not in stated)]
    counts = {name: len(observed.fields[name].values) if name in observed.fields else 0 for name in names}
    chosen_names = {name.casefold(): name for name in sorted(names, key=lambda name: counts[name])}
    for name in names:
        if chosen_names[name.casefold()] != name:
            problems.append(f"field {name!r} is left out: it differs from {chosen_names[name.casefold()]} only in case")
        elif not name.strip() or not name.isprintable():
            problems.append(f"field {name!r} is left out: no column can have this name")
        else:
            part = observed.fields.get(name, Observed())
            guess = stated.get(name) or guess_type(part, name, keeps_text=keeps_text)
            remarks = (*guess.remarks, *([] if may_lack else _describe_presence(observed, name, part)))
            columns.append(ProposedColumn(name, render_ddl_type(guess.type), remarks, guess.checks))
    return columns, problems


def _describe_presence(observed: Observed, name: str, part: Observed) -> list[str]:
    if name not in observed.fields:
        return [f"in none of {format_count(observed.objects, 'row')}"]
    missing = observed.count_missing(name)
    nulls = part.nulls
    words = [f"{missing} of {observed.objects} rows lack it"] if missing else []
    words += [f"null in {nulls}"] if nulls and part.present else []
    return words or ([f"in all {observed.objects} rows, never null"] if part.present and observed.objects > 1 else [])
