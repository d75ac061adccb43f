"""A batch that a rule of `approve` holds waits on its branch until a person decides, and is published no sooner."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from fakes import BAD, Crash, World, build_pipeline, build_table
from fakes.faults import UnreadableTable
from tidegate.cli.output import format_status
from tidegate.errors import (
    ConfigurationError,
    GiveUp,
    HeldForApproval,
    NothingToDo,
    PositionLost,
    RetryLater,
    SomeTablesFailed,
)
from tidegate.flush.clean_up import clean_up
from tidegate.flush.flush import flush, merge_staged_batches, stage_new_batches
from tidegate.flush.heartbeat import heartbeat
from tidegate.flush.merge import merge
from tidegate.flush.merge_queue import DeferredJob, MergeCheckpoint, merge_queue
from tidegate.flush.plan import PlanScope, plan
from tidegate.flush.preview import preview_batches
from tidegate.flush.stage import stage, stage_tables
from tidegate.model.batch import PublishOutcome, StagedBatch
from tidegate.monitoring.overview import build_overview
from tidegate.monitoring.status import read_status
from tidegate.reprocess.approve import decide, list_held_tables, propose_decision, propose_reject
from tidegate.reprocess.rebase import propose_rebase
from tidegate.reprocess.record import RecordAddress
from tidegate.reprocess.rollback import propose_answer, propose_undo
from tidegate.reprocess.skip import propose_skip
from tidegate.schema.data_types import Column
from tidegate.spec.pipeline import Pipeline, RollbackPolicy, Stage
from tidegate.spec.source import Errors
from tidegate.spec.table import Approve, History
from tidegate.table.approval import DecisionKind
from tidegate.table.pipeline_progress import read_pipeline_progress

ORDERS, COPY = "lake.shop.Orders", "lake.shop.copy"
KEY_COLUMNS = (Column("id", "STRING"),)
BEFORE = ("a", "b", "c", "d")
DELETES = Approve(deletes_over=1)


def build(approve: Approve | None = DELETES, *others: Any, **options: Any) -> Pipeline:
    return build_pipeline(build_table(ORDERS, approve=approve, **options), *others, source={"topics": ("orders",)})


@pytest.fixture
def world() -> World:
    """Two partitions, and four rows that were published."""
    world = World()
    world.broker.create("orders", 2)
    produce(world, **dict.fromkeys(BEFORE, "old"))
    flush(world.open_session(build(None)))
    return world


def produce(world: World, **names: str | None) -> None:
    for key, name in names.items():
        value = None if name is None else {"id": key, "name": name}
        world.broker.produce("orders", {"id": key}, value, ord(key[0]) % 2)


def flood(world: World) -> None:
    """Three of four rows are deleted, and one comes."""
    produce(world, a=None, b=None, c=None, e="new")


def read(world: World, table: str = ORDERS) -> dict[str, str]:
    return {row["id"]: row["name"] for row in world.read_rows(table)}


def list_branches(world: World, table: str = ORDERS) -> list[str]:
    memory_table = world.destination.tables[table]
    return sorted(set(memory_table.refs) - memory_table.tags - {"main"})


def hold(world: World, pipeline: Pipeline) -> str:
    with pytest.raises(HeldForApproval) as caught:
        flush(world.open_session(pipeline))
    return str(caught.value)


def approve(world: World, pipeline: Pipeline, by: str = "ann") -> None:
    propose_decision(world.open_session(pipeline), DecisionKind.APPROVE).perform(by)


def reject(world: World, pipeline: Pipeline) -> None:
    propose_reject(world.open_session(pipeline)).perform("bob")


def read_actions(world: World, pipeline: Pipeline) -> list[tuple[str, str]]:
    return [(a["action"], a["by"]) for a in read_status(world.open_session(pipeline))["tables"][0]["actions"]]


OLD = dict.fromkeys(BEFORE, "old")
NEW = {"d": "old", "e": "new"}


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (Approve(deletes_over=2), "deletes_over=2"),
        (Approve(deletes_over_percent=50), "deletes_over=50%"),
        (Approve(rows_over=3), "rows_over=3"),
        (Approve(when="deleted > inserted"), "when=deleted > inserted"),
    ],
)
def test_batch_that_a_rule_holds_waits_until_it_is_approved(world: World, rule: Approve, words: str) -> None:
    world.engine.conditions["deleted > inserted"] = lambda counts: counts["deleted"] > counts["inserted"]
    pipeline = build(rule)
    flood(world)
    message = hold(world, pipeline)
    assert f"held for approval: {words}, inserted=1 updated=0 deleted=3 rows=4 table_rows=4" in message
    assert read(world) == OLD
    (branch,) = list_branches(world)
    assert {row["id"] for row in world.destination.tables[ORDERS].read_rows(branch)} == set(NEW)
    assert branch in message
    approve(world, pipeline)
    assert read(world) == OLD  # an approval publishes nothing by itself
    flush(world.open_session(pipeline))
    assert read(world) == NEW
    assert list_branches(world) == []
    properties = world.destination.tables[ORDERS].properties
    assert [properties[f"tidegate.shop.{name}"] for name in ("held", "decision")] == ["", ""]
    assert read_actions(world, pipeline) == [("approve", "ann")]
    with pytest.raises(NothingToDo, match="every table stands at the end"):
        flush(world.open_session(pipeline))


@pytest.mark.parametrize(
    "rule",
    [
        Approve(deletes_over=3),
        Approve(deletes_over_percent=75),
        Approve(rows_over=4),
        Approve(holds_schema=True),
        Approve(when="deleted > inserted"),
    ],
)
def test_batch_that_no_rule_holds_is_published_at_once(world: World, rule: Approve) -> None:
    world.engine.conditions["deleted > inserted"] = lambda counts: False
    flood(world)
    flush(world.open_session(build(rule)))
    assert read(world) == NEW


def test_later_flushes_ask_nobody_again_and_merge_nothing(world: World) -> None:
    pipeline = build()
    flood(world)
    hold(world, pipeline)
    merges, branches = len(world.engine.merges), list_branches(world)
    for _ in range(3):
        assert "held for approval" in hold(world, pipeline)
        heartbeat(world.open_session(pipeline))
        clean_up(world.open_session(pipeline))
    assert (len(world.engine.merges), list_branches(world), read(world)) == (merges, branches, OLD)


def test_rejected_batch_stays_staged_and_can_be_approved_after_all(world: World) -> None:
    pipeline = build()
    flood(world)
    hold(world, pipeline)
    reject(world, pipeline)
    assert "rejected by bob" in hold(world, pipeline)
    assert read(world) == OLD
    approve(world, pipeline)
    flush(world.open_session(pipeline))
    assert read(world) == NEW
    assert read_actions(world, pipeline) == [("approve", "ann"), ("reject", "bob")]


def test_batch_is_not_skipped_where_what_is_staged_behind_it_could_not_be_read_again(world: World) -> None:
    pipeline = replace(build(), stage=Stage(10))
    session = world.open_session(pipeline)
    for changes in ({"a": None, "b": None, "c": None}, {"d": "kept", "e": "kept"}):
        produce(world, **changes)
        stage_new_batches(session)
    with pytest.raises(HeldForApproval):
        merge_staged_batches(session)
    world.broker.retain_from("orders", 5, 1)
    with pytest.raises(GiveUp, match=r"partition=1: the log starts at offset=5.*nothing was changed; approve the"):
        propose_reject(session, skip=True)
    world.broker.retain_from("orders", 4, 0)
    of_all = "partition=0: the log starts at offset=4, behind the batch's end=3, 2 offsets of 2 partitions in all, so"
    with pytest.raises(GiveUp, match=of_all):
        propose_reject(session, skip=True)
    approve(world, pipeline)
    merge_staged_batches(session)
    assert read(world) == {"d": "kept", "e": "kept"}


def recreate_topic(world: World) -> None:
    world.broker.create("orders", 2)


def move_to_another_cluster(world: World) -> None:
    world.broker.cluster_id = "cluster-2"


def cut_log(world: World) -> None:
    """Newer leaders lack the held records."""
    for partition in (0, 1):
        world.broker.elect("orders", partition, has=2)


@pytest.mark.parametrize("stage_clock", [Stage(), Stage(10)])
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (recreate_topic, "deleted and created again"),
        (move_to_another_cluster, "the brokers are another cluster"),
        (cut_log, "the log was cut at offset=2"),
    ],
)
def test_held_batch_of_another_log_is_not_skipped_over_records_of_the_new_one(
    world: World, change: Callable[[World], None], reason: str, stage_clock: Stage
) -> None:
    """The batch's end is an offset of the old log; what the new one holds before it was never read."""
    pipeline = hold_one_of_two_tables(world, stage_clock)
    change(world)
    produce(world, **dict.fromkeys("efghijklmnop", "new"))
    for _ in range(2):
        with pytest.raises(PositionLost, match=reason):
            propose_reject(world.open_session(pipeline), ORDERS, skip=True)
    assert read(world) == OLD


