"""A truncate of the source table: the destination holds what lies behind it, wherever batches are cut."""

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from examples import choose_number
from fakes import World, build_pipeline, build_table
from fakes.interrupted_runner import STEPS_OF_TWO_CLOCKS, InterruptedRunner
from fakes.queueing import stage_behind
from fakes.record_decoder import TRUNCATE
from hypothesis import given, settings
from hypothesis import strategies as st
from tidegate.errors import GiveUp, HeldForApproval, NothingToDo, SomeTables
from tidegate.flush.flush import flush
from tidegate.flush.key_deduplication import can_keep_last_per_key
from tidegate.reprocess.approve import propose_decision, propose_reject
from tidegate.reprocess.backfill_plan import BackfillRequest, propose_backfill
from tidegate.reprocess.replay import replay_dead_letters
from tidegate.schema.data_types import Column
from tidegate.spec.pipeline import Pipeline, Stage
from tidegate.spec.table import Approve
from tidegate.table.approval import DecisionKind

NAME, UNCHANGED_MARK = "lake.shop.orders", "__debezium_unavailable_value"
COLUMNS = tuple(Column(name, "STRING") for name in ("id", "a"))
APPLY = {"columns": COLUMNS, "options": {"truncate": "apply"}}


def build_truncate_pipeline(name: str = "shop", **options: Any) -> Pipeline:
    return build_pipeline(build_table(NAME, **APPLY, **options), name=name)


def put(world: World, key: str, name: str | None) -> None:
    world.broker.produce("orders", {"id": key}, None if name is None else {"id": key, "a": name})


def compute_rows(changes: list[tuple[str, str | None]]) -> list[dict[str, Any]]:
    """The model, one record at a time."""
    rows: dict[str, dict[str, Any]] = {}
    for key, value in changes:
        if key == "truncate":
            rows = {}
        elif value is None:
            rows.pop(key, None)
        else:
            current_value = rows.get(key, {}).get("a")
            rows[key] = {"id": key, "a": current_value if value == UNCHANGED_MARK else value}
    return list(rows.values())


