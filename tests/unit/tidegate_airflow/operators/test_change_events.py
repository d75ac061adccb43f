"""What changes a table's rows beside its flushes: each is an event of the table's asset, and nothing else is."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException
from fakes import BAD, World, build_pipeline, build_table
from fakes.task_instance import KeptState, PushedResults
from tidegate.errors import AuditFailed, RetryLater
from tidegate.flush.flush import flush
from tidegate.flush.plan import plan
from tidegate.jobs.statements_job import StatementsJob
from tidegate.ports.session import Session
from tidegate.spec.source import Errors
from tidegate_airflow import errors, tasks
from tidegate_airflow.assets import build_asset_alias
from tidegate_airflow.dags import flush_run
from tidegate_airflow.dags.backfill import plan_batches
from tidegate_airflow.operators import step
from tidegate_airflow.operators.action import run_action, run_replay_form
from tidegate_airflow.operators.step import VerbOperator

ORDERS, USERS = "lake.shop.orders", "lake.shop.users"
ALL = Errors("all", 9)
PIPELINE = build_pipeline(
    *(replace(build_table(f"lake.shop.{topic}", topics=(topic,)), errors=ALL) for topic in ("orders", "users")),
    source={"errors": ALL},
)
ALIAS = build_asset_alias("shop")


class Events:
    """What a task tells its assets: by table, the extra of each event."""

    def __init__(self) -> None:
        self.told: dict[str, list[dict[str, Any]]] = {}

    def __getitem__(self, alias: Any) -> "Events":
        assert alias == ALIAS
        return self

    def add(self, asset: Any, extra: Any) -> None:
        self.told.setdefault(asset.name, []).append(extra)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Two tables of a topic each, with two partitions; a record of the orders is a dead letter."""
    world = World()
    for topic in ("orders", "users"):
        world.broker.create(topic, 2)
        for partition, key in enumerate("ab"):
            world.broker.produce(topic, {"id": key}, {"id": key, "name": key}, partition)
    world.broker.produce("orders", {"id": "c"}, BAD, 1)
    flush(world.open_session(PIPELINE))

    def session(name: str, engine: Any = None, watcher: Any = None) -> Session:
        return world.open_session(PIPELINE)

    monkeypatch.setattr(tasks, "assemble_session", session)
    monkeypatch.setattr(errors, "push_failure_reason", lambda reason: None)
    return world


def build_context(task_state_store: Any = None, **words: Any) -> Any:
    params = {"table": None, "topic": None, "reason": None, "since": None, "offsets": [], **words}
    run = SimpleNamespace(triggering_user_name="ann", clear_number=0)
    return {
        "params": params,
        "dag_run": run,
        "ti": PushedResults(),
        "outlets": [ALIAS],
        "outlet_events": Events(),
        "task_state_store": KeptState() if task_state_store is None else task_state_store,
    }


def read_main(world: World, table: str) -> str:
    """The id of the table's current snapshot."""
    return str(world.destination.tables[table].refs["main"])


def fix(world: World) -> None:
    """As if the file had been corrected: the bad order, and the bad user if there is one, can be read now."""
    records = world.broker.partitions["orders"][1].records
    records[1] = replace(records[1], value={"id": "c", "name": "fixed"})
    world.engine.fixed_values[1] = records[1].value


def test_replay_that_brings_dead_letters_in_is_an_event_of_their_table_alone(world: World) -> None:
    context = build_context()
    assert [entry["still_bad"] for entry in run_replay_form(context, "shop")] == [1]
    assert context["outlet_events"].told == {}
    fix(world)
    (result,) = run_replay_form(context, "shop")
    assert [row["id"] for row in world.read_rows(ORDERS)] == ["a", "b", "c"]
    snapshot = read_main(world, ORDERS)
    numbers = {"snapshot_id": snapshot, "inserted": 1, "updated": 0, "deleted": 0}
    assert result["snapshot_id"] == snapshot
    event = {"batch": None, **numbers, "valid_through": None, "cause": "replay"}
    assert context["outlet_events"].told == {ORDERS: [event]}


