"""What may go wrong soon on a record's way: transactions that never end, and records that wait until they expire."""

from collections.abc import Iterable

from tidegate.errors import TidegateError
from tidegate.formats.registry import get_format
from tidegate.model import resource_names
from tidegate.model.kafka_log import Log, Retention
from tidegate.model.offsets import MAX_NAMED_PARTITIONS, Offsets, get_offset, iterate_offsets
from tidegate.model.ownership import KIND_PROPERTY
from tidegate.ports.session import Session
from tidegate.spec.table import Table
from tidegate.spec.time_text import format_utc, to_utc_datetime
from tidegate.spec.tombstone_owner import is_tombstone_owned
from tidegate.table.history import find_undone_backfills, list_undone_letters
from tidegate.table.log import explain_no_row_topics
from tidegate.table.pipeline_progress import PipelineProgress
from tidegate.table.queue import count_mergeable
from tidegate.table.session import expand_template

# The brokers end a transaction after transaction.max.timeout.ms at the latest, 15 minutes by default.
HANGING_TRANSACTION_MS = 15 * 60_000
LONG_QUEUE_SHARE = 0.5  # of `max_pending`
RETENTION_WARNING_SHARE = 0.5  # of the time that records, or tombstones, are kept


def find_risks(progress: PipelineProgress) -> list[str]:
    """Return one sentence for each danger to a pipeline. Asks the brokers; changes nothing.

    Warnings of the pipeline file come first. What the brokers refuse to tell is a sentence of its own.
    """
    session = progress.session
    risks: list[str] = [*session.pipeline.warnings, *_find_long_queues(progress)]
    try:
        risks += find_lost_rows(session)
    except TidegateError as reason:
        risks.append(f"pipeline={session.pipeline.name}: not all dead letters and backfills can be read: {reason}")
    for look in (_find_no_topics, _find_hanging_transactions, _find_expiring_records, _find_lone_tombstones):
        try:
            risks += look(session, progress.log, progress.staged_offsets)
        except TidegateError as reason:
            risks.append(f"pipeline={session.pipeline.name}: risks cannot be checked: {reason}")
    return risks


def _find_long_queues(progress: PipelineProgress) -> list[str]:
    if not progress.session.pipeline.stage.has_clock:
        return []
    waiting = [(table, count_mergeable(table.queue)) for table in progress.tables]
    return [
        f"{table.prefix}: waiting={count} of max_pending={table.spec.max_pending} staged batches: staging stops when "
        "the queue is full; see why no merge takes it, or let merges come more often"
        for table, count in waiting
        if count >= LONG_QUEUE_SHARE * table.spec.max_pending
    ]


def _find_no_topics(session: Session, log: Log, _: Offsets) -> list[str]:
    # a pipeline without a topic does nothing, and nothing of it fails
    reason = explain_no_row_topics(session, log)
    return [reason] if reason else []


def find_lost_rows(session: Session) -> list[str]:
    session = expand_template(session)
    return [*find_undone_letters(session), *_find_undone_backfills(session)]


def find_undone_letters(session: Session) -> list[str]:
    name = session.pipeline.name
    if session.tables.read_property(session.letters_table, KIND_PROPERTY) is None:
        return []
    letters_by_table = [(t.name, list_undone_letters(session, t.name)) for t in session.pipeline.row_tables]
    return [
        f"pipeline={name} table={table}: dead letters={len(letters)} count as replayed, and their rows are gone: the "
        f"table was rolled back to before the replay; bring them in again with: tidegate dead-letters {name} --table "
        f"{resource_names.quote_word(table)} --replay; those that may stay away can be discarded as if they waited"
        for table, letters in letters_by_table
        if letters
    ]


def _find_undone_backfills(session: Session) -> list[str]:
    name = session.pipeline.name
    slices_by_table = [
        (table.name, undone)
        for table in session.pipeline.row_tables
        for undone in find_undone_backfills(session, table.name)
    ]
    return [
        f"pipeline={name} table={table}: slices={len(undone.slices)} of backfill={undone.id} are not in the table: "
        "they were rolled back with it, or the backfill was given up before their publish; it is over, so nothing "
        "applies them again; if they are not meant to be gone: "
        f"{undone.command}; else this warning stays until the snapshots of the backfill expire"
        for table, undone in slices_by_table
    ]


