"""A try of an action fails after it has changed some tables: the next try does the rest, tells of all, repeats none."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from fakes import World, build_pipeline, build_table
from fakes.task_instance import KeptState, PushedResults
from tidegate.errors import RetryLater
from tidegate.flush.flush import flush
from tidegate.monitoring.status import read_status
from tidegate_airflow import errors, tasks
from tidegate_airflow.assets import build_asset_alias
from tidegate_airflow.operators.action import run_action

ORDERS, USERS = "lake.shop.orders", "lake.shop.users"
PIPELINE = build_pipeline(*(build_table(f"lake.shop.{topic}", topics=(topic,)) for topic in ("orders", "users")))
ALIAS = build_asset_alias("shop")
EMPTY = {"table": None, "topic": None, "reason": None, "since": None, "offsets": [], "at": None, "to": None}


class Run:
    """A run of the DAG of actions, and what its tries leave: results, events by table, and the task's state."""

    def __init__(self, **words: Any) -> None:
        self.words = {**EMPTY, "preview": False, "previewed": None, **words}
        self.task_state = KeptState()
        self.preview: dict[str, Any] = {}
        self.events: list[tuple[str, Any]] = []

    def __getitem__(self, alias: Any) -> "Run":
        assert alias == ALIAS
        return self

    def add(self, asset: Any, extra: Any) -> None:
        self.events.append((asset.name, extra["snapshot_id"]))

    def attempt(self, clear_number: int = 0) -> dict[str, Any]:
        """One try, after `clear_number` clears; Airflow keeps no event of a try that fails."""
        self.events, ti = [], PushedResults()
        context: Any = {
            "params": self.words,
            "dag_run": SimpleNamespace(triggering_user_name="ann", clear_number=clear_number),
            "ti": ti,
            "outlets": [ALIAS],
            "outlet_events": self,
            "task_state_store": self.task_state,
        }
        try:
            return run_action(context, "shop")
        except Exception:
            self.events = []
            raise
        finally:
            self.preview = ti.pushed.get("preview", {})


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Two tables of a topic each, with two partitions and two batches."""
    world = World()
    for topic in ("orders", "users"):
        world.broker.create(topic, 2)
    for keys in ("ab", "cd"):
        produce(world, keys)
    monkeypatch.setattr(tasks, "assemble_session", lambda name, engine=None: world.open_session(PIPELINE))
    monkeypatch.setattr(errors, "push_failure_reason", lambda reason: None)
    return world


def produce(world: World, keys: str) -> None:
    for topic in ("orders", "users"):
        for partition, key in enumerate(keys):
            world.broker.produce(topic, {"id": key}, {"id": key, "name": key}, partition)
    flush(world.open_session(PIPELINE))


def roll_back(world: World, *names: str) -> dict[str, str]:
    """Roll each table back by its last batch; the snapshots that were main before."""
    tables = world.destination.tables
    heads = {name: int(tables[name].refs["main"]) for name in names or (ORDERS, USERS)}
    for name in heads:
        world.destination.rollback(name, tables[name].snapshots[heads[name]].parent)
    return {name: str(head) for name, head in heads.items()}


def list_actions(world: World) -> dict[str, list[str]]:
    status = read_status(world.open_session(PIPELINE))
    return {table["table"]: [action["action"] for action in table["actions"]] for table in status["tables"]}


def read_positions(world: World) -> dict[str, list[int]]:
    status = read_status(world.open_session(PIPELINE))
    return {
        table["table"]: [offset for parts in table["position"].values() for offset in parts.values()]
        for table in status["tables"]
    }


def fail(
    world: World, monkeypatch: pytest.MonkeyPatch, method: str, *, before: str = "", after: str = ""
) -> Callable[[], None]:
    """Let the destination refuse before it changes a table, or end the process after it has; the end of that."""
    original = getattr(world.destination, method)

    def call(*words: Any) -> Any:
        table = words[0] if isinstance(words[0], str) else words[0].table
        if table == before:
            raise RetryLater("catalog=lake does not answer")
        result = original(*words)
        if table == after:
            raise KeyError("the process ends here")
        return result

    monkeypatch.setattr(world.destination, method, call)
    return lambda: monkeypatch.setattr(world.destination, method, original)


@pytest.mark.parametrize("clear_number", [0, 1], ids=["tried again", "cleared"])
@pytest.mark.parametrize("is_previewed", [False, True], ids=["", "previewed"])
def test_rollback_of_the_first_table_is_undone_once_and_told_by_the_try_that_undoes_the_second(
    world: World, monkeypatch: pytest.MonkeyPatch, is_previewed: bool, clear_number: int
) -> None:
    heads = roll_back(world)
    run = Run(action="undo-rollback")
    if is_previewed:
        shown = Run(action="undo-rollback", preview=True)
        shown.attempt()
        run.words["previewed"] = shown.preview["digest"]
    end_fault = fail(world, monkeypatch, "undo_rollback", before=USERS)
    with pytest.raises(AirflowException, match=f"done for tables={ORDERS}, and not for table={USERS} .* not answer"):
        run.attempt()
    end_fault()
    if clear_number and not is_previewed:
        with pytest.raises(AirflowFailException, match=f"done for tables={ORDERS}.*names no preview"):
            run.attempt(clear_number)
        assert list_actions(world) == {ORDERS: ["undo-rollback"], USERS: []}
        return
    assert run.attempt(clear_number)["done"] == "the rollback was undone"
    assert sorted(run.events) == sorted(heads.items())
    assert list_actions(world) == {ORDERS: ["undo-rollback"], USERS: ["undo-rollback"]}
    assert {name: str(world.destination.tables[name].refs["main"]) for name in heads} == heads


@pytest.mark.parametrize("table", [ORDERS, USERS])
def test_rollback_whose_undoing_was_not_noted_any_more_is_told_by_the_next_try(
    world: World, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    heads = roll_back(world)
    run = Run(action="undo-rollback")
    end_fault = fail(world, monkeypatch, "undo_rollback", after=table)
    with pytest.raises(KeyError):
        run.attempt()
    end_fault()
    assert run.attempt()["done"] == "the rollback was undone"
    assert sorted(run.events) == sorted(heads.items())
    assert list_actions(world) == {ORDERS: ["undo-rollback"], USERS: ["undo-rollback"]}


def test_table_that_is_rolled_back_between_two_tries_was_not_asked_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads = roll_back(world, USERS)
    run = Run(action="undo-rollback")
    end_fault = fail(world, monkeypatch, "undo_rollback", before=USERS)
    with pytest.raises(AirflowException, match="not answer"):
        run.attempt()
    end_fault()
    roll_back(world, ORDERS)
    run.attempt()
    assert run.events == [(USERS, heads[USERS])]
    assert list_actions(world) == {ORDERS: [], USERS: ["undo-rollback"]}


def test_position_that_was_moved_is_not_moved_again_to_a_later_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`latest` is a later place by then: it would skip records that nobody gave up."""
    world.broker.produce("orders", {"id": "e"}, {"id": "e", "name": "e"}, 0)  # what is skipped
    run = Run(action="rebase", to="latest")
    end_fault = fail(world, monkeypatch, "publish", before=USERS)
    with pytest.raises(AirflowException, match=f"done for tables={ORDERS}"):
        run.attempt()
    end_fault()
    for topic in ("orders", "users"):
        world.broker.produce(topic, {"id": "f"}, {"id": "f", "name": "f"}, 0)
    assert run.attempt()["done"] == "the position was moved"
    assert read_positions(world) == {ORDERS: [3, 2], USERS: [2, 2]}
    assert list_actions(world) == {ORDERS: ["rebase"], USERS: ["rebase"]}


