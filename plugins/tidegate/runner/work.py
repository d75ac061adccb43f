"""What a runner does again and again, for pipelines and publications."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Protocol

from tidegate.adapters.open_clients import OpenClients
from tidegate.config.pipeline_file import DEFAULTS_FILE
from tidegate.connections import Resolve
from tidegate.errors import NotTried, SomeTables, TidegateError, Unverifiable
from tidegate.flush.flush import flush_planned, plan_flush, stage_new_batches
from tidegate.flush.heartbeat import heartbeat, require_begun
from tidegate.flush.maintain import MaintenanceReport, list_maintained_tables, maintain_all
from tidegate.flush.merge_queue import QueueResult
from tidegate.flush.plan import choose_scope
from tidegate.model.batch import Plan, PublishedBatch, StagedBatch
from tidegate.monitoring.backlog import MonitoredPipeline
from tidegate.monitoring.failure_streak import digest_work_inputs
from tidegate.ports.session import Session
from tidegate.publications.publish import PublicationResult, publish
from tidegate.reprocess.verify import Verification, verify_all
from tidegate.runner.pipeline_files import PipelineFiles, PublicationFiles
from tidegate.runner.schedule import (
    Schedule,
    build_flush_schedule,
    build_heartbeat_schedule,
    build_maintenance_schedule,
    build_publication_schedule,
    build_stage_schedule,
    build_verify_schedule,
)
from tidegate.spec.pipeline import Pipeline
from tidegate.table.session import expand_template, has_table
from tidegate.wiring.pipeline import NoEngine, assemble_pipeline, find_file
from tidegate.wiring.publication import assemble_loaded_publication


@dataclass(frozen=True)
class Place:
    """Where files and connections are read, for all work of a process, and who hears of each table that a flush merged.

    `report_queue` is called at once, by several threads: a flush that fails later has no result.
    """

    include: Path
    resolve: Resolve
    files: PipelineFiles
    publications: PublicationFiles
    merges_at_once: int = 1
    report_queue: Callable[["Work", QueueResult], None] = lambda work, queue: None
    _locks: dict[str, Lock] = field(default_factory=dict)

    def get_group_lock(self, pipeline: str) -> Lock:
        """Return the lock to hold while something commits to the pipeline's group."""
        return self._locks.setdefault(pipeline, Lock())


@dataclass(frozen=True)
class RunOutcome:
    """What one run did."""

    batches: tuple[PublishedBatch, ...] = ()  # published ones
    staged_batches: tuple[StagedBatch, ...] = ()  # those that wait now
    publication: PublicationResult | None = None
    maintenance_reports: tuple[MaintenanceReport, ...] = ()
    verifications: tuple[Verification, ...] = ()
    is_behind: bool = False  # more waits already, so the next run need not wait for its time
    calls_merge: bool = False  # nor need the pipeline's next merge
    failure: TidegateError | None = None  # of the tables that stay behind
    ends_failures: bool = True  # False if a table that failed before was not tried


class Work(Protocol):
    """One thing that is done again and again. Its file is read anew for each run."""

    @property
    def name(self) -> str:
        """As messages name it: pipeline=… or publication=…, and what of it."""
        ...

    @property
    def file(self) -> Path:
        """The file that describes it; a change makes the next run due at once."""
        ...

    @property
    def shared_files(self) -> tuple[Path, ...]:
        """Other files that say when it is due; they may be missing."""
        ...

    def read_schedule(self) -> Schedule: ...

    def run(self, at_least: int) -> RunOutcome:
        """Run once. Raises what the steps raise; `NothingToDo` also if fewer than `at_least` records wait."""
        ...

    def digest_inputs(self) -> str:
        """Return a digest of what a person would change to fix a failure; empty if a failure costs little to repeat."""
        ...


class _PipelineWork:
    kind = ""  # as messages call it, behind the pipeline's name
    build_schedule: Callable[[Pipeline], Schedule]

    def __init__(self, place: Place, pipeline: str) -> None:
        self.name = f"pipeline={pipeline} {self.kind}".rstrip()
        self.pipeline = pipeline
        self._place = place
        self.file = find_file(place.include, "pipeline", pipeline)
        self.shared_files = (place.include / DEFAULTS_FILE,)
        self._clients = OpenClients()
        self._is_planned = False  # in the last run: what fails before costs no Spark job

    def read_schedule(self) -> Schedule:
        return type(self).build_schedule(self._place.files.load(self.pipeline))

    def digest_inputs(self) -> str:
        if not self._is_planned:
            return ""
        session = self._assemble_session()
        # of several tables the others go on
        return "" if session.pipeline.has_several else digest_work_inputs(session, self._place.include)

    def _assemble_session(self) -> Session:
        return assemble_pipeline(self._place.include, self.pipeline, self._place.resolve, clients=self._clients)


