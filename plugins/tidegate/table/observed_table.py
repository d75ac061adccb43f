"""Each table as a step reads it at its begin: where it stands, what waits in its queue, or why it cannot go on.

Tables are read first, each once, and the log afterwards: what another run publishes in between must not look like a log
that lost its end.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tidegate.errors import GiveUp, PositionLost, RetryLater, TopicsUnavailable
from tidegate.model.batch import StagedBatch
from tidegate.model.kafka_log import Log
from tidegate.model.position import Position, WatermarkSide
from tidegate.model.table_state import TableState
from tidegate.ports.session import Session
from tidegate.spec.table import Table
from tidegate.table.approval import HeldTable, find_asked
from tidegate.table.log import Unreadable, filter_table_log, find_missing_topic
from tidegate.table.position import check_home, check_log, check_not_cut, resolve_position
from tidegate.table.queue import describe_way_back, find_reshaped, select_queue
from tidegate.table.session import TableSession


@dataclass(frozen=True, kw_only=True)
class ObservedTable(TableSession):
    """One table as the catalog shows it, with what waits for it."""

    position: Position | None = None
    # all batches in its intermediate table; None if its position was refused before
    staged_batches: tuple[StagedBatch, ...] | None = None
    queue: tuple[StagedBatch, ...] = ()  # the batches that continue from `position`, oldest first
    # why the table cannot go on. Then `position` is the last recorded one, and `queue` is empty
    error: GiveUp | RetryLater | None = None
    is_read: bool = True  # False if the table could not be read, and only `error` is known

    @cached_property
    def asked(self) -> HeldTable | None:
        """The batch that a rule holds and that is not published yet, whatever a person has decided about it."""
        return find_asked(self, self.queue)

    @property
    def held(self) -> HeldTable | None:
        """The batch that waits for a person; None if none does, or it is approved and the next merge publishes it."""
        return None if self.asked is not None and self.asked.approved_by else self.asked

    @property
    def problem(self) -> str | None:
        if self.error is None and self.held is not None:
            return self.held.describe()
        return None if self.error is None else str(self.add_hold(self.error))

    def add_hold(self, error: GiveUp | RetryLater) -> GiveUp | RetryLater:
        """Return the error with what waits for a person, if a move of the position is the way out.

        That gives up what waits, and Kafka may have it no more.
        """
        if self.held is None or not isinstance(error, PositionLost):
            return error
        return PositionLost(
            f"{error}; a move of the position gives up what is staged before that; decide first: {self.held.describe()}"
        )

    @cached_property
    def reshaped(self) -> tuple[StagedBatch, ...]:
        """The batches that are staged behind the queue for rows of another shape, and are in no queue for that alone.

        Staging the next batch drops them.
        """
        return find_reshaped(self, self.end, self.staged_batches or ())

    def check_queue_is_known(self) -> None:
        """Raise `error`, if there is one: the table has no queue then, whatever waits for it."""
        if self.error is not None:
            raise self.error

    @property
    def end(self) -> Position | None:
        """The position after the queue is published; if the table cannot go on, the recorded one."""
        if self.error is not None:
            return _get_recorded(self.state)
        if not self.queue:
            return self.position
        last = self.queue[-1]
        return Position(
            last.ranges.end,
            cluster_id=last.cluster_id,
            topic_ids=last.topic_ids,
            epochs=last.epochs,
            outside=last.watermark == WatermarkSide.OUTSIDE,
        )


@dataclass(frozen=True, kw_only=True)
class TableWithLog(ObservedTable):
    """An observed table with the part of the log that feeds it; `error` says also if the two do not fit."""

    log: Log


def observe_tables(session: Session, tables: Sequence[Table] | None = None) -> tuple[ObservedTable, ...]:
    """Read each table of the pipeline, or these, once, in order: its state, and what is staged for it.

    A failure is that table's `error`, and is not raised. Reads the catalog only, and changes nothing.
    """
    observed = tuple(
        _observe_table(session, table) for table in (session.pipeline.tables if tables is None else tables)
    )
    try:
        for table in observed:
            check_home(table)
    # a file that names other tables of the pipeline's own stops all: one that went on would go on there
    except GiveUp as error:
        return tuple(refuse_table(table, error) if table.is_read else table for table in observed)
    return observed


def _observe_table(session: Session, table: Table) -> ObservedTable:
    observed = ObservedTable(session=session, spec=table)
    try:
        observed = observed.refresh()
    except (GiveUp, RetryLater) as error:
        return replace(observed, error=error, is_read=False)
    try:
        position = resolve_position(observed)
        observed = replace(observed, staged_batches=read_staged(observed))
        queue = select_queue(observed, position, observed.staged_batches or ())
    except (GiveUp, RetryLater) as error:
        return refuse_table(observed, error)
    return replace(observed, position=position, queue=queue)


def read_staged(observed: ObservedTable) -> tuple[StagedBatch, ...]:
    """Return all batches in the intermediate table; read now if they were not needed yet."""
    if observed.staged_batches is not None:
        return observed.staged_batches
    return tuple(observed.session.staging.list_staged(observed.intermediate, observed.name))


def refuse_table(observed: ObservedTable, error: GiveUp | RetryLater) -> ObservedTable:
    """Return the table where it was last known to stand, without a queue."""
    return replace(observed, position=_get_recorded(observed.state), queue=(), error=error)


def _get_recorded(state: TableState | None) -> Position | None:
    return state.recorded_position if state else None


def attach_log(
    tables: Sequence[ObservedTable], log: Log, missing: Mapping[str, Unreadable]
) -> tuple[TableWithLog, ...]:
    """Add to each table its part of the log, and refuse it if the two do not fit; `missing` are missing topics.

    What is staged is safe: the log must hold only what comes behind the queue.
    """
    return tuple(_attach_table_log(table, filter_table_log(log, table.spec), missing) for table in tables)


def _attach_table_log(observed: ObservedTable, log: Log, missing: Mapping[str, Unreadable]) -> TableWithLog:
    logged_table = TableWithLog(**observed.get_facts(), log=log)
    if logged_table.error is not None:
        return logged_table
    if missing_topic := find_missing_topic(observed.spec, missing):
        return replace(logged_table, error=missing_topic)
    rewound = observed.state is not None and observed.state.is_rolled_back
    try:
        if observed.position is not None:
            check_log(observed, replace(observed.position, offsets={}), log, rewound=rewound)
        if (end := observed.end) is not None:
            check_not_cut(observed, end, log)
            check_log(observed, end, log, rewound=rewound)
    except PositionLost as error:
        return replace(logged_table, error=_add_reshaped(logged_table, error))
    except (GiveUp, TopicsUnavailable) as error:
        return replace(logged_table, error=error)
    return logged_table


def _add_reshaped(table: TableWithLog, error: PositionLost) -> PositionLost:
    # a move of the position would give it up, and the log may have its records no more
    if not table.reshaped:
        return error
    return PositionLost(
        f"{error}; batch={table.reshaped[0].batch} is staged behind the position, in another shape of the rows, and a "
        f"move gives it up; to keep its rows, first {describe_way_back(table)}"
    )
