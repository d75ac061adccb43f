"""The functions behind the tasks: each opens the pipeline, runs one step, and returns what the UI shows.

Imports stand inside, so that parsing a DAG stays cheap and a task loads only what it uses.
"""

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Protocol

from tidegate.adapters.open_clients import Watcher
from tidegate.errors import TidegateError
from tidegate.model.batch import Plan, PlanScope, StagedBatch
from tidegate.ports.publication_session import PublicationSession
from tidegate.ports.session import Engine, Session
from tidegate.settings import find_include_folder
from tidegate.spec.pipeline import Pipeline

from tidegate_airflow.connections import resolve_connection
from tidegate_airflow.errors import raise_airflow_errors, require_result

if TYPE_CHECKING:
    from tidegate.monitoring.overview import RunMetrics
    from tidegate.table.approval import Hold

Data = dict[str, Any]
Keep = Callable[[Data], None]
log = logging.getLogger(__name__)
METRIC_PREFIX = "tidegate"
# Airflow takes letters of ASCII, digits, and these, 250 at most, and tells its log of any other name with a trace
UNKNOWN_LETTER = re.compile(r"[^A-Za-z0-9_/-]")
MAX_PLACE_LETTERS = 180
BACKEND_OPTIONS = ("statsd_on", "statsd_datadog_enabled", "otel_on")


class HoldListener(Protocol):
    """Hears of batches that wait for an approval."""

    def tell_begin(self, pipeline: Pipeline, reason: str) -> None: ...

    def tell_end(self, pipeline: Pipeline, table: str, hold: "Hold") -> None: ...


class TaskWatcher(Watcher, Protocol):
    """A `Watcher` that may defer the task: it keeps the step's checkpoint, and has that of a deferred task."""

    payload: Mapping[str, Any]

    def set_checkpoint_source(self, read_checkpoint: Callable[[], Data]) -> None:
        """The step's checkpoint is read when the task is deferred."""


def assemble_session(name: str, engine: Engine | None = None, watcher: Watcher | None = None) -> Session:
    """Open one pipeline with Airflow's connections; `watcher` is told of BigQuery's jobs."""
    from tidegate.adapters.open_clients import OpenClients
    from tidegate.wiring.pipeline import assemble_pipeline

    return assemble_pipeline(find_include_folder(), name, resolve_connection, engine, OpenClients(watcher))


@contextmanager
def open_step_session(name: str, engine: Engine | None = None, watcher: Watcher | None = None) -> Iterator[Session]:
    """Open one pipeline for a step, whose errors become Airflow's."""
    with raise_airflow_errors():
        yield assemble_session(name, engine, watcher)


def read_pipeline(name: str) -> Pipeline:
    from tidegate.config.pipeline_file import load_pipeline
    from tidegate.wiring.pipeline import find_file

    with raise_airflow_errors():
        return load_pipeline(find_file(find_include_folder(), "pipeline", name))


def read_inputs(name: str, tables: Iterable[str]) -> str:
    """Return a digest of what a person would change to fix a failed run: files, and these tables, or all."""
    from tidegate.monitoring.failure_streak import digest_work_inputs

    return digest_work_inputs(assemble_session(name), find_include_folder(), tuple(tables))


def run_plan(
    name: str,
    max_records: int | None = None,
    count_required: Callable[[Pipeline], int] = lambda _: 0,
    scope: PlanScope | None = None,
    *,
    is_dry: bool = False,
) -> Data:
    """Plan the next batch of each table; skipped if there is nothing to do.

    `scope`: of both clocks or of one, or as the pipeline file says. `max_records` replaces the file's;
    `count_required`: how many records must wait.
    """
    from tidegate.flush.flush import plan_stage
    from tidegate.flush.plan import choose_scope, plan
    from tidegate.table.session import expand_template

    with raise_airflow_errors():
        session = cap_batches(assemble_session(name), max_records)
        scope = scope or choose_scope(session.pipeline)
        if scope == PlanScope.NEW:
            session = expand_template(session)
            return (plan(session, scope=scope) if is_dry else plan_stage(session)).to_dict()
        return plan(session, count_required(session.pipeline), scope=scope).shorten().to_dict()


