"""Heartbeats between flushes: a pipeline that flushes once a day beats at its heartbeat's interval, in Airflow too."""

import warnings
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import World, build_pipeline, build_table
from fakes.task_instance import PushedResults
from tidegate.config import pipeline_file
from tidegate.errors import RetryLater
from tidegate.fleet import members as fleet_members
from tidegate.fleet.members import OpenedMembers
from tidegate.fleet.timing import list_seldom_flushed
from tidegate.flush.flush import flush, stage_new_batches
from tidegate.ports.session import Session
from tidegate.spec.pipeline import Heartbeat, Merge, Pipeline, Stage

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Airflow's own, while it is imported
    from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
    from tidegate_airflow import errors
    from tidegate_airflow.dags import fleet_run, heartbeats

DAY, MINUTE = 86_400, 60
NIGHTLY = Merge(cron="5 4 * * *", interval_seconds=DAY)


class Asker(PushedResults):
    """A task instance that answers which DAGs are paused, and which of them have a run under way."""

    def __init__(self) -> None:
        super().__init__()
        self.paused, self.running = set[str](), set[str]()

    def get_dag(self, dag_id: str) -> Any:
        if dag_id == "tidegate_unread":
            raise LookupError(dag_id)
        return SimpleNamespace(is_paused=dag_id in self.paused)

    def get_dr_count(self, dag_id: str, states: list[str]) -> int:
        assert states == ["running"]
        return int(dag_id in self.running)


def build_seldom(name: str, merge: Merge = NIGHTLY, beat: int = 600, **options: Any) -> Pipeline:
    beating = Heartbeat(beat, produce=True, topic="beats")
    pipeline = build_pipeline(build_table(f"lake.shop.{name}", topics=(name,)), name=name, heartbeat=beating)
    return replace(pipeline, merge=merge, **options)


