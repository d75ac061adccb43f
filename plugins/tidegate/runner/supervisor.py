"""Starts a worker for each pipeline and publication, and ends them."""

import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from tidegate.adapters.kafka.broker import KafkaBroker
from tidegate.adapters.kafka.settings import describe_kafka_place
from tidegate.connections import Resolve
from tidegate.errors import ConfigurationError, TidegateError
from tidegate.monitoring.backlog import BacklogPoller, MonitoredPipeline
from tidegate.monitoring.failure_streak import FailureStreak
from tidegate.runner.work import (
    FlushWork,
    HeartbeatWork,
    MaintenanceWork,
    Place,
    PublicationWork,
    RunOutcome,
    StageWork,
    VerifyWork,
    Work,
)
from tidegate.runner.worker import Shared, Slots, Worker
from tidegate.settings import list_named_files
from tidegate.wiring.pipeline import find_file

log = logging.getLogger(__name__)
PipelineWork = FlushWork | StageWork | HeartbeatWork | MaintenanceWork | VerifyWork
LOOK_SECONDS = 2.0  # seconds between two looks for new files
JOIN_SECONDS = 0.5
BEATS_AT_ONCE = 4


def name_worker(kind: type[PipelineWork | PublicationWork], name: str) -> str:
    """Return the key of the worker of a pipeline or publication: there is one for each kind of its work."""
    return f"{kind.__name__} {name}"


