"""What frozen values are after they were JSON, and which JSON is refused."""

import json
import re
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

import pytest
from tidegate.model.offsets import Ranges
from tidegate.model.plain_data import read_plain


class Kind(StrEnum):
    MERGE = "merge"


class Part(NamedTuple):
    topic: str
    partition: int


@dataclass(frozen=True)
class Inner:
    names: tuple[str, ...]
    pairs: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Outer:
    count: int
    kind: Kind
    part: Part
    inner: Inner
    inners: list[Inner]
    seconds: float = 0.0
    done: bool = False
    text: str | None = None
    offsets: dict[str, dict[int, int]] = field(default_factory=dict)
    rest: dict[str, Any] = field(default_factory=dict)


OUTER = Outer(
    count=3, kind=Kind.MERGE, part=Part("Orders", 1), inner=Inner(("a", "B"), (("a", 1), ("B", 2))),
    inners=[Inner(("c",)), Inner(())], seconds=1.5, done=True, text="x", offsets={"t": {0: 5, 12: 7}},
    rest={"any": [1, None]},
)  # fmt: skip


def pass_through_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def test_value_that_was_json_is_what_it_was() -> None:
    assert read_plain(Outer, pass_through_json(asdict(OUTER))) == OUTER


def test_missing_fields_have_their_defaults_and_unknown_ones_are_left_out() -> None:
    data = {name: value for name, value in asdict(OUTER).items() if name not in ("text", "offsets", "seconds")}
    restored = read_plain(Outer, pass_through_json({**data, "added_later": 1}))
    assert (restored.text, restored.offsets, restored.seconds, restored.inner) == (None, {}, 0.0, OUTER.inner)


def test_class_with_a_reader_of_its_own_is_read_by_it() -> None:
    ranges = Ranges({"orders": {0: (1, 3), 1: (5, 5)}})
    assert read_plain(HasRanges, pass_through_json({"ranges": ranges.to_dict()})) == HasRanges(ranges)


def test_number_too_large_for_a_browser_is_read_from_text() -> None:
    assert read_plain(Snapshot, {"snapshot_id": "9223372036854775807"}).snapshot_id == 2**63 - 1


@dataclass(frozen=True)
class HasRanges:
    ranges: Ranges


@dataclass(frozen=True)
class Snapshot:
    snapshot_id: int | None


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"count": True}, "count=True is no number"),
        ({"count": None}, "count=None is no number"),
        ({"text": 1}, "text=1 is no text"),
        ({"done": 1}, "done=1 is no truth value"),
        ({"part": ["Orders"]}, "part=['Orders'] is no list of its length"),
        ({"inners": {}}, "inners={} is no list"),
        ({"offsets": []}, "offsets=[] is no object"),
        ({"inner": {"names": "ab"}}, "names='ab' is no list"),
    ],
)
def test_value_of_another_type_is_named(changed: dict[str, Any], reason: str) -> None:
    with pytest.raises(TypeError, match=re.escape(reason)):
        read_plain(Outer, {**pass_through_json(asdict(OUTER)), **changed})


def test_missing_field_is_named() -> None:
    with pytest.raises(KeyError, match="names"):
        read_plain(Inner, {"pairs": []})
