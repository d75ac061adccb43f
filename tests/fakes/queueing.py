"""A queue of the only table of a pipeline: batches that are staged while none is merged."""

from dataclasses import replace

from tidegate.errors import NothingToDo
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage
from tidegate.model.batch import StagedBatch
from tidegate.spec.pipeline import Pipeline

from fakes.world import World


def stage_behind(world: World, pipeline: Pipeline) -> list[StagedBatch]:
    """Stage the next batch of the pipeline's table, also while others wait; its queue then, oldest first.

    A pipeline reads on while merges of one table fail only where it has others: so it gets another one meanwhile.
    """
    (table,) = pipeline.tables
    beside = replace(table, name=f"{table.name}_beside", max_pending=1000)
    session = world.open_session(replace(pipeline, tables=(table, beside)))
    try:
        return [batch for batch in stage(session, plan(session)) if batch.table == table.name]
    except NothingToDo:
        return []