@pytest.mark.parametrize("stage_clock", [Stage(), Stage(10)])
def test_held_batch_of_a_topic_that_was_created_again_is_left_out_by_the_command_that_its_skip_names(
    world: World, stage_clock: Stage
) -> None:
    pipeline = hold_one_of_two_tables(world, stage_clock)
    recreate_topic(world)
    new = dict.fromkeys("efghijklmnop", "new")
    produce(world, **new)
    with pytest.raises(PositionLost) as failure:
        propose_reject(world.open_session(pipeline), ORDERS, skip=True)
    assert f"tidegate rebase shop --table {ORDERS} --to earliest" in str(failure.value)
    for table in (ORDERS, COPY):
        session = world.open_session(pipeline)
        propose_rebase(session, "earliest", table).perform("bob")
    flush(world.open_session(pipeline))
    assert (read(world), read(world, COPY)) == ({**OLD, **new}, {"d": "old", **new})


def test_rejected_batch_is_skipped_by_a_move_of_the_position(world: World) -> None:
    pipeline = build()
    flood(world)
    hold(world, pipeline)
    produce(world, f="later")
    proposed = propose_reject(world.open_session(pipeline), skip=True)
    assert "nothing of it will be" in proposed.preview
    proposed.perform("bob")
    flush(world.open_session(pipeline))
    assert read(world) == {**OLD, "f": "later"}
    assert list_branches(world) == []
    assert read_actions(world, pipeline) == [("rebase", "bob")]


def test_diff_that_main_has_changed_meanwhile_is_asked_again(world: World) -> None:
    pipeline = build()
    flood(world)
    hold(world, pipeline)
    approve(world, pipeline)
    table = world.destination.tables[ORDERS]
    rows = tuple({**row, "name": "other"} if row["id"] == "a" else row for row in table.read_rows())
    world.destination.add_snapshot(ORDERS, "main", rows, {})
    hold(world, pipeline)
    assert read(world) == {**OLD, "a": "other"}
    assert len(list_branches(world)) == 1
    approve(world, pipeline, "eve")
    flush(world.open_session(pipeline))
    assert read(world) == NEW


def test_diff_that_main_has_not_changed_is_published_although_main_moved(world: World) -> None:
    pipeline = build()
    flood(world)
    hold(world, pipeline)
    approve(world, pipeline)
    rows = (*world.destination.tables[ORDERS].read_rows(), {"id": "z", "name": "another writer's"})
    world.destination.add_snapshot(ORDERS, "main", rows, {})
    flush(world.open_session(pipeline))
    assert read(world) == {**NEW, "z": "another writer's"}


def test_main_that_moves_while_the_diff_is_made_lets_it_be_made_again(world: World) -> None:
    pipeline = build()
    flood(world)
    moved = []

    def move(call: str, moment: str) -> None:
        if (call, moment) == ("staging.read_job_answers", "before") and not moved:
            moved.append(world.destination.add_snapshot(ORDERS, "main", ({"id": "d", "name": "old"},), {}))

    flush(world.open_session(pipeline, move))  # nothing is deleted any more
    assert read(world) == NEW


def test_two_runs_hold_a_batch_once(world: World) -> None:
    pipeline = build()
    flood(world)
    session = world.open_session(pipeline)
    stage(session, plan(session))
    first, second = plan(session), plan(session)
    news = []
    queues = [stage_tables(session, one)[0] for one in (first, second)]

    def run_other(call: str, moment: str) -> None:
        if (call, moment) == ("commits.start_branch", "before") and not news:
            news.append(True)
            news.append(merge_queue(session, queues[1]).held.is_new)

    held = merge_queue(world.open_session(pipeline, run_other), queues[0]).held
    assert (news, held.is_new) == ([True, True], False)
    assert len(list_branches(world)) == 1
    approve(world, pipeline)
    flush(session)
    assert read(world) == NEW


