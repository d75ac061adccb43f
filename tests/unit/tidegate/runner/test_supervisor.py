"""Which publications a runner calls, and when: also those that were told nothing of what a failed flush published."""

import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import build_pipeline, build_table
from tidegate.config import publication_file
from tidegate.errors import ConfigurationError
from tidegate.monitoring.failure_streak import FailureStreak
from tidegate.runner.pipeline_files import PipelineFiles, PublicationFiles
from tidegate.runner.schedule import Schedule
from tidegate.runner.supervisor import Supervisor, name_worker
from tidegate.runner.work import FlushWork, MaintenanceWork, Place, PublicationWork, RunOutcome, StageWork
from tidegate.runner.worker import Shared, Slots

STREAK = FailureStreak("x", "the brokers do not answer", since=0.0, runs=1, run_id="1")
PIPELINES = {
    "shop": build_pipeline(build_table("lake.shop.orders")),
    "other": build_pipeline(build_table("lake.shop.other")),
}

PUBLICATION = "table: lake.shop.orders\ntopic: orders_out\nkey: {fields: [id]}\n"


class Files:
    """The pipelines of an include folder; one that is not there is wrong."""

    def load(self, name: str) -> Any:
        if name not in PIPELINES:
            raise ConfigurationError(f"pipeline={name}: its file is wrong")
        return PIPELINES[name]


class Ear:
    """A reporter that counts what it hears."""

    def __init__(self) -> None:
        self.heard = 0

    def __getattr__(self, name: str) -> Any:
        def hear(*_: Any) -> None:
            self.heard += 1

        return hear


class Waiting:
    """A publication's worker that keeps who calls it."""

    def __init__(self, place: Place, name: str, *, rests: bool = False) -> None:
        self.work, self.calls, self.rests = PublicationWork(place, name), 0, rests
        with suppress(ConfigurationError):
            self.work.read_schedule()

    def call(self) -> None:
        self.calls += 1


@pytest.fixture
def place(tmp_path: Path) -> Place:
    for kind, name, text in (
        ("pipelines", "shop", ""),
        ("pipelines", "other", ""),
        ("pipelines", "wrong", ""),
        ("publications", "orders_out", PUBLICATION),
        ("publications", "timed", PUBLICATION.replace("orders_out", "timed_out") + "interval: 60\n"),
        ("publications", "broken", "table: [\n"),
    ):
        (tmp_path / kind).mkdir(exist_ok=True)
        (tmp_path / kind / f"{name}.yaml").write_text(text)
    (tmp_path / "catalogs.yaml").write_text(
        "lake: {type: iceberg, properties: {type: rest, uri: 'http://localhost:1'}}\n"
    )
    return Place(tmp_path, lambda _: {}, Files(), PublicationFiles(tmp_path))  # type: ignore[arg-type]


@pytest.mark.parametrize(("pipeline", "call_count"), [("shop", 1), ("other", 0), ("wrong", 0)])
def test_publication_of_a_pipeline_that_recovers_looks_for_what_nobody_told_it(
    place: Place, pipeline: str, call_count: int
) -> None:
    ear = Ear()
    supervisor = Supervisor(place, (), Shared(Slots(1), threading.Event(), ear))  # type: ignore[arg-type]
    workers = {name: Waiting(place, name) for name in ("orders_out", "timed", "broken")}
    supervisor._workers.update(workers)  # type: ignore[arg-type]
    supervisor.report_recovery(FlushWork(place, pipeline), STREAK)
    assert {name: worker.calls for name, worker in workers.items()} == {
        "orders_out": call_count,
        "timed": 0,
        "broken": 0,
    }
    assert ear.heard == 1


