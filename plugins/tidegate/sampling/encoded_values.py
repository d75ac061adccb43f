"""Reads JSON and MessagePack of a sample: JSON with its numbers as they are written."""

import json
from typing import Any, NamedTuple

from msgpack import ExtType, Timestamp, unpackb

MAX_DEPTH = 64


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
    """A time of MessagePack's own extension type."""

    nanoseconds: int


class Extension(NamedTuple):
    """A value of another extension type, which no column can hold."""

    type: int


def parse_packed(data: bytes) -> Any:
    """`ValueError` for anything but one MessagePack value, also for bytes behind it."""
    try:
        return _convert_extensions(unpackb(data, strict_map_key=False), depth=0)
    except TypeError as fault:
        raise ValueError("a map's key is no simple value") from fault


def _convert_extensions(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise ValueError("nested too deeply")
    if isinstance(value, Timestamp):
        return Moment(value.to_unix_nano())
    if isinstance(value, ExtType):
        return Extension(value.code)
    if isinstance(value, list):
        return [_convert_extensions(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {_convert_extensions(k, depth + 1): _convert_extensions(v, depth + 1) for k, v in value.items()}
    return value