def test_held_table_holds_only_itself_even_when_its_queue_is_full(world: World) -> None:
    pipeline = build(DELETES, build_table(COPY), max_pending=2)
    flush(world.open_session(pipeline))
    flood(world)
    flush(world.open_session(pipeline))
    for name in ("1", "2", "3"):
        produce(world, d=name)
        flush(world.open_session(pipeline))
        assert read(world, COPY) == {"d": name, "e": "new"}
        assert read(world) == OLD
    assert "held for approval" in hold(world, pipeline)
    approve(world, pipeline)
    while read(world) != read(world, COPY):
        flush(world.open_session(pipeline))
    assert list_branches(world) == []


def test_single_table_is_staged_on_up_to_its_limit_while_a_batch_is_held(world: World) -> None:
    pipeline = build(max_pending=2)
    flood(world)
    hold(world, pipeline)
    for name in ("1", "2", "3"):
        produce(world, d=name)
        hold(world, pipeline)
    staged = world.destination.list_staged(f"{ORDERS}_shop_tmp", ORDERS)
    assert len(staged) == 2
    approve(world, pipeline)
    for _ in range(2):
        flush(world.open_session(pipeline))
    assert read(world) == {"d": "3", "e": "new"}


def hold_one_of_two_tables(world: World, stage_clock: Stage) -> Pipeline:
    pipeline = replace(build(DELETES, build_table(COPY)), stage=stage_clock)
    flush(world.open_session(pipeline))
    flood(world)
    flush(world.open_session(pipeline))
    return pipeline


@pytest.mark.parametrize("stage_clock", [Stage(), Stage(10)])
def test_record_that_is_skipped_behind_a_held_batch_waits_with_it_and_each_run_says_so(
    world: World, stage_clock: Stage
) -> None:
    """The dead letter needs a new intermediate table, and the present one has the rows of the held batch."""
    pipeline = hold_one_of_two_tables(world, stage_clock)
    world.broker.produce("orders", {"id": "a"}, BAD, 1)
    with pytest.raises(GiveUp, match="topic=orders partition=1"):
        flush(world.open_session(pipeline))
    session = world.open_session(pipeline)
    offset = len(world.broker.partitions["orders"][1].records) - 1
    propose_skip(session, RecordAddress("orders", 1, offset)).perform("ann")
    flush(world.open_session(pipeline))
    for _ in range(2):
        assert "held for approval" in hold(world, pipeline)
    assert (read(world), read(world, COPY)) == (OLD, NEW)
    approve(world, pipeline)
    flush(world.open_session(pipeline))
    produce(world, f="later")
    flush(world.open_session(pipeline))
    assert read(world) == read(world, COPY) == {**NEW, "f": "later"}


@pytest.mark.parametrize("stage_clock", [Stage(), Stage(10)])
def test_table_that_lost_records_behind_a_held_batch_is_told_to_decide_about_that_first(
    world: World, stage_clock: Stage
) -> None:
    """Kafka has lost the records of the held batch too: a move of the position would leave them out."""
    pipeline = hold_one_of_two_tables(world, stage_clock)
    for partition in (0, 1):
        world.broker.partitions["orders"][partition].end += 1
        world.broker.retain_from("orders", world.broker.partitions["orders"][partition].end, partition)
    with pytest.raises(PositionLost) as failure:
        flush(world.open_session(pipeline))
    (line,) = [line for line in str(failure.value).splitlines() if f"table={ORDERS}: topic" in line]
    assert "1 offset is gone before being read" in line
    assert f"publish it with: tidegate approve shop --table {ORDERS}" in line
    session = world.open_session(pipeline)
    reports = [read_status(session)["tables"], build_overview(read_pipeline_progress(session))["tables"]]
    problems = [table["problem"] for tables in reports for table in tables if table["table"] == ORDERS]
    assert [problem in line for problem in problems] == [True, True]
    assert ["decide first" in problem for problem in problems] == [True, True]
    approve(world, pipeline)
    with suppress(SomeTablesFailed):
        flush(world.open_session(pipeline))
    assert read(world) == read(world, COPY) == NEW
    with pytest.raises(PositionLost, match="1 offset is gone") as failure:
        flush(world.open_session(pipeline))
    assert "approve" not in str(failure.value)


def test_each_batch_of_a_queue_is_asked_by_itself(world: World) -> None:
    pipeline = build(rule := Approve(deletes_over=1))
    session = world.open_session(replace(pipeline, stage=Stage(10)))
    for changes in ({"a": "1"}, {"b": None}, {"a": None, "c": None}, {"d": "4"}):
        produce(world, **changes)
        stage_new_batches(session)
    result = merge_staged_batches(session)
    assert [batch.batch for batch in result.published] == [2, 3]
    assert len(result.held) == 1
    assert read(world) == {"a": "1", "c": "old", "d": "old"}
    with pytest.raises(HeldForApproval):
        merge_staged_batches(session)
    approve(world, pipeline)
    merge_staged_batches(session)
    assert read(world) == {"d": "4"}
    assert rule.deletes_over == 1


def test_staging_goes_on_beside_a_held_batch_and_calls_for_no_merge(world: World) -> None:
    pipeline = replace(build(max_pending=2), stage=Stage(10))
    session = world.open_session(pipeline)
    flood(world)
    stage_new_batches(session)
    with pytest.raises(HeldForApproval):
        merge_staged_batches(session)
    produce(world, d="1")
    assert not stage_new_batches(session).calls_merge
    produce(world, d="2")
    with pytest.raises(NothingToDo):
        stage_new_batches(session)


def test_change_of_the_schema_is_held_before_the_table_has_it(world: World) -> None:
    columns = (Column("id", "STRING"), Column("name", "STRING"), Column("more", "STRING"))
    pipeline = build(Approve(holds_schema=True, deletes_over=1), columns=columns)
    flood(world)
    assert "held for approval: schema=any" in hold(world, pipeline)
    assert [column.name for column in world.destination.tables[ORDERS].columns] == ["id", "name"]
    hold(world, pipeline)
    approve(world, pipeline)
    assert "held for approval: deletes_over=1" in hold(world, pipeline)  # now the rows
    assert [column.name for column in world.destination.tables[ORDERS].columns] == ["id", "name", "more"]
    approve(world, pipeline)
    flush(world.open_session(pipeline))
    assert read(world) == NEW


