"""How far all tables of a pipeline have come: the low watermark that the consumer group reports."""

import logging
import re
from dataclasses import dataclass

from tidegate.errors import GiveUp, PositionLost, RetryLater
from tidegate.model import resource_names
from tidegate.model.offsets import Offsets, lowest, merged
from tidegate.ports.context import Ports
from tidegate.progress.batch_queue import end_of_empty, queue_of
from tidegate.progress.position_checks import effective_position
from tidegate.progress.topic_log import row_topics
from tidegate.spec.table import Table
from tidegate.tables.templated_tables import fan_out

log = logging.getLogger(__name__)


def low_watermark(ports: Ports) -> Offsets:
    """Per partition the smallest offset that all tables have come to.

    Read from the tables themselves, so that a stale caller cannot report too much. A table that begins where the group
    stands, and has not begun, keeps the group there; so does one that cannot be read now. `RetryLater` where none can.
    """
    ports = fan_out(ports)
    marks, absent, failures = list[Offsets](), list[Table](), list[RetryLater]()
    by_group = ports.pipeline.source.start.kind in ("group", "latest")
    for table in ports.pipeline.tables:
        try:
            mark = _mark(ports, table)
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
    return _kept(ports, lowest(*marks), absent)


def _mark(ports: Ports, table: Table) -> Offsets | None:
    """One table's next offsets; none for one that came later and has not caught up yet, None where it has not begun.

    A batch without rows counts as advanced, although the position follows later. A table without a position holds the
    others back at the start of what is staged for it; without that it is not there yet, and has no say. One that cannot
    go on, say after a rollback, holds them at what was recorded for it.
    """
    state = ports.destination.state(table.name, ports.pipeline.name)
    try:
        position = effective_position(ports.pipeline, table, state)
        queue = queue_of(ports, table, state, position)
    except GiveUp:
        position, queue = state.recorded if state else None, ()
        if position is None:
            return _staged_start(ports, table)
    if position is None and not queue:
        return None
    if position.outside if position else queue[0].watermark != "inside":
        return {}
    start = position.offsets if position else queue[0].ranges.start
    return merged(start, end_of_empty(queue))


def _staged_start(ports: Ports, table: Table) -> Offsets | None:
    """Where a table without a position begins whose queue cannot be told: the first of what is staged for it."""
    found = ports.destination.staged(resource_names.intermediate_table(ports.pipeline, table), table.name)
    inside = [staged.ranges.start for staged in found if staged.watermark == "inside"]
    return lowest(*inside) if inside else None


def _kept(ports: Ports, reached: Offsets, absent: list[Table]) -> Offsets:
    """The watermark, held where the group stands on the topics of tables that have not begun."""
    of_absent = {topic for table in absent for topic in table.topics or row_topics(ports)}
    topics = tuple(topic for topic in reached if topic in of_absent)
    if not topics:
        return reached
    stands = ports.broker.committed(ports.pipeline.source.group, _existing(ports, topics))
    held = {t: {p: min(o, stands[t][p]) for p, o in reached[t].items() if p in stands.get(t, {})} for t in topics}
    return {**reached, **held}


@dataclass(frozen=True)
class Reported:
    """What was committed to the consumer group, and when the last heartbeat was, as noted there before."""

    offsets: Offsets
    beat_ms: int | None = None


def report(ports: Ports, offsets: Offsets, beat_ms: int | None = None) -> Reported:
    """Commit to the consumer group: no topic that the brokers do not have. `beat_ms` notes the time of a heartbeat."""
    before, group = None, ports.pipeline.source.group
    if any(offsets.values()):
        try:
            before = ports.broker.commit(group, offsets, beat_ms)
        except PositionLost:
            there = _existing(ports, tuple(offsets))
            offsets = {topic: parts for topic, parts in offsets.items() if topic in there}
            before = ports.broker.commit(group, offsets, beat_ms) if offsets else None
    return Reported(offsets, before)


def _existing(ports: Ports, topics: tuple[str, ...]) -> tuple[str, ...]:
    return ports.broker.topics("|".join(re.escape(topic) for topic in topics))
