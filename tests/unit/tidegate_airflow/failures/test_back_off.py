"""A pipeline that stands still through a night: how often it tries, whom it tells, and how soon it goes on."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import BAD, World, build_pipeline, build_table
from tidegate.errors import AuditFailed, RetryLater
from tidegate.jobs.stage_job import StageJob
from tidegate.monitoring.failure_streak import digest_work_inputs
from tidegate.ports.session import Session
from tidegate.spec.pipeline import Notifier, Pipeline

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Airflow's own, while it is imported
    from airflow.sdk.exceptions import AirflowException, AirflowSkipException
    from fakes.notifier import KeepingNotifier
    from tidegate_airflow import errors, tasks
    from tidegate_airflow.dags import flush_run
    from tidegate_airflow.failures import keeper
    from tidegate_airflow.failures.notifiers import build_failure_callbacks
    from tidegate_airflow.operators import step

TABLE, TOPIC = "lake.shop.orders", "orders"
FAILED = Notifier("fakes.notifier.KeepingNotifier", {"text": "failed: {{ failure.reason }}"})
RECOVERED = Notifier("fakes.notifier.KeepingNotifier", {"text": "well again after {{ failure.runs }} runs"})
PIPELINE = replace(build_pipeline(build_table(TABLE, topics=(TOPIC,))), on_failure=(FAILED,), on_recovery=(RECOVERED,))
BEGIN = 1_800_000_000.0


class Store(dict[str, Any]):
    """Airflow's store of one asset's state."""

    def set(self, key: str, value: Any) -> None:
        self[key] = value

    def delete(self, key: str) -> None:
        self.pop(key, None)


@dataclass
class Run:
    """One run of the DAG: its tasks' states, and what they leave for each other."""

    run_id: str
    run_type: str = "scheduled"
    dag_id: str = "tidegate_shop"
    states: dict[str, str] = field(default_factory=dict)
    left: dict[tuple[str, str], Any] = field(default_factory=dict)
    task: str = ""
    try_number: int = 1
    clear_number: int = 0

    def xcom_push(self, key: str, value: Any) -> None:
        self.left[self.task, key] = value

    def xcom_pull(self, task_ids: str, key: str = "return_value", map_indexes: int | None = None) -> Any:
        if map_indexes == -1:
            return self.left.get((task_ids, key))
        if map_indexes is None:
            return self.left.get((task_ids, key), [])  # as Airflow answers where there is none
        return self.left.get((f"{task_ids}_{map_indexes}", key))

    def get_task_states(self, dag_id: str, run_ids: list[str]) -> dict[str, dict[str, str]]:
        return {run: {**self.states, "heartbeat": "running"} for run in run_ids}


