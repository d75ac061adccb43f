"""Positions of topics of many partitions that have lost records: one word moves them, and messages stay readable."""

import re

import pytest
from fakes import World, build_pipeline
from tidegate.errors import ConfigurationError, PositionLost
from tidegate.flush.flush import flush
from tidegate.flush.plan import plan
from tidegate.model.offsets import MAX_NAMED_PARTITIONS
from tidegate.model.position import Position
from tidegate.reprocess.rebase import MAX_SHOWN_MOVES, propose_moves, propose_rebase, rebase_position

PIPELINE = build_pipeline()
TABLE = "lake.shop.orders"
KEPT_CHARACTERS = 2000  # of a message, by tasks of Airflow and by the page
PARTITIONS = 200
LOST, CUT = range(60), 150


@pytest.fixture
def world() -> World:
    """Two records in each partition are published, and two more wait."""
    world = World()
    world.broker.create("orders", PARTITIONS)
    produce(world, "first")
    flush(world.open_session(PIPELINE))
    produce(world, "second")
    return world


def produce(world: World, name: str) -> None:
    for partition in range(PARTITIONS):
        for number in range(2):
            key = {"id": f"{partition}-{name}-{number}"}
            world.broker.produce("orders", key, {**key, "name": name}, partition=partition)


def lose_records(world: World) -> None:
    """Retention takes the first record that waits of some partitions, a leader has never had two of another one."""
    for partition in LOST:
        world.broker.retain_from("orders", 3, partition)
    world.broker.elect("orders", CUT, has=1)


def read_position(world: World) -> Position:
    state = world.destination.read_state(TABLE, "shop")
    assert state is not None
    assert state.position is not None
    return state.position


def test_partitions_that_lost_records_are_moved_by_one_word_and_the_others_stay(world: World) -> None:
    lose_records(world)
    session = world.open_session(PIPELINE)
    (move,) = propose_moves(session, "remaining")
    assert {(part.partition, part.before, part.after) for part in move.moves if part.before != part.after} == {
        *((partition, 2, 3) for partition in LOST),
        (CUT, 2, 1),
    }
    rebase_position(session, move, "ann")
    epochs = read_position(world).epochs["orders"]
    assert (epochs[CUT], epochs[CUT + 1]) == (1, 0)
    flush(session)
    assert read_position(world).offsets == world.broker.read_log(("orders",), "read_committed").end
    rows = {row["id"] for row in world.read_rows(TABLE)}
    expected = {f"{partition}-first-{number}" for partition in range(PARTITIONS) for number in range(2)}
    expected |= {f"{p}-second-{n}" for p in range(PARTITIONS) for n in range(2) if p != CUT and (n or p not in LOST)}
    assert rows == expected


def test_leaders_of_another_cluster_are_not_asked_for_cuts_of_this_one(world: World) -> None:
    lose_records(world)
    for name in ("k", "l"):
        world.broker.produce("orders", {"id": name}, {"id": name, "name": "third"}, partition=CUT)
    world.broker.cluster_id, cut_requests = "cluster-2", world.broker.log_cut_reads
    (move,) = propose_moves(world.open_session(PIPELINE), "remaining")
    assert {(move.partition, move.after) for move in move.moves if move.before != move.after} == {(p, 3) for p in LOST}
    assert world.broker.log_cut_reads == cut_requests
    assert move.after.epochs["orders"][CUT] == 1


def test_word_moves_nothing_where_nothing_is_lost(world: World) -> None:
    (move,) = propose_moves(world.open_session(PIPELINE), "remaining")
    assert move.after.offsets == move.before.offsets
    assert move.after.epochs == move.before.epochs


def test_word_skips_nothing_of_a_log_that_ends_before_the_position(world: World) -> None:
    """Its offsets mean other records: nobody can say which of them are left."""
    world.broker.partitions["orders"][5].end = 1
    with pytest.raises(ConfigurationError, match=r"partition=5 offset=2: outside the log \[0, 1\]"):
        propose_moves(world.open_session(PIPELINE), "remaining")


def test_what_was_shown_of_the_word_is_done_to_each_table_and_nothing_else(world: World) -> None:
    """Tables that stand at different places move to different ones, and what stays is not named."""
    lose_records(world)
    session = world.open_session(PIPELINE)
    rebase = propose_rebase(session, "remaining")
    assert rebase.pinned_params == {"to": "remaining"}
    world.broker.elect("orders", CUT + 1, has=1)
    assert propose_rebase(session, "remaining").digest != rebase.digest


def test_preview_of_many_partitions_shows_what_is_skipped_first_and_how_much_in_all(world: World) -> None:
    lose_records(world)
    lines = propose_rebase(world.open_session(PIPELINE), "remaining").preview.splitlines()
    assert lines[0] == f"{TABLE}  orders 0: 2 -> 3, skips 1 offset"
    assert lines[len(LOST)] == f"{TABLE}  orders {CUT}: 2 -> 1, reads again 1 offset"
    moved_lines = len(LOST) + 1
    assert lines[moved_lines:] == [
        f"and more: of {PARTITIONS} partitions {moved_lines} move; in all skips {len(LOST)} and reads again 1 offset"
    ]
    (all_of_them,) = propose_rebase(world.open_session(PIPELINE), "earliest").preview.splitlines()[MAX_SHOWN_MOVES:]
    assert all_of_them.endswith(f"in all skips {len(LOST)} and reads again {(PARTITIONS - len(LOST)) * 2} offsets")


def test_message_of_many_partitions_has_its_command_within_what_is_kept_of_it(world: World) -> None:
    lose_records(world)
    world.broker.elect("orders", CUT + 1, has=1)
    with pytest.raises(PositionLost) as cut:
        plan(world.open_session(PIPELINE))
    assert str(cut.value).endswith("""tidegate rebase shop --to '{"orders": {"150": 1, "151": 1}}'""")
    propose_rebase(world.open_session(PIPELINE), "remaining").perform("ann")
    for partition in LOST:
        world.broker.retain_from("orders", 4, partition)
    with pytest.raises(PositionLost) as lost:
        plan(world.open_session(PIPELINE))
    assert str(lost.value).endswith("e.g. with: tidegate rebase shop --to remaining")
    assert len(str(lost.value)) < KEPT_CHARACTERS


def test_rollback_of_many_partitions_names_its_ways_out_within_what_is_kept_of_it(world: World) -> None:
    first = world.destination.tables[TABLE].refs["main"]
    flush(world.open_session(PIPELINE))
    world.destination.tables[TABLE].refs["main"] = first
    with pytest.raises(PositionLost) as error_info:
        plan(world.open_session(PIPELINE))
    message = str(error_info.value)[:KEPT_CHARACTERS]
    assert re.findall(r"tidegate ([a-z-]+)", message) == ["undo-rollback", "answer-rollback", "answer-rollback"]
    assert message.count(f"and {PARTITIONS - MAX_NAMED_PARTITIONS} partitions more") == 2
