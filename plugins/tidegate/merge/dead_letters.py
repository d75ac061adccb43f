"""Dead letters: what becomes of the records of a batch that cannot be decoded, between the staging and the publish."""

from itertools import groupby
from operator import itemgetter
from typing import Any

from tidegate.model import resource_names
from tidegate.model.batch import StagedBatch
from tidegate.model.offsets import Ranges
from tidegate.model.ownership import describe_dead_letters
from tidegate.ports.context import Ports

LETTER_ADDRESS = ("table", "topic", "partition", "offset")
MAX_NAMED_RANGES = 100  # of more, each letter would be compared with too many
LETTER_REASON = ("stage", "error_class", "message", "batch")


def render_dead_letter_statements(ports: Ports, staged: StagedBatch) -> tuple[str, ...]:
    """Statements that bring the dead letters of a staged batch into their table, to be run before its rows are merged.

    They may be run again at any time: a place in the log is one dead letter for each table. A batch that is published
    has its dead letters written, and those that an attempt before it left at the same offsets are gone.
    """
    name, own = resource_names.name_dead_letter_table(ports.pipeline), describe_dead_letters(ports.pipeline)
    values: dict[str, Any] = {"table": name, "target": staged.table, "attempt": staged.attempt}
    statements, sql = [], ports.sql_for(name)
    if ports.dead_letters.count_letters_of_others(name, staged.table, staged.attempt, staged.ranges):
        statements.append(sql.render("forget_dead_letters", ranges=list(staged.ranges), **values))
    if staged.counts.dead_lettered:
        table = next(table for table in ports.pipeline.tables if table.name == staged.table)
        values |= {"source": resource_names.name_intermediate_table(ports.pipeline, table), "batch": staged.batch}
        statements += [
            sql.render("create_namespace", parent=name.rsplit(".", 1)[0]),
            sql.render("create_dead_letters", table=name, own=own),
            sql.render(
                "write_dead_letters",
                snapshot_id=staged.snapshot_id,
                ranges=_list_named_ranges(staged.ranges),
                **values,
            ),
        ]
    if statements:
        ports.tables.claim(name, own)
    return tuple(statements)


def _list_named_ranges(ranges: Ranges) -> list[tuple[str, int | None, int, int]]:
    """What of the log a batch covers, by partition; of very many by topic, from the first offset to the last."""
    busy = [part for part in ranges if part[3] > part[2]]
    if len(busy) <= MAX_NAMED_RANGES:
        return list(busy)
    topics = groupby(busy, key=itemgetter(0))
    spans = ((topic, [(start, end) for _, _, start, end in parts]) for topic, parts in topics)
    return [(topic, None, min(start for start, _ in ends), max(end for _, end in ends)) for topic, ends in spans]
