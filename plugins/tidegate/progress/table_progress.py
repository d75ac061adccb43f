"""One look at a pipeline: where its tables stand, and what that means beside the log; the ground of all reports."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from tidegate.errors import GiveUp, PositionLost, RetryLater
from tidegate.model.batch import StagedBatch
from tidegate.model.offsets import Offsets, get_offset, iterate_offsets, merge_offsets
from tidegate.model.position import Position
from tidegate.ports.context import Log, Ports, TableState
from tidegate.progress.batch_queue import find_rowless_end, read_queue
from tidegate.progress.position_checks import check_log, resolve_next_start, resolve_position
from tidegate.progress.start_offsets import resolve_complete_start, resolve_first_start
from tidegate.progress.topic_log import filter_table_log, find_missing_topic
from tidegate.spec.table import Table
from tidegate.tables.templated_tables import expand_template


@dataclass(frozen=True)
class ObservedTable:
    """One table as the catalog shows it. `queue` is staged and waits; `problem` says why it cannot go on.

    One that could not be read has `is_read` false: nothing is known of it but the problem.
    """

    table: Table
    state: TableState | None
    position: Position | None
    queue: tuple[StagedBatch, ...]
    problem: str | None
    is_read: bool = True


@dataclass(frozen=True)
class TableWithLog:
    """One table beside the log: `following` are its next offsets, `problem` why it cannot go on.

    Of a table that could not be read, `following` is where the consumer group stands.
    """

    table: Table
    state: TableState | None
    position: Position | None
    following: Offsets
    log: Log
    problem: str | None
    queue: tuple[StagedBatch, ...] = ()
    is_read: bool = True

    @property
    def lag(self) -> int:
        """Offsets of the log that this table has not come to."""
        return sum(max(0, end - (get_offset(self.following, t, p) or 0)) for t, p, end in iterate_offsets(self.log.end))


def observe_tables(ports: Ports) -> tuple[Ports, list[ObservedTable]]:
    """Every destination as it stands, before the log is read, and the ports with the tables that records named.

    The log comes after the tables: what a flush publishes in between must not look like a log that lost its end.
    """
    ports = expand_template(ports)
    return ports, [_observe_table(ports, table) for table in ports.pipeline.tables if not table.finds]


def _observe_table(ports: Ports, table: Table) -> ObservedTable:
    try:
        state = ports.destination.read_state(table.name, ports.pipeline.name)
    except (GiveUp, RetryLater) as reason:
        return ObservedTable(table, None, None, (), str(reason), is_read=False)
    try:
        position = resolve_position(ports.pipeline, table, state)
        queue = read_queue(ports, table, state, position)
        with suppress(RetryLater):  # a registry that does not answer now hides nothing of what is known
            ports.schemas.describe_table(table)
    except (GiveUp, RetryLater) as reason:
        return ObservedTable(table, state, state.recorded if state else None, (), str(reason))
    return ObservedTable(table, state, position, queue, None)


def compare_with_log(
    ports: Ports, seen: list[ObservedTable], log: Log, gone: Mapping[str, GiveUp] | None = None
) -> list[TableWithLog]:
    """Each table beside the log, with the reason and way out where the two no longer fit; `gone` are missing topics."""
    return [
        _compare_table(ports, one, filter_table_log(log, one.table), find_missing_topic(one.table, gone or {}))
        for one in seen
    ]


def _compare_table(ports: Ports, seen: ObservedTable, log: Log, missing: GiveUp | None) -> TableWithLog:
    position, problem = seen.position, seen.problem or (str(missing) if missing else None)
    if not seen.is_read:
        stands = merge_offsets(log.begin, ports.broker.read_committed(ports.pipeline.source.group, tuple(log.end)))
        return TableWithLog(seen.table, None, None, stands, log, problem, is_read=False)
    if problem is None:
        try:
            if position is not None:
                check_log(ports.pipeline, seen.table, position, log)
                resolve_next_start(ports.pipeline, seen.table, position, log)
            elif not seen.queue:
                resolve_complete_start(ports, seen.table, log)
        except PositionLost as reason:
            problem = str(reason)
    following = resolve_first_start(ports, log) if position is None else merge_offsets(log.begin, position.offsets)
    # what is read and holds no rows is done, although the position follows later: the group's offsets say the same
    read = find_rowless_end(seen.queue) if problem is None else {}
    return TableWithLog(seen.table, seen.state, position, merge_offsets(following, read), log, problem, seen.queue)


def iterate_published(log: Log, found: list[TableWithLog]) -> Iterator[tuple[str, int, int, int]]:
    """Topic, partition, the smallest offset that all tables have come to, and the log's end."""
    for topic, partition, end in iterate_offsets(log.end):
        known = [o for o in (get_offset(v.following, topic, partition) for v in found) if o is not None]
        yield topic, partition, min(known, default=get_offset(log.begin, topic, partition) or 0), end


def find_published_offsets(log: Log, found: list[TableWithLog]) -> Offsets:
    """The smallest offset of each partition that all tables have come to."""
    offsets: Offsets = {}
    for topic, partition, offset, _ in iterate_published(log, found):
        offsets.setdefault(topic, {})[partition] = offset
    return offsets
