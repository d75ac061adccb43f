"""plan: decide which offsets of the log become the next batch of each table. Changes nothing."""

import re

from tidegate import names
from tidegate.batch import Plan, PlannedBatch, StagedBatch
from tidegate.capacity import capped
from tidegate.columns import resolved, shape
from tidegate.errors import NothingToDo
from tidegate.offsets import Offsets, merged
from tidegate.pipeline import Table
from tidegate.ports import Log, Ports, TableState
from tidegate.position import Position
from tidegate.standing import check_log, effective_position, starts


def plan(ports: Ports) -> Plan:
    """Return the next batch of every table that has work; `NothingToDo` when none has.

    1. Read the log's ends under the pipeline's isolation level, once for all tables.
    2. Read each table's position and check that the log still fits it.
    3. Finish first what is staged: a batch whose ranges start exactly at the position is resumed.
    4. Else cut a new batch from the position to the end of the log, capped by `merge.max_records`.
    """
    log = read_log(ports)
    states = {t.name: ports.destination.state(t.name, ports.pipeline.name) for t in ports.pipeline.tables}
    number = 1 + max(_highest_batch(ports, table, states[table.name]) for table in ports.pipeline.tables)
    tables = [_plan_table(ports, table, states[table.name], log, number) for table in ports.pipeline.tables]
    work = tuple(table for table in tables if table is not None)
    if not work:
        raise NothingToDo(f"pipeline={ports.pipeline.name}: every table stands at the end of the log")
    return Plan(work, log.cluster_id, log.topic_ids)


def read_log(ports: Ports) -> Log:
    """The log of all topics that carry rows; ignored topics are left out."""
    return ports.broker.log(row_topics(ports), ports.pipeline.source.isolation)


def row_topics(ports: Ports) -> tuple[str, ...]:
    """The pipeline's topics without those that `heartbeat.ignore_topics` names."""
    return tuple(t for t in _all_topics(ports) if not _is_ignored(ports, t))


def ignored_topics(ports: Ports) -> tuple[str, ...]:
    """Topics of the pipeline whose offsets advance without a row."""
    return tuple(t for t in _all_topics(ports) if _is_ignored(ports, t))


def _all_topics(ports: Ports) -> tuple[str, ...]:
    source = ports.pipeline.source
    return source.topics if source.topic_pattern is None else ports.broker.topics(source.topic_pattern)


def _is_ignored(ports: Ports, topic: str) -> bool:
    return any(re.fullmatch(pattern, topic) for pattern in ports.pipeline.heartbeat.ignore_topics)


def table_log(log: Log, table: Table) -> Log:
    """The part of the log that feeds `table`."""
    if not table.topics:
        return log
    begin = {t: parts for t, parts in log.begin.items() if t in table.topics}
    return Log(log.cluster_id, log.topic_ids, begin, {t: log.end[t] for t in begin})


def _highest_batch(ports: Ports, table: Table, state: TableState | None) -> int:
    staged = ports.destination.highest_staged(names.intermediate_table(ports.pipeline, table))
    return max(staged, state.highest_batch if state else 0)


def _plan_table(
    ports: Ports, table: Table, state: TableState | None, whole_log: Log, number: int
) -> PlannedBatch | None:
    log = table_log(whole_log, table)
    position = effective_position(ports.pipeline, table, state)
    if position is not None:
        check_log(ports.pipeline, table, position, log)
    waiting = _staged_batch(ports, table, state, position)
    if waiting is not None:
        return PlannedBatch(table.name, waiting.batch, waiting.ranges, waiting.attempt)
    start = first_start(ports, log) if position is None else starts(ports.pipeline, table, position, log)
    ranges = capped(start, log.end, ports.pipeline.merge.max_records)
    return PlannedBatch(table.name, number, ranges) if ranges.span else None


def _staged_batch(
    ports: Ports, table: Table, state: TableState | None, position: Position | None
) -> StagedBatch | None:
    intermediate = names.intermediate_table(ports.pipeline, table)
    fitting = [s for s in ports.destination.staged(intermediate, table.name) if _fits(s, state, position)]
    metadata = ports.pipeline.source.metadata
    waiting = [s for s in fitting if s.shape == shape(resolved(table, metadata, state), metadata)]
    return waiting[-1] if waiting else None


def _fits(staged: StagedBatch, state: TableState | None, position: Position | None) -> bool:
    """Whether a staged batch is the next one of the table as it stands; any other is planned and staged anew."""
    if staged.counts.unexplained() or not staged.counts.staged:  # an empty one too: there may be rows behind it by now
        return False
    if staged.table_uuid not in (None, state.uuid if state else None):
        return False
    return position is None or (staged.ranges.span > 0 and staged.ranges.continues(position.offsets))


def first_start(ports: Ports, log: Log) -> Offsets:
    """Where a table without a position begins, by `source.start`; a start outside the log is moved into it."""
    source = ports.pipeline.source
    topics = tuple(log.begin)
    wanted: Offsets = {}
    match source.start.kind:
        case "latest":
            wanted = log.end
        case "group":
            wanted = ports.broker.committed(source.group, topics)
        case "timestamp":
            wanted = ports.broker.offsets_at(topics, source.start.timestamp_ms or 0)
        case "offsets":
            wanted = source.start.offsets
    chosen = merged(log.begin, {t: parts for t, parts in wanted.items() if t in log.begin})
    return {
        t: {p: min(max(chosen[t][p], begin), log.end[t][p]) for p, begin in parts.items()}
        for t, parts in log.begin.items()
    }
