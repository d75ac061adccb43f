"""The newest reading of every pipeline: read in the background while somebody looks, so that no request waits long."""

import logging
import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from tidegate.errors import GiveUp
from tidegate.monitoring.overview import build_overview, read_recent
from tidegate.monitoring.reports import PipelineRow, RecentActivity
from tidegate.monitoring.status import find_unpublished
from tidegate.ports.session import Session
from tidegate.spec.pipeline import FileDescription
from tidegate.table.log import read_known_log
from tidegate.table.observed_table import ObservedTable, observe_tables
from tidegate.table.pipeline_progress import (
    PipelineProgress,
    check_schemas,
    compare_with_log,
    read_connector_heartbeat_ms,
)
from tidegate.table.session import expand_template

from tidegate_airflow.web.messages import describe_problem
from tidegate_airflow.web.pipeline_contexts import Group, PipelineContexts, Place

if TYPE_CHECKING:  # Kafka's client is not loaded with the page
    from tidegate.adapters.kafka.shared_broker import SharedBroker

log = logging.getLogger(__name__)
# a place that took long to read is rested from: the web server has other work
FRESH_SECONDS = 4.0
PAUSE_FACTOR = 5.0
IDLE_SECONDS = 15.0  # who looks after so long waits for new numbers: the last ones are from another time
RECENT_FRESH_SECONDS = 30.0
SLOW_SECONDS = 3.0  # who fails after so long is not asked again for the next pipeline of the same place
SILENT_SECONDS = 10.0
FIRST_LOOK_SECONDS = 30.0  # as long as a server may take to accept a connection: nothing is wrong before


@dataclass
class _Known:
    """What is known of one pipeline: what its file says, and the last reading."""

    place: Place = ()
    description: FileDescription | None = None
    interval_seconds: int = 0
    row: PipelineRow | None = None
    recent: tuple[object, float, RecentActivity] | None = None  # with the batches that it is of, and when it was read
    answered: float = -1.0


