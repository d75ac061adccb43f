"""Publications on the page: each is read in the background while somebody looks, beside what Airflow knows of it."""

import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from tidegate.connections import Resolve
from tidegate.errors import GiveUp
from tidegate.monitoring.health import WORST_FIRST, ScheduleState
from tidegate.monitoring.reports import PublicationRow
from tidegate.monitoring.runbook import describe_state
from tidegate.ports.publication_session import PublicationSession
from tidegate.publications.status import (
    PublicationReading,
    compute_patience,
    describe_publication_state,
    read_publication_status,
)
from tidegate.runner.pipeline_files import PublicationFiles
from tidegate.settings import list_named_files, read_file_stamp

from tidegate_airflow.dag_ids import format_publish_dag_id
from tidegate_airflow.web import airflow_runs
from tidegate_airflow.web.airflow_runs import DagStatus, describe_dag
from tidegate_airflow.web.messages import describe_problem
from tidegate_airflow.web.overview_cache import FIRST_LOOK_SECONDS, IDLE_SECONDS, PAUSE_FACTOR
from tidegate_airflow.web.pipeline_contexts import CONTEXT_TTL_SECONDS
from tidegate_airflow.web.pipelines import PartReader
from tidegate_airflow.web.task_errors import group_causes, read_errors

# a reading that took long is rested from
FRESH_SECONDS = 10.0
READER_THREADS = 4
MAX_SNAPSHOTS = 20
MAX_ERRORS = 8


@dataclass
class _Known:
    """What is known of one publication: its session, with its files and when it was opened, and the last reading."""

    session: tuple[object, float, PublicationSession] | None = None
    reading: PublicationReading | None = None
    answered: float = -1.0
    due: float = 0.0
    begun: float = 0.0


