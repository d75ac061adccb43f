"""What a heartbeat tells of each table: its position, and up to which time everything is in it."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tidegate.model.offsets import Offsets
from tidegate.ports.context import Log, Message, Ports
from tidegate.progress.table_progress import TableWithLog, compare_with_log, observe_tables
from tidegate.progress.topic_log import list_ignored_topics, read_known_log


@dataclass(frozen=True)
class Observation:
    """One look at the tables and the log; `read_connector_heartbeat_ms` is the time that change-data connectors have
    vouched for.
    """

    log: Log
    tables: tuple[TableWithLog, ...]
    proof_ms: int | None


def observe(ports: Ports) -> Observation:
    """Look at the proof, the tables and the log, in this order: it holds for who is at an end that is read later."""
    proof = read_connector_heartbeat_ms(ports)
    ports, seen = observe_tables(ports)
    log, gone = read_known_log(ports)
    return Observation(log, tuple(compare_with_log(ports, seen, log, gone)), proof)


def read_connector_heartbeat_ms(ports: Ports) -> int | None:
    """The time of the newest heartbeat of each change-data connector, the oldest of them; None while one has sent none.

    A connector sends its heartbeat after all changes that it has seen, so what is at the end of the log that is read
    afterwards has everything up to that time.
    """
    topics = tuple(t for t in list_ignored_topics(ports) if t != ports.pipeline.heartbeat.topic)
    isolation = ports.pipeline.source.isolation
    newest: Offsets = (
        ports.broker.read_newest_timestamps(ports.broker.read_end_offsets(topics, isolation)) if topics else {}
    )
    times = [max(newest[topic].values(), default=None) if topic in newest else None for topic in topics]
    known = [time for time in times if time is not None]
    return min(known) if known and len(known) == len(times) else None


def compute_valid_through_ms(view: TableWithLog, proof: int | None) -> int | None:
    """Up to which time everything is in a table: by its own records, or by a connector's heartbeat if nothing waits."""
    own = view.position.valid_through_ms if view.position else None
    proven = proof if view.position is not None and view.problem is None and not view.lag else None
    return max((time for time in (own, proven) if time is not None), default=None)


def build_heartbeat_records(ports: Ports, heard: Observation) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Key and value of one heartbeat record for each table that has a position."""
    name, group = ports.pipeline.name, ports.pipeline.source.group
    return [
        (
            {"pipeline": name, "table": view.table.name},
            {
                "pipeline": name,
                "table": view.table.name,
                "group": group,
                "batch": view.position.batch,
                "position": {t: {str(p): o for p, o in parts.items()} for t, parts in view.position.offsets.items()},
                "lag": view.lag,
                "valid_through_ms": compute_valid_through_ms(view, heard.proof_ms),
                "sent_ms": ports.now_ms(),
            },
        )
        for view in heard.tables
        if view.position is not None
    ]


def encode_records(found: Iterable[tuple[dict[str, Any], dict[str, Any]]]) -> list[Message]:
    """Keys and values as JSON; one table's records have one key."""
    return [Message(_encode_json(key), _encode_json(value)) for key, value in found]


def _encode_json(data: dict[str, Any]) -> bytes:
    return json.dumps(data, sort_keys=True, separators=(",", ":")).encode()