def test_rules_that_are_taken_out_of_the_file_hold_nothing_any_more(world: World) -> None:
    flood(world)
    hold(world, build())
    flush(world.open_session(build(Approve(deletes_over=5))))
    assert read(world) == NEW
    assert list_branches(world) == []


def test_rules_that_change_are_asked_anew(world: World) -> None:
    flood(world)
    hold(world, build())
    stricter = build(Approve(deletes_over=0))
    assert "deletes_over=0" in hold(world, stricter)
    assert len(list_branches(world)) == 1


def test_decision_about_a_diff_that_was_replaced_changes_nothing(world: World) -> None:
    pipeline = build()
    flood(world)
    hold(world, pipeline)
    (shown,) = list_held_tables(world.open_session(pipeline))
    approve(world, pipeline)
    with pytest.raises(GiveUp, match=r"somebody else has decided meanwhile.*verdict=approve by=ann"):
        decide(shown, DecisionKind.REJECT, "bob")
    flush(world.open_session(pipeline))
    assert read(world) == NEW
    with pytest.raises(GiveUp, match="does not wait for this diff any more"):
        decide(shown, DecisionKind.REJECT, "bob")


def test_nothing_to_decide_is_said(world: World) -> None:
    with pytest.raises(NothingToDo, match="no batch waits for an approval"):
        propose_decision(world.open_session(build()), DecisionKind.APPROVE)


def test_skip_of_several_held_tables_must_name_one(world: World) -> None:
    pipeline = build(DELETES, build_table(COPY, approve=Approve(rows_over=0)))
    with pytest.raises(HeldForApproval):
        flush(world.open_session(pipeline))
    flood(world)
    flush_quietly(world, pipeline)
    with pytest.raises(ConfigurationError, match=f"{ORDERS}.*name one"):
        propose_reject(world.open_session(pipeline), skip=True)


def flush_quietly(world: World, pipeline: Pipeline) -> None:
    try:
        flush(world.open_session(pipeline))
    except NothingToDo:
        return


def test_first_batch_of_a_new_table_can_be_held(world: World) -> None:
    pipeline = build_pipeline(build_table(COPY, approve=Approve(rows_over=3)), source={"topics": ("orders",)})
    hold(world, pipeline)
    assert read(world, COPY) == {}
    approve(world, pipeline)
    flush(world.open_session(pipeline))
    assert read(world, COPY) == OLD


@pytest.mark.parametrize("answer", ["undo", "rewind", "keep"])
def test_hold_counts_no_more_after_a_rollback(world: World, answer: str) -> None:
    pipeline = build()
    before = world.destination.tables[ORDERS].refs["main"]
    produce(world, f="1")
    flush(world.open_session(pipeline))
    flood(world)
    hold(world, pipeline)
    world.destination.rollback(ORDERS, before)
    session = world.open_session(pipeline)
    with pytest.raises(GiveUp, match="was rolled back"):
        flush(session)
    if answer == "undo":
        propose_undo(session).perform("ann")
    else:
        propose_answer(session, answer).perform("ann")
    assert read(world) == ({**OLD, "f": "1"} if answer == "undo" else OLD)
    hold(world, pipeline)
    approve(world, pipeline)
    flush(session)
    assert read(world) == (NEW if answer == "keep" else {**NEW, "f": "1"})
    assert list_branches(world) == []


def test_hold_counts_no_more_after_a_rebase(world: World) -> None:
    pipeline = build()
    flood(world)
    hold(world, pipeline)
    session = world.open_session(pipeline)
    propose_rebase(session, "{}").perform("ann")
    with pytest.raises(NothingToDo):
        propose_decision(session, DecisionKind.APPROVE)
    hold(world, pipeline)
    approve(world, pipeline)
    flush(session)
    assert read(world) == NEW
    assert list_branches(world) == []


def test_rewind_by_the_file_asks_for_the_batch_as_it_is_then(world: World) -> None:
    pipeline = replace(build(), on_rollback=RollbackPolicy.REWIND)
    before = world.destination.tables[ORDERS].refs["main"]
    produce(world, f="1")
    flush(world.open_session(pipeline))
    flood(world)
    hold(world, pipeline)
    world.destination.rollback(ORDERS, before)
    hold(world, pipeline)
    approve(world, pipeline)
    flush(world.open_session(pipeline))
    assert read(world) == {**NEW, "f": "1"}


def test_status_says_what_waits_and_where_to_read_about_it(world: World) -> None:
    pipeline = build()
    flood(world)
    hold(world, pipeline)
    (table,) = read_status(world.open_session(pipeline))["tables"]
    assert table["problem"].startswith(f"pipeline=shop table={ORDERS} batch=2: held for approval: deletes_over=1")
    assert table["runbook"] == "held"
    assert (table["held"]["deleted"], table["held"]["inserted"]) == (3, 1)
    assert table["approved"] is None
    approve(world, pipeline)
    status = read_status(world.open_session(pipeline))
    (table,) = status["tables"]
    assert (table["held"], table["problem"]) == (None, None)
    assert table["approved"] == {"batch": 2, "by": "ann", "at": table["actions"][0]["at"]}
    assert f"{ORDERS}: batch=2 is approved by ann, and waits for the next flush" in format_status(status)
    flush(world.open_session(pipeline))
    assert read_status(world.open_session(pipeline))["tables"][0]["approved"] is None


def test_preview_shows_the_diff_and_publishes_nothing(world: World) -> None:
    pipeline = build(DELETES, build_table(COPY))
    produce(world, d="newer")
    flood(world)
    session = world.open_session(pipeline)
    found = {preview.table: preview for preview in preview_batches(session).previews}
    assert found[ORDERS].counts == {"inserted": 1, "updated": 1, "deleted": 3, "rows": 5, "table_rows": 4}
    assert found[ORDERS].rules == ("deletes_over=1",)
    assert found[ORDERS].columns == ({"column": "name", "rows": 1},)
    assert [sample["kind"] for sample in found[ORDERS].samples] == ["deleted"] * 3 + ["updated", "inserted"]
    assert "the table is made by its first batch, of staged=" in found[COPY].note
    assert (read(world), list_branches(world)) == (OLD, [])
    stages = len(world.engine.stages)
    flush(session)
    assert len(world.engine.stages) == stages, "the flush takes over what was staged"
    assert read(world, COPY) == {"d": "newer", "e": "new"}


