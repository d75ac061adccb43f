"""A table is rolled back behind a replay: that is told, and the dead letters come in again, or are discarded."""

from dataclasses import replace

import pytest
from fakes import BAD, Crash, Snapshot, World, build_pipeline, build_table
from tidegate.errors import NothingToDo
from tidegate.flush.flush import flush
from tidegate.flush.heartbeat import heartbeat
from tidegate.merge.owed import LetterFilter
from tidegate.model.resource_names import REPLAY_PROPERTY
from tidegate.monitoring.status import read_status
from tidegate.reprocess.discard import propose_discard
from tidegate.reprocess.replay import ReplayResult, replay_dead_letters
from tidegate.reprocess.rollback import propose_answer
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.source import Errors
from tidegate.table.history import list_undone_letters

ORDERS, COPY, LETTERS = "lake.shop.orders", "lake.shop.copy", "lake.shop.tidegate_shop_dead_letters"


def build_tolerant_pipeline(mode: str) -> Pipeline:
    """Two tables from one topic."""
    errors = Errors("all", 9)
    tables = (build_table(name, mode=mode, errors=errors) for name in (ORDERS, COPY))
    return build_pipeline(*tables, source={"errors": errors})


@pytest.fixture(params=["append", "upsert_delete"])
def pipeline(request: pytest.FixtureRequest) -> Pipeline:
    return build_tolerant_pipeline(request.param)


@pytest.fixture
def world(pipeline: Pipeline) -> World:
    """Two partitions, and in each of them rows and a dead letter, `b0` and `b1`, that can be read now."""
    world = World()
    world.broker.create("orders", 2)
    for key, partition in (("a0", 0), ("b0", 0), ("a1", 1), ("c1", 1), ("b1", 1)):
        produce(world, key, partition, is_bad=key.startswith("b"))
    flush(world.open_session(pipeline))
    for key, partition, offset in (("b0", 0, 1), ("b1", 1, 2)):
        records = world.broker.partitions["orders"][partition].records
        records[offset] = replace(records[offset], value={"id": key, "name": "fixed"})
        world.engine.fixed_values[offset] = {"id": key, "name": "fixed"}
    return world


def produce(world: World, key: str, partition: int, *, is_bad: bool = False) -> None:
    world.broker.produce("orders", {"id": key}, BAD if is_bad else {"id": key, "name": "x"}, partition)


def replay_letters(world: World, pipeline: Pipeline, *places: tuple[str, int, int]) -> dict[str, tuple[int, int]]:
    """By table: how many letters were tried, and how many came in."""
    results: list[ReplayResult] = replay_dead_letters(
        world.open_session(pipeline), LetterFilter(places=frozenset(places))
    )
    return {result.table: (result.tried, result.replayed) for result in results}


def list_told_risks(world: World, pipeline: Pipeline) -> list[str]:
    """What status and a heartbeat that is due say of replays that were rolled back."""
    world.clock.tick(3_600_000)
    warnings = [
        warning for warning in heartbeat(world.open_session(pipeline)).warnings if "count as replayed" in warning
    ]
    assert [
        warning for warning in read_status(world.open_session(pipeline))["warnings"] if "count as replayed" in warning
    ] == warnings
    return warnings


def render_message(table: str, letters: int) -> str:
    return (
        f"pipeline=shop table={table}: dead letters={letters} count as replayed, and their rows are gone: the table "
        "was rolled back to before the replay; bring them in again with: tidegate dead-letters shop --table "
        f"{table} --replay; those that may stay away can be discarded as if they waited"
    )


def read_head(world: World, table: str = ORDERS) -> int:
    return world.destination.tables[table].refs["main"]


def read_ids(world: World, table: str = ORDERS) -> list[str]:
    return sorted(row["id"] for row in world.read_rows(table))


def list_waiting_letters(world: World) -> list[tuple[str, int]]:
    rows = world.read_rows(LETTERS)
    return sorted((row["table"], row["partition"]) for row in rows if row["replayed_at"] is None)


def test_letters_whose_replay_was_rolled_back_are_told_and_come_in_again(world: World, pipeline: Pipeline) -> None:
    replay_letters(world, pipeline, ("orders", 0, 1))
    between = read_head(world)
    assert replay_letters(world, pipeline) == {ORDERS: (1, 1), COPY: (1, 1)}
    assert (read_ids(world), list_waiting_letters(world), list_told_risks(world, pipeline)) == (
        ["a0", "a1", "b0", "b1", "c1"],
        [],
        [],
    )
    world.destination.rollback(ORDERS, between)
    assert list_told_risks(world, pipeline) == [render_message(ORDERS, 1)]
    produce(world, "d", 0)
    flush(world.open_session(pipeline))
    assert list_told_risks(world, pipeline) == [render_message(ORDERS, 1)]
    assert replay_letters(world, pipeline) == {ORDERS: (1, 1)}
    assert read_ids(world) == read_ids(world, COPY) == ["a0", "a1", "b0", "b1", "c1", "d"]
    assert (list_waiting_letters(world), list_told_risks(world, pipeline), replay_letters(world, pipeline)) == (
        [],
        [],
        {},
    )


def test_replays_that_were_all_rolled_back_come_in_again_and_once(world: World, pipeline: Pipeline) -> None:
    before = read_head(world)
    replay_letters(world, pipeline, ("orders", 0, 1))
    replay_letters(world, pipeline)
    world.destination.rollback(ORDERS, before)
    assert list_told_risks(world, pipeline) == [render_message(ORDERS, 2)]
    assert replay_letters(world, pipeline, ("orders", 1, 2)) == {ORDERS: (1, 1)}
    assert (list_waiting_letters(world), list_told_risks(world, pipeline)) == ([(ORDERS, 0)], [])
    assert replay_letters(world, pipeline) == {ORDERS: (1, 1)}
    assert read_ids(world) == read_ids(world, COPY) == ["a0", "a1", "b0", "b1", "c1"]


