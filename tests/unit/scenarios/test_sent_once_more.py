"""A merge that is sent once more while it runs, as Celery does behind its visibility timeout: the same batches twice.

Whichever of the two publishes, the other one says that it is done, and nothing is told or left twice.
"""

from collections.abc import Callable

import pytest
from crash.memory import (
    arrange_first_batch,
    arrange_later_batch,
    arrange_queue,
    build_crash_pipeline,
    build_world,
    drain,
    list_leftovers,
    produce,
    read_outcome,
)
from crash.points import Journey, Point
from examples import choose_walk_cases
from fakes import World
from tidegate.errors import PublishedElsewhere
from tidegate.flush.clean_up import clean_up
from tidegate.flush.heartbeat import commit_offsets
from tidegate.flush.merge_queue import QueueResult, group_by_table, merge_queue
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage
from tidegate.model.batch import PublishOutcome
from tidegate.ports.session import Session
from tidegate.spec.pipeline import Pipeline

OUTCOMES = (PublishOutcome.PUBLISHED, PublishOutcome.ALREADY_PUBLISHED)
SHAPES = [("upsert_delete", 1), ("append", 2)]
Then = Callable[[Session], object]
CONTROL = "lake.shop.tidegate_shop_batches"


class SentTwice:
    """One task with a table's batches that stands still at one point while the same task runs from begin to end."""

    def __init__(self, situation: Callable[[World, Pipeline], None], pipeline: Pipeline) -> None:
        self.world, self.pipeline, self.second = build_world(situation, pipeline), pipeline, list[QueueResult]()
        session = self.world.open_session(pipeline)
        *first_queues, self.queue = group_by_table(stage(session, plan(session)))
        for queue in first_queues:
            merge_queue(session, queue)

    def run(
        self, at: Point | None, callback: Callable[[Session], object] = lambda _: None
    ) -> tuple[list[Point], QueueResult]:
        def meet(point: Point) -> None:
            if point == at and not self.second:
                session = self.world.open_session(self.pipeline)
                self.second.append(merge_queue(session, self.queue))
                callback(session)

        with Journey(meet).inside() as journey:
            first = merge_queue(journey.open_session(self.world.open_session(self.pipeline)), self.queue)
        return journey.passed, first


def go_on(session: Session) -> None:
    """The rest of the run whose second task it was."""
    commit_offsets(session)
    clean_up(session)


@pytest.mark.guard(
    "if a task is sent twice, the later one continues with the queue",
    file="plugins/tidegate/flush/merge_queue.py",
    text="            if not _count_published(open_table(session, queue[0].table).refresh(), queue):\n",
    off="            if True:\n",
)
@pytest.mark.parametrize("callback", [lambda _: None, go_on], ids=["alone", "with the rest of its run"])
@pytest.mark.parametrize(
    ("situation", "mode", "tables"),
    [
        (situation, *shape)
        for situation in (arrange_first_batch, arrange_later_batch, arrange_queue)
        for shape in SHAPES
    ],
)
def test_merge_that_is_sent_once_more_is_done_once_and_both_say_so(
    situation, mode: str, tables: int, callback, record_property
) -> None:
    pipeline = build_crash_pipeline(mode, tables)
    alone = SentTwice(situation, pipeline)
    alone_calls, whole = alone.run(None)
    go_on(alone.world.open_session(pipeline))
    points = choose_walk_cases(alone_calls, situation.__name__, mode)
    for at in points:
        twice = SentTwice(situation, pipeline)
        _, first = twice.run(at, callback)
        (second,) = twice.second
        for queue_result in (first, second):
            assert queue_result.failure is None, f"at {at}: {queue_result.failure}"
            assert queue_result.total.outcome in OUTCOMES, at
        results = [
            (batch.batch, batch.outcome) for queue_outcome in (first, second) for batch in queue_outcome.published
        ]
        assert len([batch for batch, outcome in results if outcome == PublishOutcome.PUBLISHED]) == len(
            whole.published
        ), at
        rows = twice.world.destination.control[CONTROL]
        history_keys = [(row["table"], row["batch"]) for row in rows]
        assert len(history_keys) == len(set(history_keys)), f"at {at}: history tells a batch twice"
        assert len(history_keys) == len(alone.world.destination.control[CONTROL]), at
        go_on(twice.world.open_session(pipeline))
        assert read_outcome(twice.world, pipeline) == read_outcome(alone.world, pipeline), at
        assert list_leftovers(twice.world, pipeline) == list_leftovers(alone.world, pipeline), at
    record_property("counted", {"points where a merge was sent once more": len(points)})


@pytest.mark.parametrize("mode", ["upsert_delete", "append"])
def test_merge_that_is_sent_once_more_and_wakes_behind_a_newer_batch_gives_way_with_one_sentence(mode: str) -> None:
    pipeline = build_crash_pipeline(mode, 1)
    alone_calls, _ = SentTwice(arrange_later_batch, pipeline).run(None)
    for at in choose_walk_cases(alone_calls, mode):
        twice = SentTwice(arrange_later_batch, pipeline)

        def newer(_: Session, world: World = twice.world) -> None:
            produce(world, ("a", "newer"), ("d", "newer"))
            drain(world, pipeline)

        _, first = twice.run(at, newer)
        if first.failure is not None:
            assert isinstance(first.failure, PublishedElsewhere), f"at {at}: {first.failure}"
            assert str(first.failure).splitlines()[0].endswith("nothing was changed and nothing needs repair"), at
        before = read_outcome(twice.world, pipeline)
        drain(twice.world, pipeline)
        assert read_outcome(twice.world, pipeline) == before, at
        history_keys = [(row["table"], row["batch"]) for row in twice.world.destination.control[CONTROL]]
        assert len(history_keys) == len(set(history_keys)), f"at {at}: history tells a batch twice"
        assert list_leftovers(twice.world, pipeline) == [], at
