"""One bad record is set aside by a person's word: counted, kept with its bytes, and no other bad record with it."""

import json
from dataclasses import replace
from typing import Any

import pytest
from fakes import BAD, Crash, World, build_pipeline, build_table
from tidegate.errors import BadRecord, GiveUp, NothingToDo
from tidegate.flush.flush import flush
from tidegate.flush.stage_request import SkippedRecord, add_skipped_record
from tidegate.model.backfill import AppliedSlice
from tidegate.model.batch import PublishOutcome
from tidegate.model.table_state import TableCommit, TableState
from tidegate.monitoring.status import read_backfills, read_status
from tidegate.ports.session import Session
from tidegate.reprocess.backfill import apply_backfill
from tidegate.reprocess.backfill_plan import parse_request, propose_backfill
from tidegate.reprocess.rebase import propose_rebase
from tidegate.reprocess.record import parse_address
from tidegate.reprocess.replay import replay_dead_letters
from tidegate.reprocess.rollback import propose_answer
from tidegate.reprocess.skip import propose_skip, propose_skips, skip_record
from tidegate.spec.source import Errors

ORDERS, COPY, LETTERS = "lake.shop.orders", "lake.shop.copy", "lake.shop.tidegate_shop_dead_letters"
PIPELINE = build_pipeline(build_table(ORDERS))


@pytest.fixture
def world() -> World:
    """Two partitions, two bad records among good ones in the second."""
    world = World()
    world.broker.create("orders", 2)
    produce(world, "a", 0)
    produce(world, "b", 1)
    produce(world, "c", 1, value=BAD)
    produce(world, "d", 1)
    return world


def produce(world: World, key: str, partition: int, value: Any = None) -> None:
    world.broker.produce("orders", {"id": key}, value or {"id": key, "name": key}, partition)


def skip(session: Session, place: str, by: str = "ann") -> None:
    propose_skip(session, parse_address(place)).perform(by)


def read_ids(world: World, table: str = ORDERS) -> list[str]:
    return [row["id"] for row in world.read_rows(table)]


def read_letters(world: World) -> list[tuple[str, int, int, bool]]:
    rows = world.destination.tables[LETTERS].read_rows() if LETTERS in world.destination.tables else []
    return sorted((row["table"], row["partition"], row["offset"], row["replayed_at"] is None) for row in rows)


def read_last_batch(world: World) -> dict[str, Any]:
    return dict(read_status(world.open_session(PIPELINE))["batches"][0])


@pytest.mark.parametrize("has_table", [False, True])
def test_skipped_record_becomes_a_dead_letter_of_the_next_batch(world: World, has_table: bool) -> None:
    if has_table:
        flush(world.open_session(PIPELINE), stop_offsets={"orders": {0: 1, 1: 1}})
    session = world.open_session(PIPELINE)
    with pytest.raises(BadRecord, match="or set exactly this record aside with: tidegate skip shop --at orders:1:1"):
        flush(session)
    skip(session, "orders:1:1")
    flush(session)
    assert read_ids(world) == ["a", "b", "d"]
    assert read_letters(world) == [(ORDERS, 1, 1, True)]
    batch = read_last_batch(world)
    assert (batch["read"], batch["staged"], batch["dead_lettered"]) == ((2, 1, 1) if has_table else (4, 3, 1))
    with pytest.raises(NothingToDo):
        flush(session)
    (table_status,) = read_status(session)["tables"]
    assert [(action["action"], action["by"]) for action in table_status["actions"]] == [("skip", "ann")]
    assert "topic=orders partition=1 offset=1" in table_status["actions"][0]["details"]


def test_another_bad_record_fails_its_batch_and_is_the_one_named(world: World) -> None:
    produce(world, "e", 1, value=BAD)
    session = world.open_session(PIPELINE)
    skip(session, "orders:1:1")
    with pytest.raises(BadRecord, match="1 record cannot be decoded; the first: topic=orders partition=1 offset=3"):
        flush(session)
    assert (read_ids(world), read_letters(world)) == ([], [])
    skip(session, "orders:1:3")
    flush(session)
    assert read_ids(world) == ["a", "b", "d"]
    assert read_letters(world) == [(ORDERS, 1, 1, True), (ORDERS, 1, 3, True)]
    produce(world, "f", 0, value=BAD)
    with pytest.raises(BadRecord, match="1 record cannot be decoded; the first: topic=orders partition=0 offset=1"):
        flush(session)


def test_earlier_record_of_the_same_key_counts_where_the_last_one_is_skipped(world: World) -> None:
    """Only the last record of a raw key would be decoded: the one that is set aside."""
    pipeline = build_pipeline(build_table(ORDERS, last_per_key="always"))
    produce(world, "d", 1, value=BAD)
    session = world.open_session(pipeline)
    skip(session, "orders:1:1")
    skip(session, "orders:1:3")
    flush(session)
    assert read_ids(world) == ["a", "b", "d"]
    assert read_letters(world) == [(ORDERS, 1, 1, True), (ORDERS, 1, 3, True)]


