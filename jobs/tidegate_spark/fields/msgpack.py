"""MessagePack maps decoded in batches of Arrow, on Spark's Python workers.

The module travels to the workers by value, so it imports nothing of the product; `msgpack` and `pyarrow` are there. Of
containers only the header is read, so that neither a false count nor false nesting takes memory. Times and decimals
become text, which Spark's SQL converts by the rules of all formats.
"""

import base64
import json
import re
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import isfinite, isnan
from typing import Any

from tidegate_spark.fields.arrow_decoder import DecodingError, PartialRowError, build_arrow_decoder, decode_or_explain

Shape = dict[str, Any]
NIL = 0xC0
MAX_DEPTH = 1_024  # the library's own limit
MAX_TEXT_DEPTH = 200  # of a record that is read as JSON
MAX_NAME_CHARACTERS = 200
MAPS = frozenset((*range(0x80, 0x90), 0xDE, 0xDF))
LISTS = frozenset((*range(0x90, 0xA0), 0xDC, 0xDD))
TEXTS = frozenset((*range(0xA0, 0xC0), 0xD9, 0xDA, 0xDB))
CONTAINERS = MAPS | LISTS
INTEGERS = frozenset((*range(0x80), *range(0xE0, 0x100), *range(0xCC, 0xD4)))
# a value of its kind in JSON: that is all that is told of a field that no column holds
SAMPLES = {"true": (0xC2, 0xC3), "1.5": (0xCA, 0xCB), "1": INTEGERS, "{}": MAPS, "[]": LISTS}
SAMPLE_BY_BYTE = {byte: text for text, codes in SAMPLES.items() for byte in codes}
NOTHING = (NIL, 0x80, 0x90)  # and an empty map, an empty list
UNKNOWN_FIELDS = "_tidegate_unknown"  # beside the columns of a row
ARROW_TYPES = {"BOOLEAN": "bool_", "FLOAT": "float32", "DOUBLE": "float64", "STRING": "string", "BINARY": "binary"}
ARROW_TYPES |= {"TINYINT": "int32", "SMALLINT": "int32", "INT": "int32", "BIGINT": "int64"}
ARROW_KEY_TYPES = {**ARROW_TYPES, "TINYINT": "int8", "SMALLINT": "int16", "DATE": "date32"}
EPOCH = datetime(1970, 1, 1)
INTEGER_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
WHOLE_NUMBER_PATTERN = re.compile(r"[+-]?[0-9]+\s*")
DATE_PATTERN = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
# as Spark's parser of JSON knows them for a FLOAT or a DOUBLE
NON_FINITE_SPELLINGS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
# what is a number in all formats: Python reads 1_000 and blanks around it, too
NUMBER_PATTERN = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def build_decoder(shape: Shape, part: str) -> Callable[[Any], Any]:
    """Return a function of an Arrow array of bytes to structs of `row` and `reason`, NULL if the row is good."""
    return build_arrow_decoder(lambda: MapDecoder(shape, part).decode, lambda: to_arrow_type(shape), part)


def build_transcriber() -> Callable[[Any], Any]:
    """Return a function of an Arrow array of values to structs of `row`, whose one field is the record as JSON."""
    return build_arrow_decoder(lambda: transcribe, to_text_type, "value")


def to_text_type() -> Any:
    import pyarrow as pa

    return pa.struct([("text", pa.string())])


def transcribe(value: bytes | None) -> tuple[dict[str, Any] | None, str | None] | None:
    """Write a record's value as JSON, with null for each value in which no scalar lies.

    Bytes are base64, NaN and infinite numbers texts, times ISO 8601.
    """
    return decode_or_explain(_write_record, value, "the value is not MessagePack")


def _write_record(value: bytes) -> dict[str, Any]:
    reader = _Reader(value, "value", set())
    if reader.peek() not in MAPS:
        raise DecodingError("the value is not a MessagePack map")
    text = reader.write_json()
    if not reader.is_at_end:
        raise DecodingError("the value has bytes after its MessagePack map")
    return {"text": text}