def test_replay_that_stands_again_is_told_no_more(world: World, pipeline: Pipeline) -> None:
    before = read_head(world)
    replay_letters(world, pipeline)
    after = read_head(world)
    world.destination.rollback(ORDERS, before)
    assert list_told_risks(world, pipeline) == [render_message(ORDERS, 2)]
    world.destination.rollback(ORDERS, after)
    assert (list_told_risks(world, pipeline), replay_letters(world, pipeline)) == ([], {})
    assert read_ids(world) == ["a0", "a1", "b0", "b1", "c1"]


def test_letters_that_may_stay_away_are_discarded(world: World, pipeline: Pipeline) -> None:
    before = read_head(world)
    replay_letters(world, pipeline)
    world.destination.rollback(ORDERS, before)
    session, letter_filter = world.open_session(pipeline), LetterFilter(places=frozenset({("orders", 0, 1)}))
    action = propose_discard(session, letter_filter, "not needed")
    assert [(part.table, part.facts["dead_letters"]) for part in action.parts] == [(ORDERS, 1)]
    assert list_told_risks(world, pipeline) == [render_message(ORDERS, 2)]
    action.perform("ann")
    assert (list_waiting_letters(world), list_told_risks(world, pipeline)) == ([(ORDERS, 1)], [])
    assert replay_letters(world, pipeline) == {ORDERS: (1, 1)}
    assert read_ids(world) == ["a0", "a1", "b1", "c1"]


@pytest.mark.parametrize("answer", ["rewind", "keep"])
def test_letters_that_are_read_again_behind_a_rollback_are_not_replayed_too(
    world: World, pipeline: Pipeline, answer: str
) -> None:
    """Rewound, the flush reads their records again; kept out, they are told."""
    begin = world.destination.tables[ORDERS].ancestors()[-1].id
    replay_letters(world, pipeline)
    world.destination.rollback(ORDERS, begin)
    session = world.open_session(pipeline)
    propose_answer(session, answer, ORDERS).perform("ann")
    try:
        flush(session)
    except NothingToDo:
        assert answer == "keep"
    assert list_told_risks(world, pipeline) == ([] if answer == "rewind" else [render_message(ORDERS, 2)])
    assert replay_letters(world, pipeline) == ({} if answer == "rewind" else {ORDERS: (2, 2)})
    assert read_ids(world) == (["a0", "a1", "b0", "b1", "c1"] if answer == "rewind" else ["b0", "b1"])


def test_letter_that_is_bad_again_behind_a_rollback_waits(world: World, pipeline: Pipeline) -> None:
    begin = world.destination.tables[ORDERS].ancestors()[-1].id
    replay_letters(world, pipeline)
    world.destination.rollback(ORDERS, begin)
    records = world.broker.partitions["orders"][1].records
    records[2] = replace(records[2], value=BAD)
    session = world.open_session(pipeline)
    propose_answer(session, "rewind", ORDERS).perform("ann")
    flush(session)
    assert (list_waiting_letters(world), list_told_risks(world, pipeline)) == ([(ORDERS, 1)], [])
    assert replay_letters(world, pipeline) == {ORDERS: (1, 1)}
    assert read_ids(world) == ["a0", "a1", "b0", "b1", "c1"]


def test_letters_of_many_undone_replays_are_asked_for_once(world: World, pipeline: Pipeline) -> None:
    """Each of them would cost a scan of all letters, in every status and heartbeat."""
    before, calls = read_head(world), list[str]()
    replay_letters(world, pipeline, ("orders", 0, 1))
    replay_letters(world, pipeline)
    world.destination.rollback(ORDERS, before)
    session = world.open_session(pipeline, lambda call, moment: calls.append(call) if moment == "before" else None)
    assert sorted(letter.partition for letter in list_undone_letters(session, ORDERS)) == [0, 1]
    assert calls.count("dead_letters.list_replayed_letters") == 1


def test_replay_that_publishes_while_its_marks_are_read_is_not_undone(world: World, pipeline: Pipeline) -> None:
    """Its rows lie on a branch when the snapshots are read, and its letters are marked when these are."""

    def die(call: str, moment: str) -> None:
        if (call, moment) == ("commits.publish", "before") and world.destination.list_rolled_back(
            ORDERS, REPLAY_PROPERTY
        ):
            raise Crash

    with pytest.raises(Crash):
        replay_dead_letters(world.open_session(pipeline, die))
    (attempt,) = world.destination.list_rolled_back(ORDERS, REPLAY_PROPERTY)

    def go_on(call: str, moment: str) -> None:
        if (call, moment) == ("dead_letters.list_replayed_letters", "before"):
            world.destination.tables[LETTERS].snapshots.update(mark_letters(world, attempt))
            head = next(s for s in world.destination.tables[ORDERS].snapshots.values() if REPLAY_PROPERTY in s.summary)
            world.destination.tables[ORDERS].refs["main"] = head.id

    assert list_undone_letters(world.open_session(pipeline, go_on), ORDERS) == []


def mark_letters(world: World, attempt: str) -> dict[int, Snapshot]:
    """The newest snapshot of the letters, in which this attempt has read those of one table."""
    newest = world.destination.tables[LETTERS].ancestors()[0]
    marks = {"replayed_at": 1, "replayed_by": attempt}
    return {newest.id: replace(newest, rows=tuple({**r, **marks} if r["table"] == ORDERS else r for r in newest.rows))}
