"""Reads frozen values out of plain data, as JSON has it: by the types of their fields."""

import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache, partial
from typing import Any, TypeVar

T = TypeVar("T")
Reader = Callable[[Any], Any]
NOUNS = {int: "number", float: "number", str: "text", bool: "truth value"}


def read_plain(kind: type[T], data: Mapping[str, Any]) -> T:
    """Build the dataclass from what `asdict` gives; fields that it does not know are left out.

    Lists become tuples where the field is one, and names of partitions numbers. A class with a `from_dict` of its own
    is read by that where it is a field. `KeyError` names a missing field, `TypeError` one of another type.
    """
    if not isinstance(data, Mapping):
        raise TypeError(f"{data!r} is no object")
    values = dict[str, Any]()
    for name, (read, is_required) in _list_fields(kind).items():  # type: ignore[arg-type]
        if name not in data and is_required:
            raise KeyError(name)
        if name in data:
            values[name] = _read_named(name, read, data[name])
    return kind(**values)


class WrongType(TypeError):
    """Names the value that has another type, however deep it lies."""


def _read_named(name: str, read: Reader, value: Any) -> Any:
    try:
        return read(value)
    except WrongType:
        raise
    except TypeError as error:
        raise WrongType(f"{name}={value!r} {error}") from error


@cache
def _list_fields(kind: type) -> dict[str, tuple[Reader, bool]]:
    hints = typing.get_type_hints(kind)
    return {
        field.name: (_find_reader(hints[field.name]), field.default is field.default_factory is MISSING)
        for field in fields(kind)
    }


def _find_reader(kind: Any) -> Reader:
    origin = typing.get_origin(kind)
    parts = typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        kinds = [part for part in parts if part is not type(None)]
        return partial(_read_optional, _find_reader(kinds[0])) if len(kinds) == 1 else _keep
    if origin in (tuple, list) and parts[1:] in ((), (...,)):
        return partial(_read_items, origin, _find_reader(parts[0]))
    if origin is tuple:
        return partial(_read_tuple, tuple, [_find_reader(part) for part in parts])
    if origin is dict:
        return partial(_read_dict, int if parts[0] is int else str, _find_reader(parts[1]))
    return _find_class_reader(kind)


def _find_class_reader(kind: Any) -> Reader:
    if not isinstance(kind, type):
        return _keep
    own_reader: Reader | None = getattr(kind, "from_dict", None)
    if own_reader is not None:
        return own_reader
    if is_dataclass(kind):
        return partial(read_plain, kind)
    if issubclass(kind, Enum):
        return kind
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        hints = typing.get_type_hints(kind)
        return partial(_read_tuple, lambda parts: kind(*parts), [_find_reader(hints[name]) for name in kind._fields])
    return partial(_read_scalar, kind) if kind in NOUNS else _keep


def _keep(value: Any) -> Any:
    return value


def _read_optional(read: Reader, value: Any) -> Any:
    return None if value is None else read(value)


def _read_items(kind: type, read: Reader, value: Any) -> Any:
    if not isinstance(value, list | tuple):
        raise TypeError("is no list")
    return kind(map(read, value))


def _read_tuple(make: Callable[[list[Any]], Any], readers: list[Reader], value: Any) -> Any:
    if not isinstance(value, list | tuple) or len(value) != len(readers):
        raise TypeError("is no list of its length")
    return make([read(part) for read, part in zip(readers, value, strict=True)])


def _read_dict(to_key: Callable[[Any], Any], read: Reader, value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise TypeError("is no object")
    return {to_key(name): _read_named(name, read, part) for name, part in value.items()}


def _read_scalar(kind: type, value: Any) -> Any:
    # ids of snapshots are written as text: browsers round numbers of their size
    if kind is int and isinstance(value, str) and value.lstrip("-").isdecimal():
        return int(value)
    if not isinstance(value, (int, float) if kind is float else kind) or (kind is int and isinstance(value, bool)):
        raise TypeError(f"is no {NOUNS[kind]}")
    return value
