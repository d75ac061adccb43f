"""Two replays of one table at once: whatever the order of their calls, each dead letter comes in once.

They are told to run one at a time. Where they do not, one of them gives way, and the next one finds it all done.
"""

import threading

import pytest
from examples import choose_calls, choose_walk_cases
from fakes import BAD, World, build_pipeline, build_table
from tidegate.errors import GiveUp, RetryLater
from tidegate.flush.flush import flush
from tidegate.merge.owed import LetterFilter
from tidegate.reprocess.discard import propose_discard
from tidegate.reprocess.replay import replay_dead_letters
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.source import Errors

TABLE, LETTERS = "lake.shop.orders", "lake.shop.tidegate_shop_dead_letters"
DEADLINE_SECONDS = 300.0
GIVES_WAY = (RetryLater, KeyError)  # the latter is the double's word for a table that was dropped meanwhile


class Turns:
    """Who of two runs when: each change of the turn comes behind so many calls of the one whose turn it is."""

    def __init__(self, *counts: int) -> None:
        self.counts, self.turn, self.ended = list(counts), 0, set[int]()
        self.changed = threading.Condition()
        self.calls = [0, 0]

    def count(self, runner_index: int) -> None:
        """One call of `runner_index`, which waits until it is its turn again where it is over."""
        with self.changed:
            self.calls[runner_index] += 1
            if self.counts and not self.ended:
                self.counts[0] -= 1
                if self.counts[0] <= 0:
                    self.counts.pop(0)
                    self.turn = 1 - runner_index
                    self.changed.notify_all()
            self.wait(runner_index)

    def wait(self, runner_index: int) -> None:
        """Until it is the turn of `runner_index`; the other one's end makes it so."""
        with self.changed:
            assert self.changed.wait_for(
                lambda: self.turn == runner_index or self.ended - {runner_index}, DEADLINE_SECONDS
            )

    def end(self, runner_index: int) -> None:
        with self.changed:
            self.ended.add(runner_index)
            self.changed.notify_all()


def build_tolerant_pipeline(mode: str) -> Pipeline:
    errors = Errors("all", 9)
    return build_pipeline(build_table(mode=mode, errors=errors), source={"errors": errors})


def build_world(pipeline: Pipeline) -> World:
    """Two partitions: a dead letter in each that can be read now, one that cannot, and rows before and behind them."""
    world = World()
    world.broker.create("orders", 2)
    for partition in (0, 1):
        for key, value in ((f"a{partition}", {"name": "x"}), (f"b{partition}", BAD), (f"c{partition}", {"name": "x"})):
            row = value if value is BAD else {"id": key, **value}
            world.broker.produce("orders", {"id": key}, row, partition)
    world.broker.produce("orders", {"id": "d"}, BAD, 1)
    flush(world.open_session(pipeline))
    records = world.broker.partitions["orders"]
    world.engine.fixed_values[1] = {"id": records[0].records[1].key["id"], "name": "fixed"}
    return world


def run_two(world: World, pipeline: Pipeline, turns: Turns) -> list[Exception | None]:
    """Both replays, by turns; what each of them raised."""
    ends: list[Exception | None] = [None, None]

    def replay(runner_index: int) -> None:
        turns.wait(runner_index)
        try:
            replay_dead_letters(world.open_session(pipeline, lambda *_: turns.count(runner_index)))
        except Exception as problem:
            ends[runner_index] = problem
        finally:
            turns.end(runner_index)

    threads = [threading.Thread(target=replay, args=(runner_index,), daemon=True) for runner_index in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)
        assert not thread.is_alive()
    return ends


def count_calls(mode: str) -> int:
    pipeline, turns = build_tolerant_pipeline(mode), Turns()
    run_two(build_world(pipeline), pipeline, turns)
    return turns.calls[0]


def answer_by_hand(world: World, pipeline: Pipeline, refusal: GiveUp) -> None:
    """What the refusal says: look for the letters in the table, discard those that are there, replay the others."""
    assert "the list of its dead letters is lost" in str(refusal)
    came_in = {("orders", partition, 1) for partition in (0, 1)}
    letter_filter = LetterFilter(places=frozenset({("orders", 1, 3)}))
    session = world.open_session(pipeline)
    propose_discard(session, LetterFilter(places=frozenset(came_in)), "came in").perform("ann")
    assert [result.still_bad for result in replay_dead_letters(session, letter_filter)] == [1]


@pytest.mark.parametrize("mode", ["append", "upsert_delete"])
def test_each_dead_letter_comes_in_once_whatever_the_order_of_two_replays(mode: str) -> None:
    pipeline, most, refusals = build_tolerant_pipeline(mode), count_calls(mode), 0
    pairs = [(first, second) for first in range(1, most, 5) for second in range(1, most, 5)]
    for first, second in choose_walk_cases(pairs, mode):
        world, at = build_world(pipeline), f"the first one's calls={first}, then calls={second} of the second one"
        ends = run_two(world, pipeline, Turns(first, second))
        assert all(end is None or isinstance(end, GIVES_WAY) for end in ends), (at, ends)
        for _ in range(2):
            try:
                replay_dead_letters(world.open_session(pipeline))
            except GiveUp as refusal:
                refusals += 1
                answer_by_hand(world, pipeline, refusal)
        names = [row["name"] for row in world.read_rows(TABLE)]
        assert (names.count("fixed"), names.count("x")) == (2, 4), (at, ends)
        waiting_offsets = [row["offset"] for row in world.read_rows(LETTERS) if row["replayed_at"] is None]
        assert waiting_offsets == [3], (at, ends)
        assert not [name for name in world.destination.tables if "replay" in name], at
    assert refusals * 50 < len(pairs), "it is seldom that a person must look"
    assert mode == "append" or not refusals


def test_replay_that_publishes_while_another_looks_for_those_that_were_undone_is_none_of_them() -> None:
    pipeline, snapshot_call = build_tolerant_pipeline("append"), 10  # calls: the table's snapshots have just been read
    for first in choose_calls(count_calls("append")):
        world = build_world(pipeline)
        run_two(world, pipeline, Turns(first, snapshot_call))
        replay_dead_letters(world.open_session(pipeline))
        assert [row["name"] for row in world.read_rows(TABLE)].count("fixed") == 2, f"calls={first} of the first one"
