"""Runs of a fleet, one a minute: each member's failures and recovery are its own, and idle members cost a look."""

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import BAD, World, build_pipeline, build_table
from fakes.broker import MemoryBroker
from tidegate.errors import AuditFailed, ConfigurationError, RetryLater, TidegateError
from tidegate.fleet import members as fleet_members
from tidegate.fleet.members import OpenedMembers
from tidegate.ports.session import Session
from tidegate.spec.pipeline import Heartbeat, Merge, Notifier, Pipeline
from tidegate.spec.source import Start, StartKind

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Airflow's own, while it is imported
    from airflow.sdk.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowSkipException,
        DownstreamTasksSkipped,
    )
    from fakes.notifier import KeepingNotifier
    from tidegate_airflow import errors, tasks
    from tidegate_airflow.dags import fleet_plan, fleet_run
    from tidegate_airflow.failures import keeper
    from tidegate_airflow.failures.notifiers import build_failure_callbacks
    from tidegate_airflow.operators.step import run_member_merge, run_member_stage

NAMES = ("carts", "orders", "users", "wishes")
FAILED = Notifier("fakes.notifier.KeepingNotifier", {"text": "{{ failure.pipeline }} failed: {{ failure.reason }}"})
RECOVERED = Notifier("fakes.notifier.KeepingNotifier", {"text": "{{ failure.pipeline }} is well again"})
BEGIN = 1_800_000_000.0
CATALOGS = (
    "lake: {type: iceberg, properties: {type: sql, uri: 'sqlite:////nowhere/c.db', warehouse: 'file:///nowhere'}}\n"
)
PIPELINE_FILE = """
source: {topics: [users], key: {fields: [id], schema: id STRING}, value: {format: json, schema: id STRING}}
tables: [{name: lake.shop.users}]
"""
TASKS = ("plan", "stage", "merge", "commit_offsets", "clean_up", "heartbeat", "compact")


class Cluster(MemoryBroker):
    """Brokers that read nothing ahead."""

    def read_names_ahead(self) -> None:
        """Nothing to keep."""

    def read_ahead(self, topics: Any, isolation: str) -> None:
        """Nothing to keep."""


@dataclass
class Run:
    """One run: its tasks' states, and what they leave for each other by task, map index and key."""

    run_id: str
    run_type: str
    dag_id: str = "tidegate_fleet_shop"
    try_number: int = 1
    map_index: int = -1
    clear_number: int = 0
    task: str = ""
    states: dict[str, str] = field(default_factory=dict)
    left: dict[tuple[str, int, str], Any] = field(default_factory=dict)
    asked: list[Any] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    is_final: dict[str, bool] = field(default_factory=dict)
    context: Any = None
    entries: list[Any] | None = None
    runs: dict[str, "Run"] = field(default_factory=dict)
    uncertain_asked: list[Any] = field(default_factory=list)
    uncertain: list[str] = field(default_factory=list)

    def xcom_push(self, key: str, value: Any) -> None:
        self.left[self.task, self.map_index, key] = value

    def xcom_pull(
        self, task_ids: str = "", key: str = "return_value", map_indexes: int | None = None, run_id: str | None = None
    ) -> Any:
        if run_id is not None:
            return self.runs[run_id].xcom_pull(task_ids, key, map_indexes)
        task = task_ids or self.task
        if map_indexes is not None:
            return self.left.get((task, map_indexes, key))
        values = [value for (name, _, map_index), value in self.left.items() if (name, map_index) == (task, key)]
        return values[0] if len(values) == 1 else values

    def get_task_states(
        self, dag_id: str, run_ids: list[str], task_ids: list[str] | None = None
    ) -> dict[str, dict[str, str | None]]:
        """As Airflow answers: nothing of runs that are gone; the task that asks is running."""
        states = {
            run_id: {name: state or None for name, state in self.runs[run_id].states.items()}
            for run_id in run_ids
            if run_id in self.runs
        } | ({self.run_id: dict(self.states)} if self.run_id in run_ids else {})
        if self.run_id in states:
            states[self.run_id] |= {"heartbeat": "running"}
        if task_ids is None:
            return states
        return {
            run: {name: state for name, state in of_run.items() if re.sub(r"_\d+$", "", name) in task_ids}
            for run, of_run in states.items()
        }


