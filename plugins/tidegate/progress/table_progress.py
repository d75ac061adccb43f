"""One look at a pipeline: where its tables stand, and what that means beside the log; the ground of all reports."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from tidegate.errors import GiveUp, PositionLost, RetryLater
from tidegate.model.batch import StagedBatch
from tidegate.model.offsets import Offsets, merged, offset_of, pairs
from tidegate.model.position import Position
from tidegate.ports.context import Log, Ports, TableState
from tidegate.progress.batch_queue import end_of_empty, queue_of
from tidegate.progress.position_checks import check_log, effective_position, starts
from tidegate.progress.start_offsets import complete_start, first_start
from tidegate.progress.topic_log import missing_topic, table_log
from tidegate.spec.table import Table
from tidegate.tables.templated_tables import fan_out


@dataclass(frozen=True)
class Seen:
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
class View:
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
        return sum(max(0, end - (offset_of(self.following, t, p) or 0)) for t, p, end in pairs(self.log.end))


def see(ports: Ports) -> tuple[Ports, list[Seen]]:
    """Every destination as it stands, before the log is read, and the ports with the tables that records named.

    The log comes after the tables: what a flush publishes in between must not look like a log that lost its end.
    """
    ports = fan_out(ports)
    return ports, [_seen(ports, table) for table in ports.pipeline.tables if not table.finds]


def _seen(ports: Ports, table: Table) -> Seen:
    try:
        state = ports.destination.state(table.name, ports.pipeline.name)
    except (GiveUp, RetryLater) as reason:
        return Seen(table, None, None, (), str(reason), is_read=False)
    try:
        position = effective_position(ports.pipeline, table, state)
        queue = queue_of(ports, table, state, position)
        with suppress(RetryLater):  # a registry that does not answer now hides nothing of what is known
            ports.schemas.described(table)
    except (GiveUp, RetryLater) as reason:
        return Seen(table, state, state.recorded if state else None, (), str(reason))
    return Seen(table, state, position, queue, None)


def views(ports: Ports, seen: list[Seen], log: Log, gone: Mapping[str, GiveUp] | None = None) -> list[View]:
    """Each table beside the log, with the reason and way out where the two no longer fit; `gone` are missing topics."""
    return [_view(ports, one, table_log(log, one.table), missing_topic(one.table, gone or {})) for one in seen]


def _view(ports: Ports, seen: Seen, log: Log, missing: GiveUp | None) -> View:
    position, problem = seen.position, seen.problem or (str(missing) if missing else None)
    if not seen.is_read:
        stands = merged(log.begin, ports.broker.committed(ports.pipeline.source.group, tuple(log.end)))
        return View(seen.table, None, None, stands, log, problem, is_read=False)
    if problem is None:
        try:
            if position is not None:
                check_log(ports.pipeline, seen.table, position, log)
                starts(ports.pipeline, seen.table, position, log)
            elif not seen.queue:
                complete_start(ports, seen.table, log)
        except PositionLost as reason:
            problem = str(reason)
    following = first_start(ports, log) if position is None else merged(log.begin, position.offsets)
    # what is read and holds no rows is done, although the position follows later: the group's offsets say the same
    read = end_of_empty(seen.queue) if problem is None else {}
    return View(seen.table, seen.state, position, merged(following, read), log, problem, seen.queue)


def published(log: Log, found: list[View]) -> Iterator[tuple[str, int, int, int]]:
    """Topic, partition, the smallest offset that all tables have come to, and the log's end."""
    for topic, partition, end in pairs(log.end):
        known = [o for o in (offset_of(v.following, topic, partition) for v in found) if o is not None]
        yield topic, partition, min(known, default=offset_of(log.begin, topic, partition) or 0), end


def come_to(log: Log, found: list[View]) -> Offsets:
    """The smallest offset of each partition that all tables have come to."""
    offsets: Offsets = {}
    for topic, partition, offset, _ in published(log, found):
        offsets.setdefault(topic, {})[partition] = offset
    return offsets
