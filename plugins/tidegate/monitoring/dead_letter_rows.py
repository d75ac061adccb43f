"""A dead letter as people read it: bytes as text where they are text, times in ISO 8601."""

import base64
from datetime import datetime
from typing import Any

from tidegate.merge.dead_letters import LETTER_ADDRESS, LETTER_REASON
from tidegate.spec.time_text import format_utc


def format_dead_letter(row: dict[str, Any]) -> dict[str, Any]:
    """One dead letter as plain data; bytes that are no text are given as base64 under another name."""
    headers = [{"key": header["key"], **_format_bytes("value", header["value"])} for header in row["headers"] or []]
    return {
        **{name: row[name] for name in LETTER_ADDRESS},
        "topic_id": row.get("topic_id"),
        "timestamp": _format_time(row["timestamp"]),
        **{name: row[name] for name in LETTER_REASON},
        **_format_bytes("key", row["key"]),
        **_format_bytes("value", row["value"]),
        "headers": headers,
        "written_at": _format_time(row["written_at"]),
    }


def _format_bytes(name: str, data: bytes | None) -> dict[str, str | None]:
    try:
        text = None if data is None else data.decode()
    except UnicodeDecodeError:
        return {name: None, f"{name}_base64": base64.b64encode(data or b"").decode()}
    return {name: text}


def _format_time(moment: datetime | None) -> str | None:
    return None if moment is None else format_utc(moment)
