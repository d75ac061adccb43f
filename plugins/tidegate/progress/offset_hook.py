"""What a pipeline reports to its group: what is published, the ends of topics without rows, and a hook's say."""

from collections.abc import Callable

from tidegate.errors import GiveUp, TidegateError
from tidegate.model.offsets import Offsets, get_offset, iterate_offsets, merge_offsets
from tidegate.ports.context import Ports


def apply_offset_hook(ports: Ports, published: Offsets, quiet: Offsets) -> Offsets:
    """The offsets as the pipeline's hook returns them; `GiveUp` if it lowers or removes one, or raises one too far.

    It may raise offsets and add partitions: up to `published` in topics that carry rows, up to the end of the log in
    all others.
    """
    offsets = merge_offsets(published, quiet)
    if ports.heartbeat_hook is None:
        return offsets
    where = f"pipeline={ports.pipeline.name} heartbeat.hook={ports.pipeline.heartbeat.hook}"
    proposed = _call_hook(ports.heartbeat_hook, where, ports.pipeline.name, offsets)
    for topic, partition, offset in iterate_offsets(offsets):
        result = get_offset(proposed, topic, partition)
        if result is None or result < offset:
            raise GiveUp(
                f"{where}: topic={topic} partition={partition} offset={offset} became {result}: a hook may raise and "
                "add offsets, never lower or remove them; correct it, or take it out of the pipeline file"
            )
    _check_limits(ports, where, proposed, published)
    return proposed


def _call_hook(hook: Callable[[str, Offsets], Offsets], where: str, pipeline: str, offsets: Offsets) -> Offsets:
    try:
        proposed = hook(pipeline, merge_offsets(offsets))  # a copy, which the hook may change
        return {str(t): {int(p): int(o) for p, o in parts.items()} for t, parts in proposed.items()}
    except TidegateError:
        raise
    except Exception as fault:  # the user's own code: whatever it raises is logged, and the heartbeat goes on
        raise GiveUp(f"{where}: {type(fault).__name__}: {fault}; correct it, or take it out of the file") from fault


def _check_limits(ports: Ports, where: str, proposed: Offsets, published: Offsets) -> None:
    others = tuple(topic for topic in proposed if topic not in published)
    ends = ports.broker.read_end_offsets(others, ports.pipeline.source.isolation) if others else {}
    limits = merge_offsets(ends, published)
    for topic, partition, offset in iterate_offsets(proposed):
        limit = get_offset(limits, topic, partition)
        if limit is None or offset > limit:
            raise GiveUp(
                f"{where}: topic={topic} partition={partition} offset={offset} lies beyond "
                f"{_format_limit(limit)}: a hook "
                "never reports what is not published; correct it, or take it out of the pipeline file"
            )


def _format_limit(limit: int | None) -> str:
    return "the log, which has no such partition" if limit is None else f"what is published, offset={limit}"
