"""What a runner reads of the files, each time that one of them changes."""

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import World, build_pipeline, build_table
from tidegate.errors import GiveUp, NothingToDo, RetryLater, SomeTablesFailed, Unverifiable
from tidegate.flush.merge_queue import QueueResult
from tidegate.jobs.maintain_job import MaintainJob
from tidegate.ports.session import Session
from tidegate.reprocess.approve import propose_decision
from tidegate.runner import work as work_module
from tidegate.runner.pipeline_files import PipelineFiles, PublicationFiles
from tidegate.runner.schedule import Schedule
from tidegate.runner.work import FlushWork, HeartbeatWork, MaintenanceWork, Place, RunOutcome, StageWork, VerifyWork
from tidegate.runner.worker import Shared, Slots, Worker
from tidegate.spec.pipeline import Pipeline, Stage
from tidegate.spec.runtime import Maintenance
from tidegate.spec.table import Approve
from tidegate.table.approval import DecisionKind

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


TWO_CLOCKS = "stage: {interval: 10s}\n"


def build_daily_pipeline(include: Path, name: str, more: str = "") -> Path:
    file = include / "pipelines" / f"{name}.yaml"
    text = PIPELINE.format(name=name).replace("{interval: -1, records_threshold: 1000}", "{interval: 1d}")
    file.write_text(text + more)
    return file


