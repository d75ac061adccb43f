"""Runs of the two DAGs of a pipeline that stages on a clock of its own, task by task, over a world in memory."""

import json
import warnings
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import BAD, FailsToMerge, World, build_pipeline, build_table
from tidegate.flush.flush import stage_new_batches
from tidegate.monitoring.failure_streak import Failure, extend_streak
from tidegate.schema.data_types import Column
from tidegate.spec.pipeline import Merge, Pipeline, Stage
from tidegate.spec.source import Start, StartKind

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Airflow's own, while it is imported
    from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
    from tidegate_airflow import errors, tasks
    from tidegate_airflow.dags import flush_run
    from tidegate_airflow.failures.keeper import FLUSH_KEY, read_memory
    from tidegate_airflow.operators import step

ORDERS, COPY = "lake.shop.Orders", "lake.shop.copy"
TWO = build_pipeline(build_table(ORDERS), build_table(COPY, topics=("orders", "copies")), stage=Stage(10))


class Results:
    """What the tasks of a run leave for each other, as a task instance shows it; and the states of the tasks."""

    def __init__(self, states: dict[str, str]) -> None:
        self.left: dict[tuple[str, str], Any] = {}
        self.states, self.task, self.try_number = states, "plan", 1

    def xcom_push(self, key: str, value: Any) -> None:
        self.left[self.task, key] = value

    def xcom_pull(self, task_ids: str, key: str = "return_value", map_indexes: int = -1) -> Any:
        return self.left.get((task_ids, key))

    def get_task_states(self, dag_id: str, run_ids: list[str]) -> dict[str, dict[str, str]]:
        return dict.fromkeys(run_ids, self.states)


class Store(dict[str, Any]):
    """Airflow's store of an asset's state."""

    def delete(self, key: str) -> None:
        self.pop(key, None)

    def set(self, key: str, value: Any) -> None:
        self[key] = value


class Airflow:
    """The DAGs' tasks over one world; `events` are the aliases that a run has called for a next one, with what for."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch, pipeline: Pipeline = TWO) -> None:
        self.world, self.pipeline, self.engine = world, pipeline, world.engine
        self.events, self.stores, self.patch = list[tuple[str, Any]](), dict[str, Store](), monkeypatch
        monkeypatch.setattr(
            tasks, "assemble_session", lambda *_: self.world.open_session(self.pipeline, engine=self.engine)
        )
        monkeypatch.setattr(tasks, "run_measure", lambda name: {})
        monkeypatch.setattr(tasks, "read_pipeline", lambda name: self.pipeline)
        monkeypatch.setattr(flush_run, "read_inputs", lambda *_: "as it was", raising=False)
        monkeypatch.setattr(tasks, "read_inputs", lambda *_: "as it was")
        for module in (flush_run, errors):
            monkeypatch.setattr(module, "get_current_context", lambda: self.context)

    def begin_run(self, run_type: str, states: dict[str, str], **params: Any) -> Results:
        results = Results(states)
        run = SimpleNamespace(dag_id="d", run_id="r", clear_number=0, run_type=run_type, conf={})
        self.context: Any = {
            "ti": results, "dag_run": run, "params": params, "triggering_asset_events": {},
            "asset_state_store": Everything(lambda asset: self.stores.setdefault(asset.name, Store())),
            "outlet_events": Everything(lambda alias: SimpleNamespace(add=self._add_event(alias))),
        }  # fmt: skip
        return results

    def _add_event(self, alias: Any) -> Any:
        return lambda asset, extra=None: self.events.append((alias.name, extra))

    def run_stage(self, run_type: str = "scheduled", states: dict[str, str] | None = None, **params: Any) -> Results:
        """The DAG of staging, to its last task."""
        words = {"max_records": None, "until_current": True, "dry_run": False, **params}
        results = self.begin_run(run_type, states or {"plan": "success", "stage": "success"}, **words)
        planned = results.left["plan", "return_value"] = flush_run.plan_staging("shop")
        results.task = "stage"
        results.left["stage", "return_value"] = step.run_stage_ahead_step(self.context, "shop", planned, {})
        results.task = "finish"
        flush_run.finish_staging("shop")
        return results

    def run_merges(self, run_type: str = "scheduled") -> Results:
        """The DAG of merges, to its last task; what fails is the run's."""
        results = self.begin_run(run_type, {"plan": "success"}, dry_run=False)
        queues = results.left["plan", "return_value"] = flush_run.plan_merges("shop")
        for number, queue in enumerate(queues):
            results.task = "merge"
            try:
                step.run_merge_step(self.context, "shop", queue, {})
                results.states[f"merge_{number}"] = "success"
            except AirflowException as problem:
                results.left["merge", "error"] = {"error": type(problem).__name__, "message": str(problem)}
                results.states[f"merge_{number}"] = "failed"
        tasks.run_commit_offsets("shop")
        tasks.run_clean_up("shop")
        results.task = "heartbeat"
        flush_run.finish_run("shop")
        return results


