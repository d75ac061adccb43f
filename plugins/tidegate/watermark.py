"""How far all tables of a pipeline have come: the low watermark that the consumer group reports."""

from collections.abc import Sequence

from tidegate.batch import PublishedBatch
from tidegate.offsets import Offsets, lowest, merged
from tidegate.ports import Ports
from tidegate.standing import effective_position


def low_watermark(ports: Ports, results: Sequence[PublishedBatch] = ()) -> Offsets:
    """Per partition the smallest published offset over the tables that have a position.

    Read from the tables themselves, so that a stale caller cannot report too much. A batch without rows counts as
    advanced although its table's own position follows later.
    """
    advanced = {r.table: r for r in results if r.snapshot_id is None}
    marks: list[Offsets] = []
    for table in ports.pipeline.tables:
        state = ports.destination.state(table.name, ports.pipeline.name)
        position = effective_position(ports.pipeline, table, state)
        if position is None:
            continue
        empty = advanced.get(table.name)
        follows = empty is not None and empty.ranges.continues(position.offsets)
        marks.append(merged(position.offsets, empty.ranges.end if empty and follows else {}))
    return lowest(*marks)
