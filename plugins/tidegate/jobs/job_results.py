"""What a job left behind as JSON, read into a record: at once and whole, or with one error that says what is wrong."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tidegate.errors import GiveUp

Parsed = TypeVar("Parsed")


def parse_job_result(place: str, parse: Callable[[], Parsed]) -> Parsed:
    """What `parse` makes of it; `GiveUp` where a field is missing or has another shape. `place` begins the message."""
    try:
        return parse()
    except KeyError as error:
        raise build_error(place, f"{error} is missing") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise build_error(place, str(error)) from error


def read_count(data: Mapping[str, Any], name: str) -> int:
    """The number of that name; `TypeError` for anything else."""
    value = data[name]
    if not isinstance(value, int):
        raise TypeError(f"{name}={value!r} is no number")
    return value


def read_text(data: Mapping[str, Any], name: str) -> str:
    """The text of that name; `TypeError` for anything else."""
    value = data[name]
    if not isinstance(value, str):
        raise TypeError(f"{name}={value!r} is no text")
    return value


def read_list(data: Mapping[str, Any], name: str) -> tuple[Any, ...]:
    """What stands in the list of that name; `TypeError` for anything else."""
    value = data[name]
    if not isinstance(value, list):
        raise TypeError(f"{name}={value!r} is no list")
    return tuple(value)


def build_error(place: str, reason: str) -> GiveUp:
    """The error of what cannot be read, with the reason."""
    return GiveUp(
        f"{place}: what its job left behind cannot be read: {reason}; nothing was changed; run the version that wrote "
        "it, or put back what was changed by hand"
    )