def sort_rows(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


CHANGES = st.tuples(
    st.just("change"), st.sampled_from(["k", "l", "m", "truncate"]), st.sampled_from([None, "x", "y", UNCHANGED_MARK])
)
STEPS = st.one_of(CHANGES, CHANGES, CHANGES, STEPS_OF_TWO_CLOCKS)


class Runner(InterruptedRunner):
    """Runs for a table that is emptied now and then."""

    def __init__(self, stage_seconds: int | None) -> None:
        super().__init__()
        self.stage_clock = Stage(stage_seconds)
        self.world.broker.create("orders", 1)
        self.changes: list[tuple[str, str | None]] = []

    def build_pipeline(self, cap: int) -> Pipeline:
        table = build_table(NAME, **APPLY, unavailable=UNCHANGED_MARK)
        return build_pipeline(table, max_records=cap, stage=self.stage_clock, on_rollback="rewind")

    def change(self, key: str, value: str | None) -> None:
        if key == "truncate":
            self.world.broker.produce("orders", None, TRUNCATE)
        else:
            put(self.world, key, value)
        self.changes.append((key, value))


@settings(max_examples=choose_number(800), deadline=None, derandomize=True, database=None)
@given(st.sampled_from([None, 10, 10]), st.lists(STEPS, min_size=4, max_size=30))
def test_table_equals_the_model_after_any_runs_of_one_or_two_clocks(stage_seconds: int | None, steps: list) -> None:
    runner = Runner(stage_seconds)
    for name, *arguments in steps:
        getattr(runner, name)(*arguments)
    runner.finish()
    assert sort_rows(runner.world.read_rows(NAME)) == sort_rows(compute_rows(runner.changes))


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders", 1)
    return world


def test_batch_with_a_truncate_takes_a_statement_of_its_own_and_says_so(world: World) -> None:
    put(world, "k", "x")
    put(world, "l", "x")
    flush(world.open_session(build_truncate_pipeline()))
    put(world, "k", "before")
    world.broker.produce("orders", None, TRUNCATE)
    put(world, "m", "y")
    (done,) = flush(world.open_session(build_truncate_pipeline())).published
    assert (done.written_as, done.inserted, done.updated, done.deleted, done.staged) == ("truncate", 1, 0, 2, 3)
    row = world.destination.read_history("lake.shop.tidegate_shop_batches", 1)[0]
    assert row["written_as"] == "truncate"
    assert world.destination.tables[NAME].ancestors()[0].summary["tidegate.truncated-at"] == "3"


def test_truncate_is_refused_where_another_pipeline_writes_the_table(world: World) -> None:
    put(world, "k", "x")
    flush(world.open_session(build_truncate_pipeline("other")))
    flush(world.open_session(build_truncate_pipeline()))
    world.broker.produce("orders", None, TRUNCATE)
    with pytest.raises(GiveUp, match="holds a truncate at offset=1, and the table has rows of pipeline=other too"):
        flush(world.open_session(build_truncate_pipeline()))
    assert [row["id"] for row in world.read_rows(NAME)] == ["k"]


@pytest.mark.guard(
    "a truncate is applied in a topic of one partition alone",
    file="plugins/tidegate/flush/plan.py",
    text="    if observed.spec.value.applies_truncates and several is not None:\n",
    off="    if False:\n",
)
def test_topic_of_several_partitions_is_refused_before_anything_is_staged() -> None:
    world = World()
    world.broker.create("orders", 2)
    put(world, "k", "x")
    with pytest.raises(
        (GiveUp, SomeTables), match=r"topic=orders has partitions=2, and value.truncate: apply needs one"
    ):
        flush(world.open_session(build_truncate_pipeline()))
    assert world.engine.jobs == []


def test_earlier_records_of_a_key_are_not_left_out_where_a_truncate_may_lie_between() -> None:
    assert can_keep_last_per_key(build_pipeline(), build_table())
    pipeline = build_truncate_pipeline()
    assert not can_keep_last_per_key(pipeline, pipeline.tables[0])


@pytest.mark.parametrize("at_once", [True, False])
def test_first_record_behind_a_truncate_gives_the_columns_that_updates_leave_alone(world: World, at_once: bool) -> None:
    columns = (*COLUMNS, Column("b", "STRING"))
    pipeline = build_pipeline(build_table(NAME, **{**APPLY, "columns": columns}, update_columns=("a",)))
    for text in ("1", "2", None, "3", "4"):
        value = TRUNCATE if text is None else {"id": "k", "a": text, "b": text}
        world.broker.produce("orders", None if text is None else {"id": "k"}, value)
        if not at_once:
            flush(world.open_session(pipeline))
    if at_once:
        flush(world.open_session(pipeline))
    assert world.read_rows(NAME) == [{"id": "k", "a": "4", "b": "3"}]


def test_backfill_and_replay_are_refused_because_they_would_bring_rows_back(world: World) -> None:
    put(world, "k", "x")
    world.broker.produce("orders", None, TRUNCATE)
    session = world.open_session(build_truncate_pipeline())
    flush(session)
    with pytest.raises(GiveUp, match=r"backfill does not know value.truncate: apply"):
        propose_backfill(session, BackfillRequest({"orders": {0: (0, 1)}}))
    with pytest.raises(GiveUp, match=r"replay does not know value.truncate: apply"):
        replay_dead_letters(session)
    assert world.read_rows(NAME) == []


OLD_ROWS = [{"id": key, "a": "old"} for key in "klm"]


def hold_truncate(
    world: World, approve: Approve, *behind: tuple[str, str | None], **options: Any
) -> tuple[Pipeline, str]:
    """Three rows, and a batch that removes all of them and makes what is behind that; what the flush says of it."""
    for key in "klm":
        put(world, key, "old")
    flush(world.open_session(build_truncate_pipeline(**options)))
    world.broker.produce("orders", None, TRUNCATE)
    for key, name in behind:
        put(world, key, name)
    pipeline = build_truncate_pipeline(approve=approve, **options)
    with pytest.raises(HeldForApproval) as held:
        flush(world.open_session(pipeline))
    assert world.read_rows(NAME) == sort(OLD_ROWS)
    return pipeline, str(held.value)


def sort(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


@pytest.mark.parametrize("options", [{}, {"update_columns": ("a",)}])
@pytest.mark.parametrize("rule", [Approve(deletes_over=1), Approve(deletes_over_percent=50), Approve(rows_over=2)])
def test_rows_that_a_truncate_removes_are_deletes_that_a_rule_holds(
    world: World, rule: Approve, options: dict[str, Any]
) -> None:
    pipeline, message = hold_truncate(world, rule, ("l", "new"), ("n", "new"), **options)
    assert "inserted=1 updated=1 deleted=2 rows=4 table_rows=3" in message
    propose_decision(world.open_session(pipeline), DecisionKind.APPROVE).perform("ann")
    assert world.read_rows(NAME) == sort(OLD_ROWS)
    (done,) = flush(world.open_session(pipeline)).published
    assert world.read_rows(NAME) == [{"id": "l", "a": "new"}, {"id": "n", "a": "new"}]
    assert done.written_as == "truncate"


def test_truncate_alone_is_held_too(world: World) -> None:
    pipeline, message = hold_truncate(world, Approve(deletes_over=2))
    assert "inserted=0 updated=0 deleted=3 rows=3 table_rows=3" in message
    propose_decision(world.open_session(pipeline), DecisionKind.APPROVE).perform("ann")
    flush(world.open_session(pipeline))
    assert world.read_rows(NAME) == []


@pytest.mark.parametrize("stage_clock", [Stage(), Stage(10)])
def test_truncate_that_waits_is_applied_before_the_batches_behind_it(world: World, stage_clock: Stage) -> None:
    pipeline, _ = hold_truncate(world, Approve(deletes_over=2), ("n", "new"))
    pipeline = replace(pipeline, stage=stage_clock)
    for key, name in (("k", "later"), ("n", None)):
        put(world, key, name)
        stage_behind(world, pipeline)
    assert world.read_rows(NAME) == sort(OLD_ROWS)
    propose_decision(world.open_session(pipeline), DecisionKind.APPROVE).perform("ann")
    for _ in range(4):
        with suppress(NothingToDo):
            flush(world.open_session(pipeline))
    assert world.read_rows(NAME) == [{"id": "k", "a": "later"}]


def test_truncate_that_is_left_out_removes_nothing(world: World) -> None:
    pipeline, _ = hold_truncate(world, Approve(deletes_over=2), ("n", "new"))
    propose_reject(world.open_session(pipeline), skip=True).perform("bob")
    put(world, "k", "later")
    flush(world.open_session(pipeline))
    assert world.read_rows(NAME) == sort([{"id": "k", "a": "later"}, *OLD_ROWS[1:]])


def test_row_that_another_writer_adds_behind_the_approval_of_a_truncate_is_asked_about_again(world: World) -> None:
    pipeline, _ = hold_truncate(world, Approve(deletes_over=2))
    propose_decision(world.open_session(pipeline), DecisionKind.APPROVE).perform("ann")
    world.destination.append_foreign_rows(NAME, {"id": "z", "a": "hand-written"})
    with pytest.raises(HeldForApproval, match="deleted=4 rows=4 table_rows=4"):
        flush(world.open_session(pipeline))
    assert len(world.read_rows(NAME)) == 4
    propose_decision(world.open_session(pipeline), DecisionKind.APPROVE).perform("ann")
    flush(world.open_session(pipeline))
    assert world.read_rows(NAME) == []