def test_record_that_decodes_is_not_skipped(world: World) -> None:
    with pytest.raises(GiveUp, match=f"it decodes for tables={ORDERS}; nothing is skipped"):
        propose_skips(world.open_session(PIPELINE), parse_address("orders:1:0"))


def test_record_that_was_passed_is_not_skipped(world: World) -> None:
    session = world.open_session(PIPELINE)
    skip(session, "orders:1:1")
    flush(session)
    with pytest.raises(GiveUp, match="the table has passed it: position=3"):
        propose_skips(session, parse_address("orders:1:1"))


def test_pipeline_that_sets_bad_records_aside_skips_none(world: World) -> None:
    table = build_table(ORDERS, errors=Errors("all"))
    with pytest.raises(GiveUp, match=r"errors\.tolerance=all sets bad records aside already"):
        propose_skips(world.open_session(build_pipeline(table)), parse_address("orders:1:1"))


def test_record_of_several_tables_is_skipped_in_each_and_read_again_it_is_set_aside_again(world: World) -> None:
    pipeline = build_pipeline(build_table(ORDERS), build_table(COPY))
    session = world.open_session(pipeline)
    action = propose_skip(session, parse_address("orders:1:1"))
    assert [part.table for part in action.parts] == [ORDERS, COPY]
    action.perform("ann")
    action.perform("bob")  # said twice, noted once
    flush(session)
    propose_rebase(session, "earliest").perform("ann")
    flush(session)
    assert read_ids(world) == read_ids(world, COPY) == ["a", "b", "d"]
    assert [letter for letter in read_letters(world) if letter[3]] == [(COPY, 1, 1, True), (ORDERS, 1, 1, True)]
    assert [[action["action"] for action in table["actions"]] for table in read_status(session)["tables"]] == [
        ["rebase", "skip"],
        ["rebase", "skip"],
    ]


def test_record_of_a_topic_that_was_created_again_is_another_one(world: World) -> None:
    session = world.open_session(PIPELINE)
    skip(session, "orders:1:1")
    world.broker.delete("orders")
    world.broker.create("orders", 2)
    produce(world, "x", 1)
    produce(world, "y", 1, value=BAD)
    propose_rebase(session, "earliest").perform("ann")
    with pytest.raises(BadRecord, match="partition=1 offset=1"):
        flush(session)


def test_skipped_record_is_replayed_after_a_correction(world: World) -> None:
    session = world.open_session(PIPELINE)
    skip(session, "orders:1:1")
    flush(session)
    world.engine.fixed_values[1] = {"id": "c", "name": "c"}
    (result,) = replay_dead_letters(session)
    assert (result.tried, result.replayed, result.still_bad) == (1, 1, 0)
    assert read_ids(world) == ["a", "b", "c", "d"]
    assert read_letters(world) == [(ORDERS, 1, 1, False)]


@pytest.mark.parametrize("policy", ["rewind", "keep", "fail"])
def test_rollback_is_answered_before_a_record_is_skipped(world: World, policy: str) -> None:
    """The note beside the recorded position would make that one count again, without the rows before it."""
    pipeline = build_pipeline(build_table(ORDERS), on_rollback=policy)
    session = world.open_session(pipeline)
    flush(session, stop_offsets={"orders": {0: 0, 1: 1}})
    first = world.destination.tables[ORDERS].refs["main"]
    flush(session, stop_offsets={"orders": {0: 1, 1: 1}})
    world.destination.rollback(ORDERS, first)
    with pytest.raises(GiveUp, match="it was rolled back, and nothing was changed"):
        skip(session, "orders:1:1")
    assert world.destination.tables[ORDERS].refs["main"] == first
    propose_answer(session, "rewind").perform("ann")
    skip(session, "orders:1:1")
    flush(session)
    assert read_ids(world) == ["a", "b", "d"]


def test_rollback_between_the_look_and_the_note_is_not_answered_by_it(world: World) -> None:
    session = world.open_session(PIPELINE)
    flush(session, stop_offsets={"orders": {0: 0, 1: 1}})
    first = world.destination.tables[ORDERS].refs["main"]
    flush(session, stop_offsets={"orders": {0: 1, 1: 1}})
    (proposal,) = propose_skips(session, parse_address("orders:1:1"))
    looks = 0
    read_state = session.tables.read_state

    def roll_back_at_the_third_look(table: str, pipeline: str) -> TableState | None:
        nonlocal looks
        looks += 1
        if looks == 3:
            world.destination.rollback(ORDERS, first)
        return read_state(table, pipeline)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(session.tables), "read_state", lambda _, *arguments: roll_back_at_the_third_look(*arguments))
        with pytest.raises(GiveUp, match="it was rolled back, and nothing was changed"):
            skip_record(session, proposal, "ann")
    assert world.destination.tables[ORDERS].refs["main"] == first


