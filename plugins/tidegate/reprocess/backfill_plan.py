"""backfill, first part: turn the user's offsets or times into ranges that may be applied again. Changes nothing."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.errors import ConfigurationError, GiveUp, NothingToDo, PositionLost
from tidegate.merge.scd2_statements import refuse_history, refuse_truncates
from tidegate.model.backfill import Backfill, TableBackfill
from tidegate.model.counts import format_count
from tidegate.model.kafka_log import Log
from tidegate.model.offsets import Offsets, Ranges, find_missing_ranges, format_names, format_partitions, get_offset
from tidegate.model.position import Position
from tidegate.model.written_offsets import parse_written_ranges
from tidegate.ports.session import Session
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.table import Table, TableMode
from tidegate.spec.time_text import parse_timestamp_ms
from tidegate.table.log import filter_table_log, list_ignored_topics, read_log
from tidegate.table.position import check_read_log, require_position
from tidegate.table.session import TableSession, refuse_template

MAX_SLICES = 1000  # each is a task; Airflow maps over 1024 at most
RANGES_EXAMPLE = '{"topic": {"0": [100, 900]}}'


@dataclass(frozen=True)
class BackfillRequest:
    """The user's request: `ranges`, or the records between two times; `tables` empty means all."""

    ranges: Ranges | None = None
    from_ms: int = 0
    to_ms: int = 0
    tables: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        words = {"from_ms": self.from_ms, "to_ms": self.to_ms} if self.ranges is None else self.ranges.to_dict()
        return json.dumps([words, sorted(self.tables)], sort_keys=True)


@dataclass(frozen=True)
class BackfillPart:
    """One partition of one table in a backfill. `later_offsets` after `end` are read too, for later records."""

    table: str
    topic: str
    partition: int
    start: int
    end: int
    later_offsets: int


@dataclass(frozen=True)
class ProposedBackfill:
    """A backfill as it will be applied."""

    backfill: Backfill
    parts: tuple[BackfillPart, ...]
    is_resumed: bool

    def to_dict(self) -> dict[str, Any]:
        tables = []
        for table in self.backfill.tables:
            table_parts = [part for part in self.parts if part.table == table.table]
            tables.append(
                {
                    "table": table.table,
                    "ranges": table.ranges.to_dict(),
                    "records": table.ranges.span,
                    "batches": len(self.backfill.list_slices(table.table)),
                    "later": sum(part.later_offsets for part in table_parts),
                }
            )
        return {"backfill": self.backfill.id, "resumed": self.is_resumed, "tables": tables}

    def to_batches(self) -> list[dict[str, Any]]:
        numbers = self.backfill.numbers
        entries = []
        for number in numbers:
            parts = [self.backfill.list_slices(t.table) for t in self.backfill.tables]
            spans = [part[number - 1].span for part in parts if number <= len(part)]
            offsets = format_count(max(spans), "offset")
            entries.append({"number": number, "slice": f"{number} of {len(numbers)}: {offsets}"})
        return entries


def parse_request(
    ranges: Any, from_time: str | None, to_time: str | None, tables: tuple[str, ...] = ()
) -> BackfillRequest:
    """Read the user's words; `ranges` is JSON text or the object itself. `ConfigurationError` says what is wrong."""
    times = (from_time, to_time)
    tables = tuple(dict.fromkeys(tables))
    if (ranges is None) == (times == (None, None)) or (ranges is None and None in times):
        raise ConfigurationError(
            f"name either ranges, like {RANGES_EXAMPLE}, or both from and to, like 2026-01-01T00:00:00Z"
        )
    if ranges is not None:
        return BackfillRequest(_parse_ranges(ranges), tables=tables)
    begin = parse_timestamp_ms("from", from_time or "")
    end = parse_timestamp_ms("to", to_time or "")
    if begin >= end:
        raise ConfigurationError(f"from={from_time} to={to_time}: the time to must be later than the time from")
    return BackfillRequest(None, begin, end, tables)


