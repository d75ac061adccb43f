"""Where a table begins, where its next batch starts, and where `rebase` leads it, against the log as it is."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tidegate.errors import ConfigurationError, PositionLost, TopicsUnavailable
from tidegate.model.batch import StagedBatch
from tidegate.model.counts import format_being, format_count
from tidegate.model.kafka_log import Log
from tidegate.model.offsets import (
    Offsets,
    find_lowest,
    format_names,
    format_partitions,
    get_offset,
    group_by_topic,
    iterate_offsets,
    keep_partitions,
    merge_offsets,
)
from tidegate.model.position import Position
from tidegate.model.table_state import is_another_cluster, is_recreated
from tidegate.model.written_offsets import parse_written_offsets
from tidegate.ports.session import Session
from tidegate.spec.pipeline import Pipeline, RiskPolicy
from tidegate.spec.source import StartKind
from tidegate.spec.time_text import EXAMPLE, parse_timestamp_ms
from tidegate.table.observed_table import TableWithLog
from tidegate.table.position import (
    REMAINING,
    describe_all_losses,
    find_position_cuts,
    name_moved,
    resolve_next_start,
)
from tidegate.table.queue import describe_way_back
from tidegate.table.session import TableSession


def resolve_batch_start(observed: TableWithLog) -> Offsets:
    """Return where the next batch of a table starts: the end of its queue.

    `PositionLost` if records before it are lost, `TopicsUnavailable` if an open transaction hides it.
    """
    _check_reshaped(observed)
    if observed.end is None:
        return _resolve_complete_start(observed)
    start = resolve_next_start(observed, observed.end, observed.log)
    _check_new_partitions(observed, observed.end.offsets)
    return start


def _check_new_partitions(observed: TableWithLog, position: Offsets) -> None:
    new = {(t, p): o for t, p, o in iterate_offsets(observed.log.begin) if t in position and p not in position[t] and o}
    if new and observed.pipeline.on_incomplete_start == RiskPolicy.FAIL:
        ((topic, partition), begin) = next(iter(new.items()))
        # a move begins at the recorded position
        is_rewound = observed.state is not None and observed.state.is_rolled_back
        to = "earliest" if is_rewound else f"'{json.dumps(group_by_topic(new))}'"
        raise PositionLost(
            f"{observed.prefix}: topic={topic} partition={partition} is new, and its log "
            f"starts at offset={begin}, so {format_being(begin, 'offset')} gone before being read"
            f"{describe_all_losses({}, group_by_topic(new))}; lengthen the topic's retention, and move the position, "
            f"e.g. with: tidegate rebase {name_moved(observed)} --to {to}"
        )


def _resolve_complete_start(table: TableWithLog) -> Offsets:
    """Return where a table without a position begins.

    `PositionLost` if that leaves out records that it needs, `TopicsUnavailable` if an open transaction hides it.
    """
    session = table.session
    log = table.log
    configured_start = _read_configured_start(session, log)
    start = _clamp_to_log(configured_start, log)
    ends = log.end
    beyond = {t for t, p, offset in iterate_offsets(configured_start) if offset > (get_offset(ends, t, p) or 0)}
    if beyond:  # open transactions included: a start may lie behind the last stable offset
        ends = merge_offsets(ends, session.broker.read_end_offsets(tuple(sorted(beyond)), "read_uncommitted"))
    if session.pipeline.on_incomplete_start == RiskPolicy.FAIL:
        _check_start(table, configured_start, log, ends)
    _check_not_hidden(table, configured_start, log, ends)
    if table.spec.upsert and session.pipeline.on_incomplete_start == RiskPolicy.FAIL:
        behind = tuple(sorted({t for t, p, offset in iterate_offsets(start) if offset > log.begin[t][p]}))
        # with upserts it needs every key of a compacted topic; rows of a writer whose offsets it continues have the
        # earlier keys
        compacted = session.broker.filter_compacted(behind) if behind else ()
        is_continued = session.pipeline.source.start.kind in (StartKind.OFFSETS, StartKind.GROUP)
        has_rows = compacted and table.state is not None and is_continued and session.tables.count_rows(table.name) != 0
        if compacted and not has_rows:
            _check_complete(table, compacted, start, log)
    return start


def _check_reshaped(table: TableWithLog) -> None:
    """Raise `PositionLost` if what is staged in another shape of the rows cannot be read again from this log."""
    if not table.reshaped or table.pipeline.on_incomplete_start == RiskPolicy.ACCEPT:
        return
    loss = _describe_other_log(table, table.reshaped) or _describe_gone_records(table, table.reshaped[0])
    if loss:
        raise PositionLost(
            f"{table.prefix}: {loss}; to keep its rows, {describe_way_back(table)}; or set on_incomplete_start: accept "
            "if the table may lack them"
        )


def _describe_other_log(table: TableWithLog, reshaped: Sequence[StagedBatch]) -> str:
    last = reshaped[-1]
    log = table.log
    staged = f"batch={reshaped[0].batch} is staged in another shape of the rows, and"
    if is_another_cluster(last.cluster_id, log.cluster_id):
        return f"{staged} the brokers are another cluster: cluster_id={log.cluster_id} recorded={last.cluster_id}"
    for topic, recorded in last.topic_ids.items():
        topic_id = log.topic_ids.get(topic, recorded)
        if is_recreated(recorded, topic_id):
            return f"{staged} topic={topic} was deleted and created again: topic_id={topic_id} recorded={recorded}"
    cuts = find_position_cuts(table.session, last.compute_end_position(None), log)
    losses = describe_all_losses(cuts, keep_partitions(last.ranges.end, cuts))
    for topic, partition, cut_offset in iterate_offsets(cuts):
        return f"{staged} topic={topic} partition={partition}: the log was cut at offset={cut_offset} since{losses}"
    return ""


def _describe_gone_records(table: TableWithLog, batch: StagedBatch) -> str:
    start = batch.ranges.start
    # a person who names a start leaves out what lies before it
    asked = table.pipeline.source.start.offsets if table.end is None else {}
    begins = group_by_topic(
        {
            (topic, partition): begin
            for topic, partition, begin in iterate_offsets(table.log.find_begins_behind(start))
            if (get_offset(asked, topic, partition) or 0) < begin
        }
    )
    if not begins:
        return ""
    topic, partition, begin = next(iterate_offsets(begins))
    offset = start[topic][partition]
    return (
        f"topic={topic} partition={partition}: batch={batch.batch} is staged from offset={offset} on, in another shape "
        f"of the rows, and the log starts at offset={begin}, so {format_being(begin - offset, 'offset')} gone before "
        f"being read again{describe_all_losses(start, begins)}"
    )


def resolve_latest_start(pipeline: Pipeline, log: Log, committed_offsets: Offsets) -> Offsets:
    """Return the offsets that the heartbeat commits for `start: latest`, of topics that no table has read from.

    `log` is that of one table, `committed_offsets` may be those of more topics.
    """
    start = _choose_latest_start(log, committed_offsets)
    # a committed offset outside the log is refused as a start; moving it into the log would hide the lost records
    return start if pipeline.on_incomplete_start == RiskPolicy.FAIL else _clamp_to_log(start, log)


def resolve_first_start(session: Session, log: Log) -> Offsets:
    """Return where a table without a position begins, by `source.start`, moved into the log.

    Partitions that are added later are read from their begin, unlike Kafka's own consumers, which lose their first
    records.
    """
    return _clamp_to_log(_read_configured_start(session, log), log)


def _read_configured_start(session: Session, log: Log) -> Offsets:
    source = session.pipeline.source
    topics = tuple(log.begin)
    configured_start: Offsets = {}
    match source.start.kind:
        case StartKind.LATEST:
            configured_start = _choose_latest_start(log, session.broker.read_committed(source.group, topics))
        case StartKind.GROUP:
            configured_start = session.broker.read_committed(source.group, topics)
        case StartKind.TIMESTAMP:
            configured_start = session.broker.find_offsets_at(topics, source.start.timestamp_ms or 0)
        case StartKind.OFFSETS:
            configured_start = source.start.offsets
    return merge_offsets(log.begin, {t: parts for t, parts in configured_start.items() if t in log.begin})


def _choose_latest_start(log: Log, committed_offsets: Offsets) -> Offsets:
    # the heartbeat commits the first end that it sees; without that the start would move with every record
    known_offsets = {topic: parts for topic, parts in committed_offsets.items() if topic in log.begin}
    return merge_offsets(log.begin, known_offsets or log.end)


def _clamp_to_log(configured_start: Offsets, log: Log) -> Offsets:
    return {
        t: {p: min(max(configured_start[t][p], begin), log.end[t][p]) for p, begin in parts.items()}
        for t, parts in log.begin.items()
    }


def _check_start(table: TableSession, configured_start: Offsets, log: Log, ends: Offsets) -> None:
    # `ends` count the records of open transactions too
    for topic, partition, offset in iterate_offsets(configured_start):
        begin = get_offset(log.begin, topic, partition)
        end = get_offset(ends, topic, partition)
        request = (
            f"{table.prefix}: source.start={table.pipeline.source.start.kind} asks for "
            f"offset={offset} of topic={topic} partition={partition}, and"
        )
        if begin is not None and offset < begin:
            raise PositionLost(
                f"{request} the log starts at offset={begin}, so "
                f"{format_being(begin - offset, 'offset')} gone before being read"
                f"{describe_all_losses(configured_start, log.find_begins_behind(configured_start))}; set source.start "
                "to what the log still holds, e.g. earliest, or on_incomplete_start: accept if the table may lack them"
            )
        if begin is None and table.pipeline.source.start.kind == StartKind.OFFSETS:
            raise PositionLost(f"{request} the topic has no such partition; name one that it has in source.start")
        if end is not None and offset > end:
            raise PositionLost(
                f"{request} the log ends at offset={end}: the offset is mistyped, or of another log than this one, "
                "whose records before it would be left out; set source.start to what the log holds, e.g. earliest, or "
                "on_incomplete_start: accept to begin where the log ends at the table's first batch, at most there"
            )


def _check_not_hidden(table: TableSession, configured_start: Offsets, log: Log, ends: Offsets) -> None:
    """Raise `TopicsUnavailable` for a start behind an open transaction: a read would begin before it."""
    kind = table.pipeline.source.start.kind
    for topic, partition, stable in iterate_offsets(log.end):
        offset = configured_start[topic][partition]
        end = ends[topic][partition]
        # of a time for which no record is late enough, the end moves with each record
        if stable < offset <= end and not (kind == StartKind.TIMESTAMP and offset == end):
            raise TopicsUnavailable(
                f"{table.prefix}: source.start={kind} asks for offset={offset} of topic={topic} "
                f"partition={partition}, and a transaction that began at offset={stable} is still open: records before "
                "the start would be read too; the table begins when the transaction has ended"
            )


def _check_complete(table: TableSession, compacted: tuple[str, ...], start: Offsets, log: Log) -> None:
    left_out = {
        (topic, partition): offset
        for topic, partition, offset in iterate_offsets(start)
        if topic in compacted and offset > log.begin[topic][partition]
    }
    if left_out:
        topic, partition = next(iter(left_out))
        count = left_out[topic, partition] - log.begin[topic][partition]
        raise PositionLost(
            f"{table.prefix}: source.start={table.pipeline.source.start.kind} leaves out "
            f"{format_count(count, 'offset')} of a compacted topic={topic} partition={partition}"
            f"{describe_all_losses(log.begin, group_by_topic(left_out))}, and every key that only these hold; set "
            "source.start: earliest, or on_incomplete_start: accept if the table may lack them"
        )


TARGET_FORMS = f"write earliest, latest, group, a time like {EXAMPLE}, or offsets as JSON, or {REMAINING}"


@dataclass(frozen=True)
class RebaseTarget:
    """The position after a move. `unchanged_offsets`: the partitions that the target does not name."""

    offsets: Offsets
    unchanged_offsets: Offsets = field(default_factory=dict)

    def choose_epochs(self, before: Position, log: Log) -> Offsets:
        """Return the leaders' epochs of the new position."""
        if is_another_cluster(before.cluster_id, log.cluster_id):
            return log.epochs
        # the others keep theirs: no leader was asked for a cut there, and the next batch must still ask
        moved_epochs = {
            topic: {p: epoch for p, epoch in parts.items() if p not in self.unchanged_offsets.get(topic, {})}
            for topic, parts in log.epochs.items()
        }
        return merge_offsets(moved_epochs, keep_partitions(before.epochs, self.unchanged_offsets))


