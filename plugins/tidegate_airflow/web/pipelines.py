"""What the page's endpoints answer: readings of the pipelines and what Airflow knows of them, put together."""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from tidegate.errors import ConfigurationError
from tidegate.monitoring import details
from tidegate.monitoring.details import format_dead_letter
from tidegate.monitoring.health import (
    WORST_FIRST,
    BadRecordReason,
    ScheduleState,
    describe_pipeline_state,
    find_bad_record,
)
from tidegate.monitoring.reports import PipelineRow
from tidegate.monitoring.runbook import describe_state
from tidegate.monitoring.status import read_backfills
from tidegate.ports.session import Session
from tidegate.reprocess.record import describe_record, parse_neighbourhood, read_records_around
from tidegate.spec.time_text import format_moment
from tidegate.table.session import expand_template

from tidegate_airflow.dag_ids import list_dag_ids
from tidegate_airflow.web import airflow_runs
from tidegate_airflow.web.airflow_runs import DagStatus, describe_dag, read_last_beat, read_member_statuses
from tidegate_airflow.web.messages import describe_problem
from tidegate_airflow.web.overview_cache import OverviewCache
from tidegate_airflow.web.pipeline_contexts import PipelineContexts
from tidegate_airflow.web.task_errors import FleetPart, group_causes, read_errors, read_newest_results

ANSWER_TIMEOUT_SECONDS = 12.0  # seconds that the parts of one pipeline's page may take together
MAX_PARTS_AT_ONCE = 16
MAX_BATCHES = 200
CLOCKS = ("flush", "stage")  # the DAGs that bring rows in
MAX_ERRORS = 8
MAX_GROUPED_ERRORS = 40
MAX_TEXT_CHARACTERS = 1_000  # of a record's key and value
FORMS = ("actions", "backfill", "replay")  # the DAGs that a person starts from a form
MAX_RESULTS = 200
PAGE_SIZE = 25
MAX_PAGES = 40
MAX_LISTED_PARTS = 20  # partitions, and tables that records name, of each pipeline in the list of all: every browser
# asks for it every few seconds
Data = dict[str, Any]
PartName = tuple[str, str]  # whose page it is, and the part of it


class PartReader:
    """Reads the parts of pages in parallel, each once at a time, with a fixed number of threads."""

    def __init__(self, threads: int) -> None:
        self._workers = ThreadPoolExecutor(threads, thread_name_prefix="tidegate-page")
        self._lock = threading.RLock()
        self._readings: dict[PartName, Future[Any]] = {}

    def read_parts(self, name: str, readers: Mapping[str, Callable[[], Any]]) -> Data:
        """Return what each reader returns; `error` for one that fails, or that does not answer in time."""
        futures = {part: self._begin_reading((name, part), read) for part, read in readers.items()}
        wait(futures.values(), ANSWER_TIMEOUT_SECONDS)
        for future in futures.values():
            future.cancel()  # one that no thread has begun would be in the way of the next look
        parts: Data = {}
        for part, future in futures.items():
            if future.cancelled() or not future.done():
                text = f"no answer within {ANSWER_TIMEOUT_SECONDS:.0f} s: brokers or catalog are slow or gone"
                parts[part] = {"error": text}
            else:
                problem = future.exception()
                parts[part] = {"error": describe_problem(problem)} if problem is not None else future.result()
        return parts

    def _begin_reading(self, part: PartName, read: Callable[[], Any]) -> "Future[Any]":
        def end_reading(_: "Future[Any]") -> None:
            with self._lock:
                self._readings.pop(part, None)

        with self._lock:
            if part not in self._readings:
                future = self._readings[part] = self._workers.submit(read)
                future.add_done_callback(end_reading)
                return future
            return self._readings[part]