def test_flush_that_publishes_beside_a_skip_refuses_it_only_where_it_has_passed_the_record(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    flush(world.open_session(PIPELINE), stop_offsets={"orders": {0: 0, 1: 1}})
    session = world.open_session(PIPELINE)
    (proposal,) = propose_skips(session, parse_address("orders:1:1"))
    publish = world.destination.publish

    def publish_behind_a_flush(commit: TableCommit) -> None:
        monkeypatch.setattr(world.destination, "publish", publish)
        flush(world.open_session(PIPELINE), stop_offsets={"orders": {0: 1, 1: 1}})
        publish(commit)

    monkeypatch.setattr(world.destination, "publish", publish_behind_a_flush)
    skip_record(session, proposal, "ann")
    assert sorted(read_ids(world)) == ["a", "b"]
    flush(world.open_session(PIPELINE))
    assert read_letters(world) == [(ORDERS, 1, 1, True)]
    with pytest.raises(GiveUp, match="the table has passed it"):
        skip_record(session, proposal, "ann")


def test_list_makes_room_by_what_was_passed_and_is_never_longer() -> None:
    known = [SkippedRecord("t", 0, offset, "id") for offset in range(100)]
    new = SkippedRecord("t", 0, 100, "id")
    assert add_skipped_record(known, new, {"t": {0: 0}}) is None
    skipped_record = add_skipped_record(known, new, {"t": {0: 7}})
    assert skipped_record == [*known[1:], new]
    of_new_topic = replace(new, offset=1, topic_id="id of the topic that was created again")
    assert add_skipped_record(known, of_new_topic, {"t": {0: 0}}) == [*known[1:], of_new_topic]
    assert add_skipped_record(known[:2], replace(new, offset=1), {}) == [known[0], replace(new, offset=1)]


def run_backfill(session: Session, ranges: dict[str, list[int]]) -> list[int]:
    """The slices that were applied now, in their order."""
    slices: list[AppliedSlice] = []
    request = parse_request(json.dumps({"orders": ranges}), None, None)
    apply_backfill(session, propose_backfill(session, request).backfill, slices.append)
    return [applied_slice.slice for applied_slice in slices if applied_slice.outcome != PublishOutcome.ALREADY_APPLIED]


@pytest.mark.parametrize("ranges", [{"0": [0, 1], "1": [0, 3]}, {"0": [0, 1], "1": [0, 1]}], ids=["over", "before"])
def test_backfill_over_or_before_a_skipped_record_leaves_it_out_and_goes_on_where_it_was_killed(
    world: World, ranges: dict[str, list[int]]
) -> None:
    skip(world.open_session(PIPELINE), "orders:1:1")
    flush(world.open_session(PIPELINE))
    world.destination.add_snapshot(ORDERS, "main", (), {"operation": "overwrite"})
    small, published, flushed = (
        build_pipeline(build_table(ORDERS), max_records=1),
        list[str](),
        len(world.engine.stages),
    )

    def die_at_the_second_slice(call: str, moment: str) -> None:
        published.extend([call] if (call, moment) == ("commits.publish", "before") else [])
        if len(published) > 1:
            raise Crash(call)

    with pytest.raises(Crash):
        run_backfill(world.open_session(small, die_at_the_second_slice), ranges)
    assert len(read_ids(world)) == 1
    (backfill,) = read_backfills(world.open_session(small))
    assert {table: len(slices) for table, slices in backfill["applied"].items()} == {ORDERS: 1}
    slices = run_backfill(world.open_session(small), ranges)
    assert max(slices) < sum(end - start for start, end in ranges.values())
    staged = [str(job.ranges.to_dict()) for job in world.engine.stages[flushed:]]
    assert len(staged) == len(set(staged))
    assert read_ids(world) == (["a", "b", "d"] if ranges["1"][1] == 3 else ["a", "b"])


def test_backfill_that_finds_another_bad_record_does_not_name_a_skip_that_would_be_refused(world: World) -> None:
    skip(world.open_session(PIPELINE), "orders:1:1")
    produce(world, "e", 0, value={"id": "other", "name": "e"})
    flush(world.open_session(PIPELINE))
    strict = replace(PIPELINE, source=replace(PIPELINE.source, verify_integrity=True))
    with pytest.raises(BadRecord) as failed:
        run_backfill(world.open_session(strict), {"0": [0, 2]})
    assert "partition=0 offset=1 reason=the key and the value differ" in str(failed.value)
    assert "tidegate skip" not in str(failed.value)


def test_record_of_a_table_in_a_catalog_of_another_type_than_its_dead_letters_is_not_skipped(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dead letter is written in the commit of its batch, and no commit is one of two catalogs."""
    other = "dwh.shop.orders"
    monkeypatch.setattr(world.destination, "has_branches", lambda name: name.startswith("lake."))
    session = world.open_session(build_pipeline(build_table(ORDERS), build_table(other)))
    with pytest.raises(GiveUp, match=f"table={other} .*in a catalog of another type.*; nothing is skipped"):
        propose_skips(session, parse_address("orders:1:1"), other)
    (proposed,) = propose_skips(session, parse_address("orders:1:1"), ORDERS)
    assert proposed.verdict.table == ORDERS
