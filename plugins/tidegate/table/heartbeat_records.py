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
    """The state of one table. `lag` counts offsets.

    The table holds everything up to `valid_through_ms`; None if that is unknown.
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
        return {"pipeline": self.pipeline, "table": self.table}

    def to_dict(self) -> dict[str, Any]:
        """Return the value of the record in the topic: partitions are texts."""
        position = {topic: {str(p): offset for p, offset in parts.items()} for topic, parts in self.position.items()}
        return {**asdict(self), "position": position}


def build_heartbeat_records(progress: PipelineProgress) -> list[HeartbeatRecord]:
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
    return [Message(_encode_json(key), _encode_json(value)) for key, value in records]


def _encode_json(data: dict[str, Any]) -> bytes:
    return json.dumps(data, sort_keys=True, separators=(",", ":")).encode()