class MapDecoder:
    """Reads records by the shape of their columns.

    The shape of a whole record also has `known`, other names; `must`, if all fields must be there, as a key's; `bare`,
    if one of them may stand alone; and `reports`, if other fields are listed, each with a value of its kind.
    """

    def __init__(self, shape: Shape, part: str) -> None:
        self._shape = shape
        self._part = part

    def decode(self, value: bytes | None) -> tuple[dict[str, Any] | None, str | None] | None:
        return decode_or_explain(self._decode_row, value, f"the {self._part} is not MessagePack")

    def _decode_row(self, value: bytes) -> dict[str, Any]:
        reader = _Reader(value, self._part, {*self._shape.get("known", ())})
        if reader.peek() in MAPS:
            row = self._read_map(reader)
        elif self._shape.get("bare"):
            ((name, inner),) = self._shape["fields"].items()
            row = {name: reader.read(inner)}
        else:
            raise DecodingError(f"the {self._part} is not a MessagePack map")
        if not reader.is_at_end:
            raise DecodingError(f"the {self._part} has bytes after its MessagePack map")
        return {**row, UNKNOWN_FIELDS: reader.unknown_fields} if self._shape.get("reports") else row

    def _read_map(self, reader: "_Reader") -> dict[str, Any]:
        problems: list[DecodingError] = []
        row, names = reader.read_fields(self._shape, None if self._shape.get("must") else problems)
        if problems:
            is_partial = reader.is_at_end and any(value is not None for value in row.values())
            raise PartialRowError(str(problems[0]), row) if is_partial else problems[0]
        missing = [name for name in self._shape["fields"] if name not in names]
        if self._shape.get("must") and missing:
            raise DecodingError(f"the {self._part} lacks the key's field {missing[0]}")
        if names and not names & {*self._shape["fields"], *self._shape.get("known", ())}:
            field_names = ", ".join(sorted(names))[:200]
            raise DecodingError(f"the {self._part} has none of the columns, but fields: {field_names}")
        return row