def test_table_that_cannot_be_read_is_not_said_to_wait_for_nothing(world: World) -> None:
    pipeline = build()
    flood(world)
    hold(world, pipeline)
    (held,) = list_held_tables(world.open_session(pipeline))
    session = world.open_session(pipeline, destination=UnreadableTable(world.destination, ORDERS))
    with pytest.raises(RetryLater, match="did not answer during read_state"):
        list_held_tables(session)
    unread = replace(held, table=replace(held.table, session=session))
    with pytest.raises(RetryLater, match="did not answer during read_state"):
        decide(unread, DecisionKind.APPROVE, "ann")


def test_preview_of_a_held_batch_shows_it_again_and_keeps_its_branch(world: World) -> None:
    pipeline = build()
    flood(world)
    hold(world, pipeline)
    (found,) = preview_batches(world.open_session(pipeline)).previews
    assert (found.counts["deleted"], len(list_branches(world))) == (3, 1)
    assert list_held_tables(world.open_session(pipeline))[0].hold.branch == list_branches(world)[0]


def test_preview_names_changes_of_the_schema_and_makes_none(world: World) -> None:
    columns = (Column("id", "STRING"), Column("name", "STRING"), Column("more", "STRING"))
    flood(world)
    (found,) = preview_batches(world.open_session(build(None, columns=columns))).previews
    assert (found.counts, len(found.schema_changes)) == ({}, 1)
    assert [column.name for column in world.destination.tables[ORDERS].columns] == ["id", "name"]


def test_preview_leaves_no_rows_behind_and_remembers_nothing(world: World) -> None:
    """Its answers hold rows, and a merge of a table with memory writes that on a branch too."""
    pipeline = build(None, build_table(COPY, sequence_by=("name",)))
    flush(world.open_session(pipeline))
    flood(world)
    before = {name: table.read_rows() for name, table in world.destination.tables.items() if "tmp" not in name}
    for _ in range(2):
        found = {preview.table: preview for preview in preview_batches(world.open_session(pipeline)).previews}
        assert [found[name].counts["deleted"] for name in (ORDERS, COPY)] == [3, 3]
        assert list_branches(world, f"{COPY}_deletes") == []
        tables = world.destination.tables
        assert {name: table.read_rows() for name, table in tables.items() if "tmp" not in name} == before
        assert [word for table in tables.values() for word in table.properties if "audit" in word] == []


@pytest.mark.parametrize("rule", [Approve(rows_over=1), Approve(holds_schema=True)])
def test_nothing_is_staged_in_vain_behind_a_held_batch_where_records_make_columns(world: World, rule: Approve) -> None:
    growing = build_table(COPY, columns=None, key_columns=KEY_COLUMNS, unknown_fields="add", approve=rule)
    pipeline = build_pipeline(growing, source={"topics": ("orders",)}, max_records=2)

    def produce_fields(key: str, **fields: str) -> None:
        world.broker.produce("orders", {"id": key}, {"id": key, **fields}, 0)

    while True:
        try:
            flush(world.open_session(pipeline))
        except HeldForApproval:
            break
        except NothingToDo:
            produce_fields("x", more="1")
            produce_fields("y", more="1")
    for number in range(6):
        produce_fields(f"n{number}", other="2")
    stages = len(world.engine.stages)
    for _ in range(3):
        with pytest.raises(HeldForApproval):
            flush(world.open_session(pipeline))
    assert len(world.engine.stages) == stages
    for _ in range(20):
        with suppress(NothingToDo):
            try:
                flush(world.open_session(pipeline))
            except HeldForApproval:
                approve(world, pipeline)
    assert "n5" in {row["id"] for row in world.destination.tables[COPY].read_rows()}


def test_preview_without_work_says_so(world: World) -> None:
    with pytest.raises(NothingToDo, match="every table stands at the end"):
        preview_batches(world.open_session(build()))


@pytest.mark.parametrize("options", [{"sequence_by": ("name",)}, {"history": History()}])
def test_batch_that_is_left_out_leaves_no_delete_and_no_change_behind(world: World, options: dict[str, Any]) -> None:
    """A delete of it would take later records of its keys, and a change of it would come back with them."""
    source = {"topics": ("orders",)}
    flush(world.open_session(build_pipeline(build_table(COPY, **options), source=source)))
    pipeline = build_pipeline(build_table(COPY, approve=Approve(rows_over=2), **options), source=source)
    memory = f"{COPY}_{'changes' if 'history' in options else 'deletes'}"
    for number in range(2):
        rows, remembered = world.read_rows(COPY), world.read_rows(memory)
        flood(world)
        for _ in range(2):
            hold(world, pipeline)
            assert (world.read_rows(memory), list_branches(world, memory)) == (remembered, [])
        propose_reject(world.open_session(pipeline), skip=True).perform("bob")
        flush_quietly(world, pipeline)
        assert (world.read_rows(COPY), world.read_rows(memory)) == (rows, remembered)
        produce(world, a=f"old {number}")
        flush(world.open_session(pipeline))
        assert read(world, COPY) == {**OLD, "a": f"old {number}"}


def test_rule_that_holds_only_on_a_newer_main_holds_too(world: World) -> None:
    rule = "inserted > table_rows"
    world.engine.conditions[rule] = lambda counts: counts["inserted"] > counts["table_rows"]
    pipeline = build(Approve(when=rule))
    produce(world, **dict.fromkeys("wxyz", "new"))
    moved = []

    def shrink(call: str, moment: str) -> None:
        if (call, moment) == ("commits.publish", "before") and not moved:
            rows = tuple(row for row in world.destination.tables[ORDERS].read_rows() if row["id"] != "a")
            moved.append(world.destination.add_snapshot(ORDERS, "main", rows, {}))

    with pytest.raises(HeldForApproval, match="inserted=4 updated=0 deleted=0 rows=4 table_rows=3"):
        flush(world.open_session(pipeline, shrink))
    assert moved
    assert len(read(world)) == 3


def expect_hold_of(world: World, pipeline: Pipeline, rows: dict[str, str]) -> None:
    """The next flush asks anew, and an approval of that is used."""
    hold(world, pipeline)
    assert read(world) == rows
    approve(world, pipeline, "eve")
    flush(world.open_session(pipeline))
    assert read(world) == NEW
    assert list_branches(world) == []


