"""The members of a fleet, opened together: they share the brokers of a Kafka cluster, and the clients of catalogs."""

import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tidegate.adapters.kafka.shared_broker import ReadAheadBroker
from tidegate.adapters.open_clients import OpenClients
from tidegate.config.catalogs_file import read_catalogs
from tidegate.config.pipeline_file import find_fleet, load_all_pipelines, read_defaults
from tidegate.connections import Resolve, cache_connections
from tidegate.errors import ConfigurationError
from tidegate.ports.broker import Broker
from tidegate.ports.session import Session
from tidegate.spec.pipeline import Pipeline
from tidegate.wiring.pipeline import NoEngine, SharedParts, assemble_loaded_pipeline

log = logging.getLogger(__name__)


def load_members(include: Path, fleet: str) -> dict[str, Pipeline]:
    """The pipelines of a fleet whose file is right, by name."""
    load_results = load_all_pipelines(include)
    return {
        name: load_result
        for name, load_result in load_results
        if isinstance(load_result, Pipeline) and load_result.fleet == fleet
    }


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


class ClusterBroker(Broker, Protocol):
    """The port to Kafka that members of one cluster share: see `ReadAheadBroker`."""

    def read_names_ahead(self) -> None:
        """Read the names of all topics."""
        ...

    def read_ahead(self, topics: Iterable[str], isolation: str) -> None:
        """Read the logs of these topics together."""
        ...


@dataclass(frozen=True)
class Member:
    """One pipeline of a fleet with its session, which runs no Spark job."""

    session: Session
    broker: ClusterBroker

    @property
    def name(self) -> str:
        return self.session.pipeline.name


@dataclass(frozen=True)
class OpenedMembers:
    """The members that could be opened, and the failures of the others, by name."""

    members: tuple[Member, ...]
    failures: dict[str, Exception] = field(default_factory=dict)


class _Openers:
    """What members share while they are opened."""

    def __init__(self, include: Path, resolve: Resolve) -> None:
        self._parts = SharedParts(
            include=include, resolve=cache_connections(resolve), engine=NoEngine(), clients=OpenClients()
        )
        self._brokers = dict[str, ReadAheadBroker]()

    def open(self, pipeline: Pipeline) -> Member:
        key = json.dumps(pipeline.source.kafka, sort_keys=True)
        if key not in self._brokers:
            self._brokers[key] = ReadAheadBroker.open(pipeline.source.kafka, self._parts.resolve)
        session = assemble_loaded_pipeline(self._parts, pipeline, self._brokers[key])
        return Member(session, self._brokers[key])


def open_members(include: Path, pipelines: Iterable[Pipeline], resolve: Resolve) -> OpenedMembers:
    """Connects to nothing yet; looks up each connection once. A member that cannot be opened is its own failure."""
    openers = _Openers(include, resolve)
    members = list[Member]()
    failures = dict[str, Exception]()
    for pipeline in pipelines:
        try:
            members.append(openers.open(pipeline))
        except Exception as problem:
            log.warning(
                "pipeline=%s cannot be opened: %s: %s; the others go on, and its own task fails with the reason",
                pipeline.name,
                type(problem).__name__,
                problem,
            )
            failures[pipeline.name] = problem
    return OpenedMembers(tuple(members), failures)
