"""The ports of every pipeline for onlookers: opened once, kept while the files stay; what they connect to is shared.

A destination is each pipeline's own, as it knows the branches that the pipeline writes; pipelines share the clients of
their catalogs while the settings of these, secrets included, are the same.
"""

import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tidegate.adapters.open_clients import OpenClients
from tidegate.config.fleets import find_fleet
from tidegate.connections import Resolve, cache_connections
from tidegate.errors import TidegateError
from tidegate.ports.broker import Broker
from tidegate.ports.context import Ports

CONTEXT_TTL_SECONDS = 300.0  # after that a changed connection is noticed
FAILED_TTL_SECONDS = 5.0  # where it may be the connection that somebody is correcting
Group = tuple[Any, ...]


@dataclass(frozen=True)
class PipelineContext:
    """One pipeline's ports; pipelines of one `group` share their brokers and their catalogs."""

    group: Group
    ports: Ports


class PipelineContexts:
    """Every pipeline file of a folder, by its name."""

    def __init__(self, include: Path, resolve: Resolve) -> None:
        self._include = include
        self._resolve = resolve
        self._lock = threading.RLock()
        self._kept: dict[str, tuple[Any, float, PipelineContext | TidegateError]] = {}
        self._failed: set[str] = set()
        self._fleets: dict[str, tuple[Any, str | None]] = {}
        self._brokers: dict[Group, Broker] = {}
        self._clients = OpenClients()

    def list_names(self) -> list[str]:
        """The pipelines there are."""
        return sorted(path.stem for path in (self._include / "pipelines").glob("*.yaml"))

    def get_context(self, name: str) -> PipelineContext:
        """One pipeline's; raises what is wrong with its file, its catalog or its connections."""
        with self._lock:
            stamp = self._read_stamp(name)
            entry = self._kept.get(name)
            ttl = FAILED_TTL_SECONDS if name in self._failed else CONTEXT_TTL_SECONDS
            if entry is None or entry[0] != stamp or time.monotonic() - entry[1] > ttl:
                self._failed.discard(name)
                entry = self._kept[name] = (stamp, time.monotonic(), self._open_context(name))
            if isinstance(entry[2], TidegateError):
                self._failed.add(name)
                raise entry[2]
            return entry[2]

    def get_fleet(self, name: str) -> str | None:
        """The fleet that the pipeline's file names, whatever else is wrong with the file."""
        with self._lock:
            stamp = self._read_stamp(name)
            entry = self._fleets.get(name)
            if entry is None or entry[0] != stamp:
                entry = self._fleets[name] = (stamp, find_fleet(self._include, name))
            return entry[1]

    def report_failure(self, name: str) -> None:
        """The pipeline could not be read: its connections are looked up again soon."""
        with self._lock:
            self._failed.add(name)

    def _read_stamp(self, name: str) -> tuple[Any, ...]:
        words = ("catalogs.yaml", f"pipelines/{name}.yaml", "defaults.yaml")
        return read_file_stamp(*(self._include / word for word in words))

    def _open_context(self, name: str) -> PipelineContext | TidegateError:
        from tidegate.adapters.kafka.settings import describe_kafka_place, resolve_kafka_settings
        from tidegate.adapters.kafka.shared_broker import SharedBroker
        from tidegate.wiring.no_engine import NoEngine
        from tidegate.wiring.pipeline import assemble_pipeline

        resolve = cache_connections(self._resolve)  # each is looked up once for one pipeline
        try:
            ports = assemble_pipeline(self._include, name, resolve, engine=NoEngine(), clients=self._clients)
            settings = resolve_kafka_settings(ports.pipeline.source.kafka, resolve)
        except TidegateError as problem:
            return problem
        cluster: Group = tuple(sorted(settings.items()))
        catalogs: Group = (self._read_stamp("")[0], *sorted({table.catalog for table in ports.pipeline.entries}))
        if cluster not in self._brokers:
            in_use = {context.group[0] for _, _, context in self._kept.values() if isinstance(context, PipelineContext)}
            self._brokers = {group: broker for group, broker in self._brokers.items() if group in in_use}
            self._brokers[cluster] = SharedBroker(settings, describe_kafka_place(ports.pipeline.source.kafka))
        return PipelineContext((cluster, catalogs), replace(ports, broker=self._brokers[cluster]))


def read_file_stamp(*files: Path) -> tuple[Any, ...]:
    """A value that changes when one of the files does: time in nanoseconds and bytes, None for a missing one."""
    return tuple((s.st_mtime_ns, s.st_size) if (s := _stat_file(file)) else None for file in files)


def _stat_file(file: Path) -> Any:
    try:
        return file.stat()
    except OSError:
        return None