def test_position_that_was_moved_to_the_begin_and_read_again_is_not_moved_there_twice(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(action="rebase", to="earliest")
    end_fault = fail(world, monkeypatch, "publish", before=USERS)
    with pytest.raises(AirflowException):
        run.attempt()
    end_fault()
    flush(world.open_session(PIPELINE))
    run.attempt()
    assert read_positions(world) == {ORDERS: [2, 2], USERS: [0, 0]}
    assert list_actions(world) == {ORDERS: ["rebase"], USERS: ["rebase"]}


@pytest.mark.parametrize("is_previewed", [False, True])
def test_move_of_which_nobody_knows_whether_it_was_done_is_not_done_again(
    world: World, monkeypatch: pytest.MonkeyPatch, is_previewed: bool
) -> None:
    run = Run(action="rebase", to="earliest", table=USERS)
    if is_previewed:
        shown = Run(**{**run.words, "preview": True})
        shown.attempt()
        run.words |= {"previewed": shown.preview["digest"], **shown.preview["pins"]}
    end_fault = fail(world, monkeypatch, "publish", after=USERS)
    with pytest.raises(KeyError):
        run.attempt()
    end_fault()
    flush(world.open_session(PIPELINE))
    with pytest.raises(AirflowFailException, match=f"table={USERS}: an earlier try of this run may have done it"):
        run.attempt()
    assert list_actions(world) == {ORDERS: [], USERS: ["rebase"]}
    assert read_positions(world) == {ORDERS: [2, 2], USERS: [2, 2]}


def test_action_that_was_done_in_whole_is_a_success_of_the_next_try(world: World) -> None:
    """The task came to its end, and Airflow could not store its result."""
    run = Run(action="rebase", to="earliest")
    run.attempt()
    flush(world.open_session(PIPELINE))
    assert run.attempt() == {"action": "rebase", "done": "the position was moved", "by": "ann"}
    assert read_positions(world) == {ORDERS: [2, 2], USERS: [2, 2]}
    assert list_actions(world) == {ORDERS: ["rebase"], USERS: ["rebase"]}


def test_events_of_a_try_whose_result_airflow_could_not_store_are_told_by_the_next_and_not_by_a_cleared_run(
    world: World,
) -> None:
    heads = roll_back(world)
    run = Run(action="undo-rollback")
    run.attempt()
    run.attempt()
    assert sorted(run.events) == sorted(heads.items())
    with pytest.raises(AirflowSkipException, match="none was rolled back"):
        run.attempt(clear_number=1)
    assert list_actions(world) == {ORDERS: ["undo-rollback"], USERS: ["undo-rollback"]}


def test_run_that_is_cleared_after_its_end_does_its_own_rest_and_repeats_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its tries before the clear have done is another story."""
    roll_back(world)
    run = Run(action="undo-rollback")
    run.attempt()
    heads = roll_back(world)
    shown = Run(action="undo-rollback", preview=True)
    shown.attempt()
    run.words["previewed"] = shown.preview["digest"]
    end_fault = fail(world, monkeypatch, "undo_rollback", before=USERS)
    with pytest.raises(AirflowException, match=f"done for tables={ORDERS}"):
        run.attempt(clear_number=1)
    end_fault()
    run.attempt(clear_number=1)
    assert sorted(run.events) == sorted(heads.items())
    assert list_actions(world) == {ORDERS: ["undo-rollback"] * 2, USERS: ["undo-rollback"] * 2}


@pytest.mark.parametrize("fault", ["get", "set"])
def test_nothing_is_changed_while_the_store_of_the_tasks_state_does_not_answer(
    world: World, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """The next try could not tell what this one has done."""
    run = Run(action="rebase", to="earliest")
    with monkeypatch.context() as patch:
        patch.setattr(run.task_state, fault, lambda *_: 1 / 0)
        with pytest.raises(AirflowException, match="nothing was changed"):
            run.attempt()
    assert list_actions(world) == {ORDERS: [], USERS: []}
    run.attempt()
    assert list_actions(world) == {ORDERS: ["rebase"], USERS: ["rebase"]}


def test_rest_of_an_action_that_would_do_something_else_than_was_shown_is_not_done(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = Run(action="rebase", to="earliest", preview=True)
    shown.attempt()
    run = Run(action="rebase", previewed=shown.preview["digest"], **shown.preview["pins"])
    end_fault = fail(world, monkeypatch, "publish", before=ORDERS)
    with pytest.raises(AirflowException):
        run.attempt()
    end_fault()
    world.broker.produce("users", {"id": "e"}, {"id": "e", "name": "e"}, 0)
    flush(world.open_session(PIPELINE))
    with pytest.raises(AirflowFailException, match=f"table={USERS}: the effect has changed since the preview"):
        run.attempt()
    assert list_actions(world) == {ORDERS: [], USERS: []}
