"""Reads the JSON that a job left behind: into a whole record, or with one error that says what is wrong."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tidegate.errors import GiveUp

Parsed = TypeVar("Parsed")


def parse_job_result(place: str, parse: Callable[[], Parsed]) -> Parsed:
    """`GiveUp`, which begins with `place`, where a field is missing or has another shape."""
    try:
        return parse()
    except KeyError as error:
        raise build_error(place, f"{error} is missing") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise build_error(place, str(error)) from error


def read_count(data: Mapping[str, Any], name: str) -> int:
    """`TypeError` for anything but a number."""
    value = data[name]
    if not isinstance(value, int):
        raise TypeError(f"{name}={value!r} is no number")
    return value


def read_text(data: Mapping[str, Any], name: str) -> str:
    """`TypeError` for anything but a text."""
    value = data[name]
    if not isinstance(value, str):
        raise TypeError(f"{name}={value!r} is no text")
    return value


def read_list(data: Mapping[str, Any], name: str) -> tuple[Any, ...]:
    """`TypeError` for anything but a list."""
    value = data[name]
    if not isinstance(value, list):
        raise TypeError(f"{name}={value!r} is no list")
    return tuple(value)


def build_error(place: str, reason: str) -> GiveUp:
    return GiveUp(
        f"{place}: what its job left behind cannot be read: {reason}; nothing was changed; run the version that wrote "
        "it, or put back what was changed by hand"
    )
