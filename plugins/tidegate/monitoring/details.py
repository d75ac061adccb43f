"""All that a person who looks for a fault wants to see of one pipeline: files, staged batches, history, offsets."""

import base64
import json
import re
from contextlib import suppress
from decimal import Decimal
from typing import Any, TypedDict

from tidegate.errors import GiveUp, RetryLater
from tidegate.flush.maintain import list_maintained_tables
from tidegate.merge.owed import LETTER_ADDRESS, LETTER_REASON
from tidegate.model import resource_names
from tidegate.model.offsets import get_offset, iterate_offsets
from tidegate.model.table_state import DeadLetter, TableFiles
from tidegate.monitoring.health import BadRecordReason
from tidegate.monitoring.reports import ActionReport, BatchReport
from tidegate.monitoring.status import describe_actions, format_batch
from tidegate.ports.session import Session
from tidegate.reprocess.record import RecordAddress, read_record
from tidegate.spec.time_text import format_moment, format_time_ms
from tidegate.table.history import find_last_advances
from tidegate.table.log import read_known_log
from tidegate.table.pipeline_progress import read_pipeline_progress
from tidegate.table.risks import find_risks
from tidegate.table.session import expand_template

# as decoders word it
MISFITS_PATTERN = re.compile(r"the value does not fit value\.schema, fields: (?P<names>.+)")
FIELD_PATTERN = re.compile(r"the (?P<part>key|value) field (?P<names>.+?) (is|does|has)\b")
ENVELOPES: tuple[tuple[str, ...], ...] = ((), ("payload",), ("after",), ("payload", "after"), ("before",))
MAX_VALUE_CHARACTERS = 60
DEFAULT_GROUP_RETENTION_SECONDS = 7 * 86_400.0  # offsets.retention.minutes of a broker that nobody has set otherwise


class PartitionOffsets(TypedDict):
    """Where a partition's log begins and what the group has committed; None if there is nothing."""

    topic: str
    partition: int
    begin: int | None
    committed: int | None


class GroupRetention(TypedDict):
    """For how long brokers keep a quiet group's offsets; `assumed`: they did not say."""

    seconds: float
    assumed: bool


class PartitionAdvance(TypedDict):
    """When a partition's position last moved."""

    topic: str
    partition: int
    at: str | None


class PastBatches(TypedDict):
    """The newest batches, newest first, and when each partition last moved."""

    batches: list[BatchReport]
    advances: list[PartitionAdvance]


class WaitingBatch(TypedDict):
    """A staged batch that is not published yet."""

    batch: int
    table: str
    attempt: str
    records: int
    rows: int
    dead_lettered: int
    ranges: dict[str, Any]


class TableStorage(TypedDict):
    """The files of one table, what it is for, and what waits in it."""

    table: str
    kind: str
    files: int
    bytes: int
    rows: int
    small_files: int
    delete_files: int
    snapshots: int
    maintained: bool
    staged: list[WaitingBatch]


class UnknownStorage(TypedDict):
    """A table that cannot be read, and why."""

    table: str
    kind: str
    staged: list[WaitingBatch]
    error: str


class BadRecordFact(TypedDict):
    """The first record that cannot be decoded; `fact` says what its field holds, where its text is JSON."""

    topic: str
    partition: int
    offset: int
    fact: str


class TableAction(ActionReport):
    """What a person did to the position of one table."""

    table: str


def read_offsets(session: Session) -> list[PartitionOffsets]:
    session = expand_template(session)
    log, _ = read_known_log(session)
    committed_offsets = session.broker.read_committed(session.pipeline.source.group, tuple(log.end))
    return [
        {
            "topic": topic,
            "partition": partition,
            "begin": get_offset(log.begin, topic, partition),
            "committed": get_offset(committed_offsets, topic, partition),
        }
        for topic, partition, _ in iterate_offsets(log.end)
    ]


def describe_group_retention(session: Session) -> GroupRetention:
    """Return for how many seconds brokers keep the offsets of a quiet group; their default if they do not say."""
    seconds = session.broker.read_group_retention()
    return {"seconds": DEFAULT_GROUP_RETENTION_SECONDS if seconds is None else seconds, "assumed": seconds is None}


def find_warnings(session: Session) -> list[str]:
    return find_risks(read_pipeline_progress(session))


def read_batch_history(session: Session, limit: int) -> PastBatches:
    rows = session.history.read_history(session.history_table, limit)
    last_advances = find_last_advances(rows)
    return {
        "batches": [format_batch(row) for row in rows],
        "advances": [
            {"topic": t, "partition": p, "at": format_time_ms(ms)} for (t, p), ms in sorted(last_advances.items())
        ],
    }


def read_storage(session: Session) -> list[TableStorage | UnknownStorage]:
    session = expand_template(session)
    pipeline = session.pipeline
    kinds: dict[str, tuple[str, str | None]] = {
        session.letters_table: ("dead letters", None),
        session.history_table: ("history", None),
    }
    for table in pipeline.tables:
        kinds[table.name] = ("destination", None)
        kinds[resource_names.name_intermediate_table(pipeline, table)] = ("staged", table.name)
        kinds[resource_names.name_deletes_table(table)] = ("remembered deletes", None)
    storage = list[TableStorage | UnknownStorage]()
    for name in list_maintained_tables(session):
        kind, destination = kinds.get(name, ("other", None))
        try:
            storage.append(_describe_storage(session, name, kind, destination))
        except (GiveUp, RetryLater) as reason:  # a table that cannot be read must not hide the others
            storage.append({"table": name, "kind": kind, "staged": [], "error": str(reason)})
    return storage


