"""How many records a batch gets, and where a bounded read ends: at the end of the log, a group, a time, or offsets."""

import logging
from collections import Counter
from dataclasses import dataclass
from functools import cache, partial

from tidegate.errors import ConfigurationError
from tidegate.model.kafka_log import Log
from tidegate.model.offsets import (
    Offsets,
    Ranges,
    cap_ranges,
    find_highest,
    get_offset,
    iterate_offsets,
    keep_partitions,
    merge_offsets,
)
from tidegate.model.written_offsets import parse_written_offsets
from tidegate.ports.session import Session
from tidegate.spec.pipeline import Merge
from tidegate.spec.time_text import EXAMPLE, parse_timestamp_ms
from tidegate.table.log import read_known_log

log = logging.getLogger(__name__)
HISTORY_MIN_BACKLOG_RECORDS = 100_000  # fewer are read in a moment: their number needs no history
HISTORY_BATCHES = 5  # the newest ones, that are looked at
HISTORY_MAX_ROWS = 50  # a row is one table's: of many tables fewer batches are read, and two at least,
MIN_READ_BATCHES = 2  # as the newest one may lack rows still
MEASURED_MIN_RECORDS = 10_000  # in smaller batches the bytes that each file costs hide those of the records
MIN_BATCH_RECORDS = 1000


@dataclass(frozen=True)
class BatchSize:
    """The most records of the next batch. `reason`: why that is below the cap in the pipeline file, else empty."""

    records: int
    reason: str = ""


class BatchSizer:
    """Chooses the size of the next batch, which tables at the same offsets share. Reads history at most once."""

    def __init__(self, session: Session, stop_offsets: Offsets | None = None) -> None:
        self._session = session
        self._stop_offsets = stop_offsets
        self._measure = cache(partial(measure_bytes_per_record, session))
        self.reason = ""

    def find_end(self, reached_offsets: Offsets, log_end: Offsets) -> Offsets:
        """Return where reading ends: `log_end`, in each partition at most its stop, but not before what is reached."""
        if self._stop_offsets is None:
            return log_end
        earliest = find_highest(self._stop_offsets, reached_offsets)
        return {
            topic: {p: min(end, get_offset(earliest, topic, p) or 0) for p, end in parts.items()}
            for topic, parts in log_end.items()
        }

    def choose_ranges(self, start: Offsets, end: Offsets) -> Ranges:
        backlog = Ranges.between(start, merge_offsets(start, end)).span
        max_records = self.choose_max_records(backlog)
        return cap_ranges(start, choose_partitions(start, end, max_records), max_records)

    def choose_max_records(self, backlog: int) -> int:
        """Return the most records of a batch. Sets `reason` if that is below the file's cap."""
        merge = self._session.pipeline.merge
        if min(backlog, merge.max_records) <= HISTORY_MIN_BACKLOG_RECORDS or not merge.max_bytes:
            return merge.max_records
        size = compute_batch_size(merge, backlog, self._measure())
        self.reason = self.reason or size.reason
        return size.records


def choose_partitions(start: Offsets, end: Offsets, max_records: int) -> Offsets:
    """Return the ends of at most `max_records` partitions that have records.

    The partitions take turns from batch to batch, so that none waits for longer than a round.
    """
    if sum(map(len, start.values())) <= max_records:
        return end
    partitions = sorted((topic, p, offset) for topic, p, offset in iterate_offsets(start))
    # the sum grows with each batch by the records that it takes: the next choice begins where this one ends, or earlier
    first = sum(offset for _, _, offset in partitions) % len(partitions)
    in_turn = partitions[first:] + partitions[:first]
    waiting = [(topic, p) for topic, p, offset in in_turn if (get_offset(end, topic, p) or 0) > offset]
    if len(waiting) <= max_records:
        return end
    chosen: Offsets = {}
    for topic, partition in waiting[:max_records]:
        chosen.setdefault(topic, {})[partition] = end[topic][partition]
    return chosen