class Night:
    """The scheduler: a run each minute. Counts what costs a Spark job, keeps who was told of what."""

    def __init__(
        self, world: World, include: Path, monkeypatch: pytest.MonkeyPatch, pipeline: Pipeline = PIPELINE
    ) -> None:
        self.world, self.include, self.now, self.store = world, include, BEGIN, Store()
        self.stage_tries, self.merge_tries, self.reasons = 0, 0, list[str]()
        self.context: Any = {}
        self.pipeline = pipeline

        def session(name: str, engine: Any = None, watcher: Any = None) -> Session:
            return world.open_session(pipeline)

        def read_inputs(name: str, tables: Any) -> str:
            return digest_work_inputs(world.open_session(pipeline), include, tables)

        monkeypatch.setattr(tasks, "assemble_session", session)
        monkeypatch.setattr(tasks, "run_measure", lambda name: {})
        monkeypatch.setattr(tasks, "read_pipeline", lambda name: pipeline)
        monkeypatch.setattr(tasks, "read_inputs", read_inputs)
        for module in (flush_run, keeper):
            monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: self.now))
        for module in (flush_run, errors):
            monkeypatch.setattr(module, "get_current_context", lambda: self.context)

    def run(self, run_type: str = "scheduled", try_number: int = 1, clear_number: int = 0) -> Run:
        """One run, a minute later, as Airflow runs the tasks."""
        self.now += 60
        run = Run(f"r{self.now:.0f}", run_type, try_number=try_number, clear_number=clear_number)
        self.context = {"ti": run, "dag_run": run, "asset_state_store": SimpleStores(self.store), "run_id": run.run_id}
        self.context["params"] = {"max_records": None, "until_current": True, "dry_run": False}
        planned = self._do(run, "plan", lambda: flush_run.plan_as_requested("shop"))
        staged = planned and self._do(run, "stage", lambda: self._stage(planned))
        for index, queue in enumerate(staged or []):
            merge = f"merge_{index}" if self.pipeline.has_several else "merge"
            self.merge_tries += 1
            self._do(run, merge, partial(tasks.run_merge, "shop", queue))
        self._do(run, "heartbeat", lambda: flush_run.finish_run("shop"))
        if run.states["heartbeat"] == "failed":
            for tell in build_failure_callbacks("shop", [self.pipeline]):
                tell(self.context)
        return run

    def clear(self, run: Run, task: str, work: Callable[[], Any]) -> None:
        """A person clears the last task of a run alone, and it runs once more."""
        self.now += 60
        run.clear_number += 1
        self.context |= {"ti": run, "dag_run": run, "run_id": run.run_id}
        self._do(run, task, work)

    def fail_in_passing(self, *_: Any) -> None:
        raise RetryLater(f"broker=b1:9092 does not answer after {self.now} s; it is tried again")

    def _stage(self, planned: Any) -> Any:
        self.stage_tries += 1
        return step.run_stage_step(self.context, "shop", planned, {})

    def _do(self, run: Run, task: str, work: Callable[[], Any]) -> Any:
        run.task = task
        try:
            result = work()
        except AirflowSkipException as skip:
            run.states[task] = "skipped"
            self.reasons.append(str(skip))
        except AirflowException:
            run.states[task] = "failed"
        else:
            run.states[task] = "success"
            run.left[task, "return_value"] = result
            return result
        return None