class Everything(dict[Any, Any]):
    """A mapping that makes what is asked for."""

    def __init__(self, make: Any) -> None:
        super().__init__()
        self._make = make

    def __getitem__(self, key: Any) -> Any:
        return self._make(key)


@pytest.fixture
def world() -> World:
    world = World()
    for topic in ("orders", "copies"):
        world.broker.create(topic, 2)
    return world


def produce(world: World, name: str, *keys: str) -> None:
    for key in keys:
        world.broker.produce("orders", {"id": key}, {"id": key, "name": name}, ord(key) % 2)


def read_pairs(world: World, table: str) -> list[tuple[str, str]]:
    return [(row["id"], row["name"]) for row in world.read_rows(table)]


def test_runs_of_both_dags_bring_rows_in_and_merges_alone_commit(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    airflow = Airflow(world, monkeypatch)
    for name in ("1", "2"):
        produce(world, name, "a", "b")
        staged = airflow.run_stage().xcom_pull("stage")
        assert [(batch["table"], batch["counts"]["staged"]) for batch in staged] == [(ORDERS, 2), (COPY, 2)]
        assert world.broker.groups == {}
    airflow.run_merges()
    assert read_pairs(world, ORDERS) == read_pairs(world, COPY) == [("a", "2"), ("b", "2")]
    assert world.broker.groups["tidegate-shop"]["orders"] == {0: 2, 1: 2}
    assert [name for name, _ in airflow.events if "backlog" in name] == []
    with pytest.raises(AirflowSkipException, match="no staged batch waits for a merge"):
        airflow.run_merges()
    with pytest.raises(AirflowSkipException, match="every table stands at the end of the log"):
        airflow.run_stage()


def test_stage_that_is_cleared_long_after_its_plan_leaves_what_waits(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its plan was never staged, so later runs gave its number to other batches; Kafka has their records no more."""
    airflow = Airflow(world, monkeypatch)
    produce(world, "1", "a")
    airflow.begin_run("scheduled", {"plan": "success"}, max_records=None, until_current=True, dry_run=False)
    old_plan = flush_run.plan_staging("shop")
    for key in ("b", "c"):
        produce(world, "1", key)
        airflow.run_stage()
    for partition, log in enumerate(world.broker.partitions["orders"]):
        world.broker.retain_from("orders", log.end, partition)
    assert step.run_stage_ahead_step(airflow.context, "shop", old_plan, {}) == []
    airflow.run_merges()
    assert read_pairs(world, ORDERS) == read_pairs(world, COPY) == [("a", "1"), ("b", "1"), ("c", "1")]


def test_results_of_tasks_are_as_short_for_a_long_queue_as_for_a_short_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow keeps each in its database: the first and the last batch are handed over, and the rest is read again."""
    pipeline = replace(TWO, tables=tuple(replace(table, max_pending=1000) for table in TWO.tables))
    airflow = Airflow(world, monkeypatch, pipeline)
    produce(world, "0", "a", "b")
    airflow.run_stage()
    airflow.run_merges()
    sizes = []
    for waiting in (3, 60):
        before = [len(world.destination.tables[table].snapshots) for table in (ORDERS, COPY)]
        for n in range(1, waiting + 1):
            produce(world, str(n), "a", "b")
            stage_new_batches(world.open_session(pipeline))
        results = airflow.run_merges()
        sizes.append(max(len(json.dumps(result)) for result in results.left.values()))
        assert [len(world.destination.tables[table].snapshots) for table in (ORDERS, COPY)] == [n + 1 for n in before]
        assert read_pairs(world, ORDERS) == read_pairs(world, COPY) == [("a", str(waiting)), ("b", str(waiting))]
    (history,) = world.destination.control.values()
    assert len(history) == 2 * (1 + 3 + 60), "each batch has a row"
    assert sizes[1] < 1.1 * sizes[0] < 10_000


def test_enough_staged_rows_call_for_the_merge_and_records_left_for_the_next_staging(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = replace(TWO, merge=Merge(interval_seconds=-1, records_threshold=3))
    airflow = Airflow(world, monkeypatch, pipeline)
    produce(world, "1", "a", "b", "c", "d")
    airflow.run_stage(max_records=2)
    assert [(name, extra["asked"].get("max_records")) for name, extra in airflow.events] == [
        ("tidegate_shop_stage_backlog", 2)
    ]
    with pytest.raises(AirflowSkipException, match="staged=2 records_threshold=3: fewer than start a merge"):
        airflow.run_merges()
    airflow.events.clear()
    airflow.run_stage()
    assert [name for name, _ in airflow.events] == ["tidegate_shop_backlog"]
    airflow.run_merges("asset_triggered")
    assert len(read_pairs(world, ORDERS)) == 4


def test_merge_that_staging_calls_for_is_that_of_the_fleet_and_its_failures_are_the_fleet_s(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    merge = Merge(interval_seconds=-1, records_threshold=1)
    airflow = Airflow(world, monkeypatch, replace(TWO, merge=merge, fleet="harbour"))
    failure = {"flush_failures": extend_streak(None, Failure("x", "no"), "r", 1_000.0).to_dict()}
    calls = []
    for name in ("shop", "fleet_harbour"):
        airflow.stores[f"tidegate_{name}_backlog"] = Store(members={"streaks": {"shop": failure}})
        monkeypatch.setattr(step.time, "time", lambda: 1_010.0)
        airflow.events.clear()
        produce(world, name, "a")
        airflow.run_stage()
        calls.append(list(airflow.events))
    assert calls == [[("tidegate_fleet_harbour_backlog", {"asked": {"pipelines": ["shop"]}})], []]


def test_batch_that_waits_for_a_merge_calls_for_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rows wait, too few for the threshold, and the next batch has a new field."""
    table = build_table(ORDERS, columns=None, key_columns=(Column("id", "STRING"),), unknown_fields="add")
    merge = Merge(interval_seconds=-1, records_threshold=5)
    airflow = Airflow(world, monkeypatch, replace(TWO, tables=(table,), merge=merge))
    produce(world, "1", "a", "b")
    airflow.run_stage()
    assert airflow.events == []
    for _ in range(2):
        world.broker.produce("orders", {"id": "a"}, {"id": "a", "Open": True}, 0)
    airflow.run_stage(max_records=1)
    assert [name for name, _ in airflow.events] == ["tidegate_shop_backlog"], "and no other run of staging at once"
    airflow.run_merges("asset_triggered")
    airflow.run_stage()
    airflow.run_merges("asset_triggered")
    assert {row["id"]: row.get("Open") for row in world.read_rows(ORDERS)} == {"a": True, "b": None}


def test_merge_that_failed_is_called_for_again_behind_a_pause(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each staging finds enough rows; else each made a run that fails."""
    airflow = Airflow(world, monkeypatch, replace(TWO, merge=Merge(interval_seconds=-1, records_threshold=1)))
    produce(world, "1", "a")
    airflow.run_stage()
    airflow.engine = FailsToMerge(world.engine, COPY)
    with pytest.raises(AirflowException, match="tasks=merge_1 failed"):
        airflow.run_merges("asset_triggered")
    failed_at = read_memory("shop", airflow.context).streaks.get("shop", FLUSH_KEY).failed_at
    called = []
    for seconds in (-86_400, 0, 59, 60):
        airflow.events.clear()
        produce(world, str(seconds), "b")
        monkeypatch.setattr(step.time, "time", lambda seconds=seconds: failed_at + seconds)
        airflow.run_stage()
        called.append([name for name, _ in airflow.events])
    assert called == [["tidegate_shop_backlog"], [], [], ["tidegate_shop_backlog"]], "the first clock was set back"
    airflow.engine = world.engine
    airflow.run_merges("asset_triggered")
    airflow.events.clear()
    produce(world, "2", "a")
    airflow.run_stage()
    assert [name for name, _ in airflow.events] == ["tidegate_shop_backlog"]


def test_failed_merge_is_told_by_its_own_dag_and_staging_goes_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    airflow = Airflow(world, monkeypatch)
    produce(world, "1", "a")
    airflow.run_stage()
    airflow.engine = FailsToMerge(world.engine, COPY)
    with pytest.raises(AirflowException, match="offsets are kept, but tasks=merge_1 failed in this run"):
        airflow.run_merges()
    streak = read_memory("shop", airflow.context).streaks.get("shop", FLUSH_KEY)
    assert (streak.runs, streak.tables) == (1, {COPY})
    assert "members" not in airflow.stores.get("tidegate_shop_stage_backlog", {})
    produce(world, "2", "b")
    airflow.run_stage()
    airflow.engine = world.engine
    airflow.run_merges("manual")
    assert read_pairs(world, COPY) == [("a", "1"), ("b", "2")]


def test_table_that_staging_refuses_makes_its_run_red_and_calls_no_merge_red(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    airflow = Airflow(world, monkeypatch)
    world.broker.produce("copies", {"id": "z"}, BAD, 0)
    produce(world, "1", "a")
    with pytest.raises(AirflowFailException, match=f"what is staged stays, but table={COPY} is refused"):
        airflow.run_stage()
    assert "members" in airflow.stores["tidegate_shop_stage_backlog"]
    airflow.run_merges()
    assert (read_pairs(world, ORDERS), read_pairs(world, COPY)) == ([("a", "1")], [])


def test_dry_run_of_staging_shows_its_plan_and_changes_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    airflow = Airflow(world, monkeypatch)
    produce(world, "1", "a")
    with pytest.raises(AirflowSkipException, match="a dry run"):
        airflow.run_stage(dry_run=True)
    planned = airflow.context["ti"].xcom_pull("plan", "planned")
    assert [(table["table"], table["offsets"]) for table in planned["tables"]] == [(ORDERS, 1), (COPY, 1)]
    assert world.destination.tables == {}


def test_dry_run_of_staging_settles_no_start_and_a_run_does(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    source = replace(TWO.source, start=Start(StartKind.LATEST))
    airflow = Airflow(world, monkeypatch, replace(TWO, source=source))
    for is_dry in (True, False):
        produce(world, "1", "a", "b")
        with pytest.raises(AirflowSkipException):
            airflow.run_stage(dry_run=is_dry)
        committed = {
            topic: sum(parts.values()) for topic, parts in world.broker.groups.get("tidegate-shop", {}).items()
        }
        assert committed == ({} if is_dry else {"orders": 4, "copies": 0})
