"""record: one record of the log as it lies there, and what the decoder makes of it for each table. Changes nothing."""

from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from tidegate.errors import ConfigurationError, GiveUp, RetryLater
from tidegate.flush.stage_request import build_stage_table
from tidegate.jobs.stage_job import StageJob
from tidegate.jobs.stage_outcome import FieldExplanation
from tidegate.model import resource_names
from tidegate.model.batch import Plan, PlannedBatch
from tidegate.model.kafka_log import KafkaRecord, Log
from tidegate.model.offsets import MAX_OFFSET, MAX_PARTITION, Ranges, format_names, get_offset
from tidegate.model.ownership import describe_intermediate
from tidegate.ports.session import Session
from tidegate.spec.table import Table
from tidegate.table.log import list_row_topics
from tidegate.table.position import select_tables

RECORD_ID = "record"  # stands where a backfill has its id


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


def read_record(session: Session, at: RecordAddress) -> KafkaRecord:
    """Read the record; `GiveUp` if the pipeline does not read it, or the log has none there."""
    log = _read_log(session, at)
    begin = get_offset(log.begin, at.topic, at.partition)
    end = get_offset(log.end, at.topic, at.partition)
    if begin is None or end is None or not begin <= at.offset < end:
        raise GiveUp(f"{at.words}: the log holds [{begin}, {end}) there; name an offset inside it with --at")
    record = session.broker.read_record(*at, session.pipeline.source.isolation)
    if record is None:
        raise GiveUp(
            f"{at.words}: no record there for isolation={session.pipeline.source.isolation}: it is the marker of a "
            "transaction, a record that was aborted, or one that compaction took"
        )
    return record


def _read_log(session: Session, at: RecordAddress) -> Log:
    topics = list_row_topics(session)
    if at.topic not in topics:
        raise ConfigurationError(
            f"pipeline={session.pipeline.name} does not read topic={at.topic}; it reads: {format_names(topics)}"
        )
    return session.broker.read_log((at.topic,), session.pipeline.source.isolation)


def explain_record(session: Session, at: RecordAddress, name: str | None = None) -> list[Verdict]:
    """Explain what becomes of the record in each table that its topic feeds, or in the one named.

    Runs the stage job with its decoder, into an intermediate table of its own, which is dropped again.
    """
    log = _read_log(session, at)
    tables = [table for table in select_tables(session, name) if not table.topics or at.topic in table.topics]
    if not tables:
        raise ConfigurationError(f"pipeline={session.pipeline.name} table={name}: topic={at.topic} does not feed it")
    return [_explain_for_table(session, table, at, log) for table in tables]


def _explain_for_table(session: Session, table: Table, at: RecordAddress, log: Log) -> Verdict:
    pipeline = session.pipeline
    intermediate = resource_names.name_backfill_table(pipeline, table, RECORD_ID)
    session.tables.claim(intermediate, describe_intermediate(pipeline, table))
    planned_batch = PlannedBatch(table.name, 1, at.ranges)
    plan = Plan((), log.cluster_id, log.topic_ids)
    try:
        stage_table = replace(build_stage_table(session, plan, planned_batch, intermediate=intermediate), explains=True)
        isolation = pipeline.source.isolation
        session.engine.run(
            StageJob(pipeline=pipeline.name, batch=1, ranges=at.ranges, isolation=isolation, tables=(stage_table,))
        )
        answer = session.staging.read_explanation(intermediate, 1, stage_table.attempt)
    finally:
        session.staging.drop(intermediate)
    if answer is None:
        raise RetryLater(f"pipeline={pipeline.name} table={table.name} {at.words}: no answer was left; run it again")
    return Verdict(table.name, **{name: value for name, value in vars(answer).items() if name != "is_found"})