class PipelinesView:
    """All pipelines of the page, one for the web server's process."""

    def __init__(self, sources: PipelineContexts, watch: OverviewCache) -> None:
        self.sources = sources
        self._watch = watch
        self._parts = PartReader(MAX_PARTS_AT_ONCE)
        self._bad_records = dict[str, tuple[BadRecordReason, details.BadRecordFact]]()

    def get_overview(self, pipelines: list[str]) -> list[PipelineRow]:
        rows = self._watch.get_rows()
        fleets = {name: self.sources.get_fleet(name) for name in pipelines}
        own_dags = {name: list_dag_ids(name, fleet) for name, fleet in fleets.items()}
        dags = airflow_runs.read_dag_statuses({ids[kind] for ids in own_dags.values() for kind in CLOCKS})
        flushes = {name: dags[ids["flush"]] for name, ids in own_dags.items() if ids["flush"] in dags}
        members = {name: own_dags[name]["flush"] for name, fleet in fleets.items() if fleet is not None}
        flushes |= read_member_statuses(members, dags)
        statuses = {
            name: airflow_runs.join_clocks(flush, dags.get(own_dags[name]["stage"])) for name, flush in flushes.items()
        }
        overview = [self._to_row(rows[name], statuses.get(name)) for name in pipelines if name in rows]
        return sorted(overview, key=lambda row: (WORST_FIRST.index(row["state"]), row["pipeline"]))

    def list_dag_ids(self, name: str) -> dict[str, str]:
        return list_dag_ids(name, self.sources.get_fleet(name))

    def find_flush_dag_id(self, name: str) -> str:
        return self.list_dag_ids(name)["flush"]

    def _to_row(self, row: PipelineRow, dag: DagStatus | None) -> PipelineRow:
        state, reason = describe_pipeline_state(
            row, dag or ScheduleState(), self._watch.get_interval_seconds(row["pipeline"]), int(time.time() * 1000)
        )
        known: Data = {
            **row,
            **describe_state(state, reason, names_table=len(row.get("tables", ())) > 1),
            "fleet": self.sources.get_fleet(row["pipeline"]),  # also of a file that is wrong
            **describe_dag(dag),
            "last_run": dag.last if dag else None,
        }
        if "tables" in row:
            known |= {"partition_count": len(row["partitions"]), "table_count": len(row["tables"])}
        return cast("PipelineRow", known)

    def get_pipeline(self, name: str, dags: Mapping[str, str]) -> Data | None:
        """Return everything about one pipeline, None if its file is gone; a part that fails holds its `error`.

        `dags` are those of its DAGs that the user may read, by kind.
        """
        row = next(iter(self.get_overview([name])), None)
        if row is None:
            return None
        readers: dict[str, Callable[[], Any]] = {
            "offsets": lambda: details.read_offsets(self._get_session(name)),
            "group_retention": lambda: details.describe_group_retention(self._get_session(name)),
            "warnings": lambda: details.find_warnings(self._get_session(name)),
            "past": lambda: details.read_batch_history(self._get_session(name), MAX_BATCHES),
            "storage": lambda: details.read_storage(self._get_session(name)),
            "actions": lambda: details.read_actions(self._get_session(name)),
            "backfills": lambda: read_backfills(expand_template(self._get_session(name))),
            "airflow": lambda: self._read_airflow(name, dags, [table["table"] for table in row.get("tables", ())]),
            "bad_record": lambda: self._read_bad_record(name, row["reason"]),
        }
        parts = self._parts.read_parts(f"{name} {sorted(dags)}", readers)  # shared by those who may read the same
        last_heartbeat = parts["airflow"].get("last_heartbeat")
        seconds = parts["group_retention"].get("seconds") or details.DEFAULT_GROUP_RETENTION_SECONDS
        last_commit = None if last_heartbeat is None else datetime.fromisoformat(last_heartbeat)
        expiry = None if last_commit is None else last_commit + timedelta(seconds=seconds)
        parts["airflow"]["offsets_expire"] = format_moment(expiry)
        return {"pipeline": row, **parts}

    def _read_bad_record(self, name: str, reason: str) -> details.BadRecordFact | None:
        bad = find_bad_record(reason)
        if bad is None:
            self._bad_records.pop(name, None)
            return None
        known = self._bad_records.get(name)
        if known is None or known[0] != bad:  # a record does not change: the brokers are asked for it once
            known = self._bad_records[name] = bad, details.describe_bad_record(self._get_session(name), bad)
        return known[1]

    def _get_session(self, name: str) -> Session:
        return self.sources.get_context(name).session

    def _read_airflow(self, name: str, dags: Mapping[str, str], tables: list[str]) -> Data:
        flush = self.find_flush_dag_id(name)
        fleet = self.sources.get_fleet(name)
        member = None if fleet is None else FleetPart(flush, name)
        statuses = airflow_runs.read_dag_statuses(dags.values())
        commit_time = airflow_runs.read_last_commit(flush) if fleet is None else read_last_beat(flush, name)
        errors = read_errors(dags.values(), MAX_GROUPED_ERRORS, member)
        if fleet is not None and flush in statuses:
            statuses[flush] = read_member_statuses({name: flush}, statuses)[name]
        failing_dag_ids = {dag for dag, status in statuses.items() if status.failed and not status.is_fixed}
        return {
            "dags": {
                kind: {"dag_id": dag, "paused": statuses[dag].paused} for kind, dag in dags.items() if dag in statuses
            },
            "runs": airflow_runs.read_runs(dags.values()),
            "errors": errors[:MAX_ERRORS],
            "causes": group_causes(errors, failing_dag_ids, [dags[kind] for kind in FORMS if kind in dags]),
            "assets": airflow_runs.read_asset_ids(tables),
            "maintenance": read_newest_results(dags["maintenance"], "maintain", result_key="table", limit=MAX_RESULTS)
            if "maintenance" in dags
            else [],
            "last_heartbeat": format_moment(commit_time),
        }

    def get_dead_letters(self, name: str, page: int) -> Data:
        """Return one page of the waiting dead letters, the newest first, or `error`; `page` counts from 1."""
        page = min(max(1, page), MAX_PAGES)
        part = f"dead letters, page {page}"
        answer: Data = self._parts.read_parts(name, {part: lambda: self._read_dead_letters(name, page)})[part]
        return answer

    def get_records(self, name: str, around: str) -> Data:
        """Return records of the log: those around ``topic:partition:offset``, or the last of one.

        `refused` says what is wrong with a place that the pipeline does not read, `error` why nothing answered.
        """
        part = f"records, {around}"
        answer: Data = self._parts.read_parts(name, {part: lambda: self._read_records(name, around)})[part]
        return answer

    def _read_records(self, name: str, around: str) -> Data:
        session = self._get_session(name)
        try:
            offsets, records = read_records_around(session, parse_neighbourhood(around))
        except ConfigurationError as problem:
            return {"refused": describe_problem(problem)}
        texts = [_shorten_texts(describe_record(record) | {"headers": None}) for record in records]
        return {"pipeline": name, "begin": offsets.start, "end": offsets.stop, "records": texts}

    def _read_dead_letters(self, name: str, page: int) -> Data:
        session = self._get_session(name)
        table = session.letters_table
        dead_letters = session.dead_letters.read_dead_letters(table, page * PAGE_SIZE)
        return {
            "pipeline": name,
            "table": table,
            "waiting": dead_letters.waiting,
            "replayed": dead_letters.replayed,
            "page": page,
            "pages": max(1, min(MAX_PAGES, -(-dead_letters.waiting // PAGE_SIZE))),
            "dead_letters": [format_dead_letter(letter) for letter in dead_letters.newest[(page - 1) * PAGE_SIZE :]],
        }


def _shorten_texts(record: Data) -> Data:
    """Cut what people read of a record: keys and values may have megabytes."""
    texts = {name: text for name, text in record.items() if isinstance(text, str) and len(text) > MAX_TEXT_CHARACTERS}
    return {**record, **{name: f"{text[:MAX_TEXT_CHARACTERS]}…" for name, text in texts.items()}}


def list_worst_parts(row: PipelineRow) -> PipelineRow:
    """Reduce the row to the partitions that are farthest behind, and the worst tables of templates."""
    partitions = row.get("partitions", [])
    tables = row.get("tables", [])
    if len(partitions) > MAX_LISTED_PARTS:
        worst = sorted(partitions, key=lambda part: (-(part["lag_seconds"] or 0.0), -part["lag"]))
        row = {**row, "partitions": worst[:MAX_LISTED_PARTS]}
    named_by_records = [table for table in tables if table["template"] is not None]
    if len(named_by_records) > MAX_LISTED_PARTS:
        named_by_records.sort(key=lambda one: (one["problem"] is None, -(one["lag_seconds"] or 0.0), -one["lag"]))
        own_tables = [table for table in tables if table["template"] is None]
        row = {**row, "tables": [*own_tables, *named_by_records[:MAX_LISTED_PARTS]]}
    return row


def format_now() -> str:
    """Return the server's time: ages on the page are counted from it, whatever the browser's clock says."""
    return str(format_moment(datetime.now(UTC)))