def test_table_whose_letters_came_in_before_another_one_failed_is_an_event_of_the_next_try(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow drops the events of the try that failed, and the next try finds nothing left to bring into the table."""
    world.broker.produce("users", {"id": "d"}, BAD, 0)
    flush(world.open_session(PIPELINE))
    fix(world)
    store = KeptState()
    publish = world.destination.publish

    def fail_for_users(commit: Any) -> Any:
        if commit.table == USERS:
            raise RetryLater("catalog=lake does not answer")
        return publish(commit)

    monkeypatch.setattr(world.destination, "publish", fail_for_users)
    failed = build_context(task_state_store=store)
    with pytest.raises(AirflowException, match="does not answer"):
        run_replay_form(failed, "shop")
    assert [row["id"] for row in world.read_rows(ORDERS)] == ["a", "b", "c"]
    snapshot = read_main(world, ORDERS)
    monkeypatch.setattr(world.destination, "publish", publish)
    context = build_context(task_state_store=store)
    results = run_replay_form(context, "shop")
    counts = sorted((part["table"], part["tried"], part["replayed"], part["still_bad"]) for part in results)
    assert counts == [(ORDERS, 1, 1, 0), (USERS, 1, 1, 0)], "as the page sums up"
    snapshot_ids = {
        table: [event["snapshot_id"] for event in events] for table, events in context["outlet_events"].told.items()
    }
    assert snapshot_ids == {ORDERS: [snapshot], USERS: [read_main(world, USERS)]}
    assert context["outlet_events"].told[ORDERS][0]["inserted"] == 1
    unheard = build_context(task_state_store=store)
    assert sorted(part["replayed"] for part in run_replay_form(unheard, "shop")) == [1, 1]
    assert unheard["outlet_events"].told == context["outlet_events"].told, "Airflow did not hear of that try's success"
    cleared = build_context(task_state_store=store)
    cleared["dag_run"].clear_number = 1
    assert run_replay_form(cleared, "shop") == []
    assert cleared["outlet_events"].told == {}


def test_replay_that_published_and_could_not_mark_its_letters_counts_them_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fix(world)
    store = KeptState()
    run = world.engine.run

    def fail_to_mark(job: Any) -> Any:
        if isinstance(job, StatementsJob) and job.table == "lake.shop.tidegate_shop_dead_letters":
            raise RetryLater("Spark does not answer")
        return run(job)

    monkeypatch.setattr(world.engine, "run", fail_to_mark)
    with pytest.raises(AirflowException, match="does not answer"):
        run_replay_form(build_context(task_state_store=store), "shop")
    monkeypatch.setattr(world.engine, "run", run)
    for _ in range(2):  # the second time Airflow did not hear of the success
        (result,) = run_replay_form(build_context(task_state_store=store), "shop")
        assert (result["tried"], result["replayed"], result["still_bad"], result["inserted"]) == (1, 1, 0, 1)
        assert result["snapshot_id"] == read_main(world, ORDERS)


@pytest.mark.parametrize("fault", ["get", "set", "delete"])
def test_store_of_a_tasks_state_that_does_not_answer_fails_no_replay(world: World, fault: str) -> None:
    def fail(*_: Any) -> Any:
        raise OSError("the API server is gone")

    store = KeptState()
    setattr(store, fault, fail)
    fix(world)
    context = build_context(task_state_store=store)
    run_replay_form(context, "shop")
    assert list(context["outlet_events"].told) == [ORDERS]


def test_slice_of_a_backfill_is_an_event_of_each_table_that_got_rows_also_in_a_second_try(world: World) -> None:
    words = {"ranges": {"users": {"0": [0, 1], "1": [0, 1]}}, "from": None, "to": None, "tables": [USERS]}
    proposal = plan_batches("shop", {**words, "dry_run": False})
    (batch_input,) = proposal["batches"]
    fixed = {"verb": "backfill", "pipeline": "shop", "backfill": proposal["backfill"]}
    operator = VerbOperator(task_id="batch", given=batch_input, **fixed)
    snapshot_ids = []
    for _ in range(2):
        context = build_context()
        operator.execute(context)
        ((table, [event]),) = context["outlet_events"].told.items()
        assert (table, event["batch"], event["cause"]) == (USERS, None, "backfill")
        snapshot_ids.append(event["snapshot_id"])
    assert snapshot_ids == [read_main(world, USERS), None], "the second try finds it applied"


def test_rollback_that_is_undone_is_an_event_and_its_preview_is_none(world: World) -> None:
    before = int(read_main(world, ORDERS))
    world.broker.produce("orders", {"id": "d"}, {"id": "d", "name": "d"}, 0)
    flush(world.open_session(PIPELINE))
    published = read_main(world, ORDERS)
    world.destination.rollback(ORDERS, before)
    context = build_context(action="undo-rollback", preview=True)
    run_action(context, "shop")
    assert context["outlet_events"].told == {}
    context = build_context(action="undo-rollback", preview=False, previewed=None)
    run_action(context, "shop")
    assert [row["id"] for row in world.read_rows(ORDERS)] == ["a", "b", "d"]
    ((name, [event]),) = context["outlet_events"].told.items()
    assert (name, event["snapshot_id"], event["cause"]) == (ORDERS, published, "undo-rollback")


def test_batches_that_a_merge_published_before_it_failed_are_an_event_of_clean_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow drops the events of the merge, which is red."""
    for key in ("first", "second"):
        world.broker.produce("users", {"id": key}, {"id": key, "name": key})
        ((queue,), _) = tasks.run_stage("shop", plan(world.open_session(PIPELINE)).to_dict())
    assert [batch["batch"] for batch in queue["batches"]] == [2, 3]
    context = build_context()
    context["ti"].xcom_pull = lambda task_ids, key: [context["ti"].pushed[key]] if task_ids == "merge" else None
    publish = world.destination.publish
    answers = iter([False, True, False])  # of both batches, the first, the second

    def publish_first(commit: Any) -> None:
        if not next(answers):
            raise AuditFailed(f"table={USERS}: an audit does not hold")
        publish(commit)

    monkeypatch.setattr(world.destination, "publish", publish_first)
    with pytest.raises(AirflowException, match="an audit"):
        step.run_merge_step(context, "shop", queue, {})
    assert {row["id"] for row in world.read_rows(USERS)} == {"a", "b", "first"}
    assert context["outlet_events"].told == {}
    monkeypatch.setattr(flush_run, "get_current_context", lambda: context)
    context["params"] = {"max_records": None, "until_current": True, "dry_run": False}
    context["task"] = SimpleNamespace(downstream_task_ids=())
    flush_run.clean_up_unless_dry("shop")
    ((name, [event]),) = context["outlet_events"].told.items()
    assert (name, event["batch"], event["inserted"]) == (USERS, 2, 1)
