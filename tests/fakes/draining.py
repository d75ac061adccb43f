"""Flushes in memory until nothing is left, as `Workbench.drain` does it on servers."""

from tidegate.errors import NothingToDo
from tidegate.flush.flush import flush
from tidegate.spec.pipeline import Pipeline

from fakes.world import World

MAX_FLUSHES = 20


def drain(world: World, pipeline: Pipeline) -> int:
    """The number of flushes that had work; AssertionError for a pipeline that never comes to rest."""
    for number in range(MAX_FLUSHES):
        try:
            flush(world.open_session(pipeline))
        except NothingToDo:
            return number
    raise AssertionError(f"pipeline={pipeline.name} never came to rest")