@pytest.mark.parametrize("to", ['{"orders": {"0": 2, "1": 2}}', "latest"])
def test_approval_counts_no_more_after_a_rebase(world: World, to: str) -> None:
    pipeline = build()
    flood(world)
    hold(world, pipeline)
    approve(world, pipeline)
    session = world.open_session(pipeline)
    propose_rebase(session, to).perform("ann")
    if to == "latest":
        flush_quietly(world, pipeline)
        assert read(world) == OLD
        flood(world)  # the same diff, of other records
    expect_hold_of(world, pipeline, OLD)


def test_approval_of_a_batch_that_was_left_out_does_not_publish_an_equal_one(world: World) -> None:
    pipeline = build()
    flood(world)
    hold(world, pipeline)
    proposed = propose_reject(world.open_session(pipeline), skip=True)
    approve(world, pipeline)
    proposed.perform("bob")
    flush_quietly(world, pipeline)
    assert read(world) == OLD
    flood(world)
    expect_hold_of(world, pipeline, OLD)


def test_approval_under_other_rules_counts_no_more(world: World) -> None:
    flood(world)
    hold(world, build())
    approve(world, build())
    expect_hold_of(world, build(Approve(deletes_over=0)), OLD)


def test_approval_while_another_run_publishes_is_used_up(world: World) -> None:
    pipeline = build()
    flood(world)
    session = world.open_session(pipeline)
    stage(session, plan(session))
    first, second = (stage_tables(session, plan(session))[0] for _ in range(2))
    done = []

    def decide_meanwhile(call: str, moment: str) -> None:
        if (call, moment) == ("commits.start_branch", "before") and not done:
            done.append(merge_queue(session, second).held)
            approve(world, pipeline)

    assert [b.batch for b in merge_queue(world.open_session(pipeline, decide_meanwhile), first).published] == [2]
    properties = world.destination.tables[ORDERS].properties
    assert [properties[f"tidegate.shop.{name}"] for name in ("held", "decision")] == ["", ""]
    world.destination.add_snapshot(ORDERS, "main", tuple({"id": key, "name": "old"} for key in BEFORE), {})
    flood(world)  # the same diff once more
    expect_hold_of(world, pipeline, OLD)


def test_decision_about_another_staged_attempt_approves_nothing(world: World) -> None:
    pipeline = build()
    flood(world)
    hold(world, pipeline)
    approve(world, pipeline)
    name, properties = "tidegate.shop.decision", world.destination.tables[ORDERS].properties
    for fact in ("staged_attempt", "stands_on", "digest"):
        properties[name] = json.dumps({**json.loads(good := properties[name]), fact: "another"})
        hold(world, pipeline)
        properties[name] = good
    flush(world.open_session(pipeline))
    assert read(world) == NEW


def stage_each(world: World, pipeline: Pipeline, *changes: dict[str, str | None]) -> list[StagedBatch]:
    session = world.open_session(pipeline)
    for change in changes:
        produce(world, **change)
        stage_new_batches(session)
    return list(stage_tables(session, plan(session, scope=PlanScope.STAGED))[0])


def test_batch_that_is_approved_after_the_plan_left_it_out_comes_first(world: World) -> None:
    pipeline = build()
    flood(world)
    hold(world, pipeline)
    produce(world, d="later")
    session = world.open_session(pipeline)
    queue = stage_tables(session, plan(session))[0]
    assert [batch.batch for batch in queue] == [3]
    approve(world, pipeline)
    assert [batch.batch for batch in merge_queue(session, queue).published] == [2, 3]
    assert read(world) == {**NEW, "d": "later"}


@pytest.mark.parametrize("rule", [None, Approve(deletes_over=100)])
def test_batch_of_a_deferred_job_counts_once_where_a_rule_may_hold_too(world: World, rule: Approve | None) -> None:
    pipeline = replace(build(rule), stage=Stage(10))
    session = world.open_session(pipeline)
    queue = stage_each(world, pipeline, {"d": "1"}, {"d": "2"})
    published = merge(session, queue[0])  # the task ended before it could say so
    checkpoint = MergeCheckpoint(deferred_job=DeferredJob(published.job, 1.0), first_under_way=queue[0].batch)
    result = merge_queue(session, queue, checkpoint)
    assert [(b.batch, b.outcome) for b in result.published] == [(b, PublishOutcome.PUBLISHED) for b in (2, 3)]
    assert read(world) == {**OLD, "d": "2"}


def test_batch_of_a_deferred_job_counts_also_while_the_next_one_is_held(world: World) -> None:
    pipeline = replace(build(), stage=Stage(10))
    queue = stage_each(world, pipeline, {"d": "1"}, {"a": None, "b": None, "c": None})
    check_deferred_batch_counts(world, pipeline, queue)


def test_batch_of_a_deferred_job_counts_also_while_a_change_of_the_schema_is_held(world: World) -> None:
    columns = (Column("id", "STRING"), Column("name", "STRING"), Column("more", "STRING"))
    queue = stage_each(world, replace(build(None, columns=columns), stage=Stage(10)), {"d": "1"}, {"d": "2"})
    merge(world.open_session(build(None, columns=columns)), queue[0])
    world.destination.tables[ORDERS].columns = columns[:2]  # somebody has taken it out
    pipeline = replace(build(Approve(holds_schema=True), columns=columns), stage=Stage(10))
    check_deferred_batch_counts(world, pipeline, queue)


def check_deferred_batch_counts(world: World, pipeline: Pipeline, queue: list[StagedBatch]) -> None:
    session = world.open_session(pipeline)
    published = merge(session, queue[0])
    for is_new in (True, False):
        deferred = DeferredJob(published.job, 1.0)
        result = merge_queue(session, queue, MergeCheckpoint(deferred_job=deferred, first_under_way=queue[0].batch))
        assert ([b.batch for b in result.published], result.failure) == ([2], None)
        assert result.held is not None
        assert f"batch={queue[1].batch}: held" in str(result.held)
        assert result.held.is_new is is_new


def test_result_that_was_lost_is_the_same_for_the_next_try(world: World) -> None:
    pipeline = replace(build(), stage=Stage(10))
    queue = stage_each(world, pipeline, {"d": "1"}, {"a": None, "b": None, "c": None})
    checkpoint = MergeCheckpoint()
    for _ in range(2):
        result = merge_queue(world.open_session(pipeline), queue, checkpoint)
        assert ([b.batch for b in result.published], result.failure) == ([2], None)
        assert result.held is not None


