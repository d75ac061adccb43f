"""The members of a fleet: opened together, so that they share brokers and clients of catalogs; and one look at all.

The look says which members have work, and what their next batch is; it changes nothing.
"""

import json
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

from tidegate.adapters.kafka.shared_broker import ReadAheadBroker
from tidegate.adapters.open_clients import OpenClients
from tidegate.config.catalogs_file import read_catalogs
from tidegate.config.pipeline_file import find_fleet, load_all_pipelines, read_defaults
from tidegate.connections import Resolve, cache_connections
from tidegate.errors import ConfigurationError, NothingToDo, TidegateError, TooFewRecords
from tidegate.flush.plan import choose_scope, plan_observed
from tidegate.model.batch import Plan
from tidegate.ports.session import Session
from tidegate.spec.pipeline import Pipeline
from tidegate.table.log import list_row_topics
from tidegate.table.observed_table import ObservedTable, observe_tables
from tidegate.table.session import expand_template
from tidegate.wiring.pipeline import NoEngine, SharedParts, assemble_loaded_pipeline

log = logging.getLogger(__name__)


def load_fleet(include: Path, fleet: str) -> tuple[dict[str, Pipeline], set[str]]:
    """Return the pipelines of a fleet by name, and the names of all files that are wrong: these may be members too."""
    load_results = load_all_pipelines(include)
    pipelines = {name: pipeline for name, pipeline in load_results if isinstance(pipeline, Pipeline)}
    members = {name: pipeline for name, pipeline in pipelines.items() if pipeline.fleet == fleet}
    return members, {name for name, _ in load_results} - pipelines.keys()


def load_members(include: Path, fleet: str) -> dict[str, Pipeline]:
    """The pipelines of a fleet whose file is right, by name."""
    return load_fleet(include, fleet)[0]


def check_refused_members(include: Path, fleet: str) -> None:
    """`ConfigurationError` with the problems of a fleet's files.

    For a fleet without a member: a run that looks at none would succeed silently.
    """
    read_catalogs(include)
    read_defaults(include)
    load_results = load_all_pipelines(include)
    refusals = [
        load_result
        for name, load_result in load_results
        if not isinstance(load_result, Pipeline) and find_fleet(include, name) == fleet
    ]
    problems = list(dict.fromkeys(problem for refusal in refusals for problem in refusal.problems))
    if problems:
        raise ConfigurationError(*problems)


@dataclass(frozen=True)
class OpenedMembers:
    """The sessions of the members that could be opened, and the failures of the others, by name.

    The sessions run no Spark job. Members of one cluster share a `ReadAheadBroker`.
    """

    sessions: dict[str, Session] = field(default_factory=dict)
    failures: dict[str, Exception] = field(default_factory=dict)


def open_members(include: Path, pipelines: Iterable[Pipeline], resolve: Resolve) -> OpenedMembers:
    """Connects to nothing yet; looks up each connection once. A member that cannot be opened is its own failure."""
    parts = SharedParts(include=include, resolve=cache_connections(resolve), engine=NoEngine(), clients=OpenClients())
    brokers = dict[str, ReadAheadBroker]()
    opened = OpenedMembers()
    for pipeline in pipelines:
        cluster = json.dumps(pipeline.source.kafka, sort_keys=True)
        try:
            if cluster not in brokers:
                brokers[cluster] = ReadAheadBroker.open(pipeline.source.kafka, parts.resolve)
            opened.sessions[pipeline.name] = assemble_loaded_pipeline(parts, pipeline, brokers[cluster])
        except Exception as problem:
            log.warning(
                "pipeline=%s cannot be opened: %s: %s; the others go on, and its own task fails with the reason",
                pipeline.name,
                type(problem).__name__,
                problem,
            )
            opened.failures[pipeline.name] = problem
    return opened


THREADS = 8  # catalogs are waited for side by side; what a thread computes beside that, Python does one at a time
Item = TypeVar("Item")
T = TypeVar("T")


@dataclass(frozen=True)
class MemberLook:
    """A member's next batches, or why planning failed; neither without work. `is_postponed`: too few records wait.

    `has_begun`: each of its tables has a position, or a staged batch.
    """

    name: str
    plan: Plan | None = None
    is_postponed: bool = False
    error: Exception | None = None
    has_begun: bool = False


class _Observed(NamedTuple):
    """A member whose tables were read; `session` has those that records name."""

    session: Session
    tables: Sequence[ObservedTable]

    @property
    def name(self) -> str:
        return self.session.pipeline.name


def look_at_members(
    fleet_members: OpenedMembers,
    at_least: Mapping[str, int],
    adapt: Callable[[Session], Session] = lambda session: session,
) -> list[MemberLook]:
    """Plan every member; one that fails stops no other.

    1. Read the tables of all members, side by side.
    2. Read the topics and logs of each Kafka cluster once for all of them; after the tables, as `plan` does.
    3. Plan each member as if it were alone: with a clock of staging only what is staged. `at_least` records, or staged
       rows, must wait for the members named there; `adapt` changes what the run was asked for.
    """
    observed, failures = _run_beside_each_other(fleet_members.sessions, lambda session: _observe(adapt(session)))
    _read_logs(observed.values())
    planned, more = _run_beside_each_other(observed, lambda member: _plan(member, at_least.get(member.name, 0)))
    problems: dict[str, Exception] = {**fleet_members.failures, **failures, **more}
    looks = planned | {name: MemberLook(name, error=problem) for name, problem in problems.items()}
    return [looks[name] for name in sorted(looks)]


def _observe(session: Session) -> _Observed:
    session = expand_template(session)
    return _Observed(session, observe_tables(session))


def _read_logs(observed: Iterable[_Observed]) -> None:
    topics = defaultdict[tuple[int, str], set[str]](set)
    brokers = dict[int, ReadAheadBroker]()
    for member in observed:
        broker = cast("ReadAheadBroker", member.session.broker)
        if id(broker) not in brokers:
            brokers[id(broker)] = broker
            broker.read_names_ahead()
        try:
            topics[id(broker), member.session.pipeline.source.isolation].update(list_row_topics(member.session))
        except TidegateError as problem:
            # its own plan reports it
            log.info("pipeline=%s: %s", member.name, problem)
    for (number, isolation), names in topics.items():
        brokers[number].read_ahead(names, isolation)


def _plan(observed: _Observed, at_least: int) -> MemberLook:
    tables = observed.tables
    has_begun = bool(tables) and all(table.end is not None for table in tables)
    look = MemberLook(observed.name, has_begun=has_begun)
    try:
        scope = choose_scope(observed.session.pipeline)
        return replace(look, plan=plan_observed(observed.session, tables, at_least, scope=scope))
    except NothingToDo as reason:
        return replace(look, is_postponed=isinstance(reason, TooFewRecords))


def _run_beside_each_other(
    members: Mapping[str, Item], call: Callable[[Item], T]
) -> tuple[dict[str, T], dict[str, Exception]]:
    with ThreadPoolExecutor(THREADS, thread_name_prefix="tidegate-fleet") as workers:
        futures = {name: workers.submit(call, member) for name, member in members.items()}
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