class FlushWork(_PipelineWork):
    """The flushes of a pipeline, with the compaction after every tenth; with a clock of staging its merges alone.

    `monitored_backlog`: the Kafka connection, and what to monitor there, set by `read_schedule`; None if no number of
    records starts a flush.
    """

    monitored_backlog: tuple[str | dict[str, str], MonitoredPipeline] | None = None

    def read_schedule(self) -> Schedule:
        pipeline = self._place.files.load(self.pipeline)
        is_watched = pipeline.merge.records_threshold > 0 and not pipeline.stage.has_clock
        self.monitored_backlog = (
            (pipeline.source.kafka, MonitoredPipeline.from_pipeline(pipeline)) if is_watched else None
        )
        return build_flush_schedule(pipeline)

    def run(self, at_least: int) -> RunOutcome:
        with self._place.get_group_lock(self.pipeline):
            return self._flush(at_least)

    def _flush(self, at_least: int) -> RunOutcome:
        self._is_planned = False
        session = expand_template(self._assemble_session())
        flush_plan = plan_flush(session, at_least, scope=choose_scope(session.pipeline))
        self._is_planned = True
        report = partial(self._place.report_queue, self)
        result = flush_planned(session, flush_plan, self._place.merges_at_once, compacts=True, report=report)
        return RunOutcome(result.published, is_behind=result.offsets_left > 0)

    def writes(self, table: str) -> bool:
        """Whether the pipeline writes the table; `ConfigurationError` if its file is wrong."""
        return has_table(self._place.files.load(self.pipeline), table)


class StageWork(_PipelineWork):
    """The staging of a pipeline, beside its merges; never due where flushes do both."""

    kind = "stage"
    build_schedule = staticmethod(build_stage_schedule)

    def run(self, at_least: int) -> RunOutcome:
        self._is_planned = False
        result = stage_new_batches(self._assemble_session(), self._note_plan)
        return RunOutcome(
            staged_batches=result.batches,
            is_behind=result.offsets_left > 0,
            calls_merge=result.calls_merge,
            failure=result.failure,
        )

    def _note_plan(self, _: Plan) -> None:
        self._is_planned = True


class HeartbeatWork(_PipelineWork):
    """The heartbeats of a pipeline whose flushes come less often than its heartbeats."""

    kind = "heartbeat"
    build_schedule = staticmethod(build_heartbeat_schedule)

    def run(self, at_least: int) -> RunOutcome:
        # `NotTried` beside a flush, which ends with a heartbeat; `NothingToDo` before the first one
        lock = self._place.get_group_lock(self.pipeline)
        if not lock.acquire(blocking=False):
            raise NotTried(f"{self.name}: a flush is under way, and ends with a heartbeat")
        try:
            session = assemble_pipeline(self._place.include, self.pipeline, self._place.resolve, engine=NoEngine())
            heartbeat(require_begun(session))
        finally:
            lock.release()
        return RunOutcome()


class MaintenanceWork(_PipelineWork):
    """The maintenance of a pipeline's tables, one after the other."""

    kind = "maintenance"
    build_schedule = staticmethod(build_maintenance_schedule)

    def run(self, at_least: int) -> RunOutcome:
        # a table that fails keeps none of the others from it
        session = assemble_pipeline(self._place.include, self.pipeline, self._place.resolve)
        maintained = list[MaintenanceReport]()
        failure: TidegateError | None = None
        try:
            maintain_all(session, list_maintained_tables(session), maintained.append)
        except TidegateError as error:
            failure = error
        return RunOutcome(maintenance_reports=tuple(maintained), failure=failure)


class VerifyWork(_PipelineWork):
    """The verification of a pipeline's tables, one after the other; rows that differ are a failure of the run."""

    kind = "verify"
    build_schedule = staticmethod(build_verify_schedule)

    def __init__(self, place: Place, pipeline: str) -> None:
        super().__init__(place, pipeline)
        self._failed_tables = set[str]()  # when they were verified last

    def run(self, at_least: int) -> RunOutcome:
        session = assemble_pipeline(self._place.include, self.pipeline, self._place.resolve)
        problems = dict[str, TidegateError]()
        try:
            outcome = RunOutcome(verifications=tuple(verify_all(session, report=problems.__setitem__)))
        except SomeTables as error:
            outcome = RunOutcome(verifications=error.published, failure=error)
        finally:
            refused = {table for table, problem in problems.items() if isinstance(problem, Unverifiable)}
            self._failed_tables = (problems.keys() - refused) | (self._failed_tables & refused)
        return replace(outcome, ends_failures=not self._failed_tables)


class PublicationWork:
    """The runs of a publication.

    `awaited_tables`: the tables whose publish starts a run, set by `read_schedule`; empty with an interval.
    """

    def __init__(self, place: Place, publication: str) -> None:
        self.name = f"publication={publication}"
        self._place = place
        self._publication = publication
        self.file = find_file(place.include, "publication", publication)
        self.shared_files = tuple[Path, ...]()
        self.awaited_tables = tuple[str, ...]()

    def read_schedule(self) -> Schedule:
        publication = self._place.publications.load(self._publication)
        is_timed = publication.interval_seconds > 0 or not publication.on_table_change
        self.awaited_tables = () if is_timed else (publication.table, *publication.joined_tables)
        return build_publication_schedule(publication)

    def run(self, at_least: int) -> RunOutcome:
        place = self._place
        publication = self._place.publications.load(self._publication)
        return RunOutcome(publication=publish(assemble_loaded_publication(place.include, publication, place.resolve)))

    def digest_inputs(self) -> str:
        return ""

    def follows(self, is_published: Callable[[str], bool]) -> bool:
        """Whether it is to run when certain tables were published. Does not read its file."""
        return any(map(is_published, self.awaited_tables))