def run_stage_ahead(
    name: str, planned: Mapping[str, Any], engine: Engine | None, watcher: TaskWatcher
) -> tuple[list[Data], list[Data], bool]:
    """Stage beside the merges: return each table's batches, refused tables, and whether a merge is called for."""
    from tidegate.flush.flush import is_merge_called
    from tidegate.table.session import expand_template

    queues, refused = run_stage(name, planned, engine, watcher)
    with raise_airflow_errors():
        staged_tables = {queue["table"] for queue in queues}
        refused_tables = {refusal["table"] for refusal in refused}
        session = expand_template(assemble_session(name))
        is_called = is_merge_called(session, Plan.from_dict(planned), staged_tables, refused_tables)
    batches = [batch for queue in queues for batch in queue["batches"]]
    shown = ("table", "batch", "counts", "bytes", "stage_seconds")
    return [{key: batch[key] for key in shown} for batch in batches], refused, is_called


def cap_batches(session: Session, max_records: int | None) -> Session:
    if max_records is None:
        return session
    merge = replace(session.pipeline.merge, max_records=max_records, max_bytes=0)
    return replace(session, pipeline=replace(session.pipeline, merge=merge))


def run_stage(
    name: str, planned: Mapping[str, Any], engine: Engine | None = None, watcher: TaskWatcher | None = None
) -> tuple[list[Data], list[Data]]:
    """Return the first and the last staged batch of each table's queue; and the tables that it refuses.

    `watcher` may defer the task with the step's checkpoint.
    """
    from tidegate.flush.heartbeat import settle_start
    from tidegate.flush.merge_queue import group_by_table
    from tidegate.flush.stage import stage_tables
    from tidegate.flush.staged import StageCheckpoint, wrap_with_checkpoint
    from tidegate.monitoring.overview import to_stage_metrics
    from tidegate.table.queue import shorten_queue

    checkpoint = StageCheckpoint.from_dict(watcher.payload if watcher else {})
    if watcher:
        watcher.set_checkpoint_source(checkpoint.to_dict)
    with open_step_session(name, engine, watcher) as session:
        settle_start(session)
        # a task may be cleared long after its plan
        batches, refused = stage_tables(
            wrap_with_checkpoint(session, checkpoint), Plan.from_dict(planned), may_be_late=True
        )
        queues = group_by_table(batches)
        staged = [
            {"table": queue[0].table, "batches": [batch.to_dict() for batch in shorten_queue(queue)]}
            for queue in queues
        ]
        for queue in queues:
            send_pipeline_metrics(name, to_stage_metrics(queue), queue[0].table)
        return staged, [asdict(refusal) for refusal in refused]


def run_merge(  # noqa: PLR0913 - one argument per fact, two of them by name
    name: str,
    staged: Mapping[str, Any],
    engine: Engine | None = None,
    watcher: TaskWatcher | None = None,
    *,
    keep_part: Keep | None = None,
    holds: HoldListener | None = None,
) -> Data:
    """Publish one table's queue as far as it goes; return the totals, or raise why the rest waits.

    `keep_part` gets the totals of what was published before a failure. `holds` hears once of each batch that begins to
    wait for an approval, and of its end.
    """
    from tidegate.flush.merge_queue import MergeCheckpoint, merge_queue
    from tidegate.monitoring.overview import to_merge_metrics

    checkpoint = MergeCheckpoint.from_dict(watcher.payload if watcher else {}, time.time())
    if watcher:
        watcher.set_checkpoint_source(checkpoint.to_dict)
    with raise_airflow_errors():
        queue = [StagedBatch.from_dict(batch) for batch in staged["batches"]]
        session = assemble_session(name, engine, watcher)
        result = merge_queue(session, queue, checkpoint)
        if holds is not None and result.ended is not None:
            holds.tell_end(session.pipeline, result.table, result.ended)
        if holds is not None and result.begun is not None:
            holds.tell_begin(session.pipeline, str(result.begun))
        if keep_part is not None and result.failure is not None and result.published:
            keep_part(replace(result, failure=None).total.to_dict())
        published = result.total.to_dict()
    send_pipeline_metrics(name, to_merge_metrics(published), published["table"])
    return published


