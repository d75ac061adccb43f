"""Runs steps once for all members of a fleet: a member's failure does not touch the others."""

import contextvars
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from random import randrange
from typing import TYPE_CHECKING, Generic, TypeVar

from tidegate.errors import NothingToDo, RetryLater
from tidegate.ports.session import Session
from tidegate.table.session import expand_template

if TYPE_CHECKING:  # Kafka's client is not loaded where only the names here are needed
    from tidegate.fleet.members import OpenedMembers

Result = TypeVar("Result")
# A member takes a moment. Each of its calls to the brokers may take half a minute, so that one whose coordinator is
# away would hold up the others. One of many tables needs more: a catalog that answers slowly takes seconds for a table.
MEMBER_SECONDS = 60.0
TABLE_SECONDS = 5.0
ALL_SECONDS = 420.0


@dataclass(frozen=True)
class StepOutcomes(Generic[Result]):
    """What a step returned or raised, by member. A member without work is in neither."""

    results: dict[str, Result] = field(default_factory=dict)
    failures: dict[str, Exception] = field(default_factory=dict)


@dataclass(frozen=True)
class Limits:
    """Seconds for one member, and for all together; `table` more for each further table of a member."""

    member: float = MEMBER_SECONDS
    table: float = TABLE_SECONDS
    total: float = ALL_SECONDS


def attend_members(
    fleet_members: "OpenedMembers",
    step: Callable[[Session], Result],
    names: Iterable[str],
    limits: Limits | None = None,
) -> StepOutcomes[Result]:
    """Run a step for these members, one after the other.

    A member that exceeds its limit is left alone, one for which no time is left is not begun: both fail with
    `RetryLater`.
    """
    limits = limits or Limits()
    names = list(names)
    results = dict[str, Result]()
    failures = dict[str, Exception]()
    clock = _Clock(limits)
    # each call begins at another member, so that the last ones are not left out each time
    first = randrange(len(names)) if names else 0
    # one after the other: their Kafka clients would take the cores from each other
    for name in (*names[first:], *names[:first]):
        try:
            if name in fleet_members.failures:
                raise fleet_members.failures[name]
            if name in fleet_members.sessions:
                results[name] = _run_within(name, fleet_members.sessions[name], step, clock)
        except NothingToDo:
            continue
        except Exception as problem:
            failures[name] = problem
    return StepOutcomes(_sort(results, names), _sort(failures, names))


class _Clock:
    """The time that is left for all members; tables found later add theirs."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._deadline = time.monotonic() + limits.total

    @property
    def remaining_seconds(self) -> float:
        return self._deadline - time.monotonic()

    def add_tables(self, count: int) -> float:
        seconds = max(0, count - 1) * self.limits.table
        self._deadline += seconds
        return seconds


def _run_within(name: str, session: Session, step: Callable[[Session], Result], clock: _Clock) -> Result:
    if clock.remaining_seconds <= 0:
        raise RetryLater(
            f"pipeline={name}: not begun: the pipelines before it took {clock.limits.total:.0f} s and more; the next "
            "run begins at another one; see whether brokers and catalogs answer slowly"
        )
    results: list[Result] = []
    problems: list[BaseException] = []
    table_counts = SimpleQueue[int]()  # one number, once the tables are known: a template's are named by its records

    def run() -> None:
        try:
            expanded_session = expand_template(session)
            table_counts.put(len(expanded_session.pipeline.tables))
            results.append(step(expanded_session))
        except BaseException as problem:
            problems.append(problem)
            table_counts.put(0)

    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(run,), name=f"tidegate {name}", daemon=True)
    thread.start()
    began = time.monotonic()
    seconds = min(clock.remaining_seconds, clock.limits.member)
    with suppress(Empty):
        seconds += clock.add_tables(table_counts.get(timeout=seconds))
        thread.join(began + seconds - time.monotonic())
    if problems:
        raise problems[0]
    if not results:
        raise RetryLater(
            f"pipeline={name}: not done within {seconds:.0f} s, and the others went on without it; nothing is lost, "
            "and the next run does it again; see whether its brokers or its catalog answer slowly"
        )
    return results[0]


def _sort(results: dict[str, Result], names: list[str]) -> dict[str, Result]:
    return {name: results[name] for name in names if name in results}