class SimpleStores:
    """The stores by asset: the run's tasks have one."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def __getitem__(self, asset: Any) -> Store:
        assert asset.name == "tidegate_shop_backlog"
        return self.store


@pytest.fixture
def night(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Night:
    """Two partitions, one good record and a bad one."""
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "shop.yaml").write_text("tables: []")
    world = World()
    world.broker.create(TOPIC, 2)
    world.broker.produce(TOPIC, {"id": "a"}, {"id": "a", "name": "good"})
    world.broker.produce(TOPIC, {"id": "b"}, BAD, 1)
    KeepingNotifier.notifications.clear()
    return Night(world, tmp_path, monkeypatch)


def list_messages() -> list[str]:
    return [text for text, _ in KeepingNotifier.notifications]


def test_night_of_failed_runs_tries_a_few_times_and_tells_once(night: Night) -> None:
    runs = [night.run() for _ in range(480)]
    assert all(run.states["heartbeat"] == "failed" for run in runs)
    assert 15 <= night.stage_tries <= 22, night.stage_tries
    (message,) = list_messages()
    assert "topic=orders partition=1 offset=0" in message
    assert "the same failure in" in runs[-1].left["plan", "error"]["message"]
    assert "topic=orders partition=1 offset=0" in runs[-1].left["plan", "error"]["message"]
    assert runs[-1].left["plan", "error"]["tasks"] == ["stage"]  # what must succeed before the page says it is over


def test_pauses_double_and_a_run_by_hand_tries_at_once(night: Night) -> None:
    try_minutes = []
    for minute in range(40):
        before = night.stage_tries
        night.run()
        try_minutes += [minute] if night.stage_tries > before else []
    assert try_minutes == [0, 1, 2, 4, 8, 16, 32]
    for hand in ({"run_type": "manual"}, {"run_type": "operator_triggered"}, {"try_number": 2}):
        before = night.stage_tries
        night.run(**hand)
        assert night.stage_tries == before + 1
    assert len(list_messages()) == 1


def test_backfill_of_airflows_own_reads_nothing_and_names_the_dag_that_applies_offsets_again(night: Night) -> None:
    night.world.broker.retain_from(TOPIC, 1, 1)
    run = night.run("backfill")
    assert run.states == {"plan": "skipped", "heartbeat": "success"}
    assert night.world.read_rows(TABLE) == []
    assert "tidegate_shop_backfill" in night.reasons[-1]
    assert night.run().states["merge"] == "success"
    assert night.world.read_rows(TABLE) == [{"id": "a", "name": "good"}]


def test_change_of_a_file_is_tried_at_once_and_that_of_another_pipeline_is_not(night: Night) -> None:
    for _ in range(20):
        night.run()
    before = night.stage_tries
    (night.include / "pipelines" / "other.yaml").write_text("tables: [1]")
    assert night.run().states["plan"] == "failed"
    assert night.stage_tries == before
    (night.include / "pipelines" / "shop.yaml").write_text("tables: [2]")
    night.run()
    assert night.stage_tries == before + 1
    (night.include / "catalogs.yaml").write_text("lake: {}")
    night.run()
    assert night.stage_tries == before + 2


def test_new_reason_is_told_and_the_recovery_once(night: Night) -> None:
    broker = night.world.broker
    for _ in range(5):
        night.run()
    broker.retain_from(TOPIC, 1, 1)
    broker.produce(TOPIC, {"id": "c"}, BAD, 0)
    for run_type in ("manual", "scheduled", "manual"):
        assert night.run(run_type).states["heartbeat"] == "failed"
    first, second = list_messages()
    assert "partition=1 offset=0" in first
    assert "partition=0 offset=1" in second
    broker.retain_from(TOPIC, 2, 0)
    broker.produce(TOPIC, {"id": "d"}, {"id": "d", "name": "good"}, 1)
    for run_type in ("manual", "scheduled", "scheduled"):
        assert night.run(run_type).states["heartbeat"] == "success"
    assert list_messages() == [first, second, "well again after 3 runs"]
    assert night.world.read_rows(TABLE) == [{"id": "d", "name": "good"}]
    assert night.store == {}


def test_failure_in_passing_is_tried_by_every_run_and_told_once(night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    night.world.broker.retain_from(TOPIC, 1, 1)
    with monkeypatch.context() as patch:
        patch.setattr(night.world.engine, "run", night.fail_in_passing)
        for _ in range(30):
            assert night.run().states["heartbeat"] == "failed"
    assert night.stage_tries == 30
    assert len(list_messages()) == 1
    assert night.run().states["heartbeat"] == "success"
    assert list_messages()[1:] == ["well again after 30 runs"]


def test_store_that_does_not_answer_costs_no_flush_and_hides_no_failure(night: Night) -> None:
    for method in ("get", "set", "delete"):
        setattr(night.store, method, None)
    for _ in range(3):
        assert night.run().states["heartbeat"] == "failed"
    assert (night.stage_tries, len(list_messages())) == (3, 3)
    night.world.broker.retain_from(TOPIC, 1, 1)
    assert night.run().states["heartbeat"] == "success"
    assert night.world.read_rows(TABLE) == [{"id": "a", "name": "good"}]


def test_file_that_cannot_be_read_costs_no_flush(night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str, tables: Any) -> str:
        raise PermissionError(13, "a file of include")

    night.run()
    monkeypatch.setattr(tasks, "read_inputs", refuse)
    night.world.broker.retain_from(TOPIC, 1, 1)
    assert night.run().states["merge"] == "success"
    assert night.world.read_rows(TABLE) == [{"id": "a", "name": "good"}]


def test_run_that_leaves_the_work_to_a_later_one_is_no_recovery(night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    night.run("manual")
    assert night.run("backfill").states == {"plan": "skipped", "heartbeat": "success"}
    with monkeypatch.context() as patch:
        patch.setattr(flush_run, "compute_min_records", lambda pipeline, context: 1000)
        assert night.run().states == {"plan": "skipped", "heartbeat": "success"}
    night.run("manual")
    assert len(list_messages()) == 1
    night.world.broker.retain_from(TOPIC, 1, 1)
    night.run()
    assert list_messages()[1:] == ["well again after 2 runs"]


def fix_last(world: World, topic: str) -> None:
    """As if the schema had been corrected: the newest record of partition 1 can be read."""
    records = world.broker.partitions[topic][1].records
    records[-1] = replace(records[-1], value={**records[-1].key, "name": "fixed"})


def test_heartbeat_that_is_cleared_alone_in_an_old_run_is_no_recovery(night: Night) -> None:
    produce, heartbeat = night.world.broker.produce, lambda: flush_run.finish_run("shop")
    night.world.broker.retain_from(TOPIC, 1, 1)
    old = night.run()
    produce(TOPIC, {"id": "c"}, BAD, 1)
    behind = [night.run("manual") for _ in range(4)]
    night.clear(old, "heartbeat", heartbeat)
    assert old.states["heartbeat"] == "success"
    assert night.run().states["plan"] == "failed", "it waits as before"
    assert len(list_messages()) == 1
    fix_last(night.world, TOPIC)
    result = night.run("manual", clear_number=1)
    assert result.states["heartbeat"] == "success", "all of it was cleared, so it has looked again"
    assert list_messages()[1:] == ["well again after 4 runs"]
    produce(TOPIC, {"id": "d"}, BAD, 1)
    failed = night.run()
    for run in (result, *behind):
        run.states |= dict.fromkeys(run.states, "success")
        night.clear(run, "heartbeat", heartbeat)
        assert run.states["heartbeat"] == "success"
    assert "flush_failures" in night.store["members"]["streaks"]["shop"]
    failed.states |= dict.fromkeys(failed.states, "success")  # its stage was cleared, with what follows
    night.clear(failed, "heartbeat", heartbeat)
    assert night.store == {}


def test_freshness_that_is_cleared_alone_in_an_old_run_is_no_recovery(night: Night) -> None:
    def look(run: Run, measured_at: float | None, behind: float) -> None:
        night.now += 60
        stores = SimpleStores(night.store)
        night.context = {"ti": run, "dag_run": run, "asset_state_store": stores, "run_id": run.run_id}
        heard = {"measures": {"behind": behind}, "measured_at": measured_at}
        night._do(run, "freshness", lambda: flush_run.check_freshness(heard, "shop", 60))

    old, late, now = (Run(f"r{number}") for number in range(3))
    look(old, begun := night.now, 10)
    look(late, night.now, 90)
    old.clear_number = 1
    look(old, begun, 10)
    assert "freshness_failures" in night.store["members"]["streaks"]["shop"]
    look(now, night.now, 10)
    assert (night.store, list_messages()) == ({}, ["well again after 1 runs"])


def test_recovery_is_told_also_after_a_first_try_that_failed_for_another_reason(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    night.run()
    night.world.broker.retain_from(TOPIC, 1, 1)
    with monkeypatch.context() as patch:
        patch.setattr(night.world.engine, "run", night.fail_in_passing)
        run = night.run()
    night.context["ti"].states["merge"] = night.context["ti"].states["stage"] = "success"
    run.task = "heartbeat"
    flush_run.finish_run("shop")
    assert list_messages()[-1] == "well again after 1 runs"


def test_records_that_wait_too_long_are_told_once_and_when_they_have_come_in(night: Night) -> None:
    for minute, behind in enumerate([10, 90, 150, 210, 20, 10]):
        run = Run(f"r{minute}", task="freshness")
        stores = SimpleStores(night.store)
        night.context = {"ti": run, "dag_run": run, "asset_state_store": stores, "run_id": run.run_id}
        late = behind > 60
        try:
            flush_run.check_freshness({"measures": {"behind": float(behind)}}, "shop", 60)
        except AirflowException:
            assert late
            for tell in build_failure_callbacks("shop", [PIPELINE]):
                tell(night.context)
        else:
            assert not late
    first, second = list_messages()
    assert "behind=90s, freshness_target=60s" in first
    assert second == "well again after 3 runs"


LEFT, RIGHT = "lake.shop.left", "lake.shop.right"
TWO = replace(
    build_pipeline(build_table(LEFT, topics=("left",)), build_table(RIGHT, topics=("right",))),
    on_failure=(FAILED,),
    on_recovery=(RECOVERED,),
)


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Night:
    """Two tables of a topic each with two partitions; the left one has a bad record."""
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "shop.yaml").write_text("tables: []")
    world = World()
    for topic in ("left", "right"):
        world.broker.create(topic, 2)
        world.broker.produce(topic, {"id": f"{topic}0"}, {"id": f"{topic}0", "name": "x"})
    world.broker.produce("left", {"id": "bad"}, BAD, 1)
    KeepingNotifier.notifications.clear()
    return Night(world, tmp_path, monkeypatch, TWO)


def produce_right(night: Night, number: int) -> None:
    night.world.broker.produce("right", {"id": f"r{number}"}, {"id": f"r{number}", "name": "x"}, number % 2)


def test_table_that_no_try_fixes_waits_while_the_other_goes_on(two: Night) -> None:
    for number in range(120):
        produce_right(two, number)
        run = two.run()
        assert run.states["heartbeat"] == "failed", "a table stands still, and that is seen"
        assert len(two.world.read_rows(RIGHT)) == number + 2, "the other one is held up by nothing"
    staged = [[table.intermediate for table in job.tables] for job in two.world.engine.jobs if type(job) is StageJob]
    with_left = [names for names in staged if f"{LEFT}_shop_tmp" in names]
    assert len(staged) >= 120
    assert 8 <= len(with_left) <= 12, "tried at 0, 1, 2, 4, 8, 16, 32 and then each half hour"
    (message,) = list_messages()
    assert "topic=left partition=1 offset=0" in message
    (refusal,) = run.left["plan", "return_value"]["refused"]
    assert (refusal["table"], refusal["kind"]) == (LEFT, "Waiting")
    assert "topic=left partition=1 offset=0" in refusal["message"]


def test_run_costs_nothing_where_only_tables_that_wait_have_work(two: Night) -> None:
    for _ in range(120):
        assert two.run().states["heartbeat"] == "failed"
    assert 8 <= two.stage_tries <= 12
    assert two.world.read_rows(RIGHT) == [{"id": "right0", "name": "x"}]
    assert len(list_messages()) == 1


def test_table_is_tried_at_once_when_its_file_changes_and_not_when_another_table_does(two: Night) -> None:
    for number in range(20):
        produce_right(two, number)
        two.run()
    two.world.broker.retain_from("left", 1, 1)
    produce_right(two, 20)
    assert two.run().left["plan", "return_value"]["refused"], "the other table's rows are no change of this one"
    (two.include / "pipelines" / "shop.yaml").write_text("tables: [2]")
    assert two.run().states["heartbeat"] == "success"
    assert two.world.read_rows(LEFT) == [{"id": "left0", "name": "x"}]
    assert two.store == {}
    (failed, recovered) = list_messages()
    assert "topic=left" in failed
    assert recovered.startswith("well again after")


def test_other_table_that_fails_meanwhile_is_told_too_and_both_wait(two: Night) -> None:
    for _ in range(10):
        two.run()
    two.world.broker.produce("right", {"id": "bad"}, BAD, 1)
    tries = two.stage_tries
    for _ in range(60):
        two.run()
    assert two.stage_tries - tries <= 9
    first, second = list_messages()
    assert "topic=left" in first
    assert "topic=right" not in first
    assert "topic=left" in second
    assert "topic=right partition=1 offset=0" in second


def test_table_whose_merge_no_try_fixes_is_waited_for_while_nobody_else_has_work(
    two: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    two.world.broker.retain_from("left", 1, 1)
    merge = tasks.run_merge

    def refuse_left(name: str, queue: Any) -> Any:
        if queue["table"] == LEFT:
            with errors.raise_airflow_errors():
                raise AuditFailed(f"table={LEFT}: audit id > 0 does not hold; nothing was published")
        return merge(name, queue)

    monkeypatch.setattr(tasks, "run_merge", refuse_left)
    for _ in range(60):
        assert two.run().states["heartbeat"] == "failed"
    assert two.merge_tries <= 10
    before = two.merge_tries
    produce_right(two, 1)
    two.run()
    assert len(two.world.read_rows(RIGHT)) == 2
    assert two.merge_tries == before + 2, "what is staged for it is tried with the other's"
    assert len(list_messages()) == 1


def test_failure_in_passing_of_one_table_makes_no_run_wait(two: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    two.world.broker.retain_from("left", 1, 1)
    with monkeypatch.context() as patch:
        patch.setattr(two.world.engine, "run", two.fail_in_passing)
        for _ in range(30):
            assert two.run().states["heartbeat"] == "failed"
    assert two.stage_tries == 30
    assert two.run().states["heartbeat"] == "success"