class PublicationsView:
    """Every publication file of a folder, by its name."""

    def __init__(self, include: Path, resolve: Resolve) -> None:
        self._include = include
        self._resolve = resolve
        self._files = PublicationFiles(include)
        self._changed = threading.Condition()
        self._workers = ThreadPoolExecutor(READER_THREADS, thread_name_prefix="tidegate-publications")
        self._parts = PartReader(READER_THREADS)
        self._known: dict[str, _Known] = defaultdict(_Known)
        self._looked = 0.0

    def list_names(self) -> list[str]:
        """List the publications, and forget those that are gone."""
        names = [path.stem for path in list_named_files(self._include / "publications")]
        with self._changed:
            for name in self._known.keys() - set(names):
                del self._known[name]
        return names

    def get_session(self, name: str) -> PublicationSession:
        from tidegate.wiring.pipeline import NoEngine
        from tidegate.wiring.publication import assemble_loaded_publication

        files = (self._include / "catalogs.yaml", self._include / "publications" / f"{name}.yaml")
        stamp = tuple(map(read_file_stamp, files))
        entry = self._known[name].session
        if entry is None or entry[0] != stamp or time.monotonic() - entry[1] > CONTEXT_TTL_SECONDS:
            publication = self._files.load(name)  # all are read once, not for each that is opened
            session = assemble_loaded_publication(self._include, publication, self._resolve, NoEngine())
            entry = self._known[name].session = (stamp, time.monotonic(), session)
        return entry[2]

    def get_readings(self, names: list[str], patience: float = 3.0) -> dict[str, PublicationReading]:
        """Return what is known of these now, and begin again readings that are old.

        Waits at most `patience` seconds for what was never read, and, after a while without a look, for all.
        """
        with self._changed:
            now = time.monotonic()
            wanted_seconds = now if now - self._looked > IDLE_SECONDS else 0.0
            self._looked = now
            for name in names:
                if now >= self._known[name].due:
                    self._known[name].due = float("inf")  # until the reading is over
                    self._known[name].begun = now
                    self._workers.submit(self._read_publication, name)
            self._changed.wait_for(
                lambda: all(self._known[name].answered >= wanted_seconds for name in names), patience
            )
            return {name: self._known[name].reading or self._describe_first_look(name) for name in names}

    def _describe_first_look(self, name: str) -> PublicationReading:
        begun = self._known[name].begun or time.monotonic()  # another request forgets one that goes meanwhile
        is_looking = time.monotonic() - begun < FIRST_LOOK_SECONDS
        problem = "not read yet: brokers or catalog are slow"
        return PublicationReading(publication=name, error=problem, is_looking=is_looking)

    def _read_publication(self, name: str) -> None:
        begin_seconds = time.monotonic()
        try:
            session = self.get_session(name)
            status = read_publication_status(session)
            patience = compute_patience(session.publication)
            reading = PublicationReading(
                publication=name, status=status, read_at=time.time(), patience_seconds=patience
            )
        except Exception as problem:  # a bug of ours must be seen on the page, too
            self._known[name].session = None  # it may be a connection that somebody is correcting
            last = self._known[name].reading or PublicationReading(publication=name)
            reading = replace(last, error=describe_problem(problem), needs_person=isinstance(problem, GiveUp))
        with self._changed:
            known = self._known[name]
            known.reading = reading
            known.answered = time.monotonic()
            known.due = known.answered + max(FRESH_SECONDS, PAUSE_FACTOR * (known.answered - begin_seconds))
            self._changed.notify_all()

    def get_overview(self, names: list[str]) -> list[PublicationRow]:
        readings = self.get_readings(names)
        dags = airflow_runs.read_dag_statuses([format_publish_dag_id(name) for name in names])
        overview = [_to_row(readings[name], dags.get(format_publish_dag_id(name))) for name in names]
        return sorted(overview, key=lambda row: (WORST_FIRST.index(row["state"]), row["publication"]))

    def get_publication(self, name: str) -> dict[str, Any]:
        """Return everything about one publication; a part that does not answer holds its `error`."""
        row = self.get_overview([name])[0]
        dag = format_publish_dag_id(name)
        errors = read_errors([dag], MAX_ERRORS)
        status = airflow_runs.read_dag_statuses([dag]).get(dag)
        airflow = {
            "runs": airflow_runs.read_runs([dag]),
            "errors": errors,
            "causes": group_causes(errors, [dag] if status and status.failed else [], []),
            "assets": airflow_runs.read_asset_ids([row["table"]] if "table" in row else []),
        }
        parts = self._parts.read_parts(name, {"snapshots": lambda: self._read_snapshots(name)})
        return {"publication": row, **parts, "airflow": airflow}

    def _read_snapshots(self, name: str) -> list[dict[str, Any]]:
        session = self.get_session(name)
        if session.snapshots.read_table(session.publication.table) is None:
            return []
        snapshots = session.snapshots.list_ancestors(session.publication.table, MAX_SNAPSHOTS)
        return [{**vars(snapshot), "snapshot_id": _to_id_text(snapshot.snapshot_id)} for snapshot in snapshots]


def _to_id_text(number: int | None) -> str | None:
    # browsers round numbers of this size
    return None if number is None else str(number)


def _to_row(reading: PublicationReading, dag: DagStatus | None) -> PublicationRow:
    state, reason = describe_publication_state(reading, dag or ScheduleState())
    known: dict[str, Any] = reading.status.to_dict() if reading.status else {"publication": reading.publication}
    numbers = {name: _to_id_text(known.get(name)) for name in ("published_snapshot_id", "table_snapshot_id")}
    row: dict[str, Any] = {
        **known,
        "error": reading.error,
        "needs_person": reading.needs_person,
        "read_at": reading.read_at,
        **({"looking": True} if reading.is_looking else {}),
        **numbers,
        **describe_state(state, reason),
        **describe_dag(dag),
        "last_dag_run": dag.last if dag else None,
    }
    return cast("PublicationRow", row)
