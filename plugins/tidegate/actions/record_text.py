"""A record of the log and what the decoder says of it, for people and as plain data."""

from collections.abc import Callable
from typing import Any

from tidegate.formats.encoding import decode_text
from tidegate.jobs.record_explanation import FieldExplanation
from tidegate.model.kafka_log import KafkaRecord
from tidegate.monitoring.status import format_time_ms
from tidegate.reprocess.record import Verdict

MAX_SHOWN_CHARACTERS = 2000


def describe_record(record: KafkaRecord) -> dict[str, Any]:
    """The record as plain data: bytes as text where they are text, as hex under another name where not."""
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
    """The record for people."""
    return _format_parts(record, _format_bytes)


def outline_record(record: KafkaRecord) -> str:
    """Where the record is and how long its parts are, and nothing that they hold."""
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
    """What the decoder says, for people: first of the record, then of each field."""
    if verdict.is_bad:
        lines = [f"{verdict.table}: cannot be decoded: {verdict.reason}"]
    else:
        operation = {"d": "delete", None: "none"}.get(verdict.operation, "row")
        lines = [f"{verdict.table}: decodes: {verdict.fate or 'no record'}, {operation} {verdict.row or ''}".rstrip()]
    return "\n".join([*lines, *(f"  {_format_field(field)}" for field in verdict.fields)])


def outline_verdict(verdict: Verdict) -> str:
    """What the decoder says of a bad record, by the types of its fields, without what they hold."""
    lines = [f"{verdict.table}: cannot be decoded: {verdict.reason}"]
    fields = [f"{field.part} {field.name}: expected {field.type} ({_format_mark(field)})" for field in verdict.fields]
    return "\n".join([*lines, *(f"  {line}" for line in fields)])


def _format_field(field: FieldExplanation) -> str:
    value = "nothing" if field.found is None else field.found
    return f"{field.part} {field.name}: expected {field.type}, got {value} ({_format_mark(field)})"


def _format_mark(field: FieldExplanation) -> str:
    mark = {True: "ok", False: "refused", None: "not known"}[field.accepted]
    return f"{mark}: {field.reason}" if field.reason else mark
