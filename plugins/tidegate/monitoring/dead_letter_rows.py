"""A dead letter as people read it: bytes as text where they are text, times in ISO 8601."""

import base64
from datetime import datetime
from typing import Any

from tidegate.merge.dead_letters import PLACE, TOLD


def shown(row: dict[str, Any]) -> dict[str, Any]:
    """One dead letter as plain data; bytes that are no text are given as base64 under another name."""
    headers = [{"key": header["key"], **_readable("value", header["value"])} for header in row["headers"] or []]
    return {
        **{name: row[name] for name in PLACE},
        "timestamp": _time(row["timestamp"]),
        **{name: row[name] for name in TOLD},
        **_readable("key", row["key"]),
        **_readable("value", row["value"]),
        "headers": headers,
        "written_at": _time(row["written_at"]),
    }


def _readable(name: str, data: bytes | None) -> dict[str, str | None]:
    try:
        text = None if data is None else data.decode()
    except UnicodeDecodeError:
        return {name: None, f"{name}_base64": base64.b64encode(data or b"").decode()}
    return {name: text}


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
