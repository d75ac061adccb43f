"""Where a bounded read ends: the log as it stands now, another group's progress, a time, or offsets."""

from tidegate.errors import ConfigurationError
from tidegate.model.offsets import Offsets, keep_partitions, merge_offsets
from tidegate.planning.written_offsets import parse_written_offsets
from tidegate.ports.context import Log, Ports
from tidegate.progress.topic_log import read_known_log
from tidegate.spec.time_text import EXAMPLE, parse_timestamp_ms

STOP_SYNTAX_HELP = f'write latest, group, group:<id>, a time like {EXAMPLE}, or offsets like {{"topic": {{"0": 42}}}}'


def resolve_stop_offsets(ports: Ports, stop_text: str) -> Offsets:
    """The offsets that a read stops before, of every partition there is now.

    A group's partitions without a committed offset, and those not named by `stop_text`, are not read: they end where
    their log begins. `latest` is the end of the log as it is now, so that what comes later is not chased.
    ConfigurationError for other words, and for offsets or another group that name no partition to read.
    """
    log, _ = read_known_log(ports)
    topics = tuple(log.begin)
    if stop_text == "latest":
        return log.end
    if stop_text == "group":
        committed = ports.broker.read_committed(ports.pipeline.source.group, topics)
        return merge_offsets(log.begin, keep_partitions(committed, log.begin))
    if stop_text.startswith("group:"):
        return merge_offsets(log.begin, _find_group_end(ports, stop_text, log))
    if stop_text.lstrip().startswith("{"):
        named = keep_partitions(_parse_stop_offsets(stop_text), log.begin)
        if log.begin and not any(named.values()):
            raise ConfigurationError(
                f"until={stop_text}: the pipeline reads none of these partitions; correct topic and partition, and "
                f"{STOP_SYNTAX_HELP}"
            )
        return merge_offsets(log.begin, named)
    return ports.broker.find_offsets_at(topics, parse_timestamp_ms("until", stop_text, STOP_SYNTAX_HELP))


def _find_group_end(ports: Ports, stop_text: str, log: Log) -> Offsets:
    group = stop_text.partition(":")[2]
    if not group.strip():
        raise ConfigurationError(f"until={stop_text}: no group is named; {STOP_SYNTAX_HELP}")
    committed = keep_partitions(ports.broker.read_committed(group, tuple(log.begin)), log.begin)
    if log.begin and not any(committed.values()):
        raise ConfigurationError(
            f"until={stop_text}: the group has committed nothing for the pipeline's topics; correct its name, or let "
            "it commit first"
        )
    return committed


def cap_at(end: Offsets, bounds: Offsets, reached_offsets: Offsets) -> Offsets:
    """The log's `end`, lowered to `bounds`, but never below `reached_offsets`."""
    return {
        topic: {
            partition: min(
                offset, max(bounds.get(topic, {}).get(partition, 0), reached_offsets.get(topic, {}).get(partition, 0))
            )
            for partition, offset in parts.items()
        }
        for topic, parts in end.items()
    }


def _parse_stop_offsets(text: str) -> Offsets:
    try:
        return parse_written_offsets(text)
    except ValueError as error:
        raise ConfigurationError(f"until={text}: not offsets: {error}; {STOP_SYNTAX_HELP}") from error
