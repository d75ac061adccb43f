"""What a heartbeat tells of each table: its position, and up to which time everything is in it."""

import json
from collections.abc import Iterable
from typing import Any

from tidegate.ports.context import Message
from tidegate.progress.pipeline_progress import PipelineProgress


def build_heartbeat_records(progress: PipelineProgress) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Key and value of one heartbeat record for each table that has a position."""
    pipeline = progress.ports.pipeline
    return [
        (
            {"pipeline": pipeline.name, "table": one.table.name},
            {
                "pipeline": pipeline.name,
                "table": one.table.name,
                "group": pipeline.source.group,
                "batch": one.position.batch,
                "position": {t: {str(p): o for p, o in parts.items()} for t, parts in one.position.offsets.items()},
                "lag": one.lag,
                "valid_through_ms": one.valid_through_ms,
                "sent_ms": progress.ports.now_ms(),
            },
        )
        for one in progress.tables
        if one.position is not None
    ]


def encode_records(records: Iterable[tuple[dict[str, Any], dict[str, Any]]]) -> list[Message]:
    """Keys and values as JSON in UTF-8. The records of one table have one key, so that a compacted topic keeps the
    last.
    """
    return [Message(_encode_json(key), _encode_json(value)) for key, value in records]


def _encode_json(data: dict[str, Any]) -> bytes:
    return json.dumps(data, sort_keys=True, separators=(",", ":")).encode()
