"""Jobs and what they leave behind, as JSON: a job is read as it was written, a result whole or with one error."""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Self, TypeVar

from tidegate.errors import GiveUp
from tidegate.model.plain_data import read_plain

Parsed = TypeVar("Parsed")


class _Written:
    def to_json(self) -> str:
        """JSON of the dataclass; a part of it with a `to_dict` is written by that."""
        return json.dumps(self, default=_to_plain)


class JsonJob(_Written):
    """A dataclass that asks for a job."""

    @classmethod
    def from_json(cls, text: str) -> Self:
        return read_plain(cls, json.loads(text))


class JsonResult(_Written):
    """A dataclass that a job leaves behind."""

    @classmethod
    def from_json(cls, text: str, place: str) -> Self:
        """`GiveUp`, which begins with `place`, where a field is missing or has another shape."""
        return parse_job_result(place, lambda: cls.from_dict(json.loads(text)))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        return read_plain(cls, data)


def _to_plain(part: Any) -> dict[str, Any]:
    if hasattr(part, "to_dict"):
        return dict(part.to_dict())
    return {field.name: getattr(part, field.name) for field in fields(part)}


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