@pytest.mark.parametrize("stage", ["", TWO_CLOCKS])
def test_daily_pipeline_beats_at_the_interval_of_its_heartbeat_and_a_quick_one_at_its_flushes_alone(
    include: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    build_daily_pipeline(include, "daily", stage)
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
        self.tables, self.failures, self.holds = list[str](), list[str](), list[tuple[str, str]]()

    def report_queue(self, work: Any, queue: QueueResult) -> None:
        self.holds += [("held", queue.table)] if queue.begun is not None else []
        self.holds += [("released", queue.table)] if queue.ended is not None else []

    def report_run(self, work: Any, outcome: RunOutcome) -> None:
        entries = (*outcome.batches, *outcome.maintenance_reports, *outcome.verifications)
        self.tables += [entry.table for entry in entries]

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


def test_verification_is_well_again_when_the_tables_that_failed_are_and_not_when_they_cannot_be_verified(
    include: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the log does not tell any more may differ still; a table that never could be verified hides no recovery."""
    wrong, good, never = names = [f"lake.shop.{name}" for name in ("First", "second", "third")]
    refused = {never}

    def verify_table(session: Any, name: str) -> Any:
        if name in refused:
            raise Unverifiable(f"{name} cannot be verified")
        if name in failing:
            raise GiveUp(f"{name} cannot be read")
        return SimpleNamespace(table=name, wrong=0)

    failing = {wrong}
    monkeypatch.setattr("tidegate.reprocess.verify.verify_table", verify_table)
    pipeline = build_pipeline(*map(build_table, names))
    monkeypatch.setattr(work_module, "assemble_pipeline", lambda *_, **__: World().open_session(pipeline))
    told, now = Told(), [1e9]
    place = Place(include, lambda _: None, PipelineFiles(include), PublicationFiles(include))
    worker = Worker(VerifyWork(place, "orders"), Shared(Slots(1), threading.Event(), told, lambda: now[0]))
    monkeypatch.setattr(worker.work, "read_schedule", lambda: Schedule(60))

    def look() -> list[str]:
        now[0] += 60
        told.tables.clear()
        worker.step()
        return told.tables

    assert look() == [good]
    failing.clear()
    refused.add(wrong)
    for _ in range(2):
        assert look() == [good]
    assert told.failures == [f"{wrong} cannot be read"]
    refused.remove(wrong)
    assert look() == [wrong, good]
    assert told.failures == [f"{wrong} cannot be read", "over"]


HELD, FREE = "lake.shop.Held", "lake.shop.free"


class Run:
    """`tidegate run` of a pipeline with a table that holds deletes, and one that holds nothing; a minute between looks.

    With two clocks the staging comes before the merge, as it is due more often.
    """

    def __init__(self, include: Path, pipeline: Pipeline) -> None:
        self.world, self.pipeline, self.told, self.now = World(), pipeline, Told(), 1e9
        self.world.broker.create("orders")
        files = PipelineFiles(include), PublicationFiles(include)
        place = Place(include, lambda _: None, *files, report_queue=self.told.report_queue)
        works = [*([StageWork(place, "orders")] if pipeline.stage.has_clock else []), FlushWork(place, "orders")]
        shared = Shared(Slots(1), threading.Event(), self.told, lambda: self.now)
        self.workers = [Worker(work, shared) for work in works]
        for work in works:
            work._assemble_session = self.open_session  # type: ignore[method-assign]
            work.read_schedule = lambda: Schedule(60)  # type: ignore[method-assign]

    def open_session(self) -> Session:
        return self.world.open_session(self.pipeline)

    def look(self, **names: str | None) -> list[str]:
        """Produce rows, or deletes, and let each worker look once; the tables that were published."""
        for key, name in names.items():
            self.world.broker.produce("orders", {"id": key}, None if name is None else {"id": key, "name": name})
        self.now += 60
        self.told.tables.clear()
        for worker in self.workers:
            worker.step()
        return list(self.told.tables)

    def read(self, table: str) -> dict[str, str]:
        return {row["id"]: row["name"] for row in self.world.read_rows(table)}

    def count_staged(self, table: str) -> int:
        return len(self.world.destination.list_staged(f"{table}_shop_tmp", table))

    def approve(self) -> None:
        propose_decision(self.open_session(), DecisionKind.APPROVE).perform("ann")


def build_ruled_pipeline(**settings: Any) -> Pipeline:
    tables = [build_table(HELD, approve=Approve(deletes_over=0), max_pending=2), build_table(FREE, max_pending=2)]
    return build_pipeline(*tables, **settings)


def list_told_holds(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What stands in the output of a run, which shows warnings."""
    return [
        r.getMessage() for r in caplog.records if r.levelname == "WARNING" and "held for approval" in r.getMessage()
    ]


def test_held_table_is_told_of_once_and_keeps_no_other_from_its_flushes(
    include: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run(include, build_ruled_pipeline())
    assert run.look(a="1", b="1") == [HELD, FREE]
    for names in ({"a": None}, {"c": "1"}, {"c": "2"}, {"c": "3"}):
        assert run.look(**names) == [FREE]
    assert run.look() == []
    assert (run.read(HELD), run.read(FREE)) == ({"a": "1", "b": "1"}, {"b": "1", "c": "3"})
    (message,) = list_told_holds(caplog)
    assert f"table={HELD} batch=2: held for approval: deletes_over=0" in message
    run.approve()
    while run.look():
        pass
    assert run.read(HELD) == run.read(FREE) == {"b": "1", "c": "3"}
    assert (len(list_told_holds(caplog)), run.told.failures) == (1, [])
    assert run.told.holds == [("held", HELD), ("released", HELD)]


def test_batch_that_begins_or_ends_to_wait_is_told_also_where_another_table_fails(include: Path) -> None:
    run = Run(include, build_ruled_pipeline())
    run.look(a="1", b="1")
    copy = run.world.destination.tables[FREE]
    run.look(c="1")
    run.world.destination.rollback(FREE, copy.ancestors()[1].id)
    assert run.look(a=None) == []
    assert run.told.holds == [("held", HELD)]
    run.approve()
    assert run.look() == [HELD]
    assert run.told.holds == [("held", HELD), ("released", HELD)]
    assert all(f"table={FREE}" in failure for failure in run.told.failures)
    assert run.told.failures


def test_staging_goes_on_behind_a_held_batch_up_to_the_limit_of_its_table_alone(
    include: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run(include, build_ruled_pipeline(stage=Stage(10)))
    assert run.look(a="1", b="1") == [HELD, FREE]
    assert run.look(a=None) == [FREE]
    counts = []
    for name in ("1", "2", "3", "4"):
        assert run.look(c=name) == [FREE]
        assert run.read(FREE) == {"b": "1", "c": name}
        counts.append(run.count_staged(HELD))
    assert counts == [2, 2, 2, 2]
    assert run.read(HELD) == {"a": "1", "b": "1"}
    run.approve()
    while run.look():
        pass
    assert run.read(HELD) == run.read(FREE) == {"b": "1", "c": "4"}
    assert (len(list_told_holds(caplog)), run.told.failures) == (1, [])
