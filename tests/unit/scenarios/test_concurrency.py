"""A runner that stands still at any point while another one publishes two batches: it wakes up and changes nothing.

Protocol, what must hold: 2. and 3. With real processes: tests/integration/test_concurrency.py.
"""

import pytest
from crash.memory import (
    GROUP,
    TOPIC,
    Run,
    arrange_first_batch,
    arrange_later_batch,
    arrange_new_column,
    arrange_queue,
    arrange_staged_ahead,
    arrange_staged_batch,
    build_crash_pipeline,
    build_world,
    drain,
    list_leftovers,
    list_passed_points,
    produce,
    read_outcome,
    run_both_clocks,
    set_two_clocks,
)
from crash.points import Journey, Point
from examples import choose_walk_cases
from fakes import World
from tidegate.errors import NothingToDo, PublishedElsewhere, RetryLater
from tidegate.flush.flush import flush, merge_staged_batches, stage_new_batches
from tidegate.spec.pipeline import Pipeline


class Sleeper:
    """A run that sleeps at one point while others bring two newer batches to the tables."""

    def __init__(self, situation, pipeline: Pipeline, at: Point, sleeps: Run = flush, others: Run = flush) -> None:
        self.world, self.pipeline, self.at = build_world(situation, pipeline), pipeline, at
        self.sleeps, self.others = sleeps, others
        self.asleep, self.error_text = False, ""

    def run(self) -> None:
        with Journey(self.meet).inside() as journey:
            try:
                self.sleeps(journey.open_session(self.world.open_session(self.pipeline)))
            except (NothingToDo, PublishedElsewhere, RetryLater) as error:
                self.error_text = f"{type(error).__name__}: {error}"

    def meet(self, point: Point) -> None:
        if point == self.at and not self.asleep:
            self.asleep = True
            for name in ("newer", "newest"):
                produce(self.world, ("a", name), ("c", None), ("d", name))
                drain(self.world, self.pipeline, self.others)
            self.before = read_outcome(self.world, self.pipeline)


@pytest.mark.guard(
    "the position is still the batch's start",
    file="plugins/tidegate/table/position.py",
    text="if position is not None and (is_old or is_other or not ranges.continues(position.offsets)):",
    off="if False:",
)
@pytest.mark.parametrize(("mode", "tables"), [("upsert_delete", 1), ("append", 2)])
@pytest.mark.parametrize(
    "situation",
    [arrange_first_batch, arrange_later_batch, arrange_new_column, arrange_staged_batch, arrange_queue],
    ids=lambda s: s.__name__,
)
def test_runner_that_sleeps_at_any_point_changes_nothing_when_it_wakes(
    situation, mode: str, tables: int, record_property
) -> None:
    pipeline = build_crash_pipeline(mode, tables)
    points = choose_walk_cases(list_passed_points(situation, pipeline), situation.__name__, tables)
    for at in points:
        sleeper = Sleeper(situation, pipeline, at)
        sleeper.run()
        check_sleeper_changed_nothing(sleeper, f"slept at {at}")
    record_property("counted", {"points slept at": len(points)})


@pytest.mark.parametrize("sleeps", [stage_new_batches, merge_staged_batches], ids=lambda run: run.__name__)
@pytest.mark.parametrize(("mode", "tables"), [("upsert_delete", 1), ("append", 2)])
@pytest.mark.parametrize(
    "situation", [arrange_first_batch, arrange_new_column, arrange_staged_ahead], ids=lambda s: s.__name__
)
def test_half_of_a_pipeline_with_two_clocks_that_sleeps_at_any_point_changes_nothing_when_it_wakes(
    sleeps: Run, situation, mode: str, tables: int, record_property
) -> None:
    pipeline = set_two_clocks(build_crash_pipeline(mode, tables))
    points = choose_walk_cases(list_passed_points(situation, pipeline, sleeps), situation.__name__, tables)
    for at in points:
        sleeper = Sleeper(situation, pipeline, at, sleeps, run_both_clocks)
        sleeper.run()
        check_sleeper_changed_nothing(sleeper, f"{sleeps.__name__} slept at {at}")
    record_property("counted", {"points slept at": len(points)})


def check_sleeper_changed_nothing(sleeper: Sleeper, place: str) -> None:
    world: World = sleeper.world
    pipeline = sleeper.pipeline
    assert sleeper.asleep, place
    rows, positions, _ = read_outcome(world, pipeline)
    assert (rows, positions) == sleeper.before[:2], f"{place}: {sleeper.error_text}"
    assert len(sleeper.error_text.splitlines()) <= 1, sleeper.error_text
    drain(world, pipeline, sleeper.others)
    assert read_outcome(world, pipeline) == sleeper.before, f"{place}: {sleeper.error_text}"
    assert world.broker.groups[GROUP][TOPIC] == {n: p.end for n, p in enumerate(world.broker.partitions[TOPIC])}
    produce(world, ("e", "last"))  # what a loser staged under a number of its own goes with the next batch
    drain(world, pipeline, sleeper.others)
    assert list_leftovers(world, pipeline) == [], f"{place}: {sleeper.error_text}"
