"""Values of every engine in one form, by the column's type in Iceberg; and how rows of two of them differ."""

import itertools
import json
import struct
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

Row = dict[str, Any]


def build_row(row: dict[str, Any], fields: StructType) -> Row:
    """A row as an engine gives it, by the columns of the table; a column that it lacks stays away."""
    return {field.name: convert(row[field.name], field.field_type) for field in fields.fields if field.name in row}


def convert(value: Any, kind: Any) -> Any:
    """Python's value as an engine's client gives it, or Flink's text, in the common form."""
    if value is None:
        return None
    match kind:
        case StructType():
            parts = list(value.values() if isinstance(value, dict) else value)
            if isinstance(value, dict):
                parts = [value.get(field.name) for field in kind.fields]
            return [convert(part, field.field_type) for part, field in zip(parts, kind.fields, strict=True)]
        case ListType():
            return [convert(part, kind.element_type) for part in value]
        case MapType():
            pairs = value.items() if isinstance(value, dict) else value
            made = [[convert(name, kind.key_type), convert(part, kind.value_type)] for name, part in pairs]
            return sorted(made, key=json.dumps)
        case _:
            return SCALARS[type(kind)](value, kind)


def parse_text(text: str | None, kind: Any) -> Any:
    """What Flink prints of a field: the text of a scalar, or JSON whose scalars are texts."""
    if text is None:
        return None
    return convert(json.loads(text) if isinstance(kind, (StructType, ListType, MapType)) else text, kind)


def _convert_boolean(value: Any, _: Any) -> bool:
    return value == "true" if isinstance(value, str) else bool(value)


def _convert_number(value: Any, kind: Any) -> str:
    number = float(value)
    if isinstance(kind, FloatType):
        number = struct.unpack("f", struct.pack("f", number))[0]
    return repr(number)


def _convert_decimal(value: Any, kind: DecimalType) -> str:
    return f"{Decimal(value):.{kind.scale}f}"


def _convert_day(value: Any, _: Any) -> str:
    return (date.fromisoformat(value) if isinstance(value, str) else value).isoformat()


def _convert_time(value: Any, _: Any) -> str:
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds")


def _convert_zoned(value: Any, _: Any) -> str:
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def _convert_text(value: Any, _: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _convert_bytes(value: Any, _: Any) -> str:
    return value if isinstance(value, str) else bytes(value).hex()


def _convert_uuid(value: Any, _: Any) -> str:
    if isinstance(value, bytes):
        return str(uuid.UUID(bytes=value))
    return str(uuid.UUID(str(value)))


SCALARS: dict[type, Callable[[Any, Any], Any]] = {
    BooleanType: _convert_boolean,
    IntegerType: lambda value, _: int(value),
    LongType: lambda value, _: int(value),
    FloatType: _convert_number,
    DoubleType: _convert_number,
    DecimalType: _convert_decimal,
    DateType: _convert_day,
    TimestampType: _convert_time,
    TimestamptzType: _convert_zoned,
    StringType: _convert_text,
    BinaryType: _convert_bytes,
    FixedType: _convert_bytes,
    UUIDType: _convert_uuid,
}


@dataclass(frozen=True)
class Limit:
    """What an engine cannot tell apart, in words, and what makes the rows of both equal where that is all."""

    words: str
    level: Callable[[Row, StructType], Row]


def _level(row: Row, fields: StructType, change: Callable[[Any, Any], Any]) -> Row:
    return {
        field.name: _walk(row[field.name], field.field_type, change) for field in fields.fields if field.name in row
    }


def _walk(value: Any, kind: Any, change: Callable[[Any, Any], Any]) -> Any:
    value = change(value, kind)
    if value is None:
        return None
    match kind:
        case StructType():
            return [_walk(part, f.field_type, change) for part, f in zip(value, kind.fields, strict=True)]
        case ListType():
            return [_walk(part, kind.element_type, change) for part in value]
        case MapType():
            return [[name, _walk(part, kind.value_type, change)] for name, part in value]
        case _:
            return value


def _empty(value: Any, kind: Any) -> Any:
    return [] if value is None and isinstance(kind, (ListType, MapType)) else value


def _empty_of_structs(value: Any, kind: Any) -> Any:
    part = kind.element_type if isinstance(kind, ListType) else kind.value_type if isinstance(kind, MapType) else None
    return [] if value is None and isinstance(part, StructType) else value


def _hollow(value: Any, kind: Any) -> Any:
    return [None] * len(kind.fields) if value is None and isinstance(kind, StructType) else value


EMPTY_COLLECTIONS = Limit("a NULL list or map is an empty one", lambda row, fields: _level(row, fields, _empty))
EMPTY_OF_STRUCTS = Limit(
    "a NULL list or map of structs is an empty one", lambda row, fields: _level(row, fields, _empty_of_structs)
)
HOLLOW_STRUCTS = Limit("a NULL struct is one of NULLs", lambda row, fields: _level(row, fields, _hollow))


def leave_out(words: str, *columns: str) -> Limit:
    """A limit that concerns these columns alone."""
    return Limit(words, lambda row, _: {name: value for name, value in row.items() if name not in columns})


def count_rows(rows: Iterable[Row]) -> "Counter[str]":
    return Counter(json.dumps(row, sort_keys=True) for row in rows)


def find_limits(
    expected: Sequence[Row], read: Sequence[Row], fields: StructType, limits: Sequence[Limit]
) -> tuple[Limit, ...] | None:
    """The fewest of these limits that explain all that differs, none where nothing does; None: they do not."""
    for number in range(len(limits) + 1):
        for chosen in itertools.combinations(limits, number):
            if count_rows(_apply(expected, fields, chosen)) == count_rows(_apply(read, fields, chosen)):
                return chosen
    return None


def _apply(rows: Iterable[Row], fields: StructType, limits: Iterable[Limit]) -> list[Row]:
    levelled = list(rows)
    for limit in limits:
        levelled = [limit.level(row, fields) for row in levelled]
    return levelled


def describe_difference(expected: Sequence[Row], read: Sequence[Row]) -> str:
    """Where rows differ: their number, or the columns, with the first value that does."""
    if len(expected) != len(read):
        return f"{len(read)} rows instead of {len(expected)}"
    pairs = list(zip(_sort(expected), _sort(read), strict=True))
    missing = sorted({name for row, _ in pairs for name in row} - {name for _, row in pairs for name in row})
    wrong = {
        name: (row[name], other[name])
        for row, other in pairs
        for name in row
        if other.get(name, row[name]) != row[name]
    }
    told = [f"`{name}`: {json.dumps(after)} instead of {json.dumps(before)}" for name, (before, after) in wrong.items()]
    return "; ".join([*(f"without `{name}`" for name in missing), *told])


def _sort(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row.get("id") or 0, json.dumps(row, sort_keys=True)))