def test_batch_without_rows_leaves_a_schema_alone_that_must_be_approved(world: World) -> None:
    world.engine.conditions["name <> 'x'"] = lambda row: row["name"] != "x"
    columns = (Column("id", "STRING"), Column("name", "STRING"), Column("more", "STRING"))
    pipeline = build(Approve(holds_schema=True), columns=columns, when="name <> 'x'")
    table = world.destination.tables[ORDERS]
    produce(world, a="x")
    world.clock.tick(86_400_000)  # so that the batch publishes its position
    assert flush(world.open_session(pipeline)).held == ()
    position = world.destination.read_state(ORDERS, "shop").position
    assert position.offsets == {"orders": {0: 2, 1: 3}}
    assert [column.name for column in table.columns] == ["id", "name"]
    assert read_status(world.open_session(pipeline))["tables"][0]["problem"] is None
    produce(world, a="y")
    assert "schema=any" in hold(world, pipeline)
    approve(world, pipeline)
    flush(world.open_session(pipeline))
    assert [column.name for column in table.columns] == ["id", "name", "more"]
    assert {row["id"]: row["name"] for row in world.read_rows(ORDERS)} == {**OLD, "a": "y"}


@pytest.mark.parametrize("subject", ["held", "decision"])
@pytest.mark.parametrize(
    "text", ["{", "null", "[]", '{"batch":2,"new":1}', "RULES", "COUNTS", "MORE", '{"digest":"1"}', "7"]
)
def test_note_of_another_shape_holds_and_decides_nothing(world: World, subject: str, text: str) -> None:
    pipeline = build()
    flood(world)
    hold(world, pipeline)
    approve(world, pipeline)
    properties = world.destination.tables[ORDERS].properties
    name = f"tidegate.shop.{subject}"
    good = json.loads(properties[name])
    other = {"RULES": {**good, "rules": 1, "by": 1}, "COUNTS": {**good, "counts": [], "at_ms": ""}}
    changed = {**other, "MORE": {**good, "more": 1}}.get(text)
    properties[name] = text if changed is None else json.dumps(changed)
    if subject == "decision":
        expect_hold_of(world, pipeline, OLD)
        return
    assert read_status(world.open_session(pipeline))["tables"][0]["problem"] is None
    clean_up(world.open_session(pipeline))
    flush(world.open_session(pipeline))  # the decision names all that it is about
    assert read(world) == NEW


def test_held_change_of_the_schema_can_be_skipped_where_deletes_are_remembered(world: World) -> None:
    options: dict[str, Any] = {"sequence_by": ("name",), "approve": Approve(holds_schema=True)}
    source = {"topics": ("orders",)}
    flush(world.open_session(build_pipeline(build_table(COPY, **options), source=source)))
    columns = (Column("id", "STRING"), Column("name", "STRING"), Column("more", "STRING"))
    pipeline = build_pipeline(build_table(COPY, columns=columns, **options), source=source)
    produce(world, a=None)
    hold(world, pipeline)
    reject(world, pipeline)
    propose_reject(world.open_session(pipeline), skip=True).perform("bob")
    flush_quietly(world, pipeline)
    assert read(world, COPY) == OLD


def test_change_of_the_schema_that_was_approved_once_cannot_be_skipped_where_deletes_are_remembered(
    world: World,
) -> None:
    """A run that was killed within its publish has remembered the deletes, and the table is as if it had not begun."""
    options: dict[str, Any] = {"sequence_by": ("name",), "approve": Approve(holds_schema=True)}
    source = {"topics": ("orders",)}
    flush(world.open_session(build_pipeline(build_table(COPY, **options), source=source)))
    columns = (Column("id", "STRING"), Column("name", "STRING"), Column("more", "STRING"))
    pipeline = build_pipeline(build_table(COPY, columns=columns, **options), source=source)
    produce(world, a=None)
    hold(world, pipeline)
    approve(world, pipeline)
    for _ in range(2):
        with pytest.raises(GiveUp, match="may be remembered already"):
            propose_reject(world.open_session(pipeline), skip=True)
        reject(world, pipeline)
    with pytest.raises(GiveUp, match="may be remembered already"):
        propose_reject(world.open_session(pipeline), skip=True)


@pytest.mark.parametrize("options", [{"sequence_by": ("name",)}, {"history": History()}])
@pytest.mark.parametrize("is_killed", [False, True])
def test_batch_whose_publish_began_under_another_diff_cannot_be_skipped_where_deletes_are_remembered(
    world: World, *, is_killed: bool, options: dict[str, Any]
) -> None:
    """No rule held it, its deletes were remembered, and then another writer has changed what a rule looks at."""
    source = {"topics": ("orders",)}
    flush(world.open_session(build_pipeline(build_table(COPY, **options), source=source)))
    rule = "deleted > table_rows"
    world.engine.conditions[rule] = lambda counts: counts["table_rows"] < 4
    pipeline = build_pipeline(build_table(COPY, approve=Approve(when=rule), **options), source=source)
    flood(world)

    def shrink(call: str, moment: str) -> None:
        if (call, moment) == ("commits.publish", "before"):
            rows = tuple(row for row in world.read_rows(COPY) if row["id"] != "d")
            world.destination.add_snapshot(COPY, "main", rows, {})
            if is_killed:
                raise Crash(call)

    with suppress(Crash, HeldForApproval):
        flush(world.open_session(pipeline, shrink))
    for _ in range(2):
        hold(world, pipeline)
        with pytest.raises(GiveUp, match="its publish may have begun, so it cannot be left out any more"):
            propose_reject(world.open_session(pipeline), skip=True)
        reject(world, pipeline)
    approve(world, pipeline)
    flush(world.open_session(pipeline))
    assert {row["id"] for row in world.read_rows(COPY) if row.get("is_current", True)} == {"e"}


def test_keys_with_several_rows_are_counted_once_and_the_rows_of_the_table_all(world: World) -> None:
    source = {"topics": ("orders",)}
    produce(world, a="newer", b="newer")
    flush(world.open_session(build_pipeline(build_table(COPY, mode="delete"), source=source)))
    assert len(world.read_rows(COPY)) == 6
    produce(world, a=None)
    pipeline = build_pipeline(build_table(COPY, mode="delete", approve=Approve(deletes_over=0)), source=source)
    assert "inserted=0 updated=0 deleted=1 rows=1 table_rows=6" in hold(world, pipeline)
    approve(world, pipeline)
    flush(world.open_session(pipeline))
    assert sorted(row["id"] for row in world.read_rows(COPY)) == ["b", "b", "c", "d"]


