"""How far all tables of a pipeline have come: the low watermark that the consumer group reports."""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.errors import GiveUp, NothingToDo, PositionLost, RetryLater, join_errors
from tidegate.model.offsets import Offsets, find_lowest, format_names, merge_offsets
from tidegate.model.position import Position, WatermarkSide
from tidegate.model.table_state import is_another_cluster, is_recreated
from tidegate.ports.session import Session
from tidegate.spec.source import StartKind
from tidegate.spec.table import Table
from tidegate.table.log import list_row_topics
from tidegate.table.observed_table import ObservedTable, read_staged
from tidegate.table.queue import find_rowless_end

log = logging.getLogger(__name__)


def compute_low_watermark(session: Session, tables: Sequence[ObservedTable]) -> Offsets:
    """Return for each partition the smallest of all tables' next offsets.

    The group keeps its offsets for tables that have not begun at them, and for those that cannot be read. A topic that
    was created again is at its begin. Topics of another cluster are left out. Raises if no table can be read.
    """
    marks = list[tuple[Table, Offsets]]()
    absent = list[Table]()
    failures = list[RetryLater | GiveUp]()
    by_group = session.pipeline.source.start.kind in (StartKind.GROUP, StartKind.LATEST)
    for observed in tables:
        try:
            mark = _compute_table_watermark(observed)
        except (RetryLater, GiveUp) as failure:
            log.warning(
                "pipeline=%s: a table cannot be read, so its offsets are not committed: %s",
                session.pipeline.name,
                failure,
            )
            failures.append(failure)
            absent.append(observed.spec)
            continue
        if mark is not None:
            marks.append((observed.spec, mark))
        elif by_group:
            absent.append(observed.spec)
    if failures and len(failures) == len(tables):
        raise join_errors(failures)
    held_offsets = _hold_absent_tables(session, _find_lowest_marks(marks), absent)
    return _restart_recreated_topics(session, tables, held_offsets)


def _find_lowest_marks(marks: Sequence[tuple[Table, Offsets]]) -> Offsets:
    """Return the smallest offset per partition, without partitions that a table has yet to begin."""
    lowest = find_lowest(*(mark for _, mark in marks))
    for table, mark in marks:
        for topic in [topic for topic in lowest if mark and (not table.topics or topic in table.topics)]:
            known_partitions = mark.get(topic, {})
            lowest[topic] = {p: offset for p, offset in lowest[topic].items() if p in known_partitions}
    return lowest


def _restart_recreated_topics(session: Session, tables: Sequence[ObservedTable], offsets: Offsets) -> Offsets:
    positions = [table.end for table in tables if table.end is not None and not table.end.outside]
    recorded_ids = [(topic, topic_id) for position in positions for topic, topic_id in position.topic_ids.items()]
    if not any(topic in offsets for topic, _ in recorded_ids):
        return offsets
    cluster_id, ids = _read_topic_ids(session, tuple(offsets))
    foreign_topics = find_topics_of_other_clusters(tables, cluster_id)
    known_ids = [(topic, topic_id) for topic, topic_id in recorded_ids if topic in ids and topic not in foreign_topics]
    recreated_topics = {topic for topic, recorded in known_ids if is_recreated(recorded, ids[topic])}
    lasting = {t: parts for t, parts in offsets.items() if t not in recreated_topics and t not in foreign_topics}
    # with the old offset, a table that begins at the group's offsets would leave out the first records of the new topic
    topics = tuple(topic for topic in offsets if topic in recreated_topics)
    return lasting | session.broker.read_log(topics, session.pipeline.source.isolation).begin if topics else lasting


def explain_empty_watermark(session: Session, tables: Sequence[ObservedTable]) -> NothingToDo:
    place = f"pipeline={session.pipeline.name}"
    topics = {topic for table in tables if table.end is not None for topic in table.end.offsets}
    if not topics:
        return NothingToDo(f"{place}: no table has a position yet, so there is none to commit")
    cluster_id, _ = _read_topic_ids(session, tuple(sorted(topics)))
    recorded_ids = {position.cluster_id for position in find_positions_of_other_clusters(tables, cluster_id)}
    if not recorded_ids:
        return NothingToDo(
            f"{place}: no table that counts for the group has a position yet, so there is none to commit"
        )
    return NothingToDo(
        f"{place}: the positions of its tables are of another cluster: cluster_id={cluster_id} "
        f"recorded={format_names(sorted(recorded_ids))}; nothing was committed, and the next plan says what to do"
    )


