"""A stage that went to wait elsewhere goes on where it was: the same attempts, and nothing is read twice."""

from dataclasses import asdict, replace

import pytest
from fakes import World, build_pipeline, build_table
from tidegate.errors import RetryLater
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage
from tidegate.flush.staged import StageCheckpoint, wrap_with_checkpoint
from tidegate.model.batch import Plan, StagedBatch
from tidegate.spec.pipeline import Pipeline

TWO = (build_table(), build_table("lake.shop.lines", topics=("lines",)))


class Away(BaseException):
    """The caller went to wait elsewhere."""


@pytest.fixture
def world() -> World:
    world = World()
    for topic in ("orders", "lines"):
        world.broker.create(topic)
        world.broker.produce(topic, {"id": "a"}, {"id": "a", "name": "x"})
    return world


def stage_batches(
    world: World, pipeline: Pipeline, planned: Plan, memory: StageCheckpoint, away_after: int = 0
) -> list[StagedBatch]:
    """Stage as a task does; it may go away when so many tables' results have been asked for."""
    remaining_calls = iter(range(away_after - 1, -1, -1)) if away_after else iter(())

    def leave(call: str, moment: str) -> None:
        if call == "staging.complete_attempt" and moment == "before" and next(remaining_calls, None) == 0:
            raise Away

    return stage(wrap_with_checkpoint(world.open_session(pipeline, leave), memory), planned)


def copy_checkpoint(memory: StageCheckpoint) -> StageCheckpoint:
    return StageCheckpoint.from_dict({**asdict(memory), "job_id": "of the trigger"})


@pytest.mark.parametrize("away_after", [1, 2])
def test_stage_that_comes_back_reads_nothing_again_and_keeps_its_attempts(world: World, away_after: int) -> None:
    pipeline, memory = build_pipeline(*TWO), StageCheckpoint()
    planned = plan(world.open_session(pipeline))
    with pytest.raises(Away):
        stage_batches(world, pipeline, planned, memory, away_after)
    before = list(world.engine.stages)
    assert len(before) == away_after
    batches = stage_batches(world, pipeline, planned, memory := copy_checkpoint(memory))
    assert len(world.engine.stages) == 2
    assert world.engine.stages[:away_after] == before
    assert sorted(batch.attempt for batch in batches) == memory.attempts
    assert [batch.table for batch in batches] == [table.name for table in TWO]


def test_stage_whose_pipeline_was_changed_meanwhile_begins_anew(world: World) -> None:
    pipeline, memory = build_pipeline(build_table()), StageCheckpoint()
    planned = plan(world.open_session(pipeline))
    with pytest.raises(Away):
        stage_batches(world, pipeline, planned, memory, 1)
    changed = replace(pipeline, tables=(replace(pipeline.tables[0], when="name <> 'x'"),))
    with pytest.raises(
        RetryLater,
        match="the pipeline, or this version, was changed while its rows were brought in; they are staged again",
    ):
        stage_batches(world, changed, planned, copy_checkpoint(memory))
    assert len(world.engine.stages) == 1


def test_stage_that_nothing_interrupts_gives_new_attempts(world: World) -> None:
    pipeline = build_pipeline(*TWO)
    batches = stage_batches(world, pipeline, plan(world.open_session(pipeline)), memory := StageCheckpoint())
    assert sorted(batch.attempt for batch in batches) == memory.attempts
    assert len(memory.jobs) == len(world.engine.stages) == 2
