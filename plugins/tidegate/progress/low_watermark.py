"""How far all tables of a pipeline have come: the low watermark that the consumer group reports."""

import logging
import re
from dataclasses import dataclass

from tidegate.errors import GiveUp, PositionLost, RetryLater
from tidegate.model import resource_names
from tidegate.model.offsets import Offsets, find_lowest, merge_offsets
from tidegate.ports.context import Ports
from tidegate.progress.batch_queue import find_rowless_end, read_queue
from tidegate.progress.position_checks import resolve_position
from tidegate.progress.topic_log import list_row_topics
from tidegate.spec.table import Table
from tidegate.tables.templated_tables import expand_template

log = logging.getLogger(__name__)


def compute_low_watermark(ports: Ports) -> Offsets:
    """Per partition the smallest offset that all tables have come to.

    Read from the tables themselves, so that a stale caller cannot report too much. A table that begins where the group
    stands, and has not begun, keeps the group there; so does one that cannot be read now. `RetryLater` where none can.
    """
    ports = expand_template(ports)
    marks, absent, failures = list[Offsets](), list[Table](), list[RetryLater]()
    by_group = ports.pipeline.source.start.kind in ("group", "latest")
    for table in ports.pipeline.tables:
        try:
            mark = _compute_table_watermark(ports, table)
        except RetryLater as failure:
            log.warning("pipeline=%s: the group stays where it is for a table: %s", ports.pipeline.name, failure)
            failures.append(failure)
            absent.append(table)
            continue
        if mark is not None:
            marks.append(mark)
        elif by_group:
            absent.append(table)
    if failures and len(failures) == len(ports.pipeline.tables):
        raise failures[0]
    return _hold_absent_tables(ports, find_lowest(*marks), absent)


def _compute_table_watermark(ports: Ports, table: Table) -> Offsets | None:
    """One table's next offsets; none for one that came later and has not caught up yet, None where it has not begun.

    A batch without rows counts as advanced, although the position follows later. A table without a position holds the
    others back at the start of what is staged for it; without that it is not there yet, and has no say. One that cannot
    go on, say after a rollback, holds them at what was recorded for it.
    """
    state = ports.destination.read_state(table.name, ports.pipeline.name)
    try:
        position = resolve_position(ports.pipeline, table, state)
        queue = read_queue(ports, table, state, position)
    except GiveUp:
        position, queue = state.recorded if state else None, ()
        if position is None:
            return _find_staged_start(ports, table)
    if position is None and not queue:
        return None
    if position.outside if position else queue[0].watermark != "inside":
        return {}
    start = position.offsets if position else queue[0].ranges.start
    return merge_offsets(start, find_rowless_end(queue))


def _find_staged_start(ports: Ports, table: Table) -> Offsets | None:
    """Where a table without a position begins whose queue cannot be told: the first of what is staged for it."""
    found = ports.destination.list_staged(resource_names.name_intermediate_table(ports.pipeline, table), table.name)
    inside = [staged.ranges.start for staged in found if staged.watermark == "inside"]
    return find_lowest(*inside) if inside else None


def _hold_absent_tables(ports: Ports, reached: Offsets, absent: list[Table]) -> Offsets:
    """The watermark, held where the group stands on the topics of tables that have not begun."""
    of_absent = {topic for table in absent for topic in table.topics or list_row_topics(ports)}
    topics = tuple(topic for topic in reached if topic in of_absent)
    if not topics:
        return reached
    stands = ports.broker.read_committed(ports.pipeline.source.group, _find_existing_topics(ports, topics))
    held = {t: {p: min(o, stands[t][p]) for p, o in reached[t].items() if p in stands.get(t, {})} for t in topics}
    return {**reached, **held}


@dataclass(frozen=True)
class CommittedOffsets:
    """What was committed to the consumer group, and when the last heartbeat was, as noted there before."""

    offsets: Offsets
    beat_ms: int | None = None


def commit_to_group(ports: Ports, offsets: Offsets, beat_ms: int | None = None) -> CommittedOffsets:
    """Commit to the consumer group: no topic that the brokers do not have. `beat_ms` notes the time of a heartbeat."""
    before, group = None, ports.pipeline.source.group
    if any(offsets.values()):
        try:
            before = ports.broker.commit(group, offsets, beat_ms)
        except PositionLost:
            there = _find_existing_topics(ports, tuple(offsets))
            offsets = {topic: parts for topic, parts in offsets.items() if topic in there}
            before = ports.broker.commit(group, offsets, beat_ms) if offsets else None
    return CommittedOffsets(offsets, before)


def _find_existing_topics(ports: Ports, topics: tuple[str, ...]) -> tuple[str, ...]:
    return ports.broker.list_topics("|".join(re.escape(topic) for topic in topics))