class Events:
    """Outlet events, which Airflow keeps of a task that succeeds: of a published table, and the next run's call."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def __getitem__(self, alias: Any) -> "Events":
        return self

    def add(self, asset: Any, extra: dict[str, Any]) -> None:
        if "asked" in extra:
            self._run.uncertain_asked.append(extra["asked"])
        else:
            self._run.uncertain.append(asset.name)


class Fleet:
    """The scheduler of one fleet: a run each minute."""

    def __init__(self, world: World, include: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world, self.include, self.now = world, include, BEGIN
        self.store: dict[str, Any] = {}
        self.pipelines = {name: build_reading_pipeline(name) for name in NAMES}
        self.stages: list[str] = []
        self.unopened: dict[str, TidegateError] = {}
        self.runs: dict[str, Run] = {}
        self.context: Any = {}
        load_fleet = fleet_members.load_fleet
        monkeypatch.setattr(fleet_members, "load_fleet", lambda *at: (dict(self.pipelines), load_fleet(*at)[1]))
        monkeypatch.setattr(fleet_members, "open_members", self._open)
        monkeypatch.setattr(tasks, "assemble_session", lambda name, *_: self.open_session(name))
        monkeypatch.setattr(tasks, "read_pipeline", lambda name: self.pipelines[name])
        clock = SimpleNamespace(time=lambda: self.now)
        for module in (fleet_plan, keeper):
            monkeypatch.setattr(module, "time", clock)
        for module in (fleet_plan, fleet_run, errors):
            monkeypatch.setattr(module, "get_current_context", lambda: self.context)
        for module in (fleet_plan, fleet_run):
            monkeypatch.setattr(module, "find_include_folder", lambda: include)

    def open_session(self, name: str) -> Session:
        if name in self.unopened:
            raise self.unopened[name]
        return self.world.open_session(self.pipelines[name])

    def _open(self, include: Path, pipelines: Any, resolve: Any) -> OpenedMembers:
        names = [pipeline.name for pipeline in pipelines]
        opened = {name: self.open_session(name) for name in names if name not in self.unopened}
        return OpenedMembers(opened, {name: self.unopened[name] for name in names if name in self.unopened})

    def run(self, run_type: str = "scheduled", events: Any = (), **params: Any) -> Run:
        """A whole run, behind the one before it."""
        run = self.begin(run_type, events, **params)
        if run.entries is not None:
            self.finish(run)
        return run

    def begin(self, run_type: str = "scheduled", events: Any = (), **params: Any) -> Run:
        """A run whose plan is done, and nothing else."""
        self.now += 60
        run = self.runs[f"r{self.now:.0f}"] = Run(f"r{self.now:.0f}", run_type, runs=self.runs)
        conf = {"pipelines": [], "max_records": None, "until_current": True, "dry_run": False, **params}
        stores = {"tidegate_fleet_shop_backlog": Store(self.store)}
        self.context = {"ti": run, "dag_run": run, "run_id": run.run_id, "params": conf, "outlet_events": Events(run)}
        self.context["asset_state_store"] = SimpleStores(stores)
        self.context["task"] = SimpleNamespace(task_id="plan", dag=SimpleNamespace(task_ids=TASKS))
        self.context["triggering_asset_events"] = {"backlog": [SimpleNamespace(extra=extra) for extra in events]}
        run.context = self.context
        self.plan(run)
        return run

    def clear(self, run: Run) -> None:
        """A person clears the whole run, a minute later."""
        self.now += 60
        self.context = run.context
        run.clear_number += 1
        run.try_number += 1
        run.states.clear()
        run.left.clear()
        self.plan(run)
        if run.entries is not None:
            self.finish(run)

    def plan(self, run: Run) -> None:
        """The task plan, or another try of it."""
        run.entries = self._do(run, "plan", -1, lambda: fleet_plan.plan_fleet("shop"))
        if run.entries is not None:
            run.states |= {f"merge_{number}": "" for number in range(len(run.entries))} | {"clean_up": ""}

    def flush(self, run: Run, *names: str) -> None:
        """stage and merge of these members, whatever the others of the run do."""
        self.context = run.context
        for number, entry in enumerate(run.entries or []):
            if entry["pipeline"] not in names:
                continue
            self.stages.append(entry["pipeline"])
            staged = self._do(run, "stage", number, lambda e=entry: run_member_stage(self.context, "fleet_shop", e, {}))
            if staged is None:
                run.states[f"merge_{number}"] = "upstream_failed"
                continue
            self._do(run, "merge", number, lambda s=staged: run_member_merge(self.context, "fleet_shop", s, {}))

    def flush_again(self, run: Run, *names: str) -> None:
        """A person clears the tasks of these members, with what follows them."""
        self.flush(run, *names)
        self.finish(run)

    def finish(self, run: Run) -> None:
        """All that is left of a run."""
        self.context = run.context
        left = [
            entry["pipeline"] for number, entry in enumerate(run.entries or []) if not run.states[f"merge_{number}"]
        ]
        self.flush(run, *left)
        if any(state == "success" for name, state in run.states.items() if name.startswith("merge")):
            self._do(run, "commit_offsets", -1, lambda: fleet_run.commit_offsets_of_members("shop"))
        self._do(run, "clean_up", -1, lambda: fleet_run.clean_up_members("shop"))
        self._do(run, "heartbeat", -1, lambda: fleet_run.finish_fleet_run("shop"))
        if run.states["heartbeat"] == "failed":
            run.map_index = -1
            for tell in build_failure_callbacks("fleet_shop", list(self.pipelines.values())):
                tell(self.context)

    def _do(self, run: Run, task: str, number: int, work: Callable[[], Any]) -> Any:
        run.task, run.map_index = task, number
        run.uncertain.clear()
        run.uncertain_asked.clear()
        name = task if number < 0 else f"{task}_{number}"
        try:
            result = work()
        except (AirflowSkipException, DownstreamTasksSkipped):
            run.states[name] = "skipped"
        except AirflowException as problem:
            run.states[name] = "failed"
            run.is_final[name] = isinstance(problem, AirflowFailException)
        else:
            run.states[name] = "success"
            run.left[task, number, "return_value"] = result
            run.events += run.uncertain
            run.asked += run.uncertain_asked
            return result
        return None


class Store:
    """Airflow's store of one asset's state."""

    def __init__(self, store: dict[str, Any]) -> None:
        self._kept = store

    def get(self, key: str) -> Any:
        return self._kept.get(key)

    def set(self, key: str, value: Any) -> None:
        self._kept[key] = value


class SimpleStores:
    """The stores by asset."""

    def __init__(self, stores: dict[str, Store]) -> None:
        self._stores = stores

    def __getitem__(self, asset: Any) -> Store:
        return self._stores[asset.name]


def build_reading_pipeline(topic: str) -> Pipeline:
    """A pipeline of two tables over one topic, but users and wishes: these have one table."""
    suffixes = ("", "_too") if topic in ("carts", "orders") else ("",)
    pipeline = build_pipeline(
        *(build_table(f"lake.shop.{topic}{suffix}", topics=(topic,)) for suffix in suffixes), name=topic, fleet="shop"
    )
    return replace(pipeline, on_failure=(FAILED,), on_recovery=(RECOVERED,), merge=Merge(interval_seconds=60))


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fleet:
    return build_fleet(monkeypatch, tmp_path)


def build_fleet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fleet:
    """Topics of two partitions: carts and orders have records, users has a bad one too, wishes none."""
    (tmp_path / "pipelines").mkdir()
    world = World()
    world.broker = world.engine.broker = Cluster(world.clock)
    for topic in NAMES:
        world.broker.create(topic, 2)
        for number in range(0 if topic == "wishes" else 2):
            world.broker.produce(topic, {"id": f"k{number}"}, {"id": f"k{number}", "name": topic}, partition=number)
        (tmp_path / "pipelines" / f"{topic}.yaml").write_text("tables: []")
    world.broker.produce("users", {"id": "bad"}, BAD, 1)
    KeepingNotifier.notifications.clear()
    return Fleet(world, tmp_path, monkeypatch)


def list_messages() -> list[str]:
    return [text for text, _ in KeepingNotifier.notifications]


def test_one_member_s_failure_is_its_own_and_the_run_names_it(fleet: Fleet) -> None:
    run = fleet.run()
    assert fleet.stages == ["carts", "orders", "users"], "wishes is idle"
    assert [run.states[f"stage_{number}"] for number in range(3)] == ["success", "success", "failed"]
    for table in ("carts", "carts_too", "orders", "orders_too"):
        assert len(fleet.world.read_rows(f"lake.shop.{table}")) == 2
    assert sorted(run.events) == sorted(
        f"lake.shop.{suffix}" for suffix in ("carts", "carts_too", "orders", "orders_too")
    )
    assert run.left["commit_offsets", -1, "return_value"].keys() == {"carts", "orders"}
    reason = run.left["heartbeat", -1, "error"]["message"]
    assert "pipeline=users: stage failed: " in reason
    assert "topic=users partition=1 offset=1" in reason
    assert "carts" not in reason
    [message] = list_messages()
    assert message.startswith("users failed: ")


def test_start_at_latest_of_an_idle_member_is_settled_by_the_plan_however_long_the_others_take(fleet: Fleet) -> None:
    fleet.pipelines["wishes"] = replace(
        fleet.pipelines["wishes"], source=replace(fleet.pipelines["wishes"].source, start=Start(StartKind.LATEST))
    )
    wish(fleet, "old")
    fleet.begin(dry_run=True)
    assert "tidegate-wishes" not in fleet.world.broker.groups
    wish(fleet, "older")
    run = fleet.begin()
    assert fleet.world.broker.groups["tidegate-wishes"] == {"wishes": {0: 0, 1: 2}}
    wish(fleet, "new")
    fleet.finish(run)
    wish(fleet, "newer")
    fleet.run()
    assert [row["id"] for row in fleet.world.read_rows("lake.shop.wishes")] == ["new", "newer"]
    # a table that comes later, while the heartbeat is not due
    fleet.world.broker.create("More", 2)
    wish(fleet, "old", "More")
    wishes = fleet.pipelines["wishes"]
    tables = (*wishes.tables, build_table("lake.shop.More", topics=("More",)))
    source = replace(wishes.source, topics=("wishes", "More"))
    fleet.pipelines["wishes"] = replace(wishes, tables=tables, source=source)
    fleet.run()
    wish(fleet, "new", "More")
    fleet.run()
    assert [row["id"] for row in fleet.world.read_rows("lake.shop.More")] == ["new"]


def wish(fleet: Fleet, key: str, topic: str = "wishes") -> None:
    fleet.world.broker.produce(topic, {"id": key}, {"id": key, "name": "x"}, 1)


def test_member_that_failed_waits_and_tells_once_and_is_well_again_when_its_file_is_changed(fleet: Fleet) -> None:
    runs = [fleet.run() for _ in range(10)]
    assert all(run.states["heartbeat"] == "failed" for run in runs)
    try_numbers = [
        number for number, run in enumerate(runs) if "Waiting" not in str(run.left.get(("stage", 0, "error")))
    ]
    assert try_numbers == [0, 1, 2, 4, 8], "after one try at once pauses double"
    assert "commit_offsets" not in runs[-1].states
    assert runs[-1].states["merge_0"] == "upstream_failed"
    assert "the same failure in" in runs[-1].left["stage", 0, "error"]["message"]
    assert runs[-1].left["stage", 0, "error"]["tasks"] == ["stage"]
    assert len(list_messages()) == 1
    fleet.world.broker.retain_from("users", 2, 1)
    (fleet.include / "pipelines" / "users.yaml").write_text("tables: [1]")
    fleet.world.broker.produce("users", {"id": "k1"}, {"id": "k1", "name": "new"}, 1)
    run = fleet.run()
    assert (run.states["heartbeat"], list_messages()[1:]) == ("success", ["users is well again"])
    assert fleet.store["members"]["streaks"] == {}


@pytest.mark.parametrize("fleet_name", ["other", None])
def test_failure_of_a_member_that_left_the_fleet_and_came_back_is_told_again(
    fleet: Fleet, fleet_name: str | None
) -> None:
    """Its failures are those of another DAG meanwhile, and so is their end."""
    fleet.run()
    left = fleet.pipelines.pop("users")
    (fleet.include / "catalogs.yaml").write_text(CATALOGS)
    own_file = fleet.include / "pipelines" / "users.yaml"
    own_file.write_text(PIPELINE_FILE + (f"fleet: {fleet_name}\n" if fleet_name else ""))
    produce_more(fleet, "carts")
    assert fleet.run().states["heartbeat"] == "success"
    own_file.write_text(PIPELINE_FILE + "fleet: shop\n")
    fleet.pipelines["users"] = left
    for _ in range(2):
        assert fleet.run().states["heartbeat"] == "failed"
    assert [message.partition(":")[0] for message in list_messages()] == ["users failed"] * 2


@pytest.mark.parametrize("is_told", [True, False])
def test_member_whose_file_becomes_wrong_during_a_run_makes_that_red_and_all_are_told(
    fleet: Fleet, is_told: bool
) -> None:
    """Its file says no more who is to be told; the next runs do without it."""
    fleet.world.broker.retain_from("users", 2, 1)
    wrong = fleet.pipelines["users"]
    if not is_told:
        fleet.pipelines = {name: replace(member, on_failure=()) for name, member in fleet.pipelines.items()}
    run = fleet.begin()
    del fleet.pipelines["users"]
    fleet.unopened["users"] = ConfigurationError("users.yaml:1: colour=red: unknown key")
    fleet.finish(run)
    assert (run.states["stage_2"], run.states["heartbeat"]) == ("failed", "failed")
    reason = run.left["heartbeat", -1, "error"]["message"]
    assert "pipeline=users: stage failed: users.yaml:1: colour=red: unknown key" in reason
    assert list_messages() == (["users failed: users.yaml:1: colour=red: unknown key"] if is_told else [])
    produce_more(fleet, "carts")
    assert fleet.run().states["heartbeat"] == "success"
    fleet.unopened.clear()
    fleet.pipelines["users"] = wrong
    assert fleet.run().states["heartbeat"] == "success"
    assert list_messages()[-1] == "users is well again"
    assert fleet.store["members"]["streaks"] == {}


def test_member_whose_file_is_removed_during_a_run_fails_nothing_but_its_own_task(fleet: Fleet) -> None:
    run = fleet.begin()
    del fleet.pipelines["users"]
    (fleet.include / "pipelines" / "users.yaml").unlink()
    fleet.unopened["users"] = ConfigurationError("pipeline=users: no such file")
    fleet.finish(run)
    assert (run.states["stage_2"], run.states["heartbeat"], list_messages()) == ("failed", "success", [])


def test_failure_of_a_member_without_notifiers_is_told_to_nobody_else(fleet: Fleet) -> None:
    fleet.pipelines["users"] = replace(fleet.pipelines["users"], on_failure=())
    assert fleet.run().states["heartbeat"] == "failed"
    assert list_messages() == []


def test_recovery_that_cannot_be_kept_is_told_once_by_the_run_that_can(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store would still have the failure: each run would tell of the recovery anew."""

    def refuse(self: Store, key: str, value: Any) -> None:
        raise ConnectionError("the API server is gone")

    fleet.run()
    fleet.world.broker.retain_from("users", 2, 1)
    with monkeypatch.context() as patch:
        patch.setattr(Store, "set", refuse)
        for _ in range(2):
            assert fleet.run("manual").states["heartbeat"] == "success"
    assert [message.partition(":")[0] for message in list_messages()] == ["users failed"]
    for _ in range(2):
        fleet.run("manual")
    assert list_messages()[1:] == ["users is well again"]