def find_positions_of_other_clusters(tables: Sequence[ObservedTable], cluster_id: str) -> list[Position]:
    """Return the positions that are of another cluster than this one; none if the id is not known."""
    positions = (table.end for table in tables if table.end is not None)
    return [position for position in positions if is_another_cluster(position.cluster_id, cluster_id)]


def find_topics_of_other_clusters(tables: Sequence[ObservedTable], cluster_id: str) -> set[str]:
    return {topic for position in find_positions_of_other_clusters(tables, cluster_id) for topic in position.offsets}


def _read_topic_ids(session: Session, topics: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    try:
        return session.broker.read_topic_ids(topics)
    except PositionLost:
        return session.broker.read_topic_ids(_find_existing_topics(session, topics))


def _compute_table_watermark(observed: ObservedTable) -> Offsets | None:
    """Return one table's next offsets. Empty if it was added later and has not caught up, None if it has not begun."""
    position = observed.position
    queue = observed.queue
    if observed.error is not None:
        if not observed.is_read or isinstance(observed.error, RetryLater):
            raise observed.error
        if position is None:
            # its queue is not known
            inside = [batch for batch in read_staged(observed) if batch.watermark == WatermarkSide.INSIDE]
            return find_lowest(*(batch.ranges.start for batch in inside)) if inside else None
    if position is None and (not queue or queue[0].watermark != WatermarkSide.INSIDE):
        return None  # of a table that came later too: if what is staged is given up, it begins where `start` says
    if position is not None and position.outside:
        return {}
    start = position.offsets if position else queue[0].ranges.start
    # batches without rows at the head of the queue count as published; the position follows later
    return merge_offsets(start, find_rowless_end(queue))


def _hold_absent_tables(session: Session, reached_offsets: Offsets, absent: list[Table]) -> Offsets:
    absent_topics = {topic for table in absent for topic in table.topics}
    of_absent = absent_topics if all(table.topics for table in absent) else {*absent_topics, *list_row_topics(session)}
    topics = tuple(topic for topic in reached_offsets if topic in of_absent)
    if not topics:
        return reached_offsets
    committed_offsets = session.broker.read_committed(
        session.pipeline.source.group, _find_existing_topics(session, topics)
    )
    capped_offsets = {
        t: {
            p: min(o, committed_offsets[t][p])
            for p, o in reached_offsets[t].items()
            if p in committed_offsets.get(t, {})
        }
        for t in topics
    }
    return {**reached_offsets, **capped_offsets}


@dataclass(frozen=True)
class CommittedOffsets:
    """The committed offsets, and the time of the heartbeat before, as the group had noted it."""

    offsets: Offsets
    beat_ms: int | None = None


def commit_to_group(session: Session, offsets: Offsets, beat_ms: int | None = None) -> CommittedOffsets:
    """Commit to the consumer group, without topics that no longer exist. `beat_ms` notes the time of a heartbeat."""
    before = None
    group = session.pipeline.source.group
    if any(offsets.values()):
        try:
            before = session.broker.commit(group, offsets, beat_ms)
        except PositionLost:
            existing_topics = _find_existing_topics(session, tuple(offsets))
            offsets = {topic: parts for topic, parts in offsets.items() if topic in existing_topics}
            before = session.broker.commit(group, offsets, beat_ms) if offsets else None
    return CommittedOffsets(offsets, before)


def list_existing_topics(session: Session) -> tuple[str, ...]:
    """Return the topics that carry rows, without those that do not exist: one of them stops its own tables alone."""
    return _find_existing_topics(session, list_row_topics(session))


def _find_existing_topics(session: Session, topics: tuple[str, ...]) -> tuple[str, ...]:
    return session.broker.list_topics("|".join(re.escape(topic) for topic in topics))
