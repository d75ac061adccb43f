"""The log of a pipeline's topics, and of each table's: ids, begin and end, and whether it is still the one planned."""

import re
from collections.abc import Mapping

from tidegate.errors import GiveUp, PositionLost, TopicsUnavailable
from tidegate.model.batch import Plan
from tidegate.model.counts import format_being
from tidegate.model.kafka_log import Log
from tidegate.model.offsets import MAX_NAMED_PARTITIONS, Ranges, group_by_topic, iterate_offsets, keep_partitions
from tidegate.model.position import Position
from tidegate.model.table_state import is_another_cluster, is_recreated
from tidegate.ports.session import Session
from tidegate.spec.table import Table
from tidegate.table.position import describe_all_losses

Unreadable = GiveUp | TopicsUnavailable  # why a topic cannot be read, for good or for now


def read_log(session: Session) -> Log:
    """Read ids, begin and end offsets of all topics that carry rows.

    Half-open: `end` is behind the last readable record.

    `PositionLost` if a topic is missing, another `GiveUp` if it may not be read, `TopicsUnavailable` without its
    brokers.
    """
    return session.broker.read_log(list_row_topics(session), session.pipeline.source.isolation)


def read_known_log(session: Session) -> tuple[Log, dict[str, Unreadable]]:
    """Return the log of the topics that can be read, and why the others cannot."""
    try:
        return read_log(session), {}
    except (GiveUp, TopicsUnavailable) as error:
        return _read_readable(session, list_row_topics(session), error)


def _read_readable(session: Session, topics: tuple[str, ...], error: Unreadable) -> tuple[Log, dict[str, Unreadable]]:
    if len(topics) <= 1:
        return Log("", {}, {}, {}), dict.fromkeys(topics, error)
    unavailable_topics = error.topics if isinstance(error, TopicsUnavailable) else ()
    # asked for again, each that is named would be waited for as long
    missing = dict[str, Unreadable].fromkeys((topic for topic in topics if topic in unavailable_topics), error)
    middle = 0 if missing else len(topics) // 2
    log = Log("", {}, {}, {})
    for half in (topics[:middle], topics[middle:]):
        part = tuple(topic for topic in half if topic not in missing)
        if not part:
            continue
        try:
            part_log = session.broker.read_log(part, session.pipeline.source.isolation)
        except (GiveUp, TopicsUnavailable) as failure:
            part_log, more = _read_readable(session, part, failure)
            missing |= more
        log = log.add_topics(part_log) if part_log.end else log
    return log, missing


def find_missing_topic(table: Table, missing_topics: Mapping[str, Unreadable]) -> Unreadable | None:
    """Return why the table cannot be read: one of its topics is missing. None if all are there."""
    return next((error for topic, error in missing_topics.items() if not table.topics or topic in table.topics), None)


def check_same_log(
    session: Session, place: str, ranges: Ranges, planned: Plan | Position, *, is_read: bool = True
) -> None:
    """Raise `PositionLost` if the offsets of `ranges` mean other records than in the log that `planned` names.

    Called after a read it vouches for that read: neither an id nor an epoch comes back. Before it, with `is_read`
    false, also if the log has lost the first records. `place` begins the message.
    """
    topics = tuple(sorted({topic for topic, _, start, end in ranges if end > start} & planned.topic_ids.keys()))
    planned_topic_ids = {topic: planned.topic_ids[topic] for topic in topics}
    log = session.broker.read_log(topics, session.pipeline.source.isolation)
    ids = log.topic_ids
    changed_topics = [topic for topic in topics if is_recreated(planned_topic_ids[topic], ids[topic])]
    if changed_topics or (topics and is_another_cluster(planned.cluster_id, log.cluster_id)):
        now, was = (
            {t: known[t] for t in (changed_topics or topics)[:MAX_NAMED_PARTITIONS]}
            for known in (ids, planned_topic_ids)
        )
        raise PositionLost(
            f"{place}: a topic was created again, or the brokers are another cluster's, since the batch was planned: "
            f"topic_ids={now} planned={was}; nothing was merged; the next flush plans again and says what to do"
        )
    if not is_read:
        _check_holds_starts(place, ranges, log)
    ends = group_by_topic({(topic, partition): end for topic, partition, start, end in ranges if end > start})
    epochs = log.find_older_epochs(planned.epochs, ends)
    cuts = session.broker.find_log_cuts(ends, epochs) if epochs else {}
    for topic, partition, cut_offset in iterate_offsets(cuts):
        raise PositionLost(
            f"{place}: topic={topic} partition={partition}: the log was cut at offset={cut_offset} by a leader that "
            "lacked the records after it (an unclean election) since the batch was planned: "
            f"leader_epoch={log.epochs[topic][partition]} planned={epochs[topic][partition]}"
            f"{describe_all_losses(cuts, keep_partitions(ends, cuts))}; nothing was merged; the next flush reads what "
            "stands there now"
        )


def _check_holds_starts(place: str, ranges: Ranges, log: Log) -> None:
    starts = group_by_topic({(topic, partition): start for topic, partition, start, end in ranges if end > start})
    begins = log.find_begins_behind(starts)
    for topic, partition, begin in iterate_offsets(begins):
        start = starts[topic][partition]
        raise PositionLost(
            f"{place}: topic={topic} partition={partition} start={start}: since the batch was planned the log "
            f"starts at offset={begin}, so {format_being(begin - start, 'offset')} gone before being read"
            f"{describe_all_losses(starts, begins)}; nothing was staged; the next flush plans again and says what to do"
        )


def list_row_topics(session: Session) -> tuple[str, ...]:
    """Return the pipeline's topics without those that `heartbeat.ignore_topics` names."""
    return tuple(t for t in _list_topics(session) if not _is_ignored(session, t))


def explain_no_row_topics(session: Session, log: Log) -> str:
    if log.end or list_row_topics(session):
        return ""
    name = session.pipeline.name
    pattern = session.pipeline.source.topic_pattern
    if pattern is None or list_ignored_topics(session):
        return f"pipeline={name}: heartbeat.ignore_topics matches all of its topics, so none makes rows; correct it"
    return (
        f"pipeline={name}: source.topic_pattern={pattern} matches no topic that the brokers show; correct it, create "
        "a topic, or give the connection's user DESCRIBE on the topics"
    )


def list_ignored_topics(session: Session) -> tuple[str, ...]:
    """Return topics of the pipeline whose offsets advance without a row."""
    return tuple(t for t in _list_topics(session) if _is_ignored(session, t))


def _list_topics(session: Session) -> tuple[str, ...]:
    source = session.pipeline.source
    return source.topics if source.topic_pattern is None else session.broker.list_topics(source.topic_pattern)


def _is_ignored(session: Session, topic: str) -> bool:
    return any(re.fullmatch(pattern, topic) for pattern in session.pipeline.ignored_topics)


def filter_table_log(log: Log, table: Table) -> Log:
    """Return the part of the log that feeds `table`. Topic ids stay complete."""
    if not table.topics:
        return log
    begin = {t: parts for t, parts in log.begin.items() if t in table.topics}
    return Log(log.cluster_id, log.topic_ids, begin, {t: log.end[t] for t in begin}, epochs=log.epochs)
