"""Reads JSON of a sample with its numbers as they are written, and MessagePack without a library."""

import json
import struct
from typing import Any, NamedTuple

MAX_DEPTH = 64
TIMESTAMP_TYPE = -1
_FIXED = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS = {
    0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i",
    0xD3: ">q",
}  # fmt: skip
_LENGTHS = {  # of bytes, texts, extensions, arrays and maps: the format of the length that follows
    0xC4: ">B", 0xC5: ">H", 0xC6: ">I", 0xC7: ">B", 0xC8: ">H", 0xC9: ">I", 0xD9: ">B", 0xDA: ">H", 0xDB: ">I",
    0xDC: ">H", 0xDD: ">I", 0xDE: ">H", 0xDF: ">I",
}  # fmt: skip
_FIXED_EXTENSIONS = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}


class Fraction(str):
    """A number with a fraction or an exponent, as written."""

    __slots__ = ()


def parse_json(text: str) -> Any:
    """`ValueError` for no JSON. NaN and infinities, which JSON does not have, are floats."""
    try:
        return json.loads(text, parse_float=Fraction)
    except RecursionError as fault:
        raise ValueError("nested too deeply") from fault


class Moment(NamedTuple):
    """A time of extension type -1."""

    nanoseconds: int


class Extension(NamedTuple):
    """A value of another extension type, which no column can hold."""

    type: int


def parse_packed(data: bytes) -> Any:
    """`ValueError` for anything but one value, also for bytes behind it."""
    reader = _Reader(data)
    try:
        value = reader.read(0)
    except (struct.error, IndexError, UnicodeDecodeError) as fault:
        raise ValueError("not MessagePack") from fault
    if reader.at != len(data):
        raise ValueError("bytes stand behind the value")
    return value


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def read(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise ValueError("nested too deeply")
        first = self.data[self.at]
        self.at += 1
        if first <= 0x7F or first >= 0xE0:
            return first if first <= 0x7F else first - 0x100
        if first in _FIXED:
            return _FIXED[first]
        if first in _NUMBERS:
            return self._unpack(_NUMBERS[first])
        if first <= 0xBF:
            return self._read_short(first, depth)
        if first in _FIXED_EXTENSIONS:
            return self._read_extension(_FIXED_EXTENSIONS[first])
        if first not in _LENGTHS:
            raise ValueError(f"byte {first:02x} begins no value")
        return self._read_long(first, self._unpack(_LENGTHS[first]), depth)

    def _read_short(self, first: int, depth: int) -> Any:
        if first <= 0x8F:
            return self._read_map(first & 0x0F, depth)
        if first <= 0x9F:
            return self._read_array(first & 0x0F, depth)
        return self._take(first & 0x1F).decode()

    def _read_long(self, first: int, length: int, depth: int) -> Any:
        if first <= 0xC6:
            return self._take(length)
        if first <= 0xC9:
            return self._read_extension(length)
        if first <= 0xDB:
            return self._take(length).decode()
        return self._read_array(length, depth) if first <= 0xDD else self._read_map(length, depth)

    def _read_array(self, length: int, depth: int) -> list[Any]:
        self._check_length(length)
        return [self.read(depth + 1) for _ in range(length)]

    def _read_map(self, length: int, depth: int) -> dict[Any, Any]:
        self._check_length(2 * length)
        pairs = [(self.read(depth + 1), self.read(depth + 1)) for _ in range(length)]
        try:
            return dict(pairs)
        except TypeError as fault:
            raise ValueError("a map's key is no simple value") from fault

    def _read_extension(self, length: int) -> Moment | Extension:
        kind = self._unpack(">b")
        data = self._take(length)
        if kind != TIMESTAMP_TYPE or length not in (4, 8, 12):
            return Extension(kind)
        if length == 4:
            return Moment(struct.unpack(">I", data)[0] * 10**9)
        if length == 8:
            packed_time = struct.unpack(">Q", data)[0]
            return Moment((packed_time & (2**34 - 1)) * 10**9 + (packed_time >> 34))
        nanoseconds, seconds = struct.unpack(">Iq", data)
        return Moment(seconds * 10**9 + nanoseconds)

    def _check_length(self, parts: int) -> None:
        # a record that claims to hold billions takes no memory
        if parts > len(self.data) - self.at:
            raise ValueError("it ends too early")

    def _take(self, length: int) -> bytes:
        if length > len(self.data) - self.at:
            raise ValueError("it ends too early")
        self.at += length
        return self.data[self.at - length : self.at]

    def _unpack(self, form: str) -> Any:
        (value,) = struct.unpack(form, self._take(struct.calcsize(form)))
        return value