class Supervisor:
    """All work of a process. `names` are pipelines and publications; none means all, also later ones."""

    def __init__(self, place: Place, names: Sequence[str], shared: Shared) -> None:
        self._place = place
        self._names = names
        self._outer = shared.reporter
        self._shared = replace(shared, reporter=self)
        own_slots = {
            HeartbeatWork: BEATS_AT_ONCE,  # long flushes keep no heartbeat waiting
            StageWork: shared.slots.count,  # nor does a merge keep the staging of its own pipeline waiting
            MaintenanceWork: max(1, shared.slots.count // 2),  # it takes long, and shares Spark with flushes
            VerifyWork: 1,  # so does this, and nobody waits for it
        }
        self._shared_by_kind: dict[type, Shared] = {
            kind: replace(self._shared, slots=Slots(count)) for kind, count in own_slots.items()
        }
        self._workers: dict[str, Worker] = {}
        self._watches: dict[str, BacklogWatch] = {}

    def check_names(self) -> None:
        for name in self._names:
            for kind in self._list_kinds(name):
                kind(self._place, name).read_schedule()

    def run(self) -> None:
        """Run until `stop` is set; then wait for the runs that are under way."""
        while not self._shared.stop.is_set():
            self._start_workers()
            self._start_watches()
            self._shared.stop.wait(LOOK_SECONDS)
        for worker in self._workers.values():
            while not worker.join(JOIN_SECONDS):
                pass

    # what workers tell

    def report_run(self, work: Work, outcome: RunOutcome) -> None:
        # publications of tables that were published are called, and a merge that staging calls for
        self._outer.report_run(work, outcome)
        if isinstance(work, StageWork) and outcome.calls_merge:
            merge_worker = self._workers.get(name_worker(FlushWork, work.pipeline))
            if merge_worker is not None and not merge_worker.rests:
                merge_worker.call()
        tables = {batch.table for batch in outcome.batches if batch.snapshot_id is not None}
        if tables:
            self._call_publications(tables.__contains__)

    def report_failure(self, work: Work, streak: FailureStreak) -> None:
        self._outer.report_failure(work, streak)

    def report_recovery(self, work: Work, streak: FailureStreak) -> None:
        # a run may have published and failed behind that, so that nobody was told of its tables
        self._outer.report_recovery(work, streak)
        if isinstance(work, FlushWork):
            self._call_publications(work.writes)

    def _call_publications(self, is_published: Callable[[str], bool]) -> None:
        for worker in list(self._workers.values()):
            with suppress(ConfigurationError):  # its own worker reports it
                if isinstance(worker.work, PublicationWork) and worker.work.follows(is_published):
                    worker.call()

    # workers

    def _list_kinds(self, name: str) -> list[type[PipelineWork | PublicationWork]]:
        include = self._place.include
        is_publication = (include / "publications" / f"{name}.yaml").exists()
        if not is_publication or (include / "pipelines" / f"{name}.yaml").exists():
            find_file(include, "pipeline", name)  # raises where there is none
            return [
                FlushWork,
                StageWork,
                HeartbeatWork,
                MaintenanceWork,
                VerifyWork,
                *([PublicationWork] if is_publication else []),
            ]
        return [PublicationWork]

    def _start_workers(self) -> None:
        wanted_workers = dict[str, Callable[[], PipelineWork | PublicationWork]]()
        folders = (self._place.include / kind for kind in ("pipelines", "publications"))
        for name in self._names or sorted({file.stem for folder in folders for file in list_named_files(folder)}):
            with suppress(TidegateError):  # the file of a name went away while it was looked for
                for kind in self._list_kinds(name):
                    wanted_workers[name_worker(kind, name)] = partial(kind, self._place, name)
        for key, worker in list(self._workers.items()):
            if key not in wanted_workers and not self._names:
                worker.retire()
            if worker.join(0):
                del self._workers[key]
        for key, make in wanted_workers.items():
            if key not in self._workers:
                with suppress(ConfigurationError):
                    work = make()
                    shared = self._shared_by_kind.get(type(work), self._shared)
                    self._workers[key] = Worker(
                        work, shared, reports_file=isinstance(work, FlushWork | PublicationWork)
                    )
                    self._workers[key].start()

    def _start_watches(self) -> None:
        backlogs = [work.monitored_backlog for work in self._list_flushes()]  # read once: workers replace it
        wanted_clusters = {json.dumps(backlog[0], sort_keys=True): backlog[0] for backlog in backlogs if backlog}
        for old_key in self._watches.keys() - wanted_clusters.keys():
            self._watches.pop(old_key).retire()
        for key, kafka in wanted_clusters.items():
            if key not in self._watches:
                self._watches[key] = BacklogWatch(
                    kafka, self._place.resolve, partial(self._list_calls, key), self._shared.stop
                )
                self._watches[key].start()

    def _list_flushes(self) -> list[FlushWork]:
        return [worker.work for worker in list(self._workers.values()) if isinstance(worker.work, FlushWork)]

    def _list_calls(self, key: str) -> Mapping[MonitoredPipeline, Callable[[], None]]:
        calls = dict[MonitoredPipeline, Callable[[], None]]()
        for worker in list(self._workers.values()):
            watched_pipeline = worker.work.monitored_backlog if isinstance(worker.work, FlushWork) else None
            if watched_pipeline is not None and json.dumps(watched_pipeline[0], sort_keys=True) == key:
                calls[watched_pipeline[1]] = worker.call
        return calls


class BacklogWatch:
    """The thread that looks at one Kafka cluster. `list_calls` returns what is watched, with the worker to call."""

    def __init__(
        self,
        kafka: str | dict[str, str],
        resolve: Resolve,
        list_calls: Callable[[], Mapping[MonitoredPipeline, Callable[[], None]]],
        stop: threading.Event,
    ) -> None:
        self._list_calls = list_calls
        self._stop = stop
        self._poller = BacklogPoller(describe_kafka_place(kafka), partial(KafkaBroker.open, kafka, resolve))
        self._retired = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="tidegate backlog", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def retire(self) -> None:
        """End, and close the client of the brokers: no pipeline watches them any more."""
        self._retired.set()

    def join(self, seconds: float) -> bool:
        """Wait for its end; return whether it has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _loop(self) -> None:
        pause = 0.0
        while not self._stop.wait(pause) and not self._retired.is_set():
            calls = self._list_calls()
            due_pipelines, pause = self._poller.look(tuple(calls))
            for watched_pipeline, call in calls.items():
                if watched_pipeline.pipeline in due_pipelines:
                    call()
