"""What people did to a table stays in its properties, which each write of its metadata carries: it stays small."""

import json
from dataclasses import replace
from typing import Any

from fakes import World, build_pipeline
from tidegate.flush.flush import flush
from tidegate.model import resource_names
from tidegate.table.history import MAX_KEPT_ACTIONS, add_action, list_actions
from tidegate.table.session import TableSession

TABLE, PIPELINE = "lake.shop.orders", build_pipeline()


def test_hundred_long_actions_leave_the_last_ones_and_a_few_kilobytes() -> None:
    world = World()
    world.broker.create("orders")
    world.broker.produce("orders", {"id": "a"}, {"id": "a", "name": "x"})
    session = world.open_session(PIPELINE)
    flush(session)
    state: Any = world.destination.read_state(TABLE, "shop")
    for number in range(100):
        details = f"{number}: {'because we said so, ' * 10_000}"
        state = replace(
            state, marks=add_action(TableSession(session, PIPELINE.tables[0], state), "discard", "ann" * 1000, details)
        )
    (text,) = state.marks.values()
    assert len(text) < 50_000
    actions = list_actions("shop", state)
    assert [action.details.partition(":")[0] for action in actions] == [
        str(n) for n in range(100 - MAX_KEPT_ACTIONS, 100)
    ]
    assert actions[-1].details.startswith("99: because we said so, because")
    assert actions[-1].details.endswith("... (200004 characters)")
    assert list(state.marks) == [resource_names.name_pipeline_property("shop", "actions")]


def test_what_an_older_version_kept_whole_is_cut_with_the_next_action() -> None:
    session = World().open_session(PIPELINE)
    action = {"at_ms": 1, "by": "ann", "action": "rebase", "details": "x" * 100_000}
    state: Any = type("State", (), {"marks": {"tidegate.shop.actions": json.dumps([action])}})()
    (text,) = add_action(TableSession(session, PIPELINE.tables[0], state), "skip", "ann", "short").values()
    assert len(text) < 5_000
    assert json.loads(text)[-1]["details"] == "short"