class _Reader:
    def __init__(self, value: bytes, part: str, known: set[str]) -> None:
        self._value = value
        self._part = part
        self._known = known
        self.unknown_fields: list[dict[str, str]] = []
        self._open()

    def _open(self) -> None:
        from msgpack import Unpacker

        value = self._value
        # no text, list or map is longer than the record
        unpacker: Any = Unpacker(max_buffer_size=max(len(value), 1), strict_map_key=False)
        unpacker.feed(value)
        self._tell = unpacker.tell
        self._skip = unpacker.skip
        self._unpack = unpacker.unpack
        self._read_map_header = unpacker.read_map_header
        self._read_array_header = unpacker.read_array_header

    @property
    def is_at_end(self) -> bool:
        return bool(self._tell() == len(self._value))

    def peek(self) -> int:
        return int(self._value[self._tell()])

    def read(self, shape: Shape) -> Any:
        first = self._value[self._tell()]
        kind = shape["kind"]
        if first == NIL:
            self._skip()
            return None
        if kind == "leaf" and first not in CONTAINERS:
            leaf_value = _convert_leaf(self._read_scalar(shape), shape)
            if leaf_value is not None:
                return leaf_value
        elif kind == "struct" and first in MAPS:
            return self.read_fields(shape)[0]
        elif kind == "map" and first in MAPS:
            entries = []
            keys = set()
            for _ in range(self._read_map_header()):
                key = self.read(shape["key"])
                if key is None:
                    raise self._build_error(shape, "has a key that is nil")
                own_key = None if key != key else key  # noqa: PLR0124 (NaN is one key, and not equal to itself)
                if own_key in keys:
                    raise self._build_error(shape, "has a key twice")
                keys.add(own_key)
                entries.append((key, self.read(shape["value"])))
            return entries
        elif kind == "list" and first in LISTS:
            element = shape["element"]
            return [self.read(element) for _ in range(self._read_array_header())]
        raise self._build_error(shape, f"is not a {shape['type']} without loss")

    def read_fields(self, shape: Shape, problems: list[DecodingError] | None = None) -> tuple[dict[str, Any], set[str]]:
        """Read a map as the struct of that shape; return also the names of all fields that it has.

        Fields that no column holds are noted as `problems`; without such a list they end the reading.
        """
        fields = shape["fields"]
        names = set[str]()
        row = dict.fromkeys(fields)
        for _ in range(self._read_map_header()):
            if self.peek() not in TEXTS:
                raise self._build_error(shape, "has a field whose name is no text")
            name = self._read_scalar(shape)
            if name in names:
                raise self._build_error(shape, f"has the field {name} twice")
            names.add(name)
            if name not in fields:
                self._note_unknown(shape["path"], name)
                self._skip_field(name)
            elif problems is None:
                row[name] = self.read(fields[name])
            else:
                row[name] = self._read_or_note(name, fields[name], problems)
        if problems:
            return row, names
        if len(names) < len(fields) or not names <= fields.keys():
            self._refuse_other_spelling(shape, names)
        return row, names

    def write_json(self, path: str = "", depth: int = 0) -> str | None:
        """Return what follows as JSON; None if no scalar lies in it."""
        first = self.peek()
        if first not in CONTAINERS:
            value = self._read_scalar({"path": path})
            text = _write_scalar(value)
            if text is None and value is not None:
                raise self._build_error({"path": path}, "is a time outside of the years 1 to 9999")
            return text
        if depth > MAX_TEXT_DEPTH:
            raise self._build_error({"path": path}, f"is nested deeper than {MAX_TEXT_DEPTH} levels")
        if first in MAPS:
            return self._write_object(path, depth)
        elements = [self.write_json(path, depth + 1) for _ in range(self._read_array_header())]
        values = ",".join(element or "null" for element in elements)
        return f"[{values}]" if any(elements) else None

    def _write_object(self, path: str, depth: int) -> str | None:
        values = dict[str, str | None]()
        for _ in range(self._read_map_header()):
            name = None if self.peek() in CONTAINERS else _write_name(self._read_scalar({"path": path}))
            if name is None:
                raise self._build_error({"path": path}, "has a field whose name is no text and no number")
            if name in values:
                raise self._build_error({"path": path}, f"has the field {name} twice")
            values[name] = self.write_json((f"{path}.{name}" if path else name)[:MAX_NAME_CHARACTERS], depth + 1)
        fields = (f"{json.dumps(name, ensure_ascii=False)}:{value or 'null'}" for name, value in values.items())
        return f"{{{','.join(fields)}}}" if any(values.values()) or not depth else None

    def _read_or_note(self, name: str, shape: Shape, problems: list[DecodingError]) -> Any:
        # what follows a value that the column does not hold is still read
        start = self._tell()
        try:
            return self.read(shape)
        except DecodingError as error:
            problems.append(error)
        self._value = self._value[start:]
        self._open()
        self._skip_field(name)
        return None

    def _note_unknown(self, path: str, name: str) -> None:
        first = self.peek()
        if first not in NOTHING and (path or name not in self._known):
            quoted = f"`{name.replace('`', '``')}`" if "." in name or "`" in name else name
            place = f"{path}.{quoted}" if path else quoted
            self.unknown_fields.append({"path": place, "sample": SAMPLE_BY_BYTE.get(first, '""')})

    def _skip_field(self, name: str) -> None:
        from msgpack import StackError

        try:
            self._skip()
        except StackError:
            problem = f"is nested deeper than {MAX_DEPTH:,} levels, which MessagePack's library does not read"
            raise DecodingError(f"the {self._part} field {name[:MAX_NAME_CHARACTERS]} {problem}") from None

    def _refuse_other_spelling(self, shape: Shape, names: set[str]) -> None:
        # the column would be NULL without an error
        missing = {name.casefold(): name for name in shape["fields"] if name not in names}
        for name in sorted(names - set(shape["fields"])) if missing else ():
            if name.casefold() in missing:
                raise self._build_error(shape, f"has the field {name}, and the column is {missing[name.casefold()]}")

    def _read_scalar(self, shape: Shape) -> Any:
        try:
            return self._unpack()
        except UnicodeDecodeError:
            raise self._build_error(shape, "is not valid UTF-8") from None

    def _build_error(self, shape: Shape, problem: str) -> DecodingError:
        place = f" field {shape['path']}" if shape["path"] else ""
        return DecodingError(f"the {self._part}{place} {problem}")


