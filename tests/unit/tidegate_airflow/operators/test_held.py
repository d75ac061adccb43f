"""A batch that waits for an approval, in Airflow: its merge is skipped, somebody is told once, and a form answers."""

import warnings
from dataclasses import replace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSkipException
from fakes import World, build_pipeline, build_table
from fakes.task_instance import KeptState, PushedResults
from tidegate.flush.flush import flush
from tidegate.flush.plan import plan
from tidegate.spec.pipeline import Notifier
from tidegate.spec.table import Approve

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Airflow's own, while it is imported
    from fakes.notifier import KeepingNotifier
    from tidegate_airflow import tasks
    from tidegate_airflow.operators import step
    from tidegate_airflow.operators.action import run_action

ORDERS, COPY = "lake.shop.Orders", "lake.shop.copy"
FREE = build_pipeline(build_table(ORDERS), build_table(COPY), source={"topics": ("orders",)})
TOLD = Notifier("fakes.notifier.KeepingNotifier", {"text": "{{ failure.reason }} {{ failure.is_new }}"})
HELD = replace(
    FREE,
    tables=(replace(FREE.tables[0], approve=Approve(deletes_over=1)), FREE.tables[1]),
    on_failure=(TOLD,),
    on_recovery=(TOLD,),
)


class Events:
    """Assets that hear of every change."""

    def __getitem__(self, alias: Any) -> "Events":
        return self

    def add(self, asset: Any, extra: Any) -> None: ...


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()
    world.broker.create("orders", 2)
    for partition, key in enumerate("abc"):
        world.broker.produce("orders", {"id": key}, {"id": key, "name": "x"}, partition % 2)
    flush(world.open_session(FREE))
    for partition, key in enumerate("ab"):
        world.broker.produce("orders", {"id": key}, None, partition)
    monkeypatch.setattr(tasks, "assemble_session", lambda *_: world.open_session(HELD))
    KeepingNotifier.notifications.clear()
    return world


def build_context(**params: Any) -> Any:
    words = {"action": "approve", "preview": True, "table": "", "previewed": "", **params}
    run = type("Run", (), {"conf": {}, "triggering_user_name": "ann", "clear_number": 0})()
    return {
        "ti": PushedResults(), "outlet_events": Events(), "run_id": "r1", "params": words, "dag_run": run,
        "task_state_store": KeptState(),
    }  # fmt: skip


def stage_queues(world: World) -> dict[str, Any]:
    queues, _ = tasks.run_stage("shop", plan(world.open_session(HELD)).to_dict())
    return {queue["table"]: queue for queue in queues}


def merge(queue: Any) -> Any:
    return step.StepOperator(task_id="merge", verb="merge", pipeline="shop", given=queue).execute(build_context())


def test_held_merge_is_skipped_and_told_once_and_the_other_table_goes_on(world: World) -> None:
    queues = stage_queues(world)
    assert merge(queues[COPY])["outcome"] == "published"
    for _ in range(3):
        with pytest.raises(AirflowSkipException, match="held for approval: deletes_over=1"):
            merge(queues[ORDERS])
    ((text, _),) = KeepingNotifier.notifications
    assert f"table={ORDERS} batch=2: held for approval" in text
    assert text.endswith("True")
    assert [row["id"] for row in world.read_rows(ORDERS)] == ["a", "b", "c"]


def test_held_table_of_a_member_is_no_failure(world: World) -> None:
    queues = [queue for _, queue in sorted(stage_queues(world).items())]
    result = step.run_member_merge(build_context(), "fleet", {"pipeline": "shop", "queues": queues}, {})
    assert [table["table"] for table in result["tables"]] == [COPY]
    assert len(KeepingNotifier.notifications) == 1


def test_form_shows_the_diff_and_approves_exactly_that(world: World) -> None:
    queues = stage_queues(world)
    with pytest.raises(AirflowSkipException):
        merge(queues[ORDERS])
    context = build_context()
    run_action(context, "shop")
    preview = context["ti"].pushed["preview"]
    assert "inserted=0 updated=0 deleted=2 rows=2 table_rows=3" in preview["text"]
    done = run_action(build_context(preview=False, previewed=preview["digest"]), "shop")
    assert done["by"] == "ann"
    assert len(KeepingNotifier.notifications) == 1
    for _ in range(2):  # a repeat tells nobody again
        assert merge(queues[ORDERS])["deleted"] == 2
    (_, (text, run)) = KeepingNotifier.notifications
    assert f"table={ORDERS} batch=2: held for approval: deletes_over=1, inserted=0 updated=0 deleted=2" in text
    assert (text.endswith("False"), run) == (True, "r1")
    assert [row["id"] for row in world.read_rows(ORDERS)] == ["c"]


def test_end_is_told_too_where_the_file_asks_for_no_approval_any_more(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues = stage_queues(world)
    with pytest.raises(AirflowSkipException):
        merge(queues[ORDERS])
    free = replace(FREE, on_failure=(TOLD,), on_recovery=(TOLD,))
    monkeypatch.setattr(tasks, "assemble_session", lambda *_: world.open_session(free))
    for table in (COPY, ORDERS, ORDERS):  # the other table has waited for nothing
        assert merge(queues[table])["deleted"] == 2
    (_, (text, run)) = KeepingNotifier.notifications
    assert f"table={ORDERS} batch=2: held for approval: deletes_over=1, inserted=0 updated=0 deleted=2" in text
    assert (text.endswith("False"), run) == (True, "r1")
    assert [row["id"] for row in world.read_rows(ORDERS)] == ["c"]
