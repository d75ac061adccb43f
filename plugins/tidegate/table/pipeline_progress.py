"""How far a pipeline has come: every table beside the log with its next offsets; the ground of all reports."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from tidegate.errors import GiveUp, PositionLost, RetryLater, TopicsUnavailable
from tidegate.model.kafka_log import Log
from tidegate.model.offsets import Offsets, find_highest, find_lowest, get_offset, iterate_offsets, merge_offsets
from tidegate.model.position import Position
from tidegate.model.table_state import NO_TOPIC_ID, is_recreated
from tidegate.ports.session import Session
from tidegate.spec.source import StartKind
from tidegate.table.log import Unreadable, list_ignored_topics, read_known_log
from tidegate.table.observed_table import ObservedTable, TableWithLog, attach_log, observe_tables, refuse_table
from tidegate.table.queue import find_rowless_end
from tidegate.table.session import expand_template
from tidegate.table.start_offsets import resolve_batch_start, resolve_first_start

Moment = TypeVar("Moment", int, str)


def read_connector_heartbeat_ms(session: Session) -> int | None:
    """Read the newest heartbeat of each change-data connector; return the oldest of them, None while one has sent none.

    A connector sends its heartbeat after all changes that it has seen: read the log afterwards.
    """
    topics = tuple(t for t in list_ignored_topics(session) if t != session.pipeline.heartbeat_topic_of_source)
    isolation = session.pipeline.source.isolation
    newest: Offsets = (
        session.broker.read_newest_timestamps(session.broker.read_end_offsets(topics, isolation)) if topics else {}
    )
    return find_common_time(max(newest[topic].values(), default=None) if topic in newest else None for topic in topics)


def find_common_time(moments: Iterable[Moment | None]) -> Moment | None:
    """Return the time up to which all are complete; None if one is unknown, or there is none."""
    times = list(moments)
    known_times = [time for time in times if time is not None]
    return min(known_times) if known_times and len(known_times) == len(times) else None


class PartitionProgress(NamedTuple):
    """One partition: everything before `offset` is done, of a log that ends at `end`."""

    topic: str
    partition: int
    offset: int
    end: int

    @property
    def lag(self) -> int:
        """Offsets that wait; 0 if the log has become shorter."""
        return max(0, self.end - self.offset)


@dataclass(frozen=True, kw_only=True)
class TableProgress(TableWithLog):
    """How far one table has read the log."""

    # the first offset that the table does not hold; the group's offsets if the table could not be read
    next_offsets: Offsets
    valid_through_ms: int | None  # the table holds all records up to this time

    @property
    def lag(self) -> int:
        return sum(partition.lag for partition in self.iterate_next())

    @property
    def staged_offsets(self) -> Offsets:
        """For each partition, the first offset that is neither in the table nor in its queue."""
        queue_end = self.queue[-1].ranges.end if self.queue else {}
        return find_highest(self.next_offsets, queue_end)

    def iterate_next(self) -> Iterator[PartitionProgress]:
        """Yield each partition with the table's next offset, at most the log's end."""
        return self._iterate(self.next_offsets)

    def iterate_staged(self) -> Iterator[PartitionProgress]:
        """Yield each partition with the next offset to be staged, at most the log's end."""
        return self._iterate(self.staged_offsets)

    def _iterate(self, offsets: Offsets) -> Iterator[PartitionProgress]:
        for topic, partition, end in iterate_offsets(self.log.end):
            yield PartitionProgress(topic, partition, min(get_offset(offsets, topic, partition) or 0, end), end)