def test_heartbeat_that_is_cleared_alone_in_an_old_run_is_no_recovery_of_any_member(fleet: Fleet) -> None:
    fleet.world.broker.retain_from("users", 2, 1)
    old = fleet.run()
    fleet.world.broker.produce("users", {"id": "bad"}, BAD, 1)
    failed = fleet.run()
    assert (old.states["heartbeat"], failed.states["heartbeat"], len(list_messages())) == ("success", "failed", 1)
    old.clear_number = 1
    fleet.context |= {"ti": old, "dag_run": old, "run_id": old.run_id}
    fleet._do(old, "heartbeat", -1, lambda: fleet_run.finish_fleet_run("shop"))
    assert old.states["heartbeat"] == "success"
    assert list(fleet.store["members"]["streaks"]) == ["users"]
    assert len(list_messages()) == 1
    records = fleet.world.broker.partitions["users"][1].records
    records[-1] = replace(records[-1], value={"id": "bad", "name": "fixed"})
    fleet.run("manual")
    assert list_messages()[1:] == ["users is well again"]


def test_person_s_run_tries_what_waits(fleet: Fleet) -> None:
    for _ in range(4):
        fleet.run()
    run = fleet.run("manual", pipelines=["users"])
    assert run.left["stage", 0, "error"]["error"] == "BadRecord"


