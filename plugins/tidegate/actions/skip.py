"""The action skip: the record is shown, and set aside by the next batch."""

from collections.abc import Callable
from functools import partial
from typing import Any

from tidegate.actions.proposed_action import ActionPart, ProposedAction
from tidegate.formats.registry import decode_text
from tidegate.jobs.stage_outcome import FieldExplanation
from tidegate.model.kafka_log import KafkaRecord
from tidegate.monitoring.status import format_time_ms
from tidegate.ports.session import Session
from tidegate.reprocess.record import RecordAddress, Verdict, read_record
from tidegate.reprocess.skip import propose_skips, skip_record

MAX_SHOWN_CHARACTERS = 2000


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
    return "\n".join([*lines, *(f"  {_format_field(field)}" for field in verdict.fields)])


def outline_verdict(verdict: Verdict) -> str:
    """Why a record is bad, by the types of its fields, without content."""
    lines = [f"{verdict.table}: cannot be decoded: {verdict.reason}"]
    fields = [f"{field.part} {field.name}: expected {field.type} ({_format_mark(field)})" for field in verdict.fields]
    return "\n".join([*lines, *(f"  {line}" for line in fields)])


def _format_field(field: FieldExplanation) -> str:
    value = "nothing" if field.found is None else field.found
    return f"{field.part} {field.name}: expected {field.type}, got {value} ({_format_mark(field)})"


def _format_mark(field: FieldExplanation) -> str:
    mark = {True: "ok", False: "refused", None: "not known"}[field.accepted]
    return f"{mark}: {field.reason}" if field.reason else mark


EFFECT = "the next batch sets this record aside as a dead letter, and no other bad one; it can be replayed later"


def propose_skip(session: Session, at: RecordAddress, table: str | None = None) -> ProposedAction:
    """Set exactly this record aside, for each table for which it is bad, or for the one named."""
    record = read_record(session, at)
    proposals = propose_skips(session, at, table)
    verdicts = [skip.verdict for skip in proposals]
    address = f"{at.topic}:{at.partition}:{at.offset}"
    where_to_look = f"the record itself is shown by: tidegate record {session.pipeline.name} --at {address}"
    return ProposedAction(
        preview="\n".join([outline_record(record), *map(outline_verdict, verdicts), where_to_look, EFFECT]),
        full_preview="\n".join([format_record(record), *map(format_verdict, verdicts), EFFECT]),
        subject={"pipeline": session.pipeline.name, **describe_record(record)},
        parts=tuple(
            ActionPart(skip.verdict.table, skip.verdict.to_dict(), partial(skip_record, session, [skip]))
            for skip in proposals
        ),
        question="Set it aside?",
        success_message="the next batch sets it aside; after a correction, Replay brings it in",
    )
