"""The steps that run once for all members of a fleet: each member by itself, whatever becomes of the others."""

import contextvars
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import randrange
from typing import TYPE_CHECKING, Generic, TypeVar

from tidegate.errors import NothingToDo, RetryLater
from tidegate.ports.context import Ports

if TYPE_CHECKING:  # Kafka's client is not loaded where only the names here are needed
    from tidegate.fleet.members import Member, OpenedMembers

Result = TypeVar("Result")
# A member takes a moment. Each of its calls to the brokers may take half a minute, so that one whose coordinator is
# away would hold up the others, until the task that attends to all of them is ended after ten minutes.
MEMBER_SECONDS, ALL_SECONDS = 60.0, 420.0


@dataclass(frozen=True)
class StepOutcomes(Generic[Result]):
    """What a step returned for each member, and what it raised for the others. One without work is in neither."""

    results: dict[str, Result] = field(default_factory=dict)
    failures: dict[str, Exception] = field(default_factory=dict)


@dataclass(frozen=True)
class Limits:
    """Seconds that one member, and all of them together, may take."""

    member: float = MEMBER_SECONDS
    total: float = ALL_SECONDS


def attend_members(
    fleet_members: "OpenedMembers", step: Callable[[Ports], Result], names: Iterable[str], limits: Limits | None = None
) -> StepOutcomes[Result]:
    """Run a step for these members, one after the other: their Kafka clients would take the cores from each other.

    One that has not ended within its limit is left alone, and those for which no time is left are not begun: both are
    failures that pass. Each call begins at another member, so that the same ones are not left over again.
    """
    limits, names = limits or Limits(), list(names)
    members: dict[str, Member] = {member.name: member for member in fleet_members.members}
    results, failures = dict[str, Result](), dict[str, Exception]()
    deadline, first = time.monotonic() + limits.total, randrange(len(names)) if names else 0
    for name in (*names[first:], *names[:first]):
        try:
            if name in fleet_members.failures:
                raise fleet_members.failures[name]
            if name in members:
                results[name] = _run_within(name, members[name].ports, step, deadline, limits)
        except NothingToDo:
            continue
        except Exception as problem:
            failures[name] = problem
    return StepOutcomes(_sort(results, names), _sort(failures, names))


def _run_within(name: str, ports: Ports, step: Callable[[Ports], Result], deadline: float, limits: Limits) -> Result:
    """What the step returns, or raises; `RetryLater` where it takes too long. It repeats without harm, as all do."""
    remaining_seconds = deadline - time.monotonic()
    if remaining_seconds <= 0:
        raise RetryLater(
            f"pipeline={name}: not begun: the pipelines before it took {limits.total:.0f} s; the next run begins at "
            "another one; see whether brokers and catalogs answer slowly"
        )
    results: list[Result] = []
    problems: list[BaseException] = []

    def run() -> None:
        try:
            results.append(step(ports))
        except BaseException as problem:
            problems.append(problem)

    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(run,), name=f"tidegate {name}", daemon=True)
    thread.start()
    thread.join(min(remaining_seconds, limits.member))
    if problems:
        raise problems[0]
    if not results:
        raise RetryLater(
            f"pipeline={name}: not done within {min(remaining_seconds, limits.member):.0f} s, and the others "
            "went on without it; nothing is lost, and the next run does it again; see whether its brokers or its "
            "catalog answer slowly"
        )
    return results[0]


def _sort(results: dict[str, Result], names: list[str]) -> dict[str, Result]:
    return {name: results[name] for name in names if name in results}