def _describe_storage(session: Session, name: str, kind: str, destination: str | None) -> TableStorage:
    files = session.tables.read_files(name) or TableFiles()
    maintained = session.tables.read_property(name, resource_names.name_maintenance_property(session.pipeline.name))
    state = session.tables.read_state(destination, session.pipeline.name) if destination else None
    published_batch = state.highest_batch if state else 0
    staged_batches = session.staging.list_staged(name, destination) if destination else []
    waiting: list[WaitingBatch] = [
        {
            "batch": batch.batch,
            "table": batch.table,
            "attempt": batch.attempt,
            "records": batch.counts.read,
            "rows": batch.counts.staged,
            "dead_lettered": batch.counts.dead_lettered,
            "ranges": batch.ranges.to_dict(),
        }
        for batch in staged_batches
        if batch.batch > published_batch
    ]
    return {
        "table": name,
        "kind": kind,
        "files": files.data_files,
        "bytes": files.data_bytes,
        "rows": files.rows,
        "small_files": files.small_files,
        "delete_files": files.delete_files,
        "snapshots": files.snapshots,
        "maintained": maintained is not None,
        "staged": waiting,
    }


def read_actions(session: Session) -> list[TableAction]:
    pipeline = expand_template(session).pipeline
    actions: list[TableAction] = [
        {"table": table.name, **action}
        for table in pipeline.tables
        for action in describe_actions(session, session.tables.read_state(table.name, pipeline.name))
    ]
    return sorted(actions, key=lambda action: str(action["at"]), reverse=True)


def describe_bad_record(session: Session, bad: BadRecordReason) -> BadRecordFact:
    """Read the record that a failure names; a repeat call reads it again.

    `fact` has the value of each field that the reason names, and the type that it should have. It is the reason alone
    if the record is no JSON.
    """
    topic, partition, offset = bad.address
    record = read_record(session, RecordAddress(*bad.address))
    found = FIELD_PATTERN.search(bad.reason) or MISFITS_PATTERN.search(bad.reason)
    values: dict[str, str] = {}
    is_key = found is not None and found.groupdict().get("part") == "key"
    if found is not None:
        values = _read_fields(record.key if is_key else record.value, found["names"].split(", "))
    types = _list_types(session, topic, of_key=is_key) if values else {}
    facts = [f"field {name} is {value}, not {types[name]}" for name, value in values.items() if name in types]
    return {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "fact": bad.to_fact("; ".join(facts) or bad.reason),
    }


def _read_fields(text: bytes | None, names: list[str]) -> dict[str, str]:
    try:
        data = json.loads(text or b"", parse_int=Decimal, parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError):
        return {}
    rows = list[dict[str, Any]]()
    for path in ENVELOPES:
        row = data
        for name in path:
            row = row.get(name) if isinstance(row, dict) else None
        rows += [row] if isinstance(row, dict) else []
    return {
        name: _format_value(next(row[name] for row in rows if name in row))
        for name in names
        if any(name in row for row in rows)
    }


def _format_value(value: Any) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    if isinstance(value, str):
        text = value.encode("utf-8", "replace").decode()  # half of a pair of surrogates is no UTF-8
        return json.dumps(_shorten(text), ensure_ascii=False)
    return _shorten(str(value)) if isinstance(value, Decimal) else json.dumps(value)


def _shorten(text: str) -> str:
    return text[:MAX_VALUE_CHARACTERS] + "…" if len(text) > MAX_VALUE_CHARACTERS else text


def _list_types(session: Session, topic: str, *, of_key: bool) -> dict[str, str]:
    types: dict[str, str] = {}
    for table in expand_template(session).pipeline.tables:
        if topic in table.topics:
            described_table = table
            with suppress(GiveUp, RetryLater):  # without a registry's answer the reason stands alone
                described_table = session.schemas.describe_table(table)
            key_columns = described_table.key.columns if of_key else None
            for column in key_columns or described_table.value.columns or ():
                types.setdefault(column.name, column.type)
    return types


def format_dead_letter(letter: DeadLetter) -> dict[str, Any]:
    """Return one dead letter as plain data; bytes that are no text are base64 under another name."""
    return {
        **{name: getattr(letter, name) for name in LETTER_ADDRESS},
        "topic_id": letter.topic_id,
        "timestamp": format_moment(letter.timestamp),
        **{name: getattr(letter, name) for name in LETTER_REASON},
        **_format_bytes("key", letter.key),
        **_format_bytes("value", letter.value),
        "headers": [{"key": name, **_format_bytes("value", value)} for name, value in letter.headers],
        "written_at": format_moment(letter.written_at),
    }


def _format_bytes(name: str, data: bytes | None) -> dict[str, str | None]:
    try:
        text = None if data is None else data.decode()
    except UnicodeDecodeError:
        return {name: None, f"{name}_base64": base64.b64encode(data or b"").decode()}
    return {name: text}
