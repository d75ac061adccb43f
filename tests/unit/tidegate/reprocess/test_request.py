"""What a form asks for is what the command line does: shown first, pinned to what was shown, refused where unclear."""

import json
from dataclasses import replace
from typing import Any

import pytest
from fakes import BAD, World, build_pipeline, build_table
from tidegate.errors import ConfigurationError, GiveUp, NothingToDo, RetryLater, SomeTablesFailed
from tidegate.flush.flush import flush
from tidegate.monitoring.status import read_status
from tidegate.reprocess.request import ActionKind, check_unchanged, propose_action
from tidegate.spec.source import Errors

ORDERS, RETURNS = "lake.shop.orders", "lake.shop.returns"
PIPELINE = build_pipeline(build_table(ORDERS, topics=("orders",)), build_table(RETURNS, topics=("returns",)))
TOLERANT = build_pipeline(replace(build_table(ORDERS), errors=Errors("all", 9)), source={"errors": Errors("all", 9)})


@pytest.fixture
def world() -> World:
    """Two topics of two partitions each."""
    world = World()
    for topic in ("orders", "returns"):
        world.broker.create(topic, 2)
        for partition in (0, 1):
            produce(world, topic, partition, f"{topic}{partition}")
    return world


def produce(world: World, topic: str, partition: int, key: str, value: Any = None) -> None:
    world.broker.produce(topic, {"id": key}, value or {"id": key, "name": "x"}, partition)


def read_ids(world: World, table: str) -> list[str]:
    return [row["id"] for row in world.read_rows(table)]


def list_actions(world: World, table: str = ORDERS, pipeline: Any = PIPELINE) -> list[tuple[str, str]]:
    (table_status,) = [
        table_row for table_row in read_status(world.open_session(pipeline))["tables"] if table_row["table"] == table
    ]
    return [(action["action"], action["by"]) for action in table_status["actions"]]


def test_position_that_has_come_back_to_the_same_offsets_is_not_the_one_that_was_shown(world: World) -> None:
    """A run of Airflow that is cleared months later asks for the same again: it would read all records a third time."""
    session = world.open_session(PIPELINE)
    flush(session)
    words = {"action": "rebase", "to": "earliest", "table": RETURNS}
    action = propose_action(session, words)
    action.perform("ann")
    flush(session)
    second_action = propose_action(session, {**words, **action.pinned_params})
    assert second_action.data["tables"] == action.data["tables"], "the same offsets"
    with pytest.raises(GiveUp, match="the effect has changed since the preview"):
        check_unchanged(second_action, action.digest)
    assert list_actions(world, RETURNS) == [("rebase", "ann")]


def test_rollback_that_was_answered_and_came_again_is_not_the_one_that_was_shown(world: World) -> None:
    session = world.open_session(PIPELINE)
    flush(session)
    head = int(str(world.destination.tables[ORDERS].refs["main"]))
    produce(world, "orders", 0, "later")
    flush(session)
    world.destination.rollback(ORDERS, head)
    words = {"action": "rewind", "table": ORDERS}
    action = propose_action(session, words)
    action.perform("ann")
    flush(session)
    world.destination.rollback(ORDERS, head)
    second_action = propose_action(session, words)
    assert second_action.data["tables"] == action.data["tables"], "the same offsets"
    with pytest.raises(GiveUp, match="the effect has changed since the preview"):
        check_unchanged(second_action, action.digest)


def test_poison_record_is_shown_skipped_and_set_aside_by_the_next_batch(world: World) -> None:
    produce(world, "orders", 1, "bad", BAD)
    produce(world, "orders", 1, "after")
    session = world.open_session(PIPELINE)
    with pytest.raises(SomeTablesFailed, match="tidegate skip shop --at orders:1:1"):
        flush(session)
    action = propose_action(session, {"action": "skip", "at": "orders:1:1", "preview": True})
    assert "topic=orders partition=1 offset=1" in action.preview
    assert f"{ORDERS}: cannot be decoded" in action.preview
    assert list_actions(world) == []
    second_action = propose_action(session, {"action": "skip", "at": "orders:1:1", **action.pinned_params})
    check_unchanged(second_action, action.digest)
    second_action.perform("ann")
    flush(session)
    assert read_ids(world, ORDERS) == ["after", "orders0", "orders1"]
    assert list_actions(world) == [("skip", "ann")]


@pytest.mark.parametrize("to", ["latest", "earliest", "group", "2026-01-01T00:00:00Z"])
def test_move_is_pinned_to_the_offsets_that_were_shown(world: World, to: str) -> None:
    session = world.open_session(PIPELINE)
    flush(session)
    produce(world, "orders", 0, "waits")
    action = propose_action(session, {"action": "rebase", "to": to})
    produce(world, "orders", 1, "later")  # the end of the log is another one now
    second_action = propose_action(session, {"action": "rebase", "to": to, **action.pinned_params})
    check_unchanged(second_action, action.digest)
    assert second_action.preview == action.preview
    second_action.perform("ann")
    stands = {table["table"]: table["position"] for table in read_status(session)["tables"]}
    targets = json.loads(action.pinned_params["to"])
    for topic, table in (("orders", ORDERS), ("returns", RETURNS)):
        assert stands[table] == {topic: {int(part): offset for part, offset in targets[topic].items()}}
        assert list_actions(world, table) == [("rebase", "ann")]


