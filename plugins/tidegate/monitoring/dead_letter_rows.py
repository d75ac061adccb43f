"""A dead letter as people read it: bytes as text where they are text, times in ISO 8601."""

import base64
from datetime import datetime
from typing import Any

from tidegate.merge.owed import LETTER_ADDRESS, LETTER_REASON
from tidegate.model.table_state import DeadLetter
from tidegate.spec.time_text import format_utc


def format_dead_letter(letter: DeadLetter) -> dict[str, Any]:
    """Return one dead letter as plain data; bytes that are no text are base64 under another name."""
    return {
        **{name: getattr(letter, name) for name in LETTER_ADDRESS},
        "topic_id": letter.topic_id,
        "timestamp": _format_time(letter.timestamp),
        **{name: getattr(letter, name) for name in LETTER_REASON},
        **_format_bytes("key", letter.key),
        **_format_bytes("value", letter.value),
        "headers": [{"key": name, **_format_bytes("value", value)} for name, value in letter.headers],
        "written_at": _format_time(letter.written_at),
    }


def _format_bytes(name: str, data: bytes | None) -> dict[str, str | None]:
    try:
        text = None if data is None else data.decode()
    except UnicodeDecodeError:
        return {name: None, f"{name}_base64": base64.b64encode(data or b"").decode()}
    return {name: text}


def _format_time(moment: datetime | None) -> str | None:
    return None if moment is None else format_utc(moment)
