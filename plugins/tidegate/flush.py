"""One whole flush without a scheduler: the steps in order, as the DAG runs them."""

from dataclasses import dataclass

from tidegate.batch import Plan, PublishedBatch, StagedBatch
from tidegate.drain import drain, queues
from tidegate.errors import NothingToDo, PublishedElsewhere, SomeTablesFailed, TidegateError
from tidegate.ports import Ports
from tidegate.steps.clean_up import clean_up
from tidegate.steps.commit_offsets import commit_offsets
from tidegate.steps.heartbeat import heartbeat
from tidegate.steps.plan import plan
from tidegate.steps.stage import stage


@dataclass(frozen=True)
class Flushed:
    """What one flush did; `failures` are the tables that stay behind, with the reason."""

    published: tuple[PublishedBatch, ...]
    failures: tuple[tuple[str, TidegateError], ...] = ()


def flush(ports: Ports) -> Flushed:
    """Run plan, stage, merge, commit_offsets, clean_up and heartbeat once.

    `NothingToDo` when there was no work (the heartbeat has run). Tables are merged one after the other; one that
    fails keeps its staged batches while the others go on, and `SomeTablesFailed` is raised at the end.
    """
    try:
        planned: Plan = plan(ports)
    except NothingToDo:
        clean_up(ports)  # of a run that was killed after its publish
        heartbeat(ports)
        raise
    flushed = _merge_all(ports, stage(ports, planned))
    if flushed.published:
        commit_offsets(ports)
    clean_up(ports)
    heartbeat(ports)
    _raise_failures(ports, flushed)
    return flushed


def _merge_all(ports: Ports, batches: list[StagedBatch]) -> Flushed:
    drained = [drain(ports, queue) for queue in queues(batches)]
    published = tuple(batch for one in drained for batch in one.published)
    return Flushed(published, tuple((one.table, one.failure) for one in drained if one.failure is not None))


def _raise_failures(ports: Ports, flushed: Flushed) -> None:
    if not flushed.failures:
        return
    if not ports.pipeline.has_several or all(isinstance(e, PublishedElsewhere) for _, e in flushed.failures):
        raise flushed.failures[0][1]
    reasons = "\n".join(str(error) for _, error in flushed.failures)
    raise SomeTablesFailed(f"pipeline={ports.pipeline.name}: {len(flushed.failures)} tables failed:\n{reasons}")