def test_move_of_one_table_leaves_the_others_and_an_unknown_one_is_refused(world: World) -> None:
    session = world.open_session(PIPELINE)
    flush(session)
    propose_action(session, {"action": "rebase", "to": "earliest", "table": RETURNS}).perform("ann")
    stands = {table["table"]: table["position"] for table in read_status(session)["tables"]}
    assert stands == {ORDERS: {"orders": {0: 1, 1: 1}}, RETURNS: {"returns": {0: 0, 1: 0}}}
    assert (list_actions(world), list_actions(world, RETURNS)) == ([], [("rebase", "ann")])
    with pytest.raises(ConfigurationError, match="has no table=lake"):
        propose_action(session, {"action": "rebase", "to": "earliest", "table": "lake.shop.gone"})


def test_move_of_named_partitions_leaves_the_others_of_each_table(world: World) -> None:
    session = world.open_session(PIPELINE)
    flush(session)
    action = propose_action(session, {"action": "rebase", "to": '{"orders": {"1": 0}}'})
    propose_action(session, {"action": "rebase", **action.pinned_params}).perform("ann")
    stands = {table["table"]: table["position"] for table in read_status(session)["tables"]}
    assert stands == {ORDERS: {"orders": {0: 1, 1: 0}}, RETURNS: {"returns": {0: 1, 1: 1}}}


def test_action_that_would_do_something_else_by_now_does_nothing(world: World) -> None:
    session = world.open_session(PIPELINE)
    flush(session)
    action = propose_action(session, {"action": "rebase", "to": "earliest"})
    produce(world, "orders", 0, "more")
    flush(session)
    with pytest.raises(GiveUp, match=r"nothing was changed; look at the preview again:\n.* 2 -> 0, reads again 2"):
        check_unchanged(propose_action(session, {"action": "rebase", **action.pinned_params}), action.digest)
    assert list_actions(world) == []


@pytest.mark.parametrize(("kind", "rows"), [("undo-rollback", ["a", "b"]), ("rewind", ["a", "b"]), ("keep", ["a"])])
def test_rollback_is_answered_by_the_form(kind: str, rows: list[str]) -> None:
    world, pipeline = World(), build_pipeline(build_table(ORDERS))
    world.broker.create("orders", 2)
    session = world.open_session(pipeline)
    for partition, key in enumerate("ab"):
        produce(world, "orders", partition, key)
        flush(session)
        if key == "a":
            first = world.destination.tables[ORDERS].refs["main"]
    world.destination.rollback(ORDERS, first)
    action = propose_action(session, {"action": kind, "table": ORDERS})
    assert read_ids(world, ORDERS) == ["a"]
    second_action = propose_action(session, {"action": kind, "table": ORDERS})
    check_unchanged(second_action, action.digest)
    second_action.perform("ann")
    if kind == "rewind":
        flush(session)
    else:
        with pytest.raises(NothingToDo):
            flush(session)
    assert read_ids(world, ORDERS) == rows
    assert list_actions(world, ORDERS, pipeline) == [(kind, "ann")]
    with pytest.raises(NothingToDo):
        propose_action(session, {"action": kind})


def test_chosen_dead_letters_are_discarded_with_a_reason_and_the_others_wait(world: World) -> None:
    for partition in (0, 1):
        produce(world, "orders", partition, "bad", BAD)
    session = world.open_session(TOLERANT)
    flush(session)
    words = {"action": "discard", "offsets": ["orders:1:1"], "because": "load test", "reason": "", "table": None}
    action = propose_action(session, words)
    assert "1 dead letter would be discarded" in action.preview
    assert "topic=orders partition=1 offset=1" in action.preview
    propose_action(session, words).perform("ann")
    letters = world.destination.tables["lake.shop.tidegate_shop_dead_letters"].read_rows()
    assert sorted((row["partition"], row["stage"]) for row in letters) == [(0, "value"), (1, "discarded")]
    with pytest.raises(NothingToDo):
        propose_action(session, words)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"action": "explode"}, "action=explode: unknown action; there are: skip, undo-rollback, rewind"),
        ({}, "action=None: unknown action"),
        ({"action": "skip"}, "action=skip: missing parameter: at; nothing was changed"),
        *(
            ({"action": "skip", "at": place}, "not a place in the log; write topic:partition:offset")
            for place in ("orders:2147483648:1", "orders:1:9223372036854775808", f"orders:1:{'9' * 5000}")
        ),
        ({"action": "skip", "at": "orders-1-1"}, "at=orders-1-1: not a place in the log"),
        ({"action": "rebase", "to": "earliest", "at": "orders:0:1"}, "action=rebase does not take at=orders:0:1"),
        ({"action": "keep", "at": "orders:0:1"}, "action=keep does not take at=orders:0:1; its parameters are: table"),
        ({"action": "discard"}, "action=discard: missing parameter: because"),
        ({"action": "discard", "because": " "}, "because is empty"),
        ({"action": "discard", "because": "x", "since": "soon"}, "since=soon"),
        ({"action": "rebase", "to": '{"orders": [1]}'}, "not offsets"),
        ({"action": "rebase", "to": '{"orders": {"0": 99}}'}, "outside the log"),
    ],
    ids=str,
)
def test_words_that_do_not_fit_are_refused_with_what_would(world: World, params: dict[str, Any], message: str) -> None:
    session = world.open_session(PIPELINE)
    flush(session)
    with pytest.raises(ConfigurationError) as error_info:
        propose_action(session, params)
    assert message in str(error_info.value)


def test_move_of_a_broker_that_does_not_answer_passes_by_itself(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    session = world.open_session(PIPELINE)
    flush(session)

    def refuse(*_: Any) -> None:
        raise RetryLater("brokers=kafka:9092 gave no answer")

    monkeypatch.setattr(session.broker, "read_log", refuse)
    with pytest.raises(RetryLater):
        propose_action(session, {"action": ActionKind.REBASE, "to": "latest"})