class OverviewCache:
    """Rows by pipeline, of `build_overview` and `read_recent`, with `read_at`, and `error` if nobody answers."""

    def __init__(self, sources: PipelineContexts) -> None:
        self._sources = sources
        self._changed = threading.Condition()
        self._known: dict[str, _Known] = defaultdict(_Known)
        self._busy: dict[Place, float] = {}
        self._due: dict[Place, float] = {}
        self._next = 0.0
        self._looked = 0.0

    def get_rows(self, patience: float = 3.0) -> dict[str, PipelineRow]:
        """Return what is known now, and begin a new reading of each place whose last is old.

        Waits at most `patience` seconds for what was never read, and, after a while without a look, for all.
        """
        names = self._sources.list_names()
        with self._changed:
            for name in self._known.keys() - set(names):
                del self._known[name]
            now = time.monotonic()
            wanted_seconds = now if now - self._looked > IDLE_SECONDS else 0.0
            self._looked = now
            if now >= self._next:
                self._next = now + FRESH_SECONDS
                threading.Thread(target=self._start_reading, args=(names,), daemon=True, name="tidegate-watch").start()
            self._changed.wait_for(
                lambda: all(self._known[name].answered >= wanted_seconds for name in names), patience
            )
            return {name: self._get_row(name) for name in names}

    def get_interval_seconds(self, name: str) -> int:
        return self._known[name].interval_seconds

    def _get_row(self, name: str) -> PipelineRow:
        known = self._known[name]
        row: PipelineRow = known.row or PipelineRow(pipeline=name)
        if known.description is not None:
            row = {**row, **known.description}
        since = self._busy.get(known.place)
        silent = 0.0 if since is None else time.monotonic() - since
        if known.row is None:
            waited_text = f": no answer for {silent:.0f} s" if silent >= 1 else ""
            return {**row, "error": f"not read yet{waited_text}", "looking": silent < FIRST_LOOK_SECONDS}
        if silent > SILENT_SECONDS:
            return {**row, "error": f"brokers or catalog have not answered for {silent:.0f} s; the numbers are older"}
        return row

    def _start_reading(self, names: list[str]) -> None:
        # in threads of their own: a place that does not answer delays no other
        places: dict[Place, list[str]] = defaultdict(list)
        for name in names:
            places[self._sources.find_place(name)].append(name)
        with self._changed:
            for place, members in places.items():
                for name in members:
                    self._known[name].place = place
            self._due = {place: due_at for place, due_at in self._due.items() if place in places}
            now = time.monotonic()
            idle = {p: members for p, members in places.items() if p not in self._busy and now >= self._due.get(p, 0.0)}
            self._busy |= dict.fromkeys(idle, now)
        for place, members in idle.items():
            threading.Thread(target=self._read, args=(place, members), daemon=True, name="tidegate-reading").start()

    def _read(self, place: Place, names: list[str]) -> None:
        begin_seconds = time.monotonic()
        try:
            for members in self._open_contexts(names).values():
                self._read_group(members)
        except Exception as problem:  # a bug of ours must be seen on the page, not only in a log
            log.exception("the overview cannot be read")
            for name in names:
                self._store_problem(name, problem)
        finally:
            took_seconds = time.monotonic() - begin_seconds
            with self._changed:
                self._busy.pop(place, None)
                self._due[place] = time.monotonic() + PAUSE_FACTOR * took_seconds - FRESH_SECONDS
                self._changed.notify_all()

    def _open_contexts(self, names: list[str]) -> dict[Group, list[Session]]:
        groups: dict[Group, list[Session]] = defaultdict(list)
        for number, name in enumerate(names):
            begin_seconds = time.monotonic()
            try:
                context = self._sources.get_context(name)
            except Exception as problem:
                is_slow = time.monotonic() - begin_seconds > SLOW_SECONDS
                for failed_name in names[number:] if is_slow else [name]:
                    self._store_problem(failed_name, problem)
                if is_slow:
                    break
                continue
            groups[context.group].append(context.session)
            self._known[name].description = context.session.pipeline.describe_file()
            self._known[name].interval_seconds = max(0, context.session.pipeline.merge.interval_seconds)
        return groups

    def _read_group(self, members: list[Session]) -> None:
        broker = cast("SharedBroker", members[0].broker)  # the sources open no other
        broker.forget()
        readings: list[PipelineProgress] = []
        for session, tables, connector_ms in self._read_tables(members):
            try:
                readings.append(compare_with_log(session, tables, *read_known_log(session), connector_ms))
            except Exception as problem:
                self._store_problem(session.pipeline.name, problem)
        broker.learn(place for progress in readings for place in find_unpublished(progress))
        for progress in readings:
            name = progress.session.pipeline.name
            known = self._known[name]
            if not all(table.is_read for table in progress.tables):
                self._sources.report_failure(name)
            try:
                overview = build_overview(progress)
                batches = tuple(table["batch"] for table in overview["tables"])
                recent = known.recent
                if recent is None or recent[0] != batches or time.monotonic() - recent[1] > RECENT_FRESH_SECONDS:
                    recent = known.recent = (batches, time.monotonic(), read_recent(progress.session))
                row = {**overview, **recent[2], "error": None, "needs_person": False, "read_at": time.time()}
                self._store_row(name, cast("PipelineRow", row))
            except Exception as problem:
                self._store_problem(name, problem)

    def _read_tables(self, members: list[Session]) -> list[tuple[Session, tuple[ObservedTable, ...], int | None]]:
        readings = []
        for number, session in enumerate(members):
            begin_seconds = time.monotonic()
            try:
                connector_ms = read_connector_heartbeat_ms(session)
                expanded = expand_template(session)
                tables = check_schemas(expanded, observe_tables(expanded))
                readings.append((expanded, tables, connector_ms))
            except Exception as problem:
                self._store_problem(session.pipeline.name, problem)
                if time.monotonic() - begin_seconds > SLOW_SECONDS:
                    for member in members[number + 1 :]:
                        self._store_problem(member.pipeline.name, problem)
                    break
        return readings

    def _store_problem(self, name: str, problem: Exception) -> None:
        self._sources.report_failure(name)
        last = self._known[name].row or PipelineRow(pipeline=name, read_at=None)
        row: PipelineRow = {**last, "error": describe_problem(problem), "needs_person": isinstance(problem, GiveUp)}
        self._store_row(name, row)

    def _store_row(self, name: str, row: PipelineRow) -> None:
        with self._changed:
            self._known[name].row = row
            self._known[name].answered = time.monotonic()
            self._changed.notify_all()