def test_member_that_waits_is_tried_when_a_person_clears_its_red_task(fleet: Fleet) -> None:
    for _ in range(4):
        run = fleet.run()
    assert run.left["stage", 0, "error"]["error"] == "Waiting"
    fleet.world.broker.retain_from("users", 2, 1)
    run.try_number, run.clear_number = 2, 1
    fleet.flush(run, "users")
    assert fleet.world.read_rows("lake.shop.users") == [{"id": "k0", "name": "users"}]
    fleet.finish(run)
    assert run.states["heartbeat"] == "success"
    assert fleet.store["members"]["streaks"] == {}
    assert list_messages()[-1] == "users is well again"


def test_run_without_work_is_the_look_alone_until_a_heartbeat_is_due(fleet: Fleet) -> None:
    fleet.world.broker.retain_from("users", 2, 1)
    assert fleet.run().states["heartbeat"] == "success"
    idle = [fleet.run().states for _ in range(9)]
    assert all(states == {"plan": "skipped"} for states in idle)
    before = fleet.world.broker.groups["tidegate-carts"]
    fleet.world.broker.groups.clear()
    run = fleet.run()
    assert run.states == {"plan": "success", "clean_up": "success", "heartbeat": "success"}
    assert fleet.world.broker.groups["tidegate-carts"] == before