def unwrap_queue(staged: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the queue of one merge: the task of a pipeline's only table gets a list of one.

    None if nothing was staged, as by a stage that was cleared while its batch waits behind others, and for a plan: the
    file got a clock of staging during the run.
    """
    queue = staged if isinstance(staged, Mapping) else next(iter(staged), None)
    return queue if isinstance(queue, Mapping) and "batches" in queue else None


def run_commit_offsets(name: str) -> Data:
    from tidegate.flush.heartbeat import commit_offsets

    with open_step_session(name) as session:
        return {"group": session.pipeline.source.group, "committed": commit_offsets(session)}


def run_clean_up(name: str) -> list[Data]:
    from tidegate.flush.clean_up import clean_up

    with open_step_session(name) as session:
        return [report.to_dict() for report in clean_up(session)]


def run_compact(name: str, cleaned: Iterable[Data], engine: Engine | None = None) -> list[Data]:
    from tidegate.flush.clean_up import compact, list_tables_to_compact

    require_result(cleaned, "clean_up")
    with raise_airflow_errors():
        reports = compact(assemble_session(name, engine), list_tables_to_compact(cleaned))
        return [report.to_dict() for report in reports]


def run_heartbeat(name: str) -> Data:
    from tidegate.flush.heartbeat import heartbeat

    with open_step_session(name) as session:
        return {"group": session.pipeline.source.group, **heartbeat(session).to_dict()}


def run_measure(name: str) -> Data:
    with raise_airflow_errors():
        measured = measure_where_asked(assemble_session(name))
    return {} if measured is None else vars(measured)


def measure_where_asked(session: Session) -> "RunMetrics | None":
    """Measure the pipeline and send that with Airflow's metrics; None if nobody asks for it."""
    from tidegate.monitoring.overview import measure_pipeline

    if session.pipeline.freshness_target_seconds is None and not has_metrics_backend():
        return None
    measured = measure_pipeline(session)
    send_pipeline_metrics(session.pipeline.name, measured.to_values())
    return measured


def run_complete(name: str, table: str) -> tuple[int, int]:
    """Return when the table has begun, and up to when it is complete, in milliseconds; skipped if unknown."""
    from tidegate.flush.complete import read_completeness

    with open_step_session(name) as session:
        return read_completeness(session, table)


def run_tables(name: str) -> list[str]:
    from tidegate.flush.maintain import list_maintained_tables

    with open_step_session(name) as session:
        return list_maintained_tables(session)


def run_maintain(name: str, table: str, engine: Engine | None = None) -> Data:
    from tidegate.flush.maintain import maintain

    with open_step_session(name, engine) as session:
        return maintain(session, table).to_dict()


def run_verify(name: str, table: str | None, engine: Engine | None = None) -> list[Data]:
    """Verify one table, or with None each that can be; values of rows stay out of the results."""
    from tidegate.reprocess.verify import verify_all

    with open_step_session(name, engine) as session:
        return [verification.counts for verification in verify_all(session, table)]


def run_publish(name: str, run_params: Mapping[str, Any], engine: Engine | None = None) -> Data:
    from tidegate.publications.publish import publish
    from tidegate.wiring.publication import assemble_publication

    with raise_airflow_errors():
        session = assemble_publication(find_include_folder(), name, resolve_connection, engine)
        try:
            result = publish(session, run_params["resynchronise"]).to_dict()
            send_publication_metrics(name, {kind: float(result[kind]) for kind in ("inserted", "updated", "deleted")})
            return result
        finally:
            _measure_publication(session)


def _measure_publication(session: PublicationSession) -> None:
    # a failure here must not hide the run's own
    from tidegate.publications.status import read_publication_status, to_metrics

    if has_metrics_backend():
        try:
            send_publication_metrics(session.publication.name, to_metrics(read_publication_status(session)))
        except TidegateError as problem:
            log.warning("publication=%s is not measured: %s", session.publication.name, problem)


def has_metrics_backend() -> bool:
    from airflow.configuration import conf

    return any(conf.getboolean("metrics", backend, fallback=False) for backend in BACKEND_OPTIONS)


def send_pipeline_metrics(pipeline: str, values: Mapping[str, float], table: str | None = None) -> None:
    """Send one gauge for each value: ``tidegate.<name>`` with the pipeline, and the table, as tags.

    Plain StatsD knows no tags, so each is also sent as ``tidegate.<name>.<pipeline>[.<table>]``.
    """
    _send_gauges({"pipeline": pipeline} | ({} if table is None else {"table": table}), values)


def send_publication_metrics(publication: str, values: Mapping[str, float]) -> None:
    """Send ``tidegate.publish.<name>`` with the publication as its tag."""
    _send_gauges({"publication": publication}, {f"publish.{name}": value for name, value in values.items()})


def _send_gauges(tags: dict[str, str], values: Mapping[str, float]) -> None:
    from airflow.sdk.observability import stats

    place = ".".join(UNKNOWN_LETTER.sub("_", tag) for tag in tags.values())[:MAX_PLACE_LETTERS]
    for name, value in values.items():
        stats.gauge(f"{METRIC_PREFIX}.{name}", value, tags=tags)
        stats.gauge(f"{METRIC_PREFIX}.{name}.{place}", value)
