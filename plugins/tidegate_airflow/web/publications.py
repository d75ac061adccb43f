"""Publications on the page: each is read in the background while somebody looks, beside what Airflow knows of it."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tidegate.connections import Resolve
from tidegate.errors import GiveUp, TidegateError
from tidegate.monitoring.health import WORST_FIRST
from tidegate.ports.publication_ports import PublicationPorts
from tidegate.publications.status import in_words, status

from tidegate_airflow.dag_ids import publish_dag_of
from tidegate_airflow.web import airflow_runs
from tidegate_airflow.web.airflow_runs import Scheduled, shown, standing
from tidegate_airflow.web.messages import told
from tidegate_airflow.web.pipeline_contexts import KEPT_SECONDS, NoEngine, file_stamp

FRESH_SECONDS, REST = 10.0, 5.0  # a reading that took long is rested from
READERS = 4
SNAPSHOTS, RUNS, ERRORS = 20, 20, 8
Row = dict[str, Any]


class Publications:
    """Every publication file of a folder, by its name."""

    def __init__(self, include: Path, resolve: Resolve) -> None:
        self._include, self._resolve = include, resolve
        self._changed = threading.Condition()
        self._workers = ThreadPoolExecutor(READERS, thread_name_prefix="tidegate-publications")
        self._rows: dict[str, Row] = {}
        self._due: dict[str, float] = {}
        self._kept: dict[str, tuple[Any, float, PublicationPorts]] = {}

    def names(self) -> list[str]:
        """The publications there are."""
        return sorted(path.stem for path in (self._include / "publications").glob("*.yaml"))

    def ports(self, name: str) -> PublicationPorts:
        """One publication's; raises what is wrong with its file, its catalog or its connections."""
        from tidegate.wiring.publication import assemble_publication

        files = (self._include / "catalogs.yaml", self._include / "publications" / f"{name}.yaml")
        stamp = file_stamp(*files)
        kept = self._kept.get(name)
        if kept is None or kept[0] != stamp or time.monotonic() - kept[1] > KEPT_SECONDS:
            made = assemble_publication(self._include, name, self._resolve, NoEngine())
            kept = self._kept[name] = (stamp, time.monotonic(), made)
        return kept[2]

    def rows(self, names: list[str], patience: float = 3.0) -> dict[str, Row]:
        """What is known of these now; readings that are old begin anew. Waits only for what was never read."""
        with self._changed:
            for name in names:
                if time.monotonic() >= self._due.get(name, 0.0):
                    self._due[name] = float("inf")  # until the reading is over
                    self._workers.submit(self._read, name)
            self._changed.wait_for(lambda: all(name in self._rows for name in names), patience)
            unread = {"error": "not read yet: brokers or catalog are slow", "read_at": None}
            return {name: self._rows.get(name, {"publication": name, **unread}) for name in names}

    def _read(self, name: str) -> None:
        begun = time.monotonic()
        try:
            row = {**status(self.ports(name)), "error": None, "needs_person": False, "read_at": time.time()}
        except Exception as problem:  # a bug of ours must be seen on the page, too
            last = self._rows.get(name, {"publication": name, "read_at": None})
            row = {**last, "error": told(problem), "needs_person": isinstance(problem, GiveUp)}
        with self._changed:
            self._rows[name] = row
            self._due[name] = time.monotonic() + max(FRESH_SECONDS, REST * (time.monotonic() - begun))
            self._changed.notify_all()

    def overview(self, names: list[str]) -> list[Row]:
        """A row for each of these, the worst first."""
        rows = self.rows(names)
        dags = airflow_runs.scheduled([publish_dag_of(name) for name in names])
        found = [_row(rows[name], dags.get(publish_dag_of(name))) for name in names]
        return sorted(found, key=lambda row: (WORST_FIRST.index(row["state"]), row["publication"]))

    def publication(self, name: str) -> Row:
        """Everything about one publication; what does not answer says so in its own place."""
        row, dag = self.overview([name])[0], publish_dag_of(name)
        airflow = {
            "runs": airflow_runs.runs([dag], RUNS),
            "errors": airflow_runs.errors([dag], ERRORS),
            "assets": airflow_runs.asset_ids([row["table"]] if "table" in row else []),
        }
        return {"publication": row, "snapshots": self._snapshots(name), "airflow": airflow}

    def _snapshots(self, name: str) -> Any:
        try:
            ports = self.ports(name)
            if ports.snapshots.table(ports.publication.table) is None:
                return []
            found = ports.snapshots.line(ports.publication.table, SNAPSHOTS)
            return [{**vars(made), "snapshot_id": _whole(made.snapshot_id)} for made in found]
        except TidegateError as problem:
            return {"error": told(problem)}


def _whole(number: int | None) -> str | None:
    """As text: browsers round numbers of this size."""
    return None if number is None else str(number)


def _row(row: Row, dag: Scheduled | None) -> Row:
    state, reason = in_words(row, standing(dag))
    numbers = {name: _whole(row.get(name)) for name in ("published_snapshot_id", "table_snapshot_id")}
    return {
        **row,
        **numbers,
        "state": state,
        "reason": reason,
        **shown(dag),
        "last_dag_run": dag.last if dag else None,
    }