def resolve_target(session: Session, before: Position, lasting: Offsets, to: str, log: Log) -> RebaseTarget:
    """Return the target of one table; partitions that it does not name stay at `lasting`.

    `ConfigurationError` for an offset that the log does not hold, and for what is no target.
    """
    topics = tuple(log.begin)
    if to in ("earliest", "latest"):
        return RebaseTarget(log.begin if to == "earliest" else log.end)
    if to == "group":
        return RebaseTarget(
            _check_target(
                log, merge_offsets(log.begin, session.broker.read_committed(session.pipeline.source.group, topics))
            )
        )
    if to == REMAINING:
        cuts: Offsets = {}
        if not is_another_cluster(before.cluster_id, log.cluster_id):
            cuts = find_position_cuts(session, replace(before, offsets=lasting), log)
        return _name_partitions(log, lasting, merge_offsets(cuts, log.find_begins_behind(lasting)))
    if is_json(to):
        return _name_partitions(log, lasting, parse_offsets_target(to))
    # a time may lie behind a transaction that is still open, whose records nobody may skip
    times = session.broker.find_offsets_at(topics, parse_timestamp_ms("--to", to, TARGET_FORMS))
    return RebaseTarget(find_lowest(log.end, merge_offsets(log.begin, times)))


def _name_partitions(log: Log, lasting: Offsets, named_offsets: Offsets) -> RebaseTarget:
    staying = {
        topic: {p: offset for p, offset in parts.items() if p not in named_offsets.get(topic, {})}
        for topic, parts in lasting.items()
    }
    return RebaseTarget(_check_target(log, merge_offsets(log.begin, lasting, named_offsets)), staying)


def is_json(to: str) -> bool:
    return to.lstrip().startswith("{")


def check_target_topics(log: Log, target: Offsets) -> None:
    for topic in target:
        if topic not in log.begin:
            known = format_names(sorted(log.begin))
            raise ConfigurationError(
                f"topic={topic}: the pipeline reads no such topic; its topics are {known}; name one of them with --to"
            )


def parse_offsets_target(to: str) -> Offsets:
    try:
        return parse_written_offsets(to)
    except ValueError as error:
        raise ConfigurationError(f'--to={to}: not offsets: {error}; write e.g. {{"topic": {{"0": 42}}}}') from error


def _check_target(part: Log, target: Offsets) -> Offsets:
    part_offsets = {topic: parts for topic, parts in target.items() if topic in part.begin}
    for topic, partition, offset in iterate_offsets(part_offsets):
        begin = get_offset(part.begin, topic, partition)
        end = get_offset(part.end, topic, partition)
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
