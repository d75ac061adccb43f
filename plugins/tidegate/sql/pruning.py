"""Where in a destination the rows lie that a batch may change: what keeps a merge from reading all of the table."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any


@dataclass(frozen=True)
class Bound:
    """Every row that a batch may change has one of these values at `path`, or NULL if `nulls`."""

    path: tuple[str, ...]
    # pairs of constants in the destination's SQL, both included
    ranges: tuple[tuple[str, str], ...]
    nulls: bool = False
    values: tuple[str, ...] = ()  # if any, all values within the ranges that count


@dataclass(frozen=True)
class Overlap:
    """The files of a table, at one snapshot, that may hold a row within the bounds; none: no key of the batch is there.

    `rows` are all rows in those files, deleted ones included.
    """

    files: int = 0
    rows: int = 0


@dataclass(frozen=True)
class BatchPart:
    """A part of a batch that is a statement of its own, and where in the destination its rows may lie.

    `staged` bounds the values that a row has itself, or the last row of its key that has one.
    """

    staged: Bound
    conditions: tuple[Bound, ...]


@dataclass(frozen=True)
class Bounds:
    """Where in the destination a batch's rows may lie; `conditions` are empty if nothing is known."""

    conditions: tuple[Bound, ...] = ()
    guards: tuple[str, ...] = ()  # statements that fail if another writer may have moved rows out of the bounds since
    overlap: Overlap | None = None  # None if the table's files were not looked at
    # together they hold all keys of a batch that changes more partitions than one statement may
    parts: tuple[BatchPart, ...] = ()
    removals: tuple[str, ...] = ()  # statements that remove all rows, before a batch that replaces them


UNBOUNDED = Bounds()


def join_intervals(intervals: Iterable[tuple[Any, Any]], step: Any, limit: int) -> tuple[tuple[Any, Any], ...]:
    """Return at most `limit` intervals, ends included, that hold all: neighbours become one, then those closest by.

    `step` is the distance from one value to the next.
    """
    ranges: list[tuple[Any, Any]] = []
    for first, last in sorted(set(intervals)):
        if ranges and first - ranges[-1][1] <= step:
            ranges[-1] = (ranges[-1][0], max(ranges[-1][1], last))
        else:
            ranges.append((first, last))
    while len(ranges) > limit:
        gaps = [after[0] - before[1] for before, after in pairwise(ranges)]
        at = gaps.index(min(gaps))
        ranges[at : at + 2] = [(ranges[at][0], ranges[at + 1][1])]
    return tuple(ranges)
