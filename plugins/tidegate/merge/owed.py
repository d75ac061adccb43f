"""What a publish must do besides its rows, in this order.

1. `evolve_memory`: the memory of deletes takes the key's types, before a batch.
2. `render_dead_letter_statements`: dead letters are written, or marked as read again, right before a batch in turn is
   published. `publish_attempt`, which each attempt runs, asks for them.
3. `account`: rows and bytes are counted by the published snapshot.
4. `record_history`: history gets a row, for each batch and slice.
5. `send_dead_letters`: dead letters go to `errors.topic`, before clean_up removes what a batch has staged.

4 and 5 come behind the publish, and clean_up also finds compaction due: who has died right after a publish left them.
"""

import json
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

from tidegate.errors import CommitRefused, GiveUp, RecordRefused
from tidegate.jobs.statements_job import StatementsJob
from tidegate.merge.scd2_statements import list_change_columns, list_destination_change_columns
from tidegate.merge.write_mode import TRUNCATED_AT_PROPERTY
from tidegate.model import resource_names
from tidegate.model.backfill import AppliedSlice
from tidegate.model.batch import NOTHING_PUBLISHED, PublishedBatch, PublishOutcome, RowChanges, StagedBatch, read_cost
from tidegate.model.kafka_log import Message
from tidegate.model.offsets import Ranges
from tidegate.model.ownership import describe_dead_letters, describe_memory
from tidegate.model.table_state import NO_TOPIC_ID, DeadLetter, Head, WaitingLetter
from tidegate.ports.destination import HistoryRow
from tidegate.ports.session import Session
from tidegate.spec.table import Table
from tidegate.spec.time_text import to_utc_datetime
from tidegate.table.columns import list_deletes_columns
from tidegate.table.compatibility import check_same_fields
from tidegate.table.session import TableSession

log = logging.getLogger(__name__)
LETTER_ADDRESS = ("table", "topic", "partition", "offset")
MAX_NAMED_RANGES = 100  # of a statement: with more, each letter is compared with too many, and its text grows too long
MAX_JOINED_RANGES = 1000
MAX_TRANSACTION_RANGES = 10_000  # whose statements fit into the one script that publishes without branches
LETTER_REASON = ("stage", "error_class", "message", "batch")


def render_dead_letter_statements(table: TableSession, staged: StagedBatch) -> tuple[str, ...]:
    """Return the statements that bring a batch's dead letters into their table, to be run before it is published.

    Table, topic id, partition and offset identify a dead letter, so the statements may run again at any time.

    - Letters of this batch are written.
    - Letters that unpublished attempts left at these offsets are deleted.
    - Letters of published batches stay, and are marked as replayed if this batch has read their records again.
    """
    session = table.session
    name = session.letters_table
    own = describe_dead_letters(session.pipeline)
    attempts = [part.attempt for part in staged.parts]
    others = session.dead_letters.count_letters_of_others(name, staged.table, attempts, staged.ranges)
    if not others and not staged.counts.dead_lettered:
        return ()
    session.tables.claim(name, own)
    statements = _render_others(session, name, staged, table.require_state().highest_batch, others)
    if staged.counts.dead_lettered:
        sql = session.get_sql(name)
        statements += [
            sql.render("create_namespace", parent=name.rsplit(".", 1)[0]),
            sql.render("create_dead_letters", table=name, own=own),
            sql.render(
                "write_dead_letters",
                snapshot_id=staged.snapshot_id,
                ranges=_list_named_ranges(staged.ranges),
                source=table.intermediate,
                parts=staged.parts,
                ids=find_known_topic_ids(staged.topic_ids),
                table=name,
                target=staged.table,
            ),
        ]
    return tuple(statements)


def find_known_topic_ids(topic_ids: Mapping[str, str]) -> dict[str, str]:
    return {topic: topic_id for topic, topic_id in topic_ids.items() if topic_id and topic_id != NO_TOPIC_ID}


def _render_others(
    session: Session, name: str, staged: StagedBatch, published: int, others: Collection[tuple[str, int]]
) -> list[str]:
    sql = session.get_sql(name)
    ids = find_known_topic_ids(staged.topic_ids)
    busy = [part for part in staged.ranges if part[3] > part[2] and part[:2] in others]
    values = {"table": name, "target": staged.table, "published": published, "ids": ids}
    values["attempts"] = [part.attempt for part in staged.parts]
    # a destination without branches joins the ranges, and runs all statements in one transaction
    has_branches = session.commits.has_branches(name)
    most = MAX_NAMED_RANGES if has_branches else MAX_JOINED_RANGES
    of_known_topics = [part for part in busy if part[0] in ids]
    statements = [
        sql.render(statement, ranges=ranges, **values)
        for statement, parts in (("forget_dead_letters", busy), ("reread_dead_letters", of_known_topics))
        for ranges in cut_into_statements(parts, most)
    ]
    # too long for the script that publishes, so they run now
    if len(busy) > MAX_TRANSACTION_RANGES and not has_branches:
        session.engine.run(StatementsJob(session.pipeline.name, staged.batch, tuple(statements), table=name))
        return []
    return statements


