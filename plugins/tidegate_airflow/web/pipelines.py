"""What the page's endpoints answer: readings of the pipelines and what Airflow knows of them, put together."""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import UTC, datetime, timedelta
from typing import Any

from tidegate.model import resource_names
from tidegate.monitoring import details
from tidegate.monitoring.dead_letter_rows import shown as shown_letter
from tidegate.monitoring.health import WORST_FIRST, in_words
from tidegate.ports.context import Ports

from tidegate_airflow.dag_ids import dags_of, flush_dag_of
from tidegate_airflow.web import airflow_runs
from tidegate_airflow.web.airflow_runs import Scheduled, shown, shown_time, standing
from tidegate_airflow.web.messages import told
from tidegate_airflow.web.overview_cache import Watch
from tidegate_airflow.web.pipeline_contexts import Sources

PATIENCE = 12.0  # seconds that the parts of one pipeline's page may take together
BATCHES, RUNS, ERRORS, RESULTS = 200, 20, 8, 200
PAGE_SIZE, MOST_PAGES = 25, 40
KEEPERS = ("heartbeat", "commit_offsets")
Data = dict[str, Any]


class Desk:
    """One for the web server's process."""

    def __init__(self, sources: Sources, watch: Watch) -> None:
        self.sources = sources
        self._watch = watch
        self._workers = ThreadPoolExecutor(16, thread_name_prefix="tidegate-page")

    def overview(self, pipelines: list[str]) -> list[Data]:
        """A row for each of these pipelines, the worst first."""
        rows = self._watch.rows()
        dags = airflow_runs.scheduled([flush_dag_of(name) for name in pipelines])
        found = [self._row(rows[name], dags.get(flush_dag_of(name))) for name in pipelines if name in rows]
        return sorted(found, key=lambda row: (WORST_FIRST.index(row["state"]), row["pipeline"]))

    def _row(self, row: Data, dag: Scheduled | None) -> Data:
        state, reason = in_words(row, standing(dag), self._interval(row["pipeline"]), int(time.time() * 1000))
        return {
            **row,
            "state": state,
            "reason": reason,
            **shown(dag),
            "last_run": dag.last if dag else None,
        }

    def _interval(self, name: str) -> int:
        try:
            return max(0, self.sources.source(name).ports.pipeline.merge.interval_seconds)
        except Exception:  # what is wrong with the file is the row's error already
            return 0

    def pipeline(self, name: str) -> Data:
        """Everything about one pipeline; a part that fails or takes too long says so in its own place."""
        row = self.overview([name])[0]
        asked: dict[str, Callable[[], Any]] = {
            "offsets": lambda: details.offsets(self._ports(name)),
            "group_retention": lambda: details.group_retention(self._ports(name)),
            "warnings": lambda: details.warnings(self._ports(name)),
            "past": lambda: details.past(self._ports(name), BATCHES),
            "storage": lambda: details.storage(self._ports(name)),
            "backfills": lambda: details.backfills(self._ports(name)),
            "airflow": lambda: self._airflow(name, [table["table"] for table in row.get("tables", ())]),
        }
        parts = self._parts(asked)
        parts["airflow"] |= {"offsets_expire": _expiry(parts)}
        return {"pipeline": row, **parts}

    def _parts(self, asked: Mapping[str, Callable[[], Any]]) -> Data:
        futures: dict[str, Future[Any]] = {part: self._workers.submit(call) for part, call in asked.items()}
        wait(futures.values(), PATIENCE)
        return {part: _answer(future) for part, future in futures.items()}

    def _ports(self, name: str) -> Ports:
        return self.sources.source(name).ports

    def _airflow(self, name: str, tables: list[str]) -> Data:
        dags = dags_of(name)
        known = airflow_runs.scheduled(dags.values())
        kept = airflow_runs.last_success(flush_dag_of(name), KEEPERS)
        return {
            "dags": {kind: {"dag_id": dag, "paused": known[dag].paused} for kind, dag in dags.items() if dag in known},
            "runs": airflow_runs.runs(dags.values(), RUNS),
            "errors": airflow_runs.errors(dags.values(), ERRORS),
            "assets": airflow_runs.asset_ids(tables),
            "maintenance": airflow_runs.newest_results(dags["maintenance"], "maintain", "table", RESULTS),
            "last_heartbeat": shown_time(kept),
        }

    def dead_letters(self, name: str, page: int) -> Data:
        """One page of the dead letters that wait, the newest first; `page` counts from 1."""
        page = min(max(1, page), MOST_PAGES)
        ports = self._ports(name)
        table = resource_names.dead_letter_table(ports.pipeline)
        found = ports.destination.dead_letters(table, page * PAGE_SIZE)
        return {
            "pipeline": name,
            "table": table,
            "waiting": found.waiting,
            "replayed": found.replayed,
            "page": page,
            "pages": max(1, min(MOST_PAGES, -(-found.waiting // PAGE_SIZE))),
            "dead_letters": [shown_letter(row) for row in found.newest[(page - 1) * PAGE_SIZE :]],
        }


def _answer(future: "Future[Any]") -> Any:
    if not future.done():
        return {"error": f"no answer within {PATIENCE:.0f} s: brokers or catalog are slow or gone"}
    problem = future.exception()
    return {"error": told(problem)} if problem is not None else future.result()


def _expiry(parts: Data) -> str | None:
    """When the committed offsets are forgotten, if no heartbeat follows the last."""
    kept, seconds = parts["airflow"].get("last_heartbeat"), parts["group_retention"].get("seconds")
    if kept is None:
        return None
    return shown_time(datetime.fromisoformat(kept) + timedelta(seconds=seconds or details.GROUP_RETENTION))


def now() -> str:
    """The server's time: ages on the page are counted from it, whatever the browser's clock says."""
    return str(shown_time(datetime.now(UTC)))
