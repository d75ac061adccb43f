"""Where `rebase` leads a position: a word, a time, or offsets that a person has written, against the log as it is."""

from dataclasses import dataclass, field, replace

from tidegate.errors import ConfigurationError
from tidegate.model.offsets import (
    Offsets,
    find_lowest,
    format_names,
    format_partitions,
    get_offset,
    iterate_offsets,
    keep_partitions,
    merge_offsets,
)
from tidegate.model.position import Position
from tidegate.planning.written_offsets import parse_written_offsets
from tidegate.ports.context import Log, Ports
from tidegate.progress.position_checks import REMAINING, find_position_cuts
from tidegate.spec.time_text import EXAMPLE, parse_timestamp_ms

TARGET_FORMS = f"write earliest, latest, group, a time like {EXAMPLE}, or offsets as JSON, or {REMAINING}"


@dataclass(frozen=True)
class RebaseTarget:
    """The position after a move. `unchanged_offsets`: the partitions that the target does not name, which stay."""

    offsets: Offsets
    unchanged_offsets: Offsets = field(default_factory=dict)

    def choose_epochs(self, before: Position, log: Log) -> Offsets:
        """The leaders' epochs of the new position: the newest, and of partitions that stay the recorded ones.

        Nobody has looked whether a newer leader has cut the log of these: the next batch must still ask. The epochs of
        another cluster say nothing.
        """
        if _is_another_cluster(before, log):
            return log.epochs
        moved_epochs = {
            topic: {p: epoch for p, epoch in parts.items() if p not in self.unchanged_offsets.get(topic, {})}
            for topic, parts in log.epochs.items()
        }
        return merge_offsets(moved_epochs, keep_partitions(before.epochs, self.unchanged_offsets))


def resolve_target(ports: Ports, before: Position, lasting: Offsets, to: str, log: Log) -> RebaseTarget:
    """The target of one table; `lasting` are the offsets at which partitions stay that it does not name.

    ConfigurationError for an offset that the log does not hold, and for what is no target.
    """
    topics = tuple(log.begin)
    if to in ("earliest", "latest"):
        return RebaseTarget(log.begin if to == "earliest" else log.end)
    if to == "group":
        return RebaseTarget(
            _check_target(
                log, merge_offsets(log.begin, ports.broker.read_committed(ports.pipeline.source.group, topics))
            )
        )
    if to == REMAINING:
        return _name_partitions(log, lasting, _find_remaining(ports, replace(before, offsets=lasting), log))
    if is_json(to):
        return _name_partitions(log, lasting, parse_offsets_target(to))
    # a time may lie behind a transaction that is still open, whose records nobody may skip
    times = ports.broker.find_offsets_at(topics, parse_timestamp_ms("--to", to, TARGET_FORMS))
    return RebaseTarget(find_lowest(log.end, merge_offsets(log.begin, times)))


def _find_remaining(ports: Ports, position: Position, log: Log) -> Offsets:
    """What is left of the records behind the position, of partitions that have lost some: by expiry, or by a cut."""
    cuts = {} if _is_another_cluster(position, log) else find_position_cuts(ports, position, log)
    return merge_offsets(cuts, log.find_begins_behind(position.offsets))


def _is_another_cluster(position: Position, log: Log) -> bool:
    return bool(position.cluster_id and log.cluster_id) and position.cluster_id != log.cluster_id


def _name_partitions(log: Log, lasting: Offsets, named_offsets: Offsets) -> RebaseTarget:
    staying = {
        topic: {p: offset for p, offset in parts.items() if p not in named_offsets.get(topic, {})}
        for topic, parts in lasting.items()
    }
    return RebaseTarget(_check_target(log, merge_offsets(log.begin, lasting, named_offsets)), staying)


def is_json(to: str) -> bool:
    """Whether a target is offsets, and no word or time."""
    return to.lstrip().startswith("{")


def check_target_topics(log: Log, target: Offsets) -> None:
    """ConfigurationError for a topic that the pipeline does not read."""
    for topic in target:
        if topic not in log.begin:
            known = format_names(sorted(log.begin))
            raise ConfigurationError(
                f"topic={topic}: the pipeline reads no such topic; its topics are {known}; name one of them with --to"
            )


def parse_offsets_target(to: str) -> Offsets:
    """The offsets of a target in JSON; ConfigurationError for anything else."""
    try:
        return parse_written_offsets(to)
    except ValueError as error:
        raise ConfigurationError(f'--to={to}: not offsets: {error}; write e.g. {{"topic": {{"0": 42}}}}') from error


def _check_target(part: Log, target: Offsets) -> Offsets:
    """The target without topics of other tables; ConfigurationError for an offset that the log does not hold."""
    part_offsets = {topic: parts for topic, parts in target.items() if topic in part.begin}
    for topic, partition, offset in iterate_offsets(part_offsets):
        begin, end = get_offset(part.begin, topic, partition), get_offset(part.end, topic, partition)
        if begin is None or end is None:
            raise ConfigurationError(
                f"topic={topic} partition={partition}: the topic has no such partition; it has "
                f"{format_partitions(part.begin[topic])}; name one of these with --to"
            )
        if not begin <= offset <= end:
            raise ConfigurationError(
                f"topic={topic} partition={partition} offset={offset}: outside the log [{begin}, {end}]; "
                "name an offset inside it with --to"
            )
    return part_offsets
