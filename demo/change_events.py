"""Writes changes as Debezium's PostgreSQL connector sends them to Kafka: JSON without schemas."""

import json
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from demo.shop import KEYS, Change, Key, Row

# Tables whose replica identity is FULL: their updates and deletes carry the whole old row.
FULL_IDENTITY = ("customers",)


@dataclass(frozen=True)
class Record:
    """One Kafka record; `value` is None for a tombstone."""

    topic: str
    key: bytes
    value: bytes | None
    time_ms: int


def format_topic(table: str) -> str:
    """The topic of a table: <server>.<schema>.<table>."""
    return f"shop.public.{table}"


def encode_key(table: str, key: Key) -> bytes:
    """The record key: a JSON object of the key columns."""
    return _encode_json(dict(zip(KEYS[table], key, strict=True)))


def choose_partition(table: str, key: Key, partitions: int) -> int:
    """The partition of a key: always the same one."""
    return zlib.crc32(encode_key(table, key)) % partitions


def to_records(change: Change) -> list[Record]:
    """The change event, and after a delete also the tombstone that lets Kafka compact the key away."""
    topic, key = format_topic(change.table), encode_key(change.table, change.key)
    event = Record(topic, key, _encode_json(_build_envelope(change)), change.time_ms)
    return [event, Record(topic, key, None, change.time_ms)] if change.op == "d" else [event]


def _build_envelope(change: Change) -> dict[str, Any]:
    source = {"version": "3.3.1.Final", "connector": "postgresql", "name": "shop", "ts_ms": change.time_ms}
    place = {"db": "shop", "schema": "public", "table": change.table, "lsn": change.sequence}
    snapshot = "true" if change.op == "r" else "false"
    return {
        "before": _build_before(change),
        "after": _to_plain_row(change.after),
        "source": {**source, "snapshot": snapshot, **place},
        "op": change.op,
        "ts_ms": change.time_ms + 3,
    }


def _build_before(change: Change) -> dict[str, Any] | None:
    """The old row as the replica identity shows it: all of it, or for a delete the key with nothing beside it."""
    if change.before is None or change.table in FULL_IDENTITY:
        return _to_plain_row(change.before)
    empty = dict.fromkeys(change.before, None)
    return {**empty, **dict(zip(KEYS[change.table], change.key, strict=True))} if change.op == "d" else None


def _to_plain_row(row: Row | None) -> dict[str, Any] | None:
    return {name: _to_json_value(value) for name, value in row.items()} if row is not None else None


def _to_json_value(value: object) -> object:
    """Timestamps as ZonedTimestamp, decimals as decimal.handling.mode=string; the rest as JSON has it."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return str(value) if isinstance(value, Decimal) else value


def _encode_json(content: object) -> bytes:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