def propose_backfill(session: Session, request: BackfillRequest) -> ProposedBackfill:
    """Return what a backfill would apply; changes nothing.

    1. Read each table and then the log, once, and check that they still fit each other.
    2. Go on with an open backfill of this request.
    3. Else find ranges for each table: named offsets must lie before its position, times are clipped to it.

    A repeated request gives an equal backfill until it is done. `NothingToDo` if no offset lies in the range,
    `ConfigurationError` if it does not fit the table, `PositionLost` if the log has lost offsets that are needed.
    """
    pipeline = session.pipeline
    refuse_template(pipeline, "backfill")
    refuse_truncates(pipeline, "backfill")
    sessions = {spec.name: TableSession(session, spec).refresh() for spec in pipeline.tables}
    log = read_log(session)  # after the tables: a flush between the two must not put a position beyond the log's end
    tables = _choose_tables(session, request, log)
    refuse_history(pipeline, tables, "backfill")
    positions = {table.name: _require_backfillable(sessions[table.name], log) for table in tables}
    # 2.
    backfill = _find_open_backfill(session, request, tables, log)
    if backfill is None:
        parts = [
            # 3.
            TableBackfill(t.name, _compute_table_ranges(sessions[t.name], request, positions[t.name], log))
            for t in tables
        ]
        busy = tuple(part for part in parts if part.ranges.span)
        for part in busy:
            refuse_waiting_letters(sessions[part.table], part.ranges, positions[part.table])
        if not busy:
            raise NothingToDo(f"pipeline={pipeline.name}: the range has no offset to apply")
        ids = {t: i for t, i in log.topic_ids.items() if any(t in part.ranges.by_topic for part in busy)}
        content = {"asked": request.text, "max_records": pipeline.merge.max_records, "tables": busy}
        backfill = Backfill.build(pipeline.name, **content, cluster_id=log.cluster_id, topic_ids=ids)
        if backfill.slice_count > MAX_SLICES:
            raise ConfigurationError(
                f"pipeline={pipeline.name}: the range makes {backfill.slice_count} batches of merge.max_records="
                f"{pipeline.merge.max_records}, at most {MAX_SLICES} are possible; raise merge.max_records or name less"
            )
        resumed = False
    else:
        _check_tables(pipeline, backfill, positions)
        resumed = True
    return ProposedBackfill(backfill, tuple(_list_parts(session, backfill, positions)), resumed)


def _check_tables(pipeline: Pipeline, backfill: Backfill, positions: Mapping[str, Position]) -> None:
    missing_tables = [entry.table for entry in backfill.tables if entry.table not in positions]
    if missing_tables:
        raise ConfigurationError(
            f"pipeline={pipeline.name} backfill={backfill.id}: it was begun with table={', '.join(missing_tables)}, "
            "which the file names no more, or feeds from other topics; put that there again, or give the backfill up "
            f"with: tidegate backfill {pipeline.name} --abandon {backfill.id}"
        )


def _list_parts(session: Session, backfill: Backfill, positions: Mapping[str, Position]) -> list[BackfillPart]:
    parts = []
    for backfill_table in backfill.tables:
        table = next(t for t in session.pipeline.tables if t.name == backfill_table.table)
        tail = find_missing_ranges(backfill_table.ranges.end, positions[backfill_table.table].offsets)
        later = {(t, p): end - start for t, p, start, end in tail} if needs_later_records(table) else {}
        parts += [
            BackfillPart(backfill_table.table, topic=t, partition=p, start=s, end=e, later_offsets=later.get((t, p), 0))
            for t, p, s, e in backfill_table.ranges
            if e > s
        ]
    return parts


def needs_later_records(table: Table) -> bool:
    """Whether later records decide what may be written; a table that is only appended to looks at its rows instead."""
    return table.mode != TableMode.APPEND


def _find_open_backfill(session: Session, request: BackfillRequest, tables: list[Table], log: Log) -> Backfill | None:
    for table in tables:
        for note in session.history.list_backfills(table.name, session.pipeline.name):
            backfill = Backfill.from_dict(json.loads(note))
            ids = {topic: log.topic_ids.get(topic) for topic in backfill.topic_ids}
            if backfill.asked == request.text and backfill.topic_ids == ids and backfill.cluster_id == log.cluster_id:
                return backfill
    return None


def _choose_tables(session: Session, request: BackfillRequest, log: Log) -> list[Table]:
    pipeline = session.pipeline
    tables_by_name = {table.name: table for table in session.pipeline.tables}
    unknown = [name for name in request.tables if name not in tables_by_name]
    if unknown:
        raise ConfigurationError(
            f"pipeline={pipeline.name}: no table={unknown[0]}; it has {format_names(tables_by_name)}: name one of those"
        )
    _check_topics(session, request, log)
    tables = [tables_by_name[name] for name in request.tables] or list(tables_by_name.values())
    if request.ranges is None:
        return tables
    readers = [t for t in tables if set(filter_table_log(log, t).begin) & set(request.ranges.by_topic)]
    if (request.tables and readers != tables) or not readers:
        raise ConfigurationError(
            f"pipeline={pipeline.name}: topics={sorted(request.ranges.by_topic)} do not feed "
            f"table={next(t.name for t in tables if t not in readers)}; name topics that do, or another table"
        )
    return readers