def cut_into_statements(
    ranges: Iterable[tuple[str, int, int, int]], most: int = MAX_NAMED_RANGES
) -> list[list[tuple[str, int, int, int]]]:
    parts = list(ranges)
    return [parts[start : start + most] for start in range(0, len(parts), most)]


def _list_named_ranges(ranges: Ranges) -> list[tuple[str | None, int | None, int, int]]:
    # with very many partitions by topic; with very many topics, one range for all
    busy = [part for part in ranges if part[3] > part[2]]
    if len(busy) <= MAX_NAMED_RANGES:
        return list(busy)
    topics = groupby(busy, key=itemgetter(0))
    spans = ((topic, [(start, end) for _, _, start, end in parts]) for topic, parts in topics)
    by_topic = [(topic, None, min(start for start, _ in ends), max(end for _, end in ends)) for topic, ends in spans]
    if len(by_topic) <= MAX_NAMED_RANGES:
        return [*by_topic]
    return [(None, None, min(part[2] for part in by_topic), max(part[3] for part in by_topic))]


@dataclass(frozen=True)
class LetterFilter:
    """Each condition that is given must hold; without any, all letters match."""

    table: str | None = None
    topic: str | None = None
    reason: str | None = None  # a part of the message, without case
    since_ms: int | None = None  # the time from which a letter was written
    places: frozenset[tuple[str, int, int]] = frozenset()  # topics, partitions and offsets, empty for all

    @property
    def is_given(self) -> bool:
        return self != ALL_LETTERS

    def matches(self, letter: WaitingLetter) -> bool:
        place = (letter.topic, letter.partition, letter.offset)
        since = None if self.since_ms is None else to_utc_datetime(self.since_ms)
        return (
            (self.topic is None or letter.topic == self.topic)
            and (self.reason is None or self.reason.casefold() in letter.message.casefold())
            and (since is None or (letter.written_at is not None and letter.written_at >= since))
            and (not self.places or place in self.places)
        )

    def matches_letter(self, letter: DeadLetter) -> bool:
        """Match a whole letter, whose table counts too."""
        return self.table in (None, letter.table) and self.matches(letter.place)


ALL_LETTERS = LetterFilter()
CONNECT_HEADER_PREFIX = "__connect.errors."
CONNECT_STAGES = {"key": "KEY_CONVERTER", "value": "VALUE_CONVERTER"}


def send_dead_letters(table: TableSession, up_to_batch: int) -> int:
    """Send the dead letters of published batches whose staged rows still exist; return how many.

    At least once: a run that died before it removed those rows sends them again. `RetryLater` if the brokers may not
    have them, `GiveUp` if one is too large for the topic.
    """
    session = table.session
    topic = table.spec.errors.topic
    if topic is None:
        return 0
    letters = []
    name = session.letters_table
    for staged_batch in session.staging.list_staged(table.intermediate, table.name):
        if staged_batch.batch <= up_to_batch and staged_batch.counts.dead_lettered:
            letters += session.dead_letters.read_letters_of_attempt(name, table.name, staged_batch.attempt)
    messages = [_build_message(session.pipeline.name, table.spec, letter) for letter in letters]
    try:
        if messages:
            session.broker.send(topic, messages)
    except RecordRefused as refusal:
        refused_letter = next(
            (letter for letter, message in zip(letters, messages, strict=True) if message == refusal.record), None
        )
        if refused_letter is None:
            raise
        place = f"topic={refused_letter.topic} partition={refused_letter.partition} offset={refused_letter.offset}"
        raise GiveUp(f"the dead letter of {place} was not sent: errors.{refusal}") from refusal
    return len(letters)


def _build_message(pipeline: str, table: Table, letter: DeadLetter) -> Message:
    # the record's own headers first; errors as text under Kafka Connect's names
    part = table.key.format if letter.stage == "key" else table.value.format
    error = letter.error_class
    message = letter.message
    header_values = {
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "connector.name": pipeline,
        "task.id": letter.batch,
        "stage": CONNECT_STAGES.get(letter.stage, "TRANSFORMATION"),
        "class.name": part,
        "exception.class.name": error,
        "exception.message": message,
        "exception.stacktrace": f"{error}: {message}\n\tat table={table.name} attempt={letter.attempt}",
    }
    headers = ((CONNECT_HEADER_PREFIX + word, str(value).encode()) for word, value in header_values.items())
    return Message(letter.key, letter.value, (*letter.headers, *headers))


