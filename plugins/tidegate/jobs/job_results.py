"""Reads the JSON that a job left behind: into a whole record, or with one error that says what is wrong."""

from collections.abc import Callable
from typing import TypeVar

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


def build_error(place: str, reason: str) -> GiveUp:
    return GiveUp(
        f"{place}: what its job left behind cannot be read: {reason}; nothing was changed; run the version that wrote "
        "it, or put back what was changed by hand"
    )
