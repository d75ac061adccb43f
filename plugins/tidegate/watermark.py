"""How far all tables of a pipeline have come: the low watermark that the consumer group reports."""

from tidegate.dynamic import fan_out
from tidegate.offsets import Offsets, lowest, merged
from tidegate.pending import end_of_empty, queue_of
from tidegate.pipeline import Table
from tidegate.ports import Ports
from tidegate.standing import effective_position


def low_watermark(ports: Ports) -> Offsets:
    """Per partition the smallest offset that all tables have come to.

    Read from the tables themselves, so that a stale caller cannot report too much.
    """
    ports = fan_out(ports)
    return lowest(*(_mark(ports, table) for table in ports.pipeline.tables))


def _mark(ports: Ports, table: Table) -> Offsets:
    """One table's next offsets; none for one that came later and has not caught up yet.

    A batch without rows counts as advanced, although the position follows later. A table without a position holds the
    others back at the start of what is staged for it; without that it is not there yet, and has no say.
    """
    state = ports.destination.state(table.name, ports.pipeline.name)
    position = effective_position(ports.pipeline, table, state)
    queue = queue_of(ports, table, state, position)
    if position.outside if position else queue and queue[0].watermark != "inside":
        return {}
    start = position.offsets if position else queue[0].ranges.start if queue else {}
    return merged(start, end_of_empty(queue))
