"""Since which offsets a table follows the log: each merge goes on, and every other move of a position begins anew."""

from dataclasses import replace

import pytest
from fakes import World, build_pipeline
from fakes.orders import NAME, make_orders, send_orders
from tidegate.flush.flush import flush
from tidegate.model.offsets import Offsets
from tidegate.ports.session import Session
from tidegate.reprocess.rebase import propose_rebase
from tidegate.reprocess.rollback import Answer, propose_answer
from tidegate.spec.pipeline import Merge, Pipeline, RollbackPolicy
from tidegate.table.coverage import Coverage, read_coverage

PIPELINE = build_pipeline()
REWINDING = replace(PIPELINE, on_rollback=RollbackPolicy.REWIND)
OTHER = replace(PIPELINE, source=replace(PIPELINE.source, isolation="read_uncommitted"))


@pytest.fixture
def world() -> World:
    """Three records of two partitions; the table stands at 2 (a) and 1 (b), its snapshot is kept."""
    world = make_orders()
    flush(world.open_session(PIPELINE))
    return world


def flush_more(world: World, *letters: str, pipeline: Pipeline = PIPELINE) -> None:
    send_orders(world, *[(letter, "later") for letter in letters])
    flush(world.open_session(pipeline))


def read(world: World) -> Coverage:
    coverage = read_coverage("shop", world.destination.read_state(NAME, "shop"))
    assert coverage is not None
    return coverage


def offsets(b: int, a: int) -> Offsets:
    return {"orders": {0: b, 1: a}}


def move(world: World, to: str) -> None:
    session = world.open_session(PIPELINE)
    propose_rebase(session, to).perform("ann")


def roll_back(world: World, back: int) -> None:
    ancestors = world.destination.tables[NAME].ancestors()
    world.destination.rollback(NAME, ancestors[back].id)


def cap(session: Session) -> Session:
    """Batches of one record."""
    return replace(session, pipeline=replace(session.pipeline, merge=Merge(max_records=1)))


def answer(world: World, word: Answer) -> None:
    session = world.open_session(PIPELINE)
    propose_answer(session, word).perform("somebody")


def test_merges_that_follow_each_other_are_one_stretch_from_the_first_offset(world: World) -> None:
    assert (read(world).start, read(world).end, read(world).is_whole) == (offsets(0, 0), offsets(1, 2), True)
    flush_more(world, "a", "b", "b")
    assert (read(world).start, read(world).end, read(world).is_whole) == (offsets(0, 0), offsets(3, 3), True)


def test_table_that_had_rows_is_not_whole(world: World) -> None:
    del world.destination.tables[NAME].properties["tidegate.shop.coverage"]
    flush_more(world, "a")
    assert (read(world).start, read(world).is_whole) == (offsets(1, 2), False)


def test_other_rules_begin_anew_and_stay_so(world: World) -> None:
    rules = read(world).rules
    flush_more(world, "a", pipeline=OTHER)
    assert (read(world).start, read(world).end) == (offsets(1, 2), offsets(1, 3))
    assert read(world).rules != rules
    flush_more(world, "b", pipeline=PIPELINE)
    assert (read(world).start, read(world).rules) == (offsets(1, 3), rules)


def test_skipped_records_are_a_gap(world: World) -> None:
    send_orders(world, ("a", "skipped"))
    move(world, "latest")
    assert read(world).end == offsets(1, 2), "not where the table stands: nothing can be verified"
    flush_more(world, "a", "b")
    assert (read(world).start, read(world).end) == (offsets(0, 3), offsets(2, 4))


def test_move_backwards_covers_nothing_before_what_the_table_had_seen(world: World) -> None:
    move(world, "earliest")
    flush(world.open_session(PIPELINE))
    assert read(world).start == read(world).end == offsets(1, 2)
    flush_more(world, "a")
    assert (read(world).start, read(world).end) == (offsets(1, 2), offsets(1, 3))


@pytest.mark.parametrize("by_hand", [True, False])
@pytest.mark.parametrize("is_merged", [True, False], ids=["it has begun to catch up", "it has read nothing again"])
def test_table_that_is_rewound_to_a_move_backwards_has_rows_of_all_that_it_had_seen(
    world: World, by_hand: bool, is_merged: bool
) -> None:
    """Verify in the midst of the catch-up would call these rows surplus, and its repair remove them."""
    flush_more(world, "a", "a", "b")
    move(world, "earliest")
    if is_merged:
        flush(cap(world.open_session(PIPELINE)))
    else:
        move(world, "{}")  # any action leaves such a snapshot
    roll_back(world, 1)
    if by_hand:
        answer(world, "rewind")
    assert flush(cap(world.open_session(PIPELINE if by_hand else REWINDING))).published
    assert read(world).start == offsets(2, 4)
    flush_more(world, "b")
    assert (read(world).start, read(world).end, read(world).is_whole) == (offsets(2, 4), offsets(3, 4), True)


def test_move_from_the_midst_of_a_catch_up_covers_nothing_before_what_the_table_had_seen(world: World) -> None:
    flush_more(world, "a", "a", "b")
    move(world, "earliest")
    flush(cap(world.open_session(PIPELINE)))
    move(world, '{"orders": {"1": 0}}')
    flush(cap(world.open_session(PIPELINE)))
    assert read(world).start == offsets(2, 4)
    flush(cap(world.open_session(OTHER)))
    assert read(world).start == offsets(2, 4)


@pytest.mark.parametrize("by_hand", [True, False])
def test_rewound_table_keeps_what_main_had(world: World, by_hand: bool) -> None:
    flush_more(world, "a", "b")
    roll_back(world, 1)
    if by_hand:
        answer(world, "rewind")
        assert (read(world).start, read(world).end) == (offsets(0, 0), offsets(1, 2))
    flush_more(world, "b", pipeline=PIPELINE if by_hand else REWINDING)
    assert (read(world).start, read(world).end, read(world).is_whole) == (offsets(0, 0), offsets(3, 3), True)


@pytest.mark.parametrize("by_hand", [True, False])
def test_rewound_table_has_no_record_that_a_move_has_skipped(world: World, by_hand: bool) -> None:
    """Verify would miss their rows, and its repair bring them in."""
    send_orders(world, ("a", "skipped"), ("b", "skipped"))
    move(world, "latest")
    move(world, "{}")  # any action leaves such a snapshot
    roll_back(world, 1)
    if by_hand:
        answer(world, "rewind")
    flush_more(world, "b", pipeline=PIPELINE if by_hand else REWINDING)
    assert (read(world).start, read(world).end) == (offsets(2, 3), offsets(3, 3))


def test_kept_rollback_covers_only_what_comes_after_it(world: World) -> None:
    flush_more(world, "a", "b")
    roll_back(world, 1)
    answer(world, "keep")
    flush_more(world, "a")
    # the rows of the lost batch are missing, though position and end are equal: nobody may call that wrong
    assert read(world).start == offsets(2, 3)