@dataclass(frozen=True)
class PipelineProgress:
    """One look at a pipeline: the log of all its topics, and every table that rows are published into."""

    session: Session
    log: Log
    tables: tuple[TableProgress, ...]

    def iterate_published(self) -> Iterator[PartitionProgress]:
        return self._iterate(self.published_offsets)

    def iterate_staged(self) -> Iterator[PartitionProgress]:
        return self._iterate(self.staged_offsets)

    def _iterate(self, offsets: Offsets) -> Iterator[PartitionProgress]:
        for topic, partition, end in iterate_offsets(self.log.end):
            yield PartitionProgress(topic, partition, get_offset(offsets, topic, partition) or 0, end)

    @property
    def published_offsets(self) -> Offsets:
        return self._find_lowest(table.next_offsets for table in self.tables)

    @property
    def staged_offsets(self) -> Offsets:
        """The smallest offset of each partition that some table has yet to stage."""
        return self._find_lowest(table.staged_offsets for table in self.tables)

    def _find_lowest(self, offsets_of_tables: Iterable[Offsets]) -> Offsets:
        offsets = merge_offsets(self.log.begin, find_lowest(*offsets_of_tables))
        return {
            topic: {partition: get_offset(offsets, topic, partition) or 0 for partition in partitions}
            for topic, partitions in self.log.end.items()
        }


def read_pipeline_progress(session: Session) -> PipelineProgress:
    """Read tables, connectors' heartbeats and the log, each once; changes nothing."""
    session = expand_template(session)
    return measure_progress(session, observe_tables(session))


def measure_progress(session: Session, tables: Sequence[ObservedTable]) -> PipelineProgress:
    tables = check_schemas(session, tables)
    # before the log: a table that is at its end then has all that the connectors vouch for
    connector_ms = read_connector_heartbeat_ms(session)
    log, missing = read_known_log(session)
    return compare_with_log(session, tables, log, missing, connector_ms)


def check_schemas(session: Session, tables: Sequence[ObservedTable]) -> tuple[ObservedTable, ...]:
    """Return the tables that rows are published into, refused if their schema is missing or wrong."""
    checked = []
    for observed in (table for table in tables if not table.spec.discovers_names):
        table = observed
        try:
            if observed.error is None:
                with suppress(RetryLater):  # a registry that is away must not hide the rest
                    session.schemas.describe_table(observed.spec)
        except GiveUp as error:
            table = refuse_table(observed, error)
        checked.append(table)
    return tuple(checked)


def compare_with_log(
    session: Session,
    tables: Sequence[ObservedTable],
    log: Log,
    missing: Mapping[str, Unreadable],
    connector_ms: int | None,
) -> PipelineProgress:
    progress = []
    for observed in attach_log(tables, log, missing):
        logged_table = observed
        try:
            if observed.error is None:
                resolve_batch_start(observed)
        except (PositionLost, TopicsUnavailable) as error:
            logged_table = replace(observed, error=error)
        following = _find_next_offsets(session, logged_table)
        table = TableProgress(**logged_table.get_facts(), next_offsets=following, valid_through_ms=None)
        progress.append(replace(table, valid_through_ms=_compute_valid_through_ms(table, connector_ms)))
    return PipelineProgress(session, log, tuple(progress))


def _find_next_offsets(session: Session, observed: TableWithLog) -> Offsets:
    begin = observed.log.begin
    if not observed.is_read:
        return merge_offsets(
            begin, session.broker.read_committed(session.pipeline.source.group, tuple(observed.log.end))
        )
    position = _get_held_position(observed)
    if position is not None:
        ids = observed.log.topic_ids
        # offsets of a topic that was created again mean other records now
        lasting = {
            topic: offsets
            for topic, offsets in position.offsets.items()
            if not is_recreated(position.topic_ids.get(topic) or NO_TOPIC_ID, ids.get(topic) or NO_TOPIC_ID)
        }
        following = merge_offsets(begin, lasting)
    elif observed.position is not None and session.pipeline.source.start.kind == StartKind.LATEST:
        following = begin  # rolled back to where no snapshot tells a position; nor does anything tell the first end
    else:
        following = resolve_first_start(session, observed.log)
    return merge_offsets(following, find_rowless_end(observed.queue) if observed.error is None else {})


def _get_held_position(observed: TableWithLog) -> Position | None:
    """Return the position of the rows that the table has: after a rollback not the one that was published last."""
    state = observed.state
    return state.position if state is not None and state.is_rolled_back else observed.position


def _compute_valid_through_ms(observed: TableProgress, connector_ms: int | None) -> int | None:
    position = _get_held_position(observed)
    if position is None:
        return None
    times = [position.valid_through_ms]
    if observed.error is None and not observed.lag:
        times.append(connector_ms)
    return max((time for time in times if time is not None), default=None)
