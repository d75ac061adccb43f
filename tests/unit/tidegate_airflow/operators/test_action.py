"""The task of a pipeline's actions: a preview changes nothing, what was shown is done, and who asked is kept."""

import json
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from fakes import World, build_pipeline, build_table
from fakes.task_instance import KeptState
from tidegate.errors import RetryLater
from tidegate.flush.flush import flush
from tidegate.jobs.stage_outcome import FieldExplanation
from tidegate.model.kafka_log import KafkaRecord
from tidegate.monitoring.status import read_status
from tidegate.reprocess import skip as reprocess_skip
from tidegate.reprocess.record import Verdict, parse_address
from tidegate.reprocess.skip import propose_skip
from tidegate_airflow import errors, tasks
from tidegate_airflow.operators.action import MAX_PREVIEW_CHARACTERS, run_action

ORDERS = "lake.shop.orders"
PIPELINE = build_pipeline(build_table(ORDERS))
EMPTY = {"action": "skip", "preview": True, "table": None, "at": None, "to": None, "previewed": None, "offsets": []}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Two partitions with a record each, in the table."""
    world = World()
    world.broker.create("orders", 2)
    for partition, key in enumerate("ab"):
        world.broker.produce("orders", {"id": key}, {"id": key, "name": key}, partition)
    flush(world.open_session(PIPELINE))
    monkeypatch.setattr(tasks, "assemble_session", lambda name, engine=None: world.open_session(PIPELINE))
    monkeypatch.setattr(errors, "push_failure_reason", lambda reason: None)
    return world


def build_context(user: str | None = "ann", clear_number: int = 0, **words: Any) -> tuple[Any, dict[str, Any]]:
    """A task's context of a run that somebody has started, and the results that it leaves."""
    results: dict[str, Any] = {}

    def xcom_push(key: str, value: Any) -> None:
        results[key] = value

    run = SimpleNamespace(triggering_user_name=user, clear_number=clear_number)
    ti = SimpleNamespace(xcom_push=xcom_push)
    return {"params": {**EMPTY, **words}, "dag_run": run, "ti": ti, "task_state_store": KeptState()}, results


def read_position_and_actors(world: World) -> tuple[Any, list[str]]:
    (table,) = read_status(world.open_session(PIPELINE))["tables"]
    return table["position"], [action["by"] for action in table["actions"]]


def test_preview_shows_and_changes_nothing_and_what_it_showed_is_done_by_who_asked(world: World) -> None:
    context, results = build_context(action="rebase", to="earliest")
    assert run_action(context, "shop")["done"] == "only a preview: nothing was changed"
    assert f"{ORDERS}  orders 1: 1 -> 0, reads again 1 offset" in results["preview"]["text"]
    assert read_position_and_actors(world) == ({"orders": {0: 1, 1: 1}}, [])

    context, _ = build_context(
        action="rebase", preview=False, previewed=results["preview"]["digest"], **results["preview"]["pins"]
    )
    action = run_action(context, "shop")
    assert action == {"action": "rebase", "done": "the position was moved", "by": "ann"}
    assert read_position_and_actors(world) == ({"orders": {0: 0, 1: 0}}, ["ann"])


def test_nothing_else_is_done_than_what_was_shown(world: World) -> None:
    context, results = build_context(action="rebase", to="earliest")
    run_action(context, "shop")
    world.broker.produce("orders", {"id": "c"}, {"id": "c", "name": "c"}, 0)
    flush(world.open_session(PIPELINE))
    context, _ = build_context(action="rebase", to="earliest", preview=False, previewed=results["preview"]["digest"])
    with pytest.raises(AirflowFailException, match="the effect has changed since the preview"):
        run_action(context, "shop")
    assert read_position_and_actors(world) == ({"orders": {0: 2, 1: 1}}, [])


@pytest.mark.parametrize("words", [{"to": "latest"}, {"to": "earliest"}, {"to": '{"orders": {"0": 0}}'}])
def test_run_that_is_cleared_does_nothing_that_no_preview_has_shown(world: World, words: dict[str, Any]) -> None:
    """Months later: `latest` would skip what waits, and `earliest` would read all again."""
    context, _ = build_context(action="rebase", preview=False, **words)
    run_action(context, "shop")
    position_and_actors = read_position_and_actors(world)
    for partition in (0, 1):
        world.broker.produce("orders", {"id": "w"}, {"id": "w", "name": "waits"}, partition)
    context, results = build_context(action="rebase", preview=False, clear_number=1, **words)
    with pytest.raises(AirflowFailException, match="this run was cleared, and it names no preview"):
        run_action(context, "shop")
    assert read_position_and_actors(world) == position_and_actors
    assert "-> " in results["preview"]["text"], "what it would do by now"