def _check_topics(session: Session, request: BackfillRequest, log: Log) -> None:
    for topic, partition, _, _ in request.ranges or ():
        place = f"pipeline={session.pipeline.name} topic={topic}"
        if topic not in log.begin:
            reason = (
                "is in heartbeat.ignore_topics and carries no rows"
                if topic in list_ignored_topics(session)
                else (f"is not one of its topics; it reads {format_names(sorted(log.begin)) or 'none'}")
            )
            raise ConfigurationError(f"{place}: {reason}; name another topic")
        if partition not in log.begin[topic]:
            raise ConfigurationError(
                f"{place} partition={partition}: the topic has no such partition; it has "
                f"{format_partitions(log.begin[topic])}"
            )


def _require_backfillable(table: TableSession, log: Log) -> Position:
    if not table.spec.key.fields:
        raise ConfigurationError(
            f"{table.prefix}: it is appended to without a key, so existing rows cannot be distinguished from rows that "
            "are missing; set key.fields, or choose other tables"
        )
    position = require_position(table)
    check_read_log(table, position, filter_table_log(log, table.spec))
    return position


def refuse_waiting_letters(table: TableSession, ranges: Ranges, position: Position) -> None:
    """Raise `GiveUp` if dead letters of a table that is appended to wait in these ranges."""
    # a record that backfill and replay both bring in would be there twice, and nothing could tell
    if needs_later_records(table.spec):
        return
    waiting = []
    letters = table.session.letters_table
    for letter in table.session.dead_letters.list_waiting_letters(letters, table.name):
        is_of_topic = letter.topic_id in (None, position.topic_ids.get(letter.topic))
        is_in_range = ranges.contains(letter.topic, letter.partition, letter.offset)
        waiting += [letter] if is_in_range and is_of_topic else []
    if waiting:
        raise GiveUp(
            f"{table.prefix}: the table is appended to, and dead letters="
            f"{len(waiting)} wait in the range, e.g. topic={waiting[0].topic} partition={waiting[0].partition} "
            f"offset={waiting[0].offset}: a later replay would bring them in twice; replay or discard them first: "
            f"tidegate dead-letters {table.pipeline.name}"
        )


def _compute_table_ranges(table: TableSession, request: BackfillRequest, position: Position, whole_log: Log) -> Ranges:
    log = filter_table_log(whole_log, table.spec)
    if request.ranges is None:
        return _resolve_times(table.session, request, position, log)
    table_ranges = request.ranges.select_topics(tuple(log.begin))
    for topic, partition, start, end in table_ranges:
        place = f"{table.prefix} topic={topic} partition={partition}"
        begin = log.begin[topic][partition]
        flushed = get_offset(position.offsets, topic, partition) or 0
        if end > flushed:
            raise ConfigurationError(
                f"{place} range=[{start}, {end}): the table's position is {flushed}, the flush will read what comes "
                f"after it; name a range that ends at {flushed} or before"
            )
        check_log_holds(place, start=start, end=end, begin=begin)
    return table_ranges


def check_log_holds(place: str, *, start: int, end: int, begin: int) -> None:
    """Raise `PositionLost` if the log has lost offsets of `[start, end)` that must be read."""
    if start < end and start < begin:
        lost_range = f"[{start}, {min(begin, end)})"
        raise PositionLost(
            f"{place}: the log starts at offset={begin}, so {lost_range} of what is "
            f"needed is gone; nothing more can be decided; name a range that starts at {begin} or later"
        )


def _resolve_times(session: Session, request: BackfillRequest, position: Position, log: Log) -> Ranges:
    topics = tuple(topic for topic in log.begin if topic in position.offsets)
    first, after = (session.broker.find_offsets_at(topics, ms) for ms in (request.from_ms, request.to_ms))
    flushed = {t: dict(position.offsets[t]) for t in topics}
    end: Offsets = {t: {p: min(o, after[t].get(p, o)) for p, o in flushed[t].items()} for t in topics}
    start: Offsets = {t: {p: min(first[t].get(p, o), end[t][p]) for p, o in flushed[t].items()} for t in topics}
    return Ranges.between(start, end)


def _parse_ranges(words: Any) -> Ranges:
    try:
        ranges = Ranges(parse_written_ranges(words))
    except ValueError as error:
        raise ConfigurationError(
            f"ranges={words}: not half-open offset ranges: {error}; write e.g. {RANGES_EXAMPLE}"
        ) from error
    if not ranges.by_topic:
        raise ConfigurationError(f"ranges={words}: no topic is named; write e.g. {RANGES_EXAMPLE}")
    return ranges