def compute_batch_size(merge: Merge, backlog: int, bytes_per_record: float | None) -> BatchSize:
    """Return the smaller of the file's cap and the records that fit `merge.max_bytes`; None for unknown bytes."""
    cap = merge.max_records
    if not merge.max_bytes or not bytes_per_record:
        return BatchSize(cap)
    records = min(cap, max(int(merge.max_bytes / bytes_per_record), MIN_BATCH_RECORDS))
    each = round(bytes_per_record)
    reason = f"earlier batches staged {each} bytes for each record, and merge.max_bytes={merge.max_bytes}"
    return BatchSize(records, reason if records < min(cap, backlog) else "")


def measure_bytes_per_record(session: Session) -> float | None:
    """Return the most staged bytes for each record of the newest batches; None if none of them is large enough.

    Never raises: if history cannot be read, they are unknown.
    """
    tables = len(session.pipeline.tables)
    limit = min(HISTORY_BATCHES * tables, max(HISTORY_MAX_ROWS, MIN_READ_BATCHES * tables))
    try:
        rows = session.history.read_history(session.history_table, limit)
    except Exception as error:  # history is a shortcut: without it a batch has the pipeline's own cap
        place = f"pipeline={session.pipeline.name}"
        log.warning("history cannot be read, so batches have the cap of the pipeline file: %s: %s", place, error)
        log.info("history cannot be read: %s", place, exc_info=error)
        return None
    reads = Counter[int]()
    sizes = Counter[int]()
    for row in rows:
        if row["backfill"] is None:
            # the tables of a batch share one read
            reads[row["batch"]] = max(reads[row["batch"]], row["read"])
            sizes[row["batch"]] += row["staged_bytes"] or 0
    large = [batch for batch, read in reads.items() if read >= MEASURED_MIN_RECORDS and sizes[batch]]
    return max((sizes[batch] / reads[batch] for batch in large), default=None)


STOP_SYNTAX_HELP = f'write latest, group, group:<id>, a time like {EXAMPLE}, or offsets like {{"topic": {{"0": 42}}}}'


def resolve_stop_offsets(session: Session, stop_text: str) -> Offsets:
    """Return the offsets that a read stops before, of every partition that there is now.

    Partitions that a group or `stop_text` does not name are not read: they end where their log begins.
    `ConfigurationError` for an unknown word, or if no partition is left to read.
    """
    kafka_log, _ = read_known_log(session)
    topics = tuple(kafka_log.begin)
    if stop_text == "latest":
        return kafka_log.end
    if stop_text == "group":
        committed = session.broker.read_committed(session.pipeline.source.group, topics)
        return merge_offsets(kafka_log.begin, keep_partitions(committed, kafka_log.begin))
    if stop_text.startswith("group:"):
        return merge_offsets(kafka_log.begin, _find_group_end(session, stop_text, kafka_log))
    if stop_text.lstrip().startswith("{"):
        try:
            named = keep_partitions(parse_written_offsets(stop_text), kafka_log.begin)
        except ValueError as error:
            raise ConfigurationError(f"until={stop_text}: not offsets: {error}; {STOP_SYNTAX_HELP}") from error
        if kafka_log.begin and not any(named.values()):
            raise ConfigurationError(
                f"until={stop_text}: the pipeline reads none of these partitions; correct topic and partition, and "
                f"{STOP_SYNTAX_HELP}"
            )
        return merge_offsets(kafka_log.begin, named)
    return session.broker.find_offsets_at(topics, parse_timestamp_ms("until", stop_text, STOP_SYNTAX_HELP))


def _find_group_end(session: Session, stop_text: str, kafka_log: Log) -> Offsets:
    group = stop_text.partition(":")[2]
    if not group.strip():
        raise ConfigurationError(f"until={stop_text}: no group is named; {STOP_SYNTAX_HELP}")
    committed = keep_partitions(session.broker.read_committed(group, tuple(kafka_log.begin)), kafka_log.begin)
    if kafka_log.begin and not any(committed.values()):
        raise ConfigurationError(
            f"until={stop_text}: the group has committed nothing for the pipeline's topics; correct its name, or let "
            "it commit first"
        )
    return committed