def test_flush_that_published_has_no_publication_file_read(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """With hundreds of publications each flush would read hundreds of files."""
    supervisor = Supervisor(place, (), Shared(Slots(1), threading.Event(), Ear()))  # type: ignore[arg-type]
    for number in range(30):
        (place.include / "publications" / f"more{number}.yaml").write_text(PUBLICATION)
        supervisor._workers[f"more{number}"] = Waiting(place, f"more{number}")  # type: ignore[assignment]
    files = list[Path]()
    monkeypatch.setattr(publication_file, "read_document", files.append)
    batch: Any = SimpleNamespace(table="lake.shop.orders", snapshot_id=7)
    supervisor.report_run(FlushWork(place, "shop"), RunOutcome((batch,)))
    assert files == []


@pytest.mark.parametrize(("table", "snapshot", "call_count"), [("orders", 7, 1), ("orders", None, 0), ("other", 7, 0)])
def test_publication_is_called_behind_a_flush_that_published_its_table(
    place: Place, table: str, snapshot: int | None, call_count: int
) -> None:
    supervisor = Supervisor(place, (), Shared(Slots(1), threading.Event(), Ear()))  # type: ignore[arg-type]
    worker = supervisor._workers["orders_out"] = Waiting(place, "orders_out")  # type: ignore[assignment]
    batch: Any = SimpleNamespace(table=f"lake.shop.{table}", snapshot_id=snapshot)
    supervisor.report_run(FlushWork(place, "shop"), RunOutcome((batch,)))
    assert worker.calls == call_count


def test_cluster_that_no_pipeline_watches_any_more_is_left_alone(place: Place) -> None:
    """A process that stays would else keep a thread and a client for each connection that a file ever named."""
    flushes = [SimpleNamespace(monitored_backlog=(name, object())) for name in ("first_kafka", "second_kafka")]
    stop = threading.Event()
    supervisor = Supervisor(place, (), Shared(Slots(1), stop, Ear()))  # type: ignore[arg-type]
    supervisor._list_flushes = lambda: flushes  # type: ignore[method-assign,return-value,assignment]
    try:
        supervisor._start_watches()
        watches = dict(supervisor._watches)
        assert sorted(watches) == ['"first_kafka"', '"second_kafka"']
        flushes[0].monitored_backlog = ("third_kafka", object())
        supervisor._start_watches()
        assert sorted(supervisor._watches) == ['"second_kafka"', '"third_kafka"']
        assert watches['"first_kafka"'].join(60)
        assert not watches['"second_kafka"'].join(0)
    finally:
        stop.set()


class Rewrite(threading.Event):
    """A maintenance that goes on until it is set; counts how many are under way at once, and how many were at most."""

    def __init__(self) -> None:
        super().__init__()
        self.lock, self.under_way, self.most = threading.Lock(), 0, 0

    def run(self) -> RunOutcome:
        with self.lock:
            self.under_way += 1
            self.most = max(self.most, self.under_way)
        self.wait(60)
        with self.lock:
            self.under_way -= 1
        return RunOutcome()


@pytest.mark.parametrize(("flushes_at_once", "maintained_at_once"), [(1, 1), (4, 2)])
def test_maintenance_that_is_due_for_all_pipelines_keeps_no_flush_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flushes_at_once: int, maintained_at_once: int
) -> None:
    names, rewrite, flushed = [f"Shop_{number}" for number in range(6)], Rewrite(), set[str]()
    pipelines = {name: replace(build_pipeline(), name=name) for name in names}
    (tmp_path / "pipelines").mkdir()
    for name in names:
        (tmp_path / "pipelines" / f"{name}.yaml").write_text("")

    def flush(work: FlushWork, _at_least: int) -> RunOutcome:
        flushed.add(work.name)
        return RunOutcome()

    monkeypatch.setattr(MaintenanceWork, "run", lambda *_: rewrite.run())
    monkeypatch.setattr(MaintenanceWork, "read_schedule", lambda _: Schedule(86_400))
    monkeypatch.setattr(FlushWork, "run", flush)
    monkeypatch.setattr(FlushWork, "read_schedule", lambda _: Schedule(86_400, delay_seconds=0.5))
    files: Any = SimpleNamespace(load=pipelines.__getitem__)
    place = Place(tmp_path, lambda _: {}, files, PublicationFiles(tmp_path))
    stop = threading.Event()
    supervisor = Supervisor(place, (), Shared(Slots(flushes_at_once), stop, Ear()))  # type: ignore[arg-type]
    try:
        supervisor._start_workers()
        deadline = time.monotonic() + 30
        while (len(flushed) < len(names) or not rewrite.under_way) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert flushed == {f"pipeline={name}" for name in names}
        assert rewrite.most == maintained_at_once
    finally:
        stop.set()
        rewrite.set()
        for worker in supervisor._workers.values():
            worker.join(30)


@pytest.mark.parametrize(("calls_merge", "rests"), [(True, False), (False, False), (True, True)])
def test_staging_that_has_enough_rows_calls_the_merge_of_its_pipeline(
    place: Place, calls_merge: bool, rests: bool
) -> None:
    """Not one that has just failed: each staging would call it again."""
    supervisor = Supervisor(place, (), Shared(Slots(1), threading.Event(), Ear()))  # type: ignore[arg-type]
    merges = {name: Waiting(place, "orders_out", rests=rests) for name in ("shop", "other")}
    supervisor._workers.update({name_worker(FlushWork, name): worker for name, worker in merges.items()})  # type: ignore[misc]
    supervisor.report_run(StageWork(place, "shop"), RunOutcome(calls_merge=calls_merge))
    assert {name: worker.calls for name, worker in merges.items()} == {
        "shop": int(calls_merge and not rests),
        "other": 0,
    }


def test_staging_has_slots_of_its_own_beside_the_merges(place: Place) -> None:
    supervisor = Supervisor(place, ("shop",), Shared(Slots(1), threading.Event(), Ear()))  # type: ignore[arg-type]
    slots = supervisor._shared_by_kind[StageWork].slots
    assert (slots.count, slots is supervisor._shared.slots) == (1, False)


def test_file_that_is_wrong_is_told_once_and_not_by_each_kind_of_its_work(tmp_path: Path) -> None:
    """A flush, a staging, a heartbeat, a maintenance and a verification read the one file."""
    for kind in ("pipelines", "publications"):
        (tmp_path / kind).mkdir()
    for name in ("orders", "users"):
        (tmp_path / "pipelines" / f"{name}.yaml").write_text("source: {topics: [Shop.Orders]}\ncolour: red\n")
    (tmp_path / "publications" / "orders_out.yaml").write_text("table: [\n")
    (tmp_path / "catalogs.yaml").write_text("lake: {type: bigquery, project: p}\n")
    failures = list[str]()
    reporter: Any = SimpleNamespace(report_failure=lambda work, streak: failures.append(work.name))
    stop = threading.Event()
    place = Place(tmp_path, lambda _: None, PipelineFiles(tmp_path), PublicationFiles(tmp_path))
    supervisor = Supervisor(place, (), Shared(Slots(1), stop, reporter))
    try:
        supervisor._start_workers()
        workers = supervisor._workers.values()
        deadline = time.monotonic() + 30
        while any(worker._stamps == () for worker in workers) and time.monotonic() < deadline:
            time.sleep(0.02)
    finally:
        stop.set()
        for worker in workers:
            worker.join(30)
    assert len(workers) == 2 * 5 + 1
    assert sorted(failures) == ["pipeline=orders", "pipeline=users", "publication=orders_out"]
