"""What a runner reads of the files, each time that one of them changes."""

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import World, build_pipeline, build_table
from tidegate.errors import GiveUp, NothingToDo, RetryLater, SomeTablesFailed
from tidegate.jobs.maintain_job import MaintainJob
from tidegate.runner import work as work_module
from tidegate.runner.pipeline_files import PipelineFiles, PublicationFiles
from tidegate.runner.schedule import Schedule
from tidegate.runner.work import FlushWork, HeartbeatWork, MaintenanceWork, Place, RunOutcome, StageWork, VerifyWork
from tidegate.runner.worker import Shared, Slots, Worker
from tidegate.spec.runtime import Maintenance

CATALOGS = "lake: {type: iceberg, properties: {type: rest, uri: 'http://localhost:1'}}\n"
DEFAULTS = "heartbeat: {interval: 30s, ignore_topics: [quiet]}\nmaintenance: {interval: 5m}\n"
PIPELINE = """
source:
  kafka: {{bootstrap.servers: 'localhost:1'}}
  topics: [{name}]
  key: {{format: json, fields: [id], schema: id BIGINT}}
  value: {{format: json, schema: 'id BIGINT, name STRING'}}
tables: [{{name: lake.shop.{name}}}]
merge: {{interval: -1, records_threshold: 1000}}
"""


class Ear:
    """A reporter that hears nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


@pytest.fixture
def include(tmp_path: Path) -> Path:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "catalogs.yaml").write_text(CATALOGS)
    for name in ("orders", "users"):
        (tmp_path / "pipelines" / f"{name}.yaml").write_text(PIPELINE.format(name=name))
    return tmp_path


@pytest.mark.parametrize("pipeline", ["orders", "users"])
def test_changed_defaults_reach_flushes_and_maintenance_that_go_on(include: Path, pipeline: str) -> None:
    place, now = Place(include, lambda _: None, PipelineFiles(include), PublicationFiles(include)), [1e9]
    shared = Shared(Slots(1), threading.Event(), Ear(), lambda: now[0])
    works = [FlushWork(place, pipeline), MaintenanceWork(place, pipeline)]
    runs = list[str]()
    for work in works:
        work.run = lambda _, name=work.name: runs.append(name) or RunOutcome()  # type: ignore[method-assign]
    workers = [Worker(work, shared) for work in works]

    def look(seconds: float) -> list[str]:
        now[0] += seconds
        runs.clear()
        for worker in workers:
            worker.step()
        return list(runs)

    flush, maintenance = works[0].name, works[1].name
    assert look(0) == [flush]
    assert look(60) == []
    (include / "defaults.yaml").write_text(
        "heartbeat: {interval: 30s, ignore_topics: [quiet]}\nmaintenance: {interval: 5m}\n"
    )
    assert look(0) == [flush, maintenance], "the interval of 30 seconds is over, and a fifth of 5 minutes"
    assert works[0].monitored_backlog[1].ignored == ("quiet",)
    assert look(29) == []
    assert look(1) == [flush]
    assert look(270) == [flush, maintenance]


def build_daily_pipeline(include: Path, name: str) -> Path:
    file = include / "pipelines" / f"{name}.yaml"
    file.write_text(PIPELINE.format(name=name).replace("{interval: -1, records_threshold: 1000}", "{interval: 1d}"))
    return file


def test_daily_pipeline_beats_at_the_interval_of_its_heartbeat_and_a_quick_one_at_its_flushes_alone(
    include: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_daily_pipeline(include, "daily")
    place, now = Place(include, lambda _: None, PipelineFiles(include), PublicationFiles(include)), [1e9]
    shared, beats = Shared(Slots(1), threading.Event(), Ear(), lambda: now[0]), list[str]()
    monkeypatch.setattr(work_module, "require_begun", lambda session: session)
    monkeypatch.setattr(work_module, "heartbeat", lambda session: beats.append(session.pipeline.name))
    workers = [Worker(HeartbeatWork(place, name), shared) for name in ("daily", "orders")]

    def look(seconds: float) -> list[str]:
        now[0] += seconds
        beats.clear()
        for worker in workers:
            worker.step()
        return list(beats)

    assert [look(seconds) for seconds in (0, 599, 1, 1, 600, 86_400)] == [
        ["daily"], [], ["daily"], [], ["daily"], ["daily"],
    ]  # fmt: skip


def test_heartbeat_leaves_the_group_to_a_flush_that_is_under_way_and_beats_again_behind_it(
    include: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two commits of one process at once find each other's offsets in the group, and fail."""
    build_daily_pipeline(include, "daily")
    place, beats = Place(include, lambda _: None, PipelineFiles(include), PublicationFiles(include)), list[str]()
    monkeypatch.setattr(work_module, "require_begun", lambda session: session)
    monkeypatch.setattr(work_module, "heartbeat", lambda session: beats.append(session.pipeline.name))
    flush, beat = FlushWork(place, "daily"), HeartbeatWork(place, "daily")

    def flush_beside_a_heartbeat(at_least: int) -> RunOutcome:
        with pytest.raises(NothingToDo, match="a flush is under way"):
            beat.run(0)
        return RunOutcome()

    flush._flush = flush_beside_a_heartbeat  # type: ignore[method-assign]
    for _ in range(2):
        flush.run(0)
        beat.run(0)
    assert beats == ["daily", "daily"]