def _find_hanging_transactions(session: Session, log: Log, _: Offsets) -> list[str]:
    if session.pipeline.source.isolation != "read_committed":
        return []
    risks = list[tuple[float, str]]()
    high = session.broker.read_end_offsets(tuple(log.end), "read_uncommitted")
    hidden_records = {place: (get_offset(high, *place[:2]) or 0) - place[2] for place in iterate_offsets(log.end)}
    open_ones = [place for place, records in hidden_records.items() if records > 0]
    times = session.broker.read_timestamps(open_ones, "read_uncommitted") if open_ones else {}
    for topic, partition, stable in open_ones:
        behind = hidden_records[topic, partition, stable]
        began = times.get((topic, partition, stable))
        if began is not None and session.now_ms() - began >= HANGING_TRANSACTION_MS:
            danger = (
                f"pipeline={session.pipeline.name} topic={topic} partition={partition}: a transaction has been open at "
                f"offset={stable} since {_format_time(began)}, and hides records={behind} behind it; find "
                f"its producer with "
                "kafka-transactions.sh find-hanging, and end it with kafka-transactions.sh abort"
            )
            risks.append((session.now_ms() - began, danger))
    return _name_most_urgent(session, risks)


def _find_expiring_records(session: Session, log: Log, following: Offsets) -> list[str]:
    starts = [(t, p, get_offset(following, t, p) or 0, end) for t, p, end in iterate_offsets(log.end)]
    late = [(topic, partition, start) for topic, partition, start, end in starts if start < end]
    retentions = session.broker.read_retention(tuple(sorted({topic for topic, _, _ in late}))) if late else {}
    times = session.broker.read_timestamps([place for place in late if retentions.get(place[0])]) if late else {}
    risks = list[tuple[float, str]]()
    for topic, partition, start in late:
        retention = retentions.get(topic)
        oldest = times.get((topic, partition, start))
        if retention is not None and oldest is not None:
            waits = session.now_ms() - oldest
            risks += [
                (
                    waits / limit if limit else waits,
                    f"pipeline={session.pipeline.name} topic={topic} partition={partition}: records wait since "
                    f"{_format_time(oldest)}, more than half of {name}={limit}: {danger}; let the pipeline "
                    f"catch up, or raise it",
                )
                for name, limit, danger in _list_retention_limits(retention)
                if waits >= RETENTION_WARNING_SHARE * limit
            ]
    return _name_most_urgent(session, risks)


def _name_most_urgent(session: Session, risks: list[tuple[float, str]]) -> list[str]:
    sentences = [sentence for _, sentence in sorted(risks, key=lambda risk: -risk[0])]
    # a danger in each of a topic's thousands of partitions would hide every other warning
    more = len(sentences) - MAX_NAMED_PARTITIONS
    if more <= 0:
        return sentences
    remainder = (
        f"pipeline={session.pipeline.name}: {more} more warnings say the same of other partitions, which are less "
        f"urgent; the {MAX_NAMED_PARTITIONS} before this one say what helps"
    )
    return [*sentences[:MAX_NAMED_PARTITIONS], remainder]


def _find_lone_tombstones(session: Session, log: Log, _: Offsets) -> list[str]:
    # compaction may keep a tombstone and remove the delete event before it, which alone names the row
    blind = [t for t in session.pipeline.tables if t.delete and get_format(t.value.format).shows_deleted_row]
    by_value = _list_topics(log, [t for t in blind if t.key.from_value])
    unowned = _list_topics(
        log, [t for t in blind if not t.key.from_value and not _says_whose_tombstones_are(session, t)]
    )
    topics = tuple(sorted(by_value | unowned))
    compacted = session.broker.filter_compacted(topics) if topics else ()
    return [
        f"pipeline={session.pipeline.name} topic={topic}: the topic is compacted and {fact}: where only the tombstone "
        f"of a deleted row is left, it deletes nothing; set cleanup.policy=delete, or {advice}"
        for topic in compacted
        for of_topic, fact, advice in (
            (by_value, "key.from is value", "take the key from the record"),
            (
                unowned,
                "its tombstones do not say which table they are for",
                "let the source put its table into the record's key, as Debezium's ByLogicalTableRouter does, and name "
                "that field in key.fields and in when",
            ),
        )
        if topic in of_topic
    ]


def _list_topics(log: Log, tables: Iterable[Table]) -> set[str]:
    return {topic for table in tables for topic in log.end if topic in table.topics or not table.topics}


def _says_whose_tombstones_are(session: Session, table: Table) -> bool:
    keys = () if table.key.into else [f"{table.key.prefix}{name}" for name in table.key.fields]
    columns = [column.name for column in table.value.columns or ()]
    return is_tombstone_owned(table, columns, keys, table.metadata)


def _list_retention_limits(retention: Retention) -> list[tuple[str, int, str]]:
    limits = []
    if retention.records_ms is not None:
        limits.append(("retention.ms", retention.records_ms, "then they are gone before they are read"))
    if retention.tombstones_ms is not None:
        limits.append(("delete.retention.ms", retention.tombstones_ms, "then deletes are gone before they are read"))
    return limits


def _format_time(milliseconds: int) -> str:
    return format_utc(to_utc_datetime(milliseconds), "seconds")
