"""A queue of the only table of a pipeline: batches that are staged while none is merged."""

from dataclasses import replace

from tidegate.errors import NothingToDo
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage
from tidegate.model.batch import StagedBatch
from tidegate.spec.pipeline import Pipeline, Stage

from fakes.world import World


def stage_behind(world: World, pipeline: Pipeline) -> list[StagedBatch]:
    """Stage the next batch of the pipeline's table, also while others wait; its queue then, oldest first.

    A pipeline of one table reads on while batches wait only where staging has a clock: so it gets one meanwhile.
    """
    session = world.open_session(replace(pipeline, stage=Stage(interval_seconds=1)))
    try:
        return stage(session, plan(session))
    except NothingToDo:
        return []