def evolve_memory(place: str, table: TableSession) -> None:
    """Change the types in the table of remembered deletes as the key's types changed.

    The merge creates a missing table.

    `GiveUp` if it was made for another key or order, `CommitRefused` if it was dropped meanwhile.
    """
    spec = table.resolved
    tables = table.session.tables
    pipeline = table.pipeline.name
    memory = resource_names.name_memory_table(spec)
    if not spec.remembers:
        return
    has_history = spec.history is not None
    list_columns = list_change_columns if table.has_branches else list_destination_change_columns
    columns = (list_columns if has_history else list_deletes_columns)(spec)
    is_there = tables.claim(memory, describe_memory(spec)) is not None
    state = tables.read_state(memory, pipeline) if is_there else None
    if state is None:
        return
    try:
        if not has_history:
            check_same_fields(memory, state, columns)
        tables.evolve(memory, columns, add=has_history, widen=spec.widen, relax=True)
    except GiveUp as error:
        if tables.read_state(memory, pipeline) is None:  # the merge makes it anew
            raise CommitRefused(f"{place}: table={memory} was dropped meanwhile") from error
        raise GiveUp(
            f"{place}: table={memory}, which remembers deletes or changes, was made for another key or another "
            f"sequence_by: {error}; set them back, or drop this table, which forgets them"
        ) from error


def account(head: Head | None) -> dict[str, Any]:
    cost = read_cost(head.summary if head else None)
    return {**vars(count_changes(head)), **vars(cost), "snapshot_id": head.snapshot_id if head else None}


def count_changes(head: Head | None) -> RowChanges:
    """Count rows inserted, updated and deleted, by the snapshot's summary; None: no snapshot was needed."""

    def count(name: str) -> int:
        return int(head.summary.get(name, "0")) if head else 0

    if head and "tidegate.inserted" in head.summary:
        return RowChanges(
            inserted=count("tidegate.inserted"), updated=count("tidegate.updated"), deleted=count("tidegate.deleted")
        )
    rows = "spark.merge-into.num-target-rows-"
    appended = 0 if head and f"{rows}inserted" in head.summary else count("added-records")
    emptied = 0
    if head and TRUNCATED_AT_PROPERTY in head.summary:  # Iceberg counts the rows of files, and deletes beside them
        emptied = count("deleted-records") - count("removed-position-deletes") - count("removed-equality-deletes")
    return RowChanges(
        inserted=count(f"{rows}inserted") + appended,
        updated=count(f"{rows}updated"),
        deleted=count(f"{rows}deleted") + emptied,
    )


def record_history(
    session: Session, staged_batches: Sequence[StagedBatch], published: PublishedBatch | AppliedSlice
) -> None:
    """Append batches that were merged as one, or a slice of a backfill, to the control table; a failure is only logged.

    All of them by one call: each may be a commit.
    """
    # a retried merge appends no second row; a crash right after the publish leaves the row out
    if published.outcome != PublishOutcome.PUBLISHED:
        return
    try:
        rows = [_build_row(session, staged_batch, published) for staged_batch in staged_batches]
        session.history.append_history(session.history_table, *rows)
    except Exception as error:  # history must not fail a flush or a slice whose rows are published
        numbers = ",".join(str(staged_batch.batch) for staged_batch in staged_batches)
        place = f"pipeline={session.pipeline.name} batch={numbers} table={published.table}"
        log.warning("no history: %s: the batch is published, its row of history is lost: %s", place, error)
        log.info("no history: %s", place, exc_info=error)


def _build_row(
    session: Session, staged_batch: StagedBatch, published_batch: PublishedBatch | AppliedSlice
) -> HistoryRow:
    # of batches that were merged as one, the last one has what the snapshot cost; the time goes by their rows
    is_last = isinstance(published_batch, AppliedSlice) or staged_batch.batch == published_batch.batch
    cost = published_batch if is_last else NOTHING_PUBLISHED
    counts = staged_batch.counts
    share = counts.staged / published_batch.staged if published_batch.staged else float(is_last)
    unknown = staged_batch.unknown_fields
    batch = staged_batch.batch
    valid_through_ms = None
    backfill = None
    if isinstance(published_batch, AppliedSlice):
        # a slice stands under the number of the table's batch
        state = session.tables.read_state(published_batch.table, session.pipeline.name)
        batch = state.highest_batch if state else 0
        backfill = f"{published_batch.backfill} {published_batch.slice}/{published_batch.slices}"
    else:
        valid_through_ms = published_batch.valid_through_ms
    return {
        "batch": batch,
        "table": published_batch.table,
        "attempt": staged_batch.attempt,
        "ranges": json.dumps(staged_batch.ranges.to_dict()),
        "span": counts.span,
        "read": counts.read,
        "staged": counts.staged,
        "superseded": counts.superseded,
        "filtered": counts.filtered,
        "ignored": counts.ignored,
        "dead_lettered": counts.dead_lettered,
        "inserted": published_batch.inserted if is_last else 0,
        "updated": published_batch.updated if is_last else 0,
        "deleted": published_batch.deleted if is_last else 0,
        **cost.to_counts(),
        "seconds": round(published_batch.seconds * share, 2),
        "stage_seconds": staged_batch.stage_seconds,
        "staged_bytes": staged_batch.bytes,
        "written_as": getattr(published_batch, "written_as", ""),
        "unknown_fields": json.dumps(unknown.to_dict()) if unknown is not None else None,
        "staged_snapshot_id": staged_batch.snapshot_id,
        "snapshot_id": published_batch.snapshot_id,
        "published_at_ms": session.now_ms(),
        "valid_through_ms": valid_through_ms,
        "backfill": backfill,
        "run": session.run,
    }