def test_heartbeat_that_failed_is_not_well_again_because_a_flush_is_under_way(
    include: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The flush may wait for the very broker that has not answered."""
    build_daily_pipeline(include, "daily")
    place = Place(include, lambda _: None, PipelineFiles(include), PublicationFiles(include))
    faults, now, reports = [RetryLater("broker=b gave no answer")], [1e9], list[str]()
    reporter = SimpleNamespace(
        report_run=lambda *_: None,
        report_failure=lambda *_: reports.append("failed"),
        report_recovery=lambda *_: reports.append("recovered"),
    )

    def beat(_: Any) -> None:
        if faults:
            raise faults.pop()

    monkeypatch.setattr(work_module, "require_begun", lambda session: session)
    monkeypatch.setattr(work_module, "heartbeat", beat)
    worker = Worker(HeartbeatWork(place, "daily"), Shared(Slots(1), threading.Event(), reporter, lambda: now[0]))
    worker.step()
    now[0] += 600
    with place.get_group_lock("daily"):
        worker.step()
    assert reports == ["failed"]
    now[0] += 600
    worker.step()
    assert reports == ["failed", "recovered"]


TWO_CLOCKS = "stage: {interval: 10s}\n"


def test_pipeline_with_two_clocks_stages_and_merges_each_at_its_own_time(include: Path) -> None:
    file = include / "pipelines" / "clocks.yaml"
    file.write_text(PIPELINE.format(name="clocks").replace("interval: -1", "interval: 60s") + TWO_CLOCKS)
    place, now = Place(include, lambda _: None, PipelineFiles(include), PublicationFiles(include)), [1e9]
    shared = Shared(Slots(1), threading.Event(), Ear(), lambda: now[0])
    works = [FlushWork(place, "clocks"), StageWork(place, "clocks"), StageWork(place, "orders")]
    runs = list[tuple[str, int]]()
    for work in works:
        work.run = lambda at_least, name=work.name: runs.append((name, at_least)) or RunOutcome()  # type: ignore[method-assign]
    workers = [Worker(work, shared) for work in works]

    def look(seconds: float) -> list[tuple[str, int]]:
        now[0] += seconds
        runs.clear()
        for worker in workers:
            worker.step()
        return list(runs)

    merge, stage = ("pipeline=clocks", 0), ("pipeline=clocks stage", 0)
    assert [look(seconds) for seconds in (0, 9, 1, 10, 10, 10, 10, 10)] == [
        [merge, stage], [], [stage], [stage], [stage], [stage], [stage], [merge, stage],
    ]  # fmt: skip
    assert works[0].monitored_backlog is None, "records in the log start no merge"


def test_merge_without_an_interval_waits_for_its_threshold_of_staged_rows_or_a_call(include: Path) -> None:
    (include / "pipelines" / "clocks.yaml").write_text(PIPELINE.format(name="clocks") + TWO_CLOCKS)
    place = Place(include, lambda _: None, PipelineFiles(include), PublicationFiles(include))
    work, runs = FlushWork(place, "clocks"), list[int]()
    work.run = lambda at_least: runs.append(at_least) or RunOutcome()  # type: ignore[method-assign]
    worker = Worker(work, Shared(Slots(1), threading.Event(), Ear(), lambda: 1e9))
    worker.step()
    worker.call()
    worker.step()
    assert runs == [1000, 0]


def test_table_that_fails_keeps_no_other_from_its_compaction(include: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = [build_table("lake.shop.Orders"), build_table("lake.shop.copy")]
    pipeline = build_pipeline(*tables, maintenance=Maintenance(compact_every=6))
    world = World()
    world.broker.create("orders")
    work = FlushWork(Place(include, lambda _: None, PipelineFiles(include), PublicationFiles(include)), "orders")
    monkeypatch.setattr(work, "_assemble_session", lambda: world.open_session(pipeline))
    for number in range(2):
        world.broker.produce("orders", {"id": str(number)}, {"id": str(number), "name": "x"})
        work.run(0)
    copy = world.destination.tables["lake.shop.copy"]
    world.destination.rollback("lake.shop.copy", copy.ancestors()[1].id)
    for number in range(2, 6):
        world.broker.produce("orders", {"id": str(number)}, {"id": str(number), "name": "x"})
        with pytest.raises(SomeTablesFailed):
            work.run(0)
    compacted_tables = [job.table for job in world.engine.jobs if isinstance(job, MaintainJob)]
    assert compacted_tables == ["lake.shop.Orders"]


class Told:
    """A reporter that notes the tables of each run, and each failure."""

    def __init__(self) -> None:
        self.tables, self.failures = list[str](), list[str]()

    def report_run(self, work: Any, outcome: RunOutcome) -> None:
        self.tables += [entry.table for entry in (*outcome.maintenance_reports, *outcome.verifications)]

    def report_failure(self, work: Any, streak: Any) -> None:
        self.failures.append(streak.reason)

    def report_recovery(self, work: Any, streak: Any) -> None:
        self.failures.append("over")


@pytest.mark.parametrize("kind", [MaintenanceWork, VerifyWork])
def test_tables_that_went_well_are_told_beside_the_one_that_failed(
    include: Path, monkeypatch: pytest.MonkeyPatch, kind: Any
) -> None:
    names = [f"lake.shop.{name}" for name in ("First", "second", "third")]
    pipeline = build_pipeline(*map(build_table, names))
    failing = {names[1]}

    def verify_table(session: Any, name: str) -> Any:
        if name in failing:
            raise GiveUp(f"{name} cannot be read")
        return SimpleNamespace(table=name, wrong=0)

    monkeypatch.setattr("tidegate.reprocess.verify.verify_table", verify_table)
    monkeypatch.setattr("tidegate.flush.maintain.maintain", verify_table)
    monkeypatch.setattr(work_module, "list_maintained_tables", lambda session: names)
    monkeypatch.setattr(work_module, "assemble_pipeline", lambda *_, **__: World().open_session(pipeline))
    told, now = Told(), [1e9]
    place = Place(include, lambda _: None, PipelineFiles(include), PublicationFiles(include))
    worker = Worker(kind(place, "orders"), Shared(Slots(1), threading.Event(), told, lambda: now[0]))
    monkeypatch.setattr(worker.work, "read_schedule", lambda: Schedule(60))
    worker.step()
    assert (told.tables, told.failures) == ([names[0], names[2]], [f"{names[1]} cannot be read"])
    failing.clear()
    told.tables.clear()
    now[0] += 60
    worker.step()
    assert (told.tables, told.failures[1:]) == (names, ["over"])
