"""The steps that run once for all members of a fleet: each member by itself, whatever becomes of the others."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidegate.errors import NothingToDo
from tidegate.ports.context import Ports

if TYPE_CHECKING:  # Kafka's client is not loaded where only the names here are needed
    from tidegate.fleet.members import Member, OpenedMembers


@dataclass(frozen=True)
class Attended:
    """What a step returned for each member, and what it raised for the others. One without work is in neither."""

    results: dict[str, Any] = field(default_factory=dict)
    failures: dict[str, Exception] = field(default_factory=dict)


def attend_members(opened: "OpenedMembers", step: Callable[[Ports], Any], names: Iterable[str]) -> Attended:
    """Run a step for these members, one after the other: their Kafka clients would take the cores from each other."""
    members: dict[str, Member] = {member.name: member for member in opened.members}
    done = Attended()
    for name in names:
        try:
            if name in opened.failures:
                raise opened.failures[name]
            if name in members:
                done.results[name] = step(members[name].ports)
        except NothingToDo:
            continue
        except Exception as problem:
            done.failures[name] = problem
    return done
