"""One look at all members of a fleet: which of them have work, and what their next batch is. Changes nothing."""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from tidegate.errors import NothingToDo, TidegateError, TooFewRecords
from tidegate.fleet.members import ClusterBroker, Member, OpenedMembers
from tidegate.flush.plan import plan_observed
from tidegate.model.batch import Plan
from tidegate.ports.session import Session
from tidegate.table.log import list_row_topics
from tidegate.table.progress import ObservedTable, observe_tables
from tidegate.table.template import expand_template

log = logging.getLogger(__name__)
THREADS = 8  # catalogs are waited for side by side; what a thread computes beside that, Python does one at a time
T = TypeVar("T")


@dataclass(frozen=True)
class MemberLook:
    """A member's next batches, why there are none, or why planning failed. `is_postponed`: too few records wait."""

    name: str
    plan: Plan | None = None
    idle_reason: str = ""
    is_postponed: bool = False
    error: Exception | None = None


@dataclass(frozen=True)
class _Observed:
    """A member whose tables were read; `session` has those that records name."""

    member: Member
    session: Session
    tables: Sequence[ObservedTable]


def look_at_members(
    fleet_members: OpenedMembers,
    at_least: Mapping[str, int],
    adapt: Callable[[Session], Session] = lambda session: session,
) -> list[MemberLook]:
    """Plan every member; one that fails stops no other.

    1. Read the tables of all members, side by side.
    2. Read the topics and logs of each Kafka cluster once for all of them; after the tables, as `plan` does.
    3. Plan each member as if it were alone. `at_least` records must wait for the members named there; `adapt` changes
       what
       the run was asked for.
    """
    observed, failures = _run_beside_each_other(fleet_members.members, lambda member: _observe(member, adapt))
    _read_logs(observation for observation in observed.values())
    able = [member for member in fleet_members.members if member.name in observed]
    planned_looks, more = _run_beside_each_other(
        able, lambda member: _plan(observed[member.name], at_least.get(member.name, 0))
    )
    problems: dict[str, Exception] = {**fleet_members.failures, **failures, **more}
    looks = planned_looks | {name: MemberLook(name, error=problem) for name, problem in problems.items()}
    return [looks[name] for name in sorted(looks)]


def _observe(member: Member, adapt: Callable[[Session], Session]) -> _Observed:
    session = expand_template(adapt(member.session))
    return _Observed(member, session, observe_tables(session))


def _read_logs(observed: Iterable[_Observed]) -> None:
    topics = defaultdict[tuple[int, str], set[str]](set)
    brokers = dict[int, ClusterBroker]()
    for observation in observed:
        broker = observation.member.broker
        if id(broker) not in brokers:
            brokers[id(broker)] = broker
            broker.read_names_ahead()
        try:
            topics[id(broker), observation.session.pipeline.source.isolation].update(
                list_row_topics(observation.session)
            )
        except TidegateError as problem:
            # its own plan reports it
            log.info("pipeline=%s: %s", observation.member.name, problem)
    for (number, isolation), names in topics.items():
        brokers[number].read_ahead(names, isolation)


def _plan(observed: _Observed, at_least: int) -> MemberLook:
    name = observed.member.name
    try:
        return MemberLook(name, plan=plan_observed(observed.session, observed.tables, at_least))
    except TooFewRecords as reason:
        return MemberLook(name, idle_reason=str(reason), is_postponed=True)
    except NothingToDo as reason:
        return MemberLook(name, idle_reason=str(reason))


def _run_beside_each_other(
    members: Sequence[Member], call: Callable[[Member], T]
) -> tuple[dict[str, T], dict[str, Exception]]:
    with ThreadPoolExecutor(THREADS, thread_name_prefix="tidegate-fleet") as workers:
        futures = {member.name: workers.submit(call, member) for member in members}
    results = dict[str, T]()
    failures = dict[str, Exception]()
    for name, future in futures.items():
        problem = future.exception()
        if problem is None:
            results[name] = future.result()
        elif isinstance(problem, Exception):
            failures[name] = problem
        else:
            raise problem
    return results, failures