@pytest.mark.parametrize("table", [None, ORDERS])
def test_preview_of_a_skip_leaves_nothing_of_the_record_in_airflow(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, table: str | None
) -> None:
    """Results and logs are kept for months, and read by people who may not read the table."""
    name = FieldExplanation(part="value", name="Name", type="STRING", found="Ann Smith", accepted=True, reason=None)
    score = FieldExplanation(
        part="value", name="Score", type="INT", found="secret 1.5", accepted=False, reason="the field is no INT"
    )
    verdict = Verdict(
        table=ORDERS, fate="bad", reason="the value field Score is no INT", stage="value", operation="u",
        row='{"Name": "Ann Smith"}', fields=(name, score),
    )  # fmt: skip
    value, headers = b'{"Name": "Ann Smith", "Score": "secret 1.5"}', (("Trace-Id", b"hidden"), ("Empty", None))
    record = KafkaRecord("orders", 1, 1, 1_800_000_000_000, b'{"id": "ann@shop.example"}', value, headers)
    monkeypatch.setattr(reprocess_skip, "explain_record", lambda *_: [verdict])
    monkeypatch.setattr(reprocess_skip, "read_record", lambda *_: record)
    caplog.set_level(logging.INFO)
    context, results = build_context(at="orders:1:1", table=table)
    done = run_action(context, "shop")
    kept = json.dumps([results, done, context["task_state_store"]]) + caplog.text
    assert [text for text in ("Ann", "Smith", "ann@", "secret", "1.5", "hidden") if text in kept] == []
    text = results["preview"]["text"]
    for line in (
        "topic=orders partition=1 offset=1",
        "value: 44 bytes",
        "header Trace-Id: 6 bytes",
        "header Empty: none",
        f"{ORDERS}: cannot be decoded: the value field Score is no INT",
        "value Score: expected INT (refused: the field is no INT)",
        "tidegate record shop --at orders:1:1",
    ):
        assert line in text
    action = propose_skip(world.open_session(PIPELINE), parse_address("orders:1:1"))
    assert "Ann Smith" in action.full_preview
    assert action.digest == results["preview"]["digest"]


def test_run_that_is_cleared_does_what_its_preview_has_shown_once(world: World) -> None:
    words = {"action": "rebase", "to": "earliest"}
    context, results = build_context(clear_number=2, **words)
    run_action(context, "shop")
    confirmed = {"preview": False, "previewed": results["preview"]["digest"], **results["preview"]["pins"]}
    for cleared in (1, 2):  # its first try was killed before it did anything; the second has done it
        context, _ = build_context(**{**words, **confirmed}, clear_number=cleared)
        if cleared == 1:
            assert run_action(context, "shop")["done"] == "the position was moved"
            flush(world.open_session(PIPELINE))
            continue
        with pytest.raises(AirflowFailException, match="the effect has changed since the preview"):
            run_action(context, "shop")
    assert read_position_and_actors(world) == ({"orders": {0: 1, 1: 1}}, ["ann"])


def test_action_that_fails_half_way_names_what_is_done_and_a_new_preview_shows_the_rest(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = "lake.shop.users"
    pipeline = build_pipeline(build_table(ORDERS), build_table(users))
    flush(world.open_session(pipeline))
    monkeypatch.setattr(tasks, "assemble_session", lambda name, engine=None: world.open_session(pipeline))
    publish = world.destination.publish

    def refuse(commit: Any) -> Any:
        if commit.table == users:
            raise RetryLater("catalog=lake does not answer")
        return publish(commit)

    with monkeypatch.context() as patch:
        patch.setattr(world.destination, "publish", refuse)
        context, _ = build_context(action="rebase", to="earliest", preview=False)
        with pytest.raises(AirflowException, match=f"done for tables={ORDERS}, and not for table={users}"):
            run_action(context, "shop")
    context, results = build_context(action="rebase", to="earliest")
    run_action(context, "shop")
    assert f"{ORDERS}  orders 0: 0 -> 0, reads again 0 offsets" in results["preview"]["text"]
    assert f"{users}  orders 0: 1 -> 0, reads again 1 offset" in results["preview"]["text"]


def test_nothing_to_do_is_a_skip_that_says_why(world: World) -> None:
    context, results = build_context(action="undo-rollback", preview=False)
    with pytest.raises(AirflowSkipException, match="none was rolled back"):
        run_action(context, "shop")
    assert "none was rolled back" in results["preview"]["text"]


def test_run_of_nobody_is_airflows_own(world: World) -> None:
    context, _ = build_context(None, action="rebase", to="earliest", preview=False)
    assert run_action(context, "shop")["by"] == "airflow"
    assert read_position_and_actors(world)[1] == ["airflow"]


def test_long_preview_is_cut_and_says_where_the_rest_stands(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.broker.produce("orders", {"id": "c"}, {"id": "c", "name": "c"}, 0)
    monkeypatch.setattr("tidegate_airflow.operators.action.MAX_PREVIEW_CHARACTERS", 10)
    context, results = build_context(action="rebase", to="latest")
    run_action(context, "shop")
    assert results["preview"]["text"] == f"{ORDERS[:10]}\n... the rest stands in the log of this task"
    assert MAX_PREVIEW_CHARACTERS == 20_000