def test_member_that_cannot_be_planned_fails_as_its_own_task_and_goes_on_when_its_try_succeeds(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(*args: Any) -> Any:
        return [
            replace(column, plan=None, error=RetryLater("a hiccup")) for column in real(*args) if column.name == "carts"
        ]

    from tidegate.fleet import members as members_module

    real = members_module.look_at_members
    monkeypatch.setattr(members_module, "look_at_members", look)
    run = fleet.run()
    assert (run.states["stage_0"], run.states["merge_0"], run.states["heartbeat"]) == ("success", "success", "success")
    assert len(fleet.world.read_rows("lake.shop.carts")) == 2
    fleet.world.broker.create("carts", 2)  # made anew: the position is lost
    run = fleet.run()
    assert run.left["stage", 0, "error"]["error"] == "PositionLost"
    [failed] = fleet.store["members"]["streaks"]["carts"]["flush_failures"]["failed"]
    assert (failed["task"], failed["kind"]) == ("plan", "PositionLost"), "no Spark job: it is tried in every run"


def test_table_that_fails_leaves_the_other_tables_of_its_pipeline_to_go_on(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def merge(name: str, queue: Any, **options: Any) -> Any:
        if queue["table"] == "lake.shop.orders":
            with errors.raise_airflow_errors():
                raise AuditFailed("table=lake.shop.orders: an audit does not hold")
        return real(name, queue, **options)

    real = tasks.run_merge
    monkeypatch.setattr(tasks, "run_merge", merge)
    run = fleet.run("manual", pipelines=["orders", "carts"])
    assert run.states["merge_1"] == "failed"
    assert fleet.world.read_rows("lake.shop.orders") == []
    assert len(fleet.world.read_rows("lake.shop.orders_too")) == 2
    assert sorted(run.events) == ["lake.shop.carts", "lake.shop.carts_too", "lake.shop.orders_too"], "each once"
    error = run.left["merge", 1, "error"]
    assert (error["error"], error["tables"]) == ("AuditFailed", ["lake.shop.orders"])
    assert "pipeline=orders: merge failed: " in run.left["heartbeat", -1, "error"]["message"]


@pytest.mark.parametrize("kind", [ConfigurationError, RetryLater])
def test_member_that_cannot_be_opened_stops_no_other_s_catch_up_compaction_and_events(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, kind: type[TidegateError]
) -> None:
    """Twice: also in the run behind it, which the catch-up calls for."""
    from tidegate.flush import clean_up as clean_up_module

    def merge(name: str, queue: Any, **options: Any) -> Any:
        if queue["table"] == "lake.shop.orders":
            with errors.raise_airflow_errors():
                raise AuditFailed("table=lake.shop.orders: an audit does not hold")
        return real(name, queue, **options)

    real = tasks.run_merge
    monkeypatch.setattr(tasks, "run_merge", merge)
    monkeypatch.setattr(clean_up_module, "list_tables_to_compact", lambda _: ["a table"])
    fleet.unopened["wishes"] = kind("pipeline=wishes: connection=gone: there is none; make it")
    fleet.world.broker.retain_from("users", 2, 1)
    for number in range(4):
        fleet.world.broker.produce("carts", {"id": f"n{number}"}, {"id": f"n{number}", "name": "x"}, number % 2)
    first_run = fleet.run(max_records=1)
    assert first_run.events.count("lake.shop.orders_too") == 1, "of a merge that failed for another table"
    for run in (first_run, fleet.run(max_records=1)):
        assert run.states["clean_up"] == "success"
        assert "carts" in run.asked[0]["pipelines"]
        assert {"lake.shop.carts", "lake.shop.carts_too"} <= set(run.events)
        compacted = [entry["pipeline"] for entry in run.left["clean_up", -1, "return_value"]]
        assert "orders" in compacted, "of carts, which is behind, later"
        reason = run.left["heartbeat", -1, "error"]["message"]
        assert "pipeline=wishes: plan failed: pipeline=wishes: connection=gone: there is none; make it" in reason
        assert run.is_final["heartbeat"], "the next run does it again, and no try holds up the others"
    assert sum(message.startswith("wishes failed: ") for message in list_messages()) == 1


def produce_more(fleet: Fleet, *topics: str) -> None:
    for topic in topics:
        for number in range(2):
            key = f"{topic}{fleet.now:.0f}{number}"
            fleet.world.broker.produce(topic, {"id": key}, {"id": key, "name": topic}, number)


def test_one_long_batch_holds_up_no_other_member_and_is_begun_once(fleet: Fleet) -> None:
    """Its run stays for hours; the runs beside it leave the member out, twice, and its own run ends as if alone."""
    fleet.world.broker.retain_from("users", 2, 1)
    slow = fleet.begin()
    fleet.flush(slow, "orders", "users")  # the batch of carts is under way
    for number in (1, 2):
        produce_more(fleet, "carts", "orders")
        run = fleet.run()
        assert run.states["heartbeat"] == "success"
        look = run.left["plan", -1, "look"]
        assert ("carts" in look["looked"], look["at_work"]) == (False, ["carts"])
        assert "carts" not in look["attended"], "two that commit to one group find the offsets of each other"
        assert [entry["pipeline"] for entry in run.entries or []] == ["orders"]
        assert len(fleet.world.read_rows("lake.shop.orders")) == 2 + 2 * number
    assert fleet.world.read_rows("lake.shop.carts") == []
    fleet.finish(slow)
    assert slow.states["heartbeat"] == "success"
    assert len(fleet.world.read_rows("lake.shop.carts")) == 2, "what its plan had seen"
    assert fleet.run().left["plan", -1, "look"]["looked"] == sorted(NAMES)
    assert len(fleet.world.read_rows("lake.shop.carts")) == 6
    assert fleet.stages.count("carts") == 2


def test_member_at_work_is_neither_well_nor_failed_by_a_run_that_began_before_another_took_it_on(fleet: Fleet) -> None:
    """The old run ends last: what it knows of the member is old."""
    fleet.world.broker.retain_from("users", 2, 1)
    slow = fleet.begin()
    fleet.flush(slow, "orders", "users")
    fleet.world.broker.produce("users", {"id": "bad"}, BAD, 1)
    failed = fleet.run()
    assert failed.states["heartbeat"] == "failed"
    fleet.finish(slow)
    assert slow.states["heartbeat"] == "success"
    assert list(fleet.store["members"]["streaks"]) == ["users"], "the success of the slow run is older"
    assert [message.partition(":")[0] for message in list_messages()] == ["users failed"]


def test_failure_in_an_old_run_is_not_reported_behind_the_success_of_a_later_one(fleet: Fleet) -> None:
    slow = fleet.begin()
    fleet.flush(slow, "orders", "users")
    assert slow.states["stage_2"] == "failed", "the bad record"
    records = fleet.world.broker.partitions["users"][1].records
    records[-1] = replace(records[-1], value={"id": "bad", "name": "fixed"})
    assert fleet.run().states["heartbeat"] == "success"
    fleet.finish(slow)
    assert slow.states["heartbeat"] == "success"
    assert (fleet.store["members"]["streaks"], list_messages()) == ({}, [])


@pytest.mark.parametrize("task", ["clean_up", "compact"])
def test_member_that_is_tidied_up_or_compacted_is_not_flushed_beside_that(fleet: Fleet, task: str) -> None:
    """A rewrite beside flushes of its table nearly always loses against them."""
    fleet.world.broker.retain_from("users", 2, 1)
    first = fleet.run()
    first.left["clean_up", -1, "return_value"] = [{"pipeline": "orders", "tables": []}]
    first.states |= {"clean_up": ""} if task == "clean_up" else {"compact_0": "running"}
    produce_more(fleet, "carts", "orders")
    run = fleet.run()
    entries = [entry["pipeline"] for entry in run.entries or []]
    assert entries == ([] if task == "clean_up" else ["carts"])
    first.states |= {"clean_up": "success", "compact_0": "failed"}
    fleet.run()
    assert len(fleet.world.read_rows("lake.shop.orders")) == 4


def test_run_whose_record_is_gone_or_that_a_person_has_ended_keeps_no_member_out(fleet: Fleet) -> None:
    gone = fleet.begin()
    del fleet.runs[gone.run_id]
    ended = fleet.begin()
    assert [entry["pipeline"] for entry in ended.entries or []] == ["carts", "orders", "users"]
    ended.states = {"plan": "success", "merge": "skipped", "clean_up": "skipped", "compact": "skipped"}
    assert len(fleet.run().entries or []) == 3


def test_member_that_is_behind_catches_up_before_it_is_compacted(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run that is called for would leave out a member that is compacted, and nobody would call again."""
    from tidegate.flush import clean_up as clean_up_module

    monkeypatch.setattr(clean_up_module, "list_tables_to_compact", lambda _: ["a table"])
    produce_more(fleet, "carts")
    run = fleet.run("manual", pipelines=["carts", "wishes"], max_records=1)
    while run.asked:
        assert "carts" not in [entry["pipeline"] for entry in run.left["clean_up", -1, "return_value"]]
        run = fleet.run("asset_triggered", [{"asked": run.asked[0]}])
    assert "carts" in [entry["pipeline"] for entry in run.left["clean_up", -1, "return_value"]]
    assert len(fleet.world.read_rows("lake.shop.carts")) == 4


def test_heartbeat_that_fails_is_tried_again_after_a_minute_and_not_by_each_run(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each try waits for brokers that do not answer, and the heartbeats of the others wait behind it."""
    tried = list[str]()

    def beat(session: Session) -> Any:
        tried.append(session.pipeline.name)
        if session.pipeline.name == "wishes":
            raise RetryLater("the coordinator of group=tidegate-wishes does not answer")
        return real(session)

    real = fleet_run.heartbeat
    monkeypatch.setattr(fleet_run, "heartbeat", beat)
    fleet.world.broker.retain_from("users", 2, 1)
    fleet.run()
    for _ in range(2):
        fleet.now -= 50  # a run each ten seconds
        produce_more(fleet, "carts")
        fleet.run()
    assert tried.count("wishes") == 1
    assert [message.partition(":")[0] for message in list_messages()] == ["wishes failed"], (
        "not well by not being tried"
    )
    fleet.run()
    assert tried.count("wishes") == 2
    monkeypatch.setattr(fleet_run, "heartbeat", real)
    fleet.run()
    assert list_messages()[1:] == ["wishes is well again"]


def test_records_that_a_batch_leaves_behind_call_for_a_run_of_these_members_alone(fleet: Fleet) -> None:
    run = fleet.run("manual", pipelines=["carts", "wishes"], max_records=1)
    [flush_request] = run.asked
    assert (flush_request["pipelines"], flush_request["max_records"]) == (["carts"], 1)
    result = fleet.run("asset_triggered", [{"asked": flush_request}])
    assert result.left["plan", -1, "look"]["looked"] == ["carts"]
    assert result.asked == []
    backlog = {"payload": {"pipeline": "orders", "waiting": 9}, "from_trigger": True}
    assert fleet.run("asset_triggered", [backlog]).left["plan", -1, "look"]["looked"] == ["orders"]
    assert len(fleet.run("asset_triggered", [{}]).left["plan", -1, "look"]["looked"]) == 4, "somebody else's event"


def test_failure_of_one_member_keeps_no_other_from_its_next_run(fleet: Fleet) -> None:
    """Airflow drops the events of a task that fails, and heartbeat is red for whichever member failed."""
    for number in range(8):
        fleet.world.broker.produce("carts", {"id": f"n{number}"}, {"id": f"n{number}", "name": "x"}, number % 2)
    run = fleet.run("manual", max_records=1)
    assert run.states["heartbeat"] == "success"
    assert [flush_request["pipelines"] for flush_request in run.asked] == [["carts", "orders", "users"]]
    while run.states["heartbeat"] == "success":
        run = fleet.run("manual", max_records=1)
    assert "topic=users partition=1 offset=1" in run.left["heartbeat", -1, "error"]["message"]
    assert [flush_request["pipelines"] for flush_request in run.asked] == [["carts"]]


def test_member_that_is_late_is_red_and_goes_on_at_once(fleet: Fleet) -> None:
    fleet.pipelines["carts"] = replace(fleet.pipelines["carts"], freshness_target_seconds=60)
    fleet.world.clock.pause(90)
    run = fleet.run("manual", pipelines=["carts"], max_records=1)
    assert "freshness_target=60s: records wait" in run.left["heartbeat", -1, "error"]["message"]
    assert [flush_request["pipelines"] for flush_request in run.asked] == [["carts"]]


def test_refused_parameter_leaves_its_sentence_and_not_a_hint_at_the_log(fleet: Fleet) -> None:
    """The form's words are read within the plan's own translation of errors: the inner one has stored the reason."""
    run = fleet.begin("manual", pipline=["carts"])
    error = run.left["plan", -1, "error"]
    assert error["error"] == "ConfigurationError"
    assert error["message"].startswith("pipline: unknown parameter; there are: pipelines, max_records")


def test_dry_run_names_the_member_that_cannot_be_planned(fleet: Fleet) -> None:
    fleet.unopened["orders"] = ConfigurationError("connection=kafka_default: not found; make it")
    run = fleet.begin("manual", dry_run=True)
    planned = run.left["plan", -1, "planned"]
    assert planned.keys() == {"carts", "orders", "users"}
    assert planned["orders"] == {
        "error": "ConfigurationError",
        "message": "connection=kafka_default: not found; make it",
    }
    assert planned["carts"]["tables"]


def test_lateness_is_over_when_the_file_has_no_target_any_more(fleet: Fleet) -> None:
    fleet.pipelines["carts"] = replace(fleet.pipelines["carts"], freshness_target_seconds=60)
    fleet.world.clock.pause(90)
    fleet.run("manual", pipelines=["carts"], max_records=1)
    assert "freshness_failures" in fleet.store["members"]["streaks"]["carts"]
    fleet.pipelines["carts"] = replace(fleet.pipelines["carts"], freshness_target_seconds=None)
    fleet.run("manual", pipelines=["carts"])
    assert "carts" not in fleet.store["members"].get("streaks", {})
    assert list_messages()[-1] == "carts is well again"


@pytest.mark.parametrize("most", [1, 2, 3])
def test_members_that_no_run_has_room_for_take_turns_with_those_that_always_have_work(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(fleet_plan, "conf", SimpleNamespace(getint=lambda *_: most))
    fleet.world.broker.retain_from("users", 2, 1)
    for number in range(40):
        for topic in NAMES:
            fleet.world.broker.produce(topic, {"id": f"k{number}"}, {"id": f"k{number}", "name": topic}, number % 2)
    run = fleet.run("manual", max_records=2)
    for _ in range(11):
        run = fleet.run("asset_triggered", [{"asked": flush_request} for flush_request in run.asked])
    counts = [fleet.stages.count(name) for name in NAMES]
    assert sum(counts) == 12 * most
    assert max(counts) - min(counts) <= 1, "all are behind all the time, so each has its turn"


def test_compaction_of_more_members_than_airflow_maps_is_left_to_later_runs(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidegate.flush import clean_up as clean_up_module

    monkeypatch.setattr(clean_up_module, "list_tables_to_compact", lambda _: ["a table"])
    monkeypatch.setattr(fleet_run, "conf", SimpleNamespace(getint=lambda *_: 3), raising=False)
    run = fleet.run()
    due = run.left["clean_up", -1, "return_value"]
    assert [entry["pipeline"] for entry in due] == ["carts", "orders", "users"], "of four"


def test_dry_run_and_airflow_s_own_backfill_read_and_write_nothing(fleet: Fleet) -> None:
    run = fleet.run("manual", dry_run=True)
    assert run.states == {"plan": "skipped"}
    assert run.left["plan", -1, "planned"].keys() == {"carts", "orders", "users"}
    assert fleet.run("backfill").states == {"plan": "skipped"}
    assert fleet.world.destination.tables == {}


def test_member_keeps_its_own_interval_and_its_heartbeat(fleet: Fleet) -> None:
    hourly = replace(fleet.pipelines["orders"], merge=Merge(interval_seconds=600), heartbeat=Heartbeat(3600))
    fleet.pipelines["orders"] = hourly
    look_names = [fleet.run().left["plan", -1, "look"]["looked"] for _ in range(12)]
    assert [number for number, names in enumerate(look_names) if "orders" in names] == [0, 10]
    assert all("carts" in names for names in look_names)


def test_pipeline_whose_file_is_gone_is_forgotten(fleet: Fleet) -> None:
    fleet.run()
    assert "users" in fleet.store["members"]["streaks"]
    del fleet.pipelines["users"]
    (fleet.include / "pipelines" / "users.yaml").unlink()
    fleet.world.broker.produce("carts", {"id": "k9"}, {"id": "k9", "name": "x"})
    assert fleet.run().states["heartbeat"] == "success"
    assert fleet.store["members"]["streaks"] == {}
    assert set(fleet.store["members"]["beats"]) == {"carts", "orders", "wishes"}


@pytest.mark.parametrize(
    ("state", "message_text"),
    [
        ("failed", "tasks=plan failed in this run, and no pipeline was flushed; see its log"),
        ("success", "task=plan has left no result, and no pipeline was flushed: it was marked as success by hand, or "),
    ],
)
def test_failed_plan_is_told_to_everybody_once(fleet: Fleet, state: str, message_text: str) -> None:
    fleet.run("manual", pipelines=["wishes"])
    for number in range(3):
        fail_plan(fleet, f"broken{number}", state)
    [message] = list_messages()
    assert message.startswith(f" failed: {message_text}")


def fail_plan(fleet: Fleet, run_id: str, state: str) -> None:
    """A run whose plan ended in that state, and left nothing."""
    run = Run(run_id, "scheduled", states={"plan": state})
    fleet.context |= {"ti": run, "dag_run": run, "run_id": run.run_id}
    fleet._do(run, "heartbeat", -1, lambda: fleet_run.finish_fleet_run("shop"))
    assert run.states["heartbeat"] == "failed"
    for tell in build_failure_callbacks("fleet_shop", list(fleet.pipelines.values())):
        tell(fleet.context)


def test_plan_that_fails_again_after_it_was_well_is_told_again_and_each_recovery_once(fleet: Fleet) -> None:
    """What nobody forgets is an old failure: of the second night nobody would hear. All hear that it is over."""
    fleet.world.broker.retain_from("users", 2, 1)
    assert fleet.run().states["heartbeat"] == "success"
    for night in range(3):
        for number in range(2):
            fail_plan(fleet, f"night{night}_{number}", "failed")
        assert len(list_messages()) == 2 * night + 1
        for _ in range(2):
            fleet.world.broker.produce("carts", {"id": "k9"}, {"id": "k9", "name": str(night)})
            assert fleet.run().states["heartbeat"] == "success"
        assert list_messages()[2 * night + 1 :] == [" is well again"]
        assert fleet.store["members"]["streaks"] == {}


def test_run_tries_a_member_of_a_longer_interval_again_when_a_person_clears_it(fleet: Fleet) -> None:
    """The first try has noted when it looked; the member's own time comes a day later."""
    fleet.pipelines["users"] = replace(fleet.pipelines["users"], merge=Merge(interval_seconds=86400))
    run = fleet.run()
    assert fleet.run().entries is None, "users is not due"
    fleet.clear(run)
    assert (fleet.stages[-1], run.states["heartbeat"]) == ("users", "failed")
    fleet.world.broker.retain_from("users", 2, 1)
    fleet.clear(run)
    assert run.states["heartbeat"] == "success"
    assert fleet.world.read_rows("lake.shop.users") == [{"id": "k0", "name": "users"}]
    assert fleet.store["members"]["streaks"] == {}
    assert fleet.run().entries is None, "nor is it now"


def test_plan_whose_result_was_lost_takes_the_same_members_on(fleet: Fleet) -> None:
    fleet.pipelines["users"] = replace(fleet.pipelines["users"], merge=Merge(cron="* * * * *"))
    run = fleet.begin()
    names = [entry["pipeline"] for entry in run.entries or []]
    run.try_number = 2
    fleet.plan(run)
    assert [entry["pipeline"] for entry in run.entries or []] == names == ["carts", "orders", "users"]


def test_failed_task_that_is_cleared_in_an_old_run_tells_of_no_other_member(fleet: Fleet) -> None:
    """The others have failed in that run too, and are well since."""
    records = {topic: fleet.world.broker.partitions[topic][1].records for topic in ("carts", "users")}
    fleet.world.broker.produce("carts", {"id": "bad"}, BAD, 1)
    old = fleet.run()
    records["carts"][-1] = replace(records["carts"][-1], value={"id": "bad", "name": "fixed"})
    assert fleet.run("manual").states["heartbeat"] == "failed", "users"
    told = [message.partition(":")[0] for message in list_messages()]
    assert told == ["carts failed", "users failed", "carts is well again"]
    old.clear_number, old.try_number = 1, 2
    fleet.flush_again(old, "users")
    assert old.states["heartbeat"] == "failed", "of users, by a person's try"
    assert "pipeline=carts" not in old.left["heartbeat", -1, "error"]["message"]
    assert (len(list_messages()), list(fleet.store["members"]["streaks"])) == (3, ["users"])
    records["users"][-1] = replace(records["users"][-1], value={"id": "bad", "name": "fixed"})
    fleet.flush_again(old, "users")
    assert old.states["heartbeat"] == "success"
    assert (list_messages()[3:], fleet.store["members"]["streaks"]) == (["users is well again"], {})
