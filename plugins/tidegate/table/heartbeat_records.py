"""What a heartbeat tells of each table: its position, and up to which time everything is in it."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from tidegate.model.kafka_log import Message
from tidegate.model.offsets import Offsets
from tidegate.table.pipeline_progress import PipelineProgress


@dataclass(frozen=True, kw_only=True)
class HeartbeatRecord:
    """What is told of one table: up to which offsets of `position`, by `batch`, it holds what the pipeline reads.

    `lag` counts offsets. Everything up to `valid_through_ms` is in the table, None where that is not known.
    """

    pipeline: str
    table: str
    group: str
    batch: int
    position: Offsets
    lag: int
    valid_through_ms: int | None
    sent_ms: int

    @property
    def key(self) -> dict[str, str]:
        """The key of the record in the topic: one for each table."""
        return {"pipeline": self.pipeline, "table": self.table}

    def to_dict(self) -> dict[str, Any]:
        """Plain data, the value of the record in the topic: partitions are texts."""
        position = {topic: {str(p): offset for p, offset in parts.items()} for topic, parts in self.position.items()}
        return {**asdict(self), "position": position}


def build_heartbeat_records(progress: PipelineProgress) -> list[HeartbeatRecord]:
    """One heartbeat record for each table that has a position."""
    pipeline = progress.session.pipeline
    return [
        HeartbeatRecord(
            pipeline=pipeline.name,
            table=table_progress.table.name,
            group=pipeline.source.group,
            batch=table_progress.position.batch,
            position=table_progress.position.offsets,
            lag=table_progress.lag,
            valid_through_ms=table_progress.valid_through_ms,
            sent_ms=progress.session.now_ms(),
        )
        for table_progress in progress.tables
        if table_progress.position is not None
    ]


def encode_records(records: Iterable[tuple[dict[str, Any], dict[str, Any]]]) -> list[Message]:
    """Keys and values as JSON in UTF-8. The records of one table have one key, so that a compacted topic keeps the
    last.
    """
    return [Message(_encode_json(key), _encode_json(value)) for key, value in records]


def _encode_json(data: dict[str, Any]) -> bytes:
    return json.dumps(data, sort_keys=True, separators=(",", ":")).encode()
