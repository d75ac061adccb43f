"""How much is tried: a tenth of a property's examples and a part of a walk in `make test`, more in `make test-long`.

The first ones are the same in both where a test asks for the same examples each time. What `make test-long` runs
besides (repeats, cases of grids and walks, guards, failures of the night) is spread over some days, so that one run
ends; all examples of properties are tried in each.
"""

import os
import zlib
from collections.abc import Sequence
from typing import TypeVar

ALL = "TIDEGATE_EXAMPLES"  # "all", as `make test-long` sets it
SHARE_OF_EXAMPLES, MIN_EXAMPLES = 10, 25
WALKS_OF_CALLS = 9  # tests that walk one run begin at another call each
WALKS_OF_CASES = 15
DAYS = "TIDEGATE_DAYS"  # as many runs of `make test-long`, a day each, meet everything once; without it, each run does
DAY = "TIDEGATE_DAY"  # of the run, since 1970; one that goes on past midnight keeps it
T = TypeVar("T")


def choose_number(all_of_them: int) -> int:
    """The examples of a property in this run."""
    return (
        all_of_them
        if os.environ.get(ALL) == "all"
        else min(all_of_them, max(MIN_EXAMPLES, all_of_them // SHARE_OF_EXAMPLES))
    )


def choose_walk_cases(all_of_them: Sequence[T], *subject: str | int) -> list[T]:
    """Of the cases of a walk every fifteenth one, today's too in `make test-long`, and all in `make test-mutations`.

    Which ones is decided by the subject of the walk: walks of many subjects meet each case between them.
    """
    return choose_part(all_of_them, zlib.crc32(repr(subject).encode()), WALKS_OF_CASES)


def choose_part(all_of_them: Sequence[T], first: int, parts: int) -> list[T]:
    """Of the cases of a grid's row those at `first`, `first` + `parts` and so on; in `make test-long` today's, too.

    Where `first` is the row's number, `parts` rows beside each other meet each case of the grid's columns once.
    """
    is_long = os.environ.get(ALL) == "all"
    return [
        case
        for number, case in enumerate(all_of_them)
        if (number - first) % parts == 0 or (is_long and _is_number_of_today(number))
    ]


def choose_calls(before: int, first: int = 1) -> range:
    """Of the calls of a run, counted from 1 until it has no more, every ninth one, or all in `make test-long`.

    Tests that walk one run begin with another `first` each.
    """
    return range(1, before) if os.environ.get(ALL) == "all" else range(first, before, WALKS_OF_CALLS)


def is_of_today(name: str) -> bool:
    """Whether the run of this day meets what has the name: each is met on one of `DAYS` days that follow each other."""
    return _is_number_of_today(zlib.crc32(name.encode()))


def _is_number_of_today(number: int) -> bool:
    return (number + int(os.environ.get(DAY) or 0)) % int(os.environ.get(DAYS) or 1) == 0
