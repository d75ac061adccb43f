"""The results of a part of the bench: tables for people, figures for programs, and goals."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.sizes import Sizes
from local.stack import Stack


@dataclass(frozen=True)
class Bench:
    """What every part gets: the broker, a folder that goes when the run ends well, how much to do, where to tell."""

    stack: Stack
    folder: Path
    sizes: Sizes
    say: Callable[[str], None]


@dataclass(frozen=True)
class Goal:
    """One goal: its figure must not be above the limit, or not below it where more is better."""

    name: str
    figure: float
    limit: float
    more_is_better: bool = False

    @property
    def met(self) -> bool:
        """Whether it is reached."""
        return self.figure >= self.limit if self.more_is_better else self.figure <= self.limit


@dataclass(frozen=True)
class Table:
    """A title, a header and lines of cells."""

    title: str
    header: tuple[str, ...]
    lines: Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class Result:
    """One part. `figures` are what a later run is compared with; `details` whatever else is worth keeping."""

    tables: Sequence[Table]
    figures: dict[str, float]
    goals: Sequence[Goal]
    right: bool
    details: dict[str, Any] = field(default_factory=dict)
    missing: Sequence[str] = ()


def format_number(value: float | None, digits: int = 1) -> str:
    """A cell; a dash where there is no figure."""
    return "-" if value is None else f"{value:,.{digits}f}"


def format_ratio(value: float, divisor: float | None) -> str:
    """One divided by the other."""
    return "-" if not divisor else f"{value / divisor:.2f}"


def format_verdict(is_correct: bool) -> str:
    """Whether a table equals the truth."""
    return "yes" if is_correct else "NO"