@pytest.mark.parametrize("verdicts", [("approve", "reject"), ("reject", "approve")])
def test_of_two_decisions_at_once_the_second_is_told_of_the_first(world: World, verdicts: tuple[str, str]) -> None:
    pipeline = build()
    flood(world)
    hold(world, pipeline)
    mine, theirs = map(DecisionKind, verdicts)
    done = []

    def decide_first(call: str, moment: str) -> None:
        if (call, moment) == ("commits.note", "before") and not done:
            done.append(theirs)
            propose_decision(world.open_session(pipeline), theirs).perform("bob")

    with pytest.raises(GiveUp, match=f"somebody else has decided meanwhile.*verdict={theirs} by=bob"):
        propose_decision(world.open_session(pipeline, decide_first), mine).perform("ann")
    assert read_actions(world, pipeline) == [(theirs, "bob")]
    flush_quietly(world, pipeline)
    assert read(world) == (NEW if theirs == DecisionKind.APPROVE else OLD)


def test_decision_that_another_one_replaced_unseen_is_told(world: World) -> None:
    pipeline = build()
    flood(world)
    hold(world, pipeline)
    name, properties = "tidegate.shop.decision", world.destination.tables[ORDERS].properties

    def replace_it(call: str, moment: str) -> None:
        # a catalog that compares only what its client has read
        if (call, moment) == ("commits.note", "after"):
            properties[name] = json.dumps({**json.loads(properties[name]), "verdict": "reject", "by": "bob"})

    with pytest.raises(GiveUp, match="verdict=reject by=bob"):
        propose_decision(world.open_session(pipeline, replace_it), DecisionKind.APPROVE).perform("ann")
    assert "rejected by bob" in hold(world, pipeline)


def test_decision_that_a_flush_used_at_once_is_a_success(world: World) -> None:
    pipeline = build()
    flood(world)
    hold(world, pipeline)

    def publish_at_once(call: str, moment: str) -> None:
        if (call, moment) == ("commits.note", "after"):
            flush(world.open_session(pipeline))

    propose_decision(world.open_session(pipeline, publish_at_once), DecisionKind.APPROVE).perform("ann")
    assert read(world) == NEW


@pytest.mark.parametrize("skip", [False, True])
def test_approval_that_no_flush_has_used_can_be_taken_back(world: World, *, skip: bool) -> None:
    pipeline = build()
    flood(world)
    hold(world, pipeline)
    approve(world, pipeline)
    with pytest.raises(NothingToDo, match="no batch waits for an approval"):
        propose_decision(world.open_session(pipeline), DecisionKind.APPROVE)
    proposed = propose_reject(world.open_session(pipeline), skip=skip)
    assert skip or "approved by ann: that is taken back" in proposed.preview
    proposed.perform("bob")
    if not skip:
        assert "rejected by bob" in hold(world, pipeline)
    flush_quietly(world, pipeline)
    assert read(world) == OLD
    if not skip:
        approve(world, pipeline)
        flush(world.open_session(pipeline))
        assert read(world) == NEW


@pytest.mark.guard(
    "an approval that is taken back during the merge publishes nothing",
    file="plugins/tidegate/merge/attempt.py",
    text="        if build_hold_of_rows(table_now, staged_batch, diff, attempt.branch) is not None:",
    off="        if False:",
)
def test_approval_that_is_taken_back_during_the_merge_publishes_nothing(world: World) -> None:
    """While its dead letters are written: the diff is made, and the rows are not published yet."""
    errors = Errors("all", 9)
    pipeline = build(DELETES, build_table(COPY, errors=errors), errors=errors)
    flush(world.open_session(pipeline))
    flood(world)
    world.broker.produce("orders", {"id": "bad"}, BAD, 1)
    flush(world.open_session(pipeline))
    propose_decision(world.open_session(pipeline), DecisionKind.APPROVE).perform("ann")
    runs = []

    def take_back(call: str, moment: str) -> None:
        runs.append((call, moment) == ("engine.run", "before"))
        if runs[-1] and sum(runs) == 2:
            reject(world, pipeline)

    assert "rejected by bob" in str(flush_for_held(world, pipeline, take_back))
    assert sum(runs) >= 2
    assert read(world) == OLD
    approve(world, pipeline)
    flush(world.open_session(pipeline))
    assert read(world) == NEW


def flush_for_held(world: World, pipeline: Pipeline, hook: Any) -> HeldForApproval:
    with pytest.raises(HeldForApproval) as caught:
        flush(world.open_session(pipeline, hook))
    return caught.value


def test_reject_of_what_waits_leaves_the_approval_of_another_table_alone(world: World) -> None:
    pipeline = build(DELETES, build_table(COPY, approve=Approve(rows_over=0)))
    with suppress(HeldForApproval):
        flush(world.open_session(pipeline))
    propose_decision(world.open_session(pipeline), DecisionKind.APPROVE).perform("ann")
    flush(world.open_session(pipeline))
    flood(world)
    hold(world, pipeline)
    propose_decision(world.open_session(pipeline), DecisionKind.APPROVE, COPY).perform("ann")
    assert [part.table for part in propose_reject(world.open_session(pipeline)).parts] == [ORDERS]
    assert [part.table for part in propose_reject(world.open_session(pipeline), COPY).parts] == [COPY]


def test_two_runs_that_hold_a_batch_at_once_tell_of_it_once(world: World) -> None:
    pipeline = build()
    flood(world)
    session = world.open_session(pipeline)
    stage(session, plan(session))
    first, second = (stage_tables(session, plan(session))[0] for _ in range(2))
    news = []

    def hold_first(call: str, moment: str) -> None:
        if (call, moment) == ("commits.note", "before") and not news:
            news.append(True)
            news[0] = merge_queue(session, second).held.is_new

    assert (merge_queue(world.open_session(pipeline, hold_first), first).held.is_new, news) == (False, [True])
    assert len(list_branches(world)) == 1
    assert read_status(session)["tables"][0]["held"]["branch"] == list_branches(world)[0]
