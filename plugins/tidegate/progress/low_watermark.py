"""How far all tables of a pipeline have come: the low watermark that the consumer group reports."""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.errors import GiveUp, PositionLost, RetryLater
from tidegate.model.offsets import Offsets, find_lowest, merge_offsets
from tidegate.model.position import WatermarkSide
from tidegate.ports.context import Ports
from tidegate.progress.batch_queue import find_rowless_end
from tidegate.progress.table_progress import ObservedTable, read_staged
from tidegate.progress.topic_log import list_row_topics
from tidegate.spec.source import StartKind
from tidegate.spec.table import Table

log = logging.getLogger(__name__)


def compute_low_watermark(ports: Ports, tables: Sequence[ObservedTable]) -> Offsets:
    """Per partition the smallest of all tables' next offsets.

    Reads the tables, so a caller with old values cannot report too much. The group stays where it is for two kinds of
    tables: those that will begin at the group's offsets and have not begun, and those that cannot be read. If no table
    can be read, raises the error of the first.
    """
    marks, absent, failures = list[Offsets](), list[Table](), list[RetryLater | GiveUp]()
    by_group = ports.pipeline.source.start.kind in (StartKind.GROUP, StartKind.LATEST)
    for observed in tables:
        try:
            mark = _compute_table_watermark(ports, observed)
        except (RetryLater, GiveUp) as failure:
            log.warning("pipeline=%s: the group stays where it is for a table: %s", ports.pipeline.name, failure)
            failures.append(failure)
            absent.append(observed.table)
            continue
        if mark is not None:
            marks.append(mark)
        elif by_group:
            absent.append(observed.table)
    if failures and len(failures) == len(tables):
        raise failures[0]
    return _hold_absent_tables(ports, find_lowest(*marks), absent)


def _compute_table_watermark(ports: Ports, observed: ObservedTable) -> Offsets | None:
    """One table's next offsets. Empty if it was added later and has not caught up. None if it has not begun.

    - Batches without rows at the head of the queue count as published; the position follows later.
    - A table without a position is at the start of its first staged batch.
    - A table that cannot go on, for example after a rollback, is at the position that was recorded last.
    - A table that cannot be read raises its error.
    """
    position, queue = observed.position, observed.queue
    if observed.error is not None:
        if not observed.is_read or isinstance(observed.error, RetryLater):
            raise observed.error
        if position is None:
            return _find_staged_start(ports, observed)
    if position is None and not queue:
        return None
    if position.outside if position else queue[0].watermark != WatermarkSide.INSIDE:
        return {}
    start = position.offsets if position else queue[0].ranges.start
    return merge_offsets(start, find_rowless_end(queue))


def _find_staged_start(ports: Ports, observed: ObservedTable) -> Offsets | None:
    """Where the first staged batch begins, of a table without a position whose queue is not known."""
    starts = [batch.ranges.start for batch in read_staged(ports, observed) if batch.watermark == WatermarkSide.INSIDE]
    return find_lowest(*starts) if starts else None


def _hold_absent_tables(ports: Ports, reached_offsets: Offsets, absent: list[Table]) -> Offsets:
    """The watermark, which stays at the group's offsets for the topics of tables that have not begun."""
    absent_topics = {topic for table in absent for topic in table.topics}
    of_absent = absent_topics if all(table.topics for table in absent) else {*absent_topics, *list_row_topics(ports)}
    topics = tuple(topic for topic in reached_offsets if topic in of_absent)
    if not topics:
        return reached_offsets
    committed_offsets = ports.broker.read_committed(ports.pipeline.source.group, _find_existing_topics(ports, topics))
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
    """The offsets committed to the consumer group, and the time of the heartbeat before, as the group had noted it."""

    offsets: Offsets
    beat_ms: int | None = None


def commit_to_group(ports: Ports, offsets: Offsets, beat_ms: int | None = None) -> CommittedOffsets:
    """Commit to the consumer group. Leaves out topics that no longer exist. `beat_ms` notes the time of a heartbeat."""
    before, group = None, ports.pipeline.source.group
    if any(offsets.values()):
        try:
            before = ports.broker.commit(group, offsets, beat_ms)
        except PositionLost:
            existing_topics = _find_existing_topics(ports, tuple(offsets))
            offsets = {topic: parts for topic, parts in offsets.items() if topic in existing_topics}
            before = ports.broker.commit(group, offsets, beat_ms) if offsets else None
    return CommittedOffsets(offsets, before)


def _find_existing_topics(ports: Ports, topics: tuple[str, ...]) -> tuple[str, ...]:
    return ports.broker.list_topics("|".join(re.escape(topic) for topic in topics))
