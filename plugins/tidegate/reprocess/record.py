"""record: records of the log as they lie there, and what the decoder makes of them for each table. Changes nothing."""

from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from tidegate.errors import ConfigurationError, GiveUp, NothingToDo, RetryLater
from tidegate.flush.stage_request import build_stage_job, build_stage_table
from tidegate.formats.registry import decode_text
from tidegate.jobs.stage_outcome import FieldExplanation, RecordExplanation
from tidegate.model.batch import Plan, PlannedBatch
from tidegate.model.kafka_log import KafkaRecord, Log
from tidegate.model.offsets import MAX_OFFSET, MAX_PARTITION, Ranges, format_names, format_partitions, get_offset
from tidegate.ports.session import Session
from tidegate.reprocess.proposed_action import ProposedAction
from tidegate.spec.table import Table
from tidegate.spec.time_text import format_time_ms
from tidegate.table.log import list_row_topics
from tidegate.table.scratch import ScratchKind, open_scratch_table
from tidegate.table.session import select_tables

MAX_RECORDS = 20  # of those around a place
MAX_SHOWN_CHARACTERS = 2000  # of a key, a value or a header
MAX_SPAN = 10_000  # offsets of a partition that one job reads for the places in them


class RecordAddress(NamedTuple):
    """Topic, partition and offset of a record."""

    topic: str
    partition: int
    offset: int

    @property
    def words(self) -> str:
        return f"topic={self.topic} partition={self.partition} offset={self.offset}"

    @property
    def ranges(self) -> Ranges:
        return Ranges({self.topic: {self.partition: (self.offset, self.offset + 1)}})


class LastRecords(NamedTuple):
    """The end of a topic's partition."""

    topic: str
    partition: int


@dataclass(frozen=True)
class Verdict:
    """What the decoder says of the record for one table.

    `fate` is bad, staged, filtered or ignored, empty without a record; `fields` has one entry per column of key and
    value.
    """

    table: str
    fate: str
    reason: str | None = None
    stage: str | None = None
    operation: str | None = None
    row: str | None = None
    rows: int = 0
    fields: tuple[FieldExplanation, ...] = ()

    @property
    def is_bad(self) -> bool:
        return self.reason is not None

    @property
    def becomes(self) -> str:
        """What the record becomes in the table, in one word: bad, delete, row, filtered or ignored."""
        if self.is_bad:
            return "bad"
        if self.fate != "staged":
            return self.fate or "nothing"
        return {"d": "delete", None: "nothing"}.get(self.operation, "row")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def parse_address(text: str, option: str = "--at") -> RecordAddress:
    parts = text.rsplit(":", 2)
    numbers = [
        part.isdecimal() and len(part) <= len(str(bound)) and int(part) <= bound
        for part, bound in zip(parts[1:], (MAX_PARTITION, MAX_OFFSET), strict=False)
    ]
    if len(parts) != 3 or not parts[0] or not all(numbers):
        raise ConfigurationError(
            f"{option}={text}: not a place in the log; write topic:partition:offset, e.g. orders:0:42"
        )
    return RecordAddress(parts[0], int(parts[1]), int(parts[2]))


def parse_neighbourhood(text: str) -> RecordAddress | LastRecords:
    """``topic:partition:offset`` for the records around it, ``topic:partition`` for the last ones."""
    topic, _, partition = text.rpartition(":")
    if topic and ":" not in topic and partition.isdecimal() and len(partition) <= len(str(MAX_PARTITION)):
        return LastRecords(topic, int(partition))
    return parse_address(text, "--around")


def read_record(session: Session, at: RecordAddress) -> KafkaRecord:
    """Read the record; `GiveUp` if the pipeline does not read it, or the log has none there."""
    log = _read_log(session, at.topic)
    begin = get_offset(log.begin, at.topic, at.partition)
    end = get_offset(log.end, at.topic, at.partition)
    if begin is None or end is None or not begin <= at.offset < end:
        raise GiveUp(f"{at.words}: the log holds [{begin}, {end}) there; name an offset inside it with --at")
    offsets = range(at.offset, at.offset + 1)
    found = session.broker.read_records(at.topic, at.partition, offsets, session.pipeline.source.isolation)
    if not found:
        raise GiveUp(
            f"{at.words}: no record there for isolation={session.pipeline.source.isolation}: it is the marker of a "
            "transaction, a record that was aborted, or one that compaction took"
        )
    return found[0]


