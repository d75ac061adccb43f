"""heartbeat: keep every partition's committed offset alive and where it belongs, and tell how the pipeline stands."""

import logging
from dataclasses import asdict, dataclass
from typing import Any

from tidegate.errors import GiveUp, TidegateError
from tidegate.model.offsets import Offsets, merged
from tidegate.ports.context import Ports
from tidegate.progress.heartbeat_records import encoded, hear, records
from tidegate.progress.low_watermark import low_watermark, report
from tidegate.progress.offset_hook import hooked
from tidegate.progress.risks import cautions
from tidegate.progress.start_offsets import first_start
from tidegate.progress.table_progress import come_to
from tidegate.progress.topic_log import ignored_topics, known_log, row_topics

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Beat:
    """What a heartbeat committed; where one was due, also what it told of each table, and what it warns of."""

    committed: Offsets
    due: bool = False
    sent: int = 0
    tables: tuple[dict[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data, small enough to read in the Airflow UI."""
        return {**asdict(self), "tables": list(self.tables), "warnings": list(self.warnings)}


def heartbeat(ports: Ports) -> Beat:
    """Commit again what is published, and once per `heartbeat.interval` tell how the pipeline stands.

    1. Commit what is published, and the ends of ignored topics, with the hook's say. Brokers forget a committed offset
       some days after its own last commit (`offsets.retention.minutes`), so quiet partitions need this too. Never
       beyond what is published: a partition's offset is the low watermark or, for topics that carry no rows, the end
       of the log. While no table has a position, `start: latest` is held here. A topic that is empty everywhere, from
       which no table has read, gets its end, unless something is committed for it.
    2. If the interval is over, it begins anew, whatever comes of the rest.
    3. Look for dangers, and send heartbeat records, if asked. A failure here is a warning: everything is published.

    A hook that goes too far is overruled, and `GiveUp` is raised in the end.
    """
    offsets, refusal = _offsets(ports)
    reported = report(ports, offsets)
    beat = Beat(reported.offsets)
    if any(offsets.values()) and _is_due(ports, reported.beat_ms):
        report(ports, reported.offsets, ports.now_ms())
        beat = _told(ports, reported.offsets)
    if refusal is not None:
        raise refusal
    return beat


def _is_due(ports: Ports, before_ms: int | None) -> bool:
    interval_ms = ports.pipeline.heartbeat.interval_seconds * 1000
    return interval_ms > 0 and (before_ms is None or ports.now_ms() - before_ms >= interval_ms)


def _offsets(ports: Ports) -> tuple[Offsets, GiveUp | None]:
    ignored = ignored_topics(ports)
    quiet = ports.broker.log(ignored, ports.pipeline.source.isolation).end if ignored else {}
    own = low_watermark(ports)
    own = merged(_find_empty_start(ports, own), own)
    try:
        return hooked(ports, own, quiet), None
    except GiveUp as refusal:
        return merged(own, quiet), refusal


def _find_empty_start(ports: Ports, own: Offsets) -> Offsets:
    """Of topics that no table has read from: where `start: latest` begins, and where those stand that are empty."""
    if all(topic in own for topic in row_topics(ports)):
        return {}
    log = known_log(ports)[0]
    if ports.pipeline.source.start.kind == "latest" and not own:
        return first_start(ports, log)
    empty = tuple(topic for topic in log.begin if topic not in own and log.begin[topic] == log.end[topic])
    committed = ports.broker.committed(ports.pipeline.source.group, empty) if empty else {}
    return merged({topic: log.end[topic] for topic in empty}, committed)


def _told(ports: Ports, offsets: Offsets) -> Beat:
    tables: list[dict[str, Any]] = []
    warnings: list[str] = []
    sent = 0
    try:
        heard = hear(ports)
        following = come_to(heard.log, list(heard.tables))
        found = records(ports, heard)
        tables = [value for _, value in found]
        warnings += cautions(ports, heard.log, following)
        if ports.pipeline.heartbeat.produce and found:
            ports.broker.send(ports.pipeline.heartbeat.topic, encoded(found))
            sent = len(found)
    except TidegateError as reason:
        warnings.append(f"pipeline={ports.pipeline.name}: this heartbeat could not tell everything: {reason}")
    for warning in warnings:
        log.warning(warning)
    return Beat(offsets, True, sent, tuple(tables), tuple(warnings))
