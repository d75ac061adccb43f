"""Every pipeline for the page: opened once, kept while the files stay; what they connect to is shared.

Each pipeline has its own destination, which knows its branches; pipelines share the clients of their catalogs while the
settings, secrets included, are equal.
"""

import threading
import time
from dataclasses import dataclass
from pathlib import Path

from tidegate.adapters.open_clients import OpenClients
from tidegate.config.pipeline_file import find_fleet
from tidegate.connections import Resolve, cache_connections
from tidegate.errors import TidegateError
from tidegate.ports.broker import Broker
from tidegate.ports.session import Session
from tidegate.runner.pipeline_files import PipelineFiles
from tidegate.settings import FileStamp, list_named_files, read_file_stamp
from tidegate.spec.pipeline import Pipeline

CONTEXT_TTL_SECONDS = 300.0  # after that a changed connection is noticed
FAILED_TTL_SECONDS = 5.0  # where it may be the connection that somebody is correcting
Group = tuple[object, ...]
Place = tuple[object, ...]  # the connection of the brokers, or their settings, and the catalogs' names
Stamp = tuple[FileStamp, ...]


@dataclass(frozen=True)
class PipelineContext:
    """One pipeline's session; pipelines of one `group` share their brokers and their catalogs."""

    group: Group
    session: Session


CachedContext = tuple[Stamp, float, PipelineContext | TidegateError]  # with when it was opened


class PipelineContexts:
    """Every pipeline file of a folder, by its name."""

    def __init__(self, include: Path, resolve: Resolve) -> None:
        self._include = include
        self._resolve = resolve
        self._files = PipelineFiles(include)
        self._lock = threading.RLock()  # never held while a connection is looked up: every request of the page takes it
        self._opening: dict[Place, threading.Lock] = {}  # each held by the one that looks up the place's connections
        self._cached_contexts: dict[str, CachedContext] = {}
        self._failed: set[str] = set()
        self._fleets: dict[str, tuple[Stamp, str | None]] = {}
        self._brokers: dict[Group, Broker] = {}
        self._clients = OpenClients()

    def list_names(self) -> list[str]:
        """List the pipelines. Closes what belongs to those that are gone."""
        names = [path.stem for path in list_named_files(self._include / "pipelines")]
        with self._lock:
            for name in {*self._cached_contexts, *self._fleets} - set(names):
                self._cached_contexts.pop(name, None)
                self._fleets.pop(name, None)
            self._failed &= set(names)
            self._opening = {place: lock for place, lock in self._opening.items() if lock.locked()}
            if not self._opening:  # what is being opened uses one that nobody used before
                contexts = [context for _, _, context in self._cached_contexts.values()]
                in_use = {context.group[0] for context in contexts if isinstance(context, PipelineContext)}
                self._brokers = {group: broker for group, broker in self._brokers.items() if group in in_use}
        return names

    def get_context(self, name: str) -> PipelineContext:
        """Return one pipeline's session and group. Looks connections up, in a secrets backend that may hang."""
        entry = self._find_cached(name)
        if entry is None:
            place = self.find_place(name)
            with self._lock:
                opening = self._opening.setdefault(place, threading.Lock())
            with opening:
                entry = self._find_cached(name) or self._open_pipeline(name)
        if isinstance(entry[2], TidegateError):
            self.report_failure(name)
            raise entry[2].with_traceback(None)
        return entry[2]

    def find_place(self, name: str) -> Place:
        """Return the names of what a pipeline connects to, without a look-up; its own name if its file is wrong."""
        pipeline = self._load(name)
        if isinstance(pipeline, TidegateError):
            return (name,)
        kafka = pipeline.source.kafka
        return (kafka if isinstance(kafka, str) else tuple(sorted(kafka.items())), pipeline.catalogs)

    def _open_pipeline(self, name: str) -> CachedContext:
        stamp = self._read_stamp(name)
        load_result = self._load(name)
        context = load_result if isinstance(load_result, TidegateError) else self._open_context(load_result)
        with self._lock:
            self._failed.discard(name)
            entry = self._cached_contexts[name] = (stamp, time.monotonic(), context)
        return entry

    def _find_cached(self, name: str) -> CachedContext | None:
        with self._lock:
            entry = self._cached_contexts.get(name)
            ttl = FAILED_TTL_SECONDS if name in self._failed else CONTEXT_TTL_SECONDS
        is_fresh = entry is not None and entry[0] == self._read_stamp(name) and time.monotonic() - entry[1] <= ttl
        return entry if is_fresh else None

    def _load(self, name: str) -> Pipeline | TidegateError:
        try:
            return self._files.load(name)
        except TidegateError as problem:
            return problem

    def get_fleet(self, name: str) -> str | None:
        """Return the fleet that the pipeline's file names, whatever else is wrong with the file."""
        with self._lock:
            stamp = self._read_stamp(name)
            entry = self._fleets.get(name)
            if entry is None or entry[0] != stamp:
                entry = self._fleets[name] = (stamp, find_fleet(self._include, name))
            return entry[1]

    def report_failure(self, name: str) -> None:
        with self._lock:
            self._failed.add(name)

    def _read_stamp(self, name: str) -> Stamp:
        words = ("catalogs.yaml", f"pipelines/{name}.yaml", "defaults.yaml")
        return tuple(read_file_stamp(self._include / word) for word in words)

    def _open_context(self, pipeline: Pipeline) -> PipelineContext | TidegateError:
        from tidegate.adapters.kafka.settings import describe_kafka_place, resolve_kafka_settings
        from tidegate.adapters.kafka.shared_broker import SharedBroker
        from tidegate.wiring.pipeline import NoEngine, SharedParts, assemble_loaded_pipeline

        resolve = cache_connections(self._resolve)  # each is looked up once for one pipeline
        parts = SharedParts(include=self._include, resolve=resolve, engine=NoEngine(), clients=self._clients)
        try:
            settings = resolve_kafka_settings(pipeline.source.kafka, resolve)
            cluster: Group = tuple(sorted(settings.items()))
            with self._lock:
                if cluster not in self._brokers:
                    self._brokers[cluster] = SharedBroker(settings, describe_kafka_place(pipeline.source.kafka))
                broker = self._brokers[cluster]
            session = assemble_loaded_pipeline(parts, pipeline, broker)
        except TidegateError as problem:
            return problem
        catalogs: Group = (self._read_stamp("")[0], *sorted({table.catalog for table in pipeline.entries}))
        return PipelineContext((cluster, catalogs), session)