def read_records_around(session: Session, at: RecordAddress | LastRecords) -> tuple[range, tuple[KafkaRecord, ...]]:
    """Return at most `MAX_RECORDS` offsets, around a place or the last ones of a partition, and their records."""
    topic, partition = at.topic, at.partition
    log = _read_log(session, topic)
    begin = get_offset(log.begin, topic, partition)
    end = get_offset(log.end, topic, partition)
    if begin is None or end is None:
        raise ConfigurationError(
            f"topic={topic} partition={partition}: the topic has no such partition; it has "
            f"{format_partitions(log.begin.get(topic, {}))}"
        )
    middle = at.offset if isinstance(at, RecordAddress) else end
    first = max(begin, min(middle - MAX_RECORDS // 2, end - MAX_RECORDS))
    offsets = range(first, min(end, first + MAX_RECORDS))
    isolation = session.pipeline.source.isolation
    records = session.broker.read_records(topic, partition, offsets, isolation) if offsets else ()
    return offsets, records


def _read_log(session: Session, topic: str) -> Log:
    topics = list_row_topics(session)
    if topic not in topics:
        raise ConfigurationError(
            f"pipeline={session.pipeline.name} does not read topic={topic}; it reads: {format_names(topics)}"
        )
    return session.broker.read_log((topic,), session.pipeline.source.isolation)


def explain_record(session: Session, at: RecordAddress, name: str | None = None) -> list[Verdict]:
    """Explain what becomes of the record in each table that its topic feeds, or in the one named.

    Runs the stage job with its decoder, into an intermediate table of its own, which is dropped again.
    """
    log = _read_log(session, at.topic)
    verdicts = []
    for table in _select_fed_tables(session, at.topic, name):
        answer = _ask_decoder(session, table, log, at.ranges, explains=True)
        known = {word: value for word, value in vars(answer).items() if word not in ("is_found", "outlines")}
        verdicts.append(Verdict(table.name, **known))
    return verdicts


def outline_records(
    session: Session, places: Collection[RecordAddress], name: str | None = None
) -> dict[RecordAddress, list[Verdict]]:
    """Say what becomes of each of these records of one topic, as `explain_record` does without fields; by place.

    One job for each table that the topic feeds, or for the one named; more where places lie far apart.
    """
    verdicts: dict[RecordAddress, list[Verdict]] = {place: [] for place in places}
    if not verdicts:
        return verdicts
    (topic,) = {place.topic for place in verdicts}
    log = _read_log(session, topic)
    jobs = [(table, it) for table in _select_fed_tables(session, topic, name) for it in _list_ranges(topic, verdicts)]
    for table, ranges in jobs:
        answer = _ask_decoder(session, table, log, ranges, outlines=tuple(verdicts))
        for outline in answer.outlines:
            verdict = Verdict(
                table=table.name,
                fate=outline.fate,
                reason=outline.reason,
                operation=outline.operation,
                row=outline.row,
                rows=outline.rows,
            )
            verdicts[RecordAddress(outline.topic, outline.partition, outline.offset)].append(verdict)
    return verdicts


def _list_ranges(topic: str, places: Collection[RecordAddress]) -> list[Ranges]:
    """Ranges that hold all places, so that nobody reads a whole partition for the records at its two ends."""
    rounds: list[dict[int, tuple[int, int]]] = []
    for partition in {place.partition for place in places}:
        clusters: list[tuple[int, int]] = []
        for offset in sorted(place.offset for place in places if place.partition == partition):
            if clusters and offset - clusters[-1][0] < MAX_SPAN:
                clusters[-1] = (clusters[-1][0], offset + 1)
            else:
                clusters.append((offset, offset + 1))
        rounds += [{} for _ in clusters[len(rounds) :]]
        for number, cluster in enumerate(clusters):
            rounds[number][partition] = cluster
    return [Ranges({topic: by_partition}) for by_partition in rounds]


def _select_fed_tables(session: Session, topic: str, name: str | None) -> list[Table]:
    tables = [table for table in select_tables(session, name) if not table.topics or topic in table.topics]
    if not tables:
        raise ConfigurationError(f"pipeline={session.pipeline.name} table={name}: topic={topic} does not feed it")
    return tables


def _ask_decoder(session: Session, table: Table, log: Log, ranges: Ranges, **asked: Any) -> RecordExplanation:
    pipeline = session.pipeline
    plan = Plan((), log.cluster_id, log.topic_ids)
    with open_scratch_table(session, table, ScratchKind.RECORD) as intermediate:
        planned_batch = PlannedBatch(table.name, 1, ranges)
        stage_table = replace(build_stage_table(session, plan, planned_batch, intermediate=intermediate), **asked)
        session.engine.run(build_stage_job(session, 1, ranges, [stage_table]))
        answer = session.staging.read_job_result(intermediate, 1, stage_table.attempt, RecordExplanation.from_json)
    if answer is None:
        raise RetryLater(f"pipeline={pipeline.name} table={table.name} {ranges}: Spark left no answer; run it again")
    return answer


# ---- records and verdicts in words; an outline is without content


def describe_record(record: KafkaRecord) -> dict[str, Any]:
    """Plain data; bytes that are no text stand as hex under another name."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": format_time_ms(record.timestamp_ms),
        **_describe_bytes("key", record.key),
        **_describe_bytes("value", record.value),
        "headers": [{"name": name, **_describe_bytes("value", value)} for name, value in record.headers],
    }


def _describe_bytes(name: str, data: bytes | None) -> dict[str, str | None]:
    text = None if data is None else decode_text(data)
    return {name: text} if data is None or text is not None else {name: None, f"{name}_hex": data.hex()}


def format_record(record: KafkaRecord) -> str:
    return _format_parts(record, _format_bytes)


def outline_record(record: KafkaRecord) -> str:
    """Where the record is and how long its parts are, without content."""
    return _format_parts(record, lambda data: "none" if data is None else f"{len(data)} bytes")


def _format_parts(record: KafkaRecord, format_part: Callable[[bytes | None], str]) -> str:
    at = format_time_ms(record.timestamp_ms)
    lines = [f"topic={record.topic} partition={record.partition} offset={record.offset} timestamp={at}"]
    parts = [("key", record.key), ("value", record.value), *((f"header {n}", value) for n, value in record.headers)]
    return "\n".join([*lines, *(f"  {name}: {format_part(data)}" for name, data in parts)])


def _format_bytes(data: bytes | None) -> str:
    if data is None:
        return "none"
    text = decode_text(data)
    data_text = f"hex {data.hex()}" if text is None else text
    more = f"... ({len(data)} bytes)" if len(data_text) > MAX_SHOWN_CHARACTERS else ""
    return data_text[:MAX_SHOWN_CHARACTERS] + more


def format_verdict(verdict: Verdict) -> str:
    if verdict.is_bad:
        lines = [f"{verdict.table}: cannot be decoded: {verdict.reason}"]
    else:
        operation = {"d": "delete", None: "none"}.get(verdict.operation, "row")
        lines = [f"{verdict.table}: decodes: {verdict.fate or 'no record'}, {operation} {verdict.row or ''}".rstrip()]
    for field in verdict.fields:
        value = "nothing" if field.found is None else field.found
        lines.append(f"  {field.part} {field.name}: expected {field.type}, got {value} ({_format_mark(field)})")
    return "\n".join(lines)


def outline_verdict(verdict: Verdict) -> str:
    """Why a record is bad, by the types of its fields, without content."""
    lines = [f"{verdict.table}: cannot be decoded: {verdict.reason}"]
    fields = [f"{field.part} {field.name}: expected {field.type} ({_format_mark(field)})" for field in verdict.fields]
    return "\n".join([*lines, *(f"  {line}" for line in fields)])


def _format_mark(field: FieldExplanation) -> str:
    mark = {True: "ok", False: "refused", None: "not known"}[field.accepted]
    return f"{mark}: {field.reason}" if field.reason else mark


# ---- the action look


def propose_look(session: Session, around: str, table: str | None = None) -> ProposedAction:
    """`NothingToDo` with a line for each record and table, without a record's content: it is kept by Airflow."""
    _, records = read_records_around(session, parse_neighbourhood(around))
    places = [RecordAddress(record.topic, record.partition, record.offset) for record in records]
    verdicts = outline_records(session, places, table)
    lines = [outline_fate(at, verdict) for at in places for verdict in verdicts[at]]
    raise NothingToDo("\n".join(lines) or "no record is there")


def outline_fate(at: RecordAddress, verdict: Verdict) -> str:
    reason = f": {verdict.reason}" if verdict.is_bad else ""
    return f"{at.topic}:{at.partition}:{at.offset} {verdict.table} {verdict.becomes}{reason}"


def format_outline(at: RecordAddress, verdict: Verdict) -> str:
    """With the row, for a terminal."""
    more = f", the first of {verdict.rows}" if verdict.rows > 1 else ""
    row = f" {verdict.row}{more}" if verdict.row and verdict.becomes in ("row", "delete") else ""
    return outline_fate(at, verdict) + row
