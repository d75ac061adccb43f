"""What a pipeline reports to its group: what is published, the ends of topics without rows, and a hook's say."""

from collections.abc import Callable

from tidegate.errors import GiveUp, TidegateError
from tidegate.model.offsets import Offsets, get_offset, iterate_offsets, merge_offsets
from tidegate.ports.context import Ports


def apply_offset_hook(ports: Ports, published_offsets: Offsets, quiet: Offsets) -> Offsets:
    """The offsets as the pipeline's hook returns them; `GiveUp` if it lowers or removes one, or raises one too far.

    It may raise offsets and add partitions: to `published_offsets` in topics that carry rows, to the end of the log in
    all others.
    """
    offsets = merge_offsets(published_offsets, quiet)
    if ports.heartbeat_hook is None:
        return offsets
    place = f"pipeline={ports.pipeline.name} heartbeat.hook={ports.pipeline.heartbeat.hook}"
    hook_offsets = _call_hook(ports.heartbeat_hook, place, ports.pipeline.name, offsets)
    for topic, partition, offset in iterate_offsets(offsets):
        result = get_offset(hook_offsets, topic, partition)
        if result is None or result < offset:
            raise GiveUp(
                f"{place}: topic={topic} partition={partition} offset={offset} became {result}: a hook may raise and "
                "add offsets, never lower or remove them; correct it, or take it out of the pipeline file"
            )
    _check_limits(ports, place, hook_offsets, published_offsets)
    return hook_offsets


def _call_hook(hook: Callable[[str, Offsets], Offsets], place: str, pipeline: str, offsets: Offsets) -> Offsets:
    try:
        hook_offsets = hook(pipeline, merge_offsets(offsets))  # a copy, which the hook may change
        return {str(t): {int(p): int(o) for p, o in parts.items()} for t, parts in hook_offsets.items()}
    except TidegateError:
        raise
    except Exception as fault:  # the user's own code: whatever it raises is logged, and the heartbeat goes on
        raise GiveUp(f"{place}: {type(fault).__name__}: {fault}; correct it, or take it out of the file") from fault


def _check_limits(ports: Ports, place: str, hook_offsets: Offsets, published_offsets: Offsets) -> None:
    unpublished_topics = tuple(topic for topic in hook_offsets if topic not in published_offsets)
    ends = (
        ports.broker.read_end_offsets(unpublished_topics, ports.pipeline.source.isolation) if unpublished_topics else {}
    )
    limits = merge_offsets(ends, published_offsets)
    for topic, partition, offset in iterate_offsets(hook_offsets):
        limit = get_offset(limits, topic, partition)
        if limit is None or offset > limit:
            raise GiveUp(
                f"{place}: topic={topic} partition={partition} offset={offset} lies beyond "
                f"{_format_limit(limit)}: a hook "
                "never reports what is not published; correct it, or take it out of the pipeline file"
            )


def _format_limit(limit: int | None) -> str:
    return "the log, which has no such partition" if limit is None else f"what is published, offset={limit}"