class Deployment:
    """Pipelines in memory, and the DAG of heartbeats, run by run."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch, *pipelines: Pipeline) -> None:
        self.world, self.pipelines, self.asker = world, {pipeline.name: pipeline for pipeline in pipelines}, Asker()
        context: Any = {"ti": self.asker}
        for pipeline in pipelines:
            world.broker.create(pipeline.name, 2)
            world.broker.produce(pipeline.name, {"id": "a"}, {"id": "a", "name": "x"})
        monkeypatch.setattr(pipeline_file, "load_all_pipelines", lambda _: list(self.pipelines.items()))
        monkeypatch.setattr(fleet_members, "open_members", self._open)
        monkeypatch.setattr(heartbeats, "find_include_folder", lambda: None)
        for module in (heartbeats, fleet_run, errors):
            monkeypatch.setattr(module, "get_current_context", lambda: context)

    def _open(self, include: Any, pipelines: Any, resolve: Any) -> OpenedMembers:
        return OpenedMembers({pipeline.name: self.world.open_session(pipeline) for pipeline in pipelines})

    def flush_all(self) -> None:
        for pipeline in self.pipelines.values():
            flush(self.world.open_session(pipeline))

    def stage_more(self) -> None:
        """One record more waits for the next merge of each pipeline with two clocks."""
        for name, pipeline in self.pipelines.items():
            if pipeline.stage.has_clock:
                self.world.broker.produce(name, {"id": "a"}, {"id": "a", "name": "later"})
                stage_new_batches(self.world.open_session(pipeline))

    def beat(self, seconds: int) -> dict[str, Any]:
        self.world.clock.pause(seconds)
        return heartbeats.send_heartbeats()

    def count_records(self) -> dict[str, int]:
        if "beats" not in self.world.broker.partitions:
            return {}
        names = [record.key["pipeline"] for record in self.world.broker.partitions["beats"][0].records]
        return {name: names.count(name) for name in sorted(set(names))}


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize("stage", [Stage(), Stage(10), Stage(cron="* * * * *")], ids=str)
def test_pipeline_that_flushes_once_a_day_beats_at_each_interval_of_its_heartbeat(
    world: World, monkeypatch: pytest.MonkeyPatch, stage: Stage
) -> None:
    """Runs come some seconds early or late, and none of them may wait for the next one, nor for one of staging."""
    daily = build_seldom("Daily", Merge(interval_seconds=DAY), beat=3600, stage=stage)
    nightly, each_minute = build_seldom("nightly", stage=stage), build_seldom("each_minute", Merge(), stage=stage)
    deployment = Deployment(world, monkeypatch, nightly, daily, each_minute)
    deployment.flush_all()
    deployment.asker.running = {"tidegate_nightly_stage", "tidegate_Daily_stage"}
    before = deployment.count_records()
    for _ in range(6):
        deployment.stage_more()
        world.broker.groups.pop("tidegate-nightly")
        world.broker.groups["tidegate-nightly"] = {"nightly": {0: 0}}
        assert deployment.beat(600 - 5).keys() == {"Daily", "nightly"}
        assert world.broker.groups["tidegate-nightly"]["nightly"] == {0: 1, 1: 0}, "what is published"
    counts = {name: count - before[name] for name, count in deployment.count_records().items()}
    assert counts == {"Daily": 1, "each_minute": 0, "nightly": 6}


@pytest.mark.parametrize("case", ["paused", "running", "unread"])
def test_pipeline_that_is_paused_or_flushed_or_unknown_to_airflow_is_left_alone(
    world: World, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    deployment = Deployment(world, monkeypatch, build_seldom("nightly"), build_seldom("unread"))
    deployment.flush_all()
    groups = dict(world.broker.groups)
    deployment.asker.paused = {"tidegate_nightly"} if case == "paused" else set()
    deployment.asker.running = {"tidegate_nightly"} if case == "running" else set()
    world.broker.groups.clear()
    world.broker.groups |= {group: {} for group in groups}
    if case == "unread":
        del deployment.pipelines["nightly"]
    for _ in range(2):
        with pytest.raises(AirflowSkipException):
            deployment.beat(DAY)
    assert world.broker.groups == {group: {} for group in groups}


def test_pipeline_that_was_never_flushed_is_left_alone_so_that_its_first_run_says_where_it_begins(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment = Deployment(world, monkeypatch, build_seldom("nightly"), build_seldom("new"))
    flush(world.open_session(deployment.pipelines["nightly"]))
    assert deployment.beat(600).keys() == {"nightly"}
    assert "tidegate-new" not in world.broker.groups


def test_heartbeat_that_fails_is_named_and_keeps_no_other_from_beating(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def beat(session: Session) -> Any:
        if session.pipeline.name == "broken":
            raise RetryLater("the coordinator does not answer")
        return real(session)

    real = fleet_run.heartbeat
    monkeypatch.setattr(fleet_run, "heartbeat", beat)
    deployment = Deployment(world, monkeypatch, build_seldom("broken"), build_seldom("nightly"))
    deployment.flush_all()
    for _ in range(2):
        before = deployment.count_records()["nightly"]
        with pytest.raises(AirflowFailException, match=r"^pipeline=broken: the coordinator does not answer$"):
            deployment.beat(600)
        assert deployment.count_records()["nightly"] == before + 1
        assert deployment.asker.pushed["return_value"].keys() == {"nightly"}


@pytest.mark.parametrize(
    ("merges", "fleet", "seldom"),
    [
        ([Merge()], None, []),
        ([Merge(interval_seconds=600)], None, []),
        ([Merge(interval_seconds=601)], None, ["p0"]),
        ([Merge(interval_seconds=-1, records_threshold=9)], None, []),  # its runs come at the heartbeat's interval
        ([NIGHTLY], None, ["p0"]),
        ([NIGHTLY, NIGHTLY], "night", ["p0", "p1"]),
        ([NIGHTLY, Merge()], "mixed", []),  # the fleet's runs come each minute, and beat for all members
        ([Merge(interval_seconds=3600), Merge(interval_seconds=DAY)], "hours", ["p0", "p1"]),
    ],
)
def test_pipelines_beat_between_flushes_where_runs_come_less_often_than_heartbeats(
    merges: list[Merge], fleet: str | None, seldom: list[str]
) -> None:
    for stage in (Stage(), Stage(10)):
        pipelines = [build_seldom(f"p{n}", merge, fleet=fleet, stage=stage) for n, merge in enumerate(merges)]
        assert list(list_seldom_flushed({pipeline.name: pipeline for pipeline in pipelines})) == seldom