def to_arrow_type(shape: Shape) -> Any:
    import pyarrow as pa

    kind = shape["type"]
    match shape["kind"]:
        case "struct":
            members = [(name, to_arrow_type(inner)) for name, inner in shape["fields"].items()]
            if shape.get("reports"):
                members.append((UNKNOWN_FIELDS, pa.list_(pa.struct([("path", pa.string()), ("sample", pa.string())]))))
            arrow_type = pa.struct(members)
        case "list":
            arrow_type = pa.list_(to_arrow_type(shape["element"]))
        case "map":
            arrow_type = pa.map_(to_arrow_type(shape["key"]), to_arrow_type(shape["value"]))
        case _ if not shape["is_key"]:
            arrow_type = getattr(pa, ARROW_TYPES.get(kind, "string"))()
        case _ if kind in ARROW_KEY_TYPES:
            arrow_type = getattr(pa, ARROW_KEY_TYPES[kind])()
        case _ if kind.startswith("TIMESTAMP"):
            arrow_type = pa.timestamp("us", "UTC" if kind == "TIMESTAMP" else None)
        case _:
            arrow_type = pa.decimal128(*_split_decimal(kind))
    return arrow_type


def _write_name(value: Any) -> str | None:
    # a map's keys may be numbers, true and false
    if isinstance(value, str):
        return value
    return json.dumps(value) if isinstance(value, int | float) else None


def _write_scalar(value: Any) -> str | None:
    from msgpack import ExtType

    if value is None:
        return None
    if isinstance(value, bytes | ExtType):
        data = value.data if isinstance(value, ExtType) else value
        return f'"{base64.b64encode(data).decode()}"'
    if isinstance(value, float) and not isfinite(value):
        return f'"{NON_FINITE_SPELLINGS[str(value)]}"'
    if isinstance(value, str | int | float):
        return json.dumps(value, ensure_ascii=False)
    moment = _format_timestamp(value)
    return None if moment is None else f'"{moment}"'


def _convert_leaf(value: Any, shape: Shape) -> Any:  # noqa: PLR0911 (one for each kind of column)
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
            bound = 1 << (INTEGER_BITS[kind] - 1)
            return int(value) if _is_integer(value) and -bound <= value < bound else None
    return _to_decimal_key(value, kind) if shape["is_key"] else _format_decimal(value)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _to_float(value: Any, kind: str) -> float | None:
    # a rounded number would be another one
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
    if isinstance(value, float):
        return format(Decimal(value), "f") if isfinite(value) else None
    if isinstance(value, str):
        return None if value.startswith("{") else value
    return str(value) if _is_integer(value) else None


def _format_moment(value: Any) -> str | None:
    # a count since 1970 as digits, which no text may be
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
    text, (precision, scale) = _format_decimal(value), _split_decimal(kind)
    if text is None or not NUMBER_PATTERN.fullmatch(text):
        return None
    try:
        number = Decimal(text)
        digits = number.scaleb(scale)
        is_kept = number.is_finite() and digits == digits.to_integral_value() and abs(digits) < 10**precision
    except ArithmeticError:  # beyond all that Python computes with
        return None
    return number if is_kept else None


def _split_decimal(kind: str) -> tuple[int, int]:
    precision, _, scale = kind.removeprefix("DECIMAL").strip("() ").partition(",")
    return int(precision), int(scale or 0)
