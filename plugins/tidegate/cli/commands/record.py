"""``tidegate record`` and ``tidegate skip``: one record, what the decoder says of its fields, and a way past it."""

import argparse
import json
from typing import Any

from tidegate.cli.confirmation import confirm_change, report_change
from tidegate.connections import read_connection_from_env
from tidegate.model.kafka_log import KafkaRecord
from tidegate.monitoring.status import format_time_ms
from tidegate.reprocess.record import Verdict, explain_record, parse_address, read_record
from tidegate.reprocess.skip import propose_skips, skip_record
from tidegate.settings import find_include_folder, find_user
from tidegate.wiring.pipeline import assemble_checked_pipeline

SKIP_EFFECT = "the next batch sets this record aside as a dead letter, and no other bad one; it can be replayed later"
MAX_SHOWN_CHARACTERS = 2000


def run_record(words: argparse.Namespace) -> int:
    """Show it; exit code 0, also of a bad record."""
    ports = assemble_checked_pipeline(find_include_folder(), words.pipeline, read_connection_from_env)
    at = parse_address(words.at)
    record = read_record(ports, at)
    if not words.json:
        print(format_record(record), flush=True)
    verdicts = explain_record(ports, at, words.table)
    if words.json:
        print(json.dumps({**describe_record(record), "tables": [vars(verdict) for verdict in verdicts]}))
    else:
        print("\n".join(format_verdict(verdict) for verdict in verdicts))
    return 0


def run_skip(words: argparse.Namespace) -> int:
    """Show the record, ask, and have it set aside; the exit code."""
    ports = assemble_checked_pipeline(find_include_folder(), words.pipeline, read_connection_from_env)
    at = parse_address(words.at)
    record = read_record(ports, at)
    proposed = propose_skips(ports, at, words.table)
    verdicts = [skip.verdict for skip in proposed]
    preview = "\n".join([format_record(record), *map(format_verdict, verdicts), SKIP_EFFECT])
    data = {"pipeline": words.pipeline, **describe_record(record), "tables": [vars(verdict) for verdict in verdicts]}
    if not confirm_change(words, preview, data, "Set it aside?"):
        return 1
    skip_record(ports, proposed, find_user())
    report_change(words, "the next batch sets it aside", data)
    return 0


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
    text = _decode_text(data)
    return {name: text} if data is None or text is not None else {name: None, f"{name}_hex": data.hex()}


def _decode_text(data: bytes | None) -> str | None:
    try:
        text = None if data is None else data.decode()
    except UnicodeDecodeError:
        return None
    return text if text is None or all(one.isprintable() or one.isspace() for one in text) else None


def format_record(record: KafkaRecord) -> str:
    """The record for people."""
    at = format_time_ms(record.timestamp_ms)
    lines = [f"topic={record.topic} partition={record.partition} offset={record.offset} timestamp={at}"]
    parts = [("key", record.key), ("value", record.value), *((f"header {n}", value) for n, value in record.headers)]
    return "\n".join([*lines, *(f"  {name}: {_format_bytes(data)}" for name, data in parts)])


def _format_bytes(data: bytes | None) -> str:
    if data is None:
        return "none"
    text = _decode_text(data)
    shown = f"hex {data.hex()}" if text is None else text
    more = f"... ({len(data)} bytes)" if len(shown) > MAX_SHOWN_CHARACTERS else ""
    return shown[:MAX_SHOWN_CHARACTERS] + more


def format_verdict(verdict: Verdict) -> str:
    """What the decoder says, for people: first of the record, then of each field."""
    if verdict.is_bad:
        lines = [f"{verdict.table}: cannot be decoded: {verdict.reason}"]
    else:
        how = {"d": "delete", None: "none"}.get(verdict.operation, "row")
        lines = [f"{verdict.table}: decodes: {verdict.fate or 'no record'}, {how} {verdict.row or ''}".rstrip()]
    return "\n".join([*lines, *(f"  {_format_field(field)}" for field in verdict.fields)])


def _format_field(field: dict[str, Any]) -> str:
    found = "nothing" if field["found"] is None else field["found"]
    mark = {True: "ok", False: "refused", None: "not known"}[field["accepted"]]
    why = f": {field['reason']}" if field["reason"] else ""
    return f"{field['part']} {field['name']}: expected {field['type']}, got {found} ({mark}{why})"
