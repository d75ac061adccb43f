"""heartbeat: keep every partition's committed offset alive and where it belongs, and report how the pipeline stands."""

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tidegate.errors import GiveUp, TidegateError
from tidegate.merge.position_renewal import renew_position
from tidegate.model.offsets import Offsets, merge_offsets
from tidegate.ports.context import Ports
from tidegate.progress.heartbeat_records import HeartbeatRecord, build_heartbeat_records, encode_records
from tidegate.progress.low_watermark import (
    commit_to_group,
    compute_low_watermark,
    find_foreign_positions,
    find_topics_of_other_clusters,
)
from tidegate.progress.offset_hook import apply_offset_hook
from tidegate.progress.pipeline_progress import measure_progress
from tidegate.progress.risks import find_risks
from tidegate.progress.start_offsets import resolve_latest_start
from tidegate.progress.table_progress import ObservedTable, observe_tables
from tidegate.progress.topic_log import list_ignored_topics, list_row_topics, read_known_log
from tidegate.spec.source import StartKind
from tidegate.tables.templated_tables import expand_template

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class HeartbeatResult:
    """What a heartbeat did.

    - `committed`: the next offsets that it committed to the consumer group.
    - `due`: the interval was over. Only then are there `tables`, one report for each, and `warnings`. Never with an
      interval of 0.
    - `sent`: how many records were produced to `heartbeat.topic`.
    """

    committed: Offsets
    due: bool = False
    sent: int = 0
    tables: tuple[HeartbeatRecord, ...] = ()
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data, small enough to read in the Airflow UI."""
        tables = [record.to_dict() for record in self.tables]
        return {**asdict(self), "tables": tables, "warnings": list(self.warnings)}


def heartbeat(ports: Ports) -> HeartbeatResult:
    """Commit again what is published, and once per `heartbeat.interval` report how the pipeline stands.

    With an interval of 0 there is no report, and step 4 runs every ten minutes.

    1. Read each table: once, for all that follows.
    2. Commit the low watermark, which is never beyond what is published, and for ignored topics the end of the log. The
       hook may change these offsets. Brokers forget a committed offset some days after its last commit
       (`offsets.retention.minutes`), so quiet partitions are committed too. For a topic that no table has read yet, the
       start of `start: latest` or `group` is committed. An empty topic gets its end, unless an offset is committed.
    3. If the interval is over, begin the next one, even if the rest fails.
    4. If a table's tag keeps old snapshots, because only others have written the table for long, publish the position
       there once more.
    5. Look for risks, and send heartbeat records if `heartbeat.produce` is set. A failure here is only a warning.

    A repeat call commits the same again; within the interval it reports nothing. If no table can be read, raises the
    error of the first. If the hook asks for offsets that are not published, they are not used, and `GiveUp` is raised
    at the end.
    """
    ports = expand_template(ports)
    tables = observe_tables(ports)
    offsets, refusal = _compute_offsets(ports, tables)
    group_report = commit_to_group(ports, offsets)
    beat = HeartbeatResult(group_report.offsets)
    if any(offsets.values()) and _is_due(ports, group_report.beat_ms):
        commit_to_group(ports, group_report.offsets, ports.now_ms())
        _renew_positions(ports, tables)
        if ports.pipeline.heartbeat.interval_seconds:
            beat = _report_tables(ports, tables, group_report.offsets)
    if refusal is not None:
        raise refusal
    return beat


def _is_due(ports: Ports, before_ms: int | None) -> bool:
    pause_ms = ports.pipeline.heartbeat.pause_seconds * 1000
    # a time in the future was stored before the clock was set back
    return before_ms is None or not 0 <= ports.now_ms() - before_ms < pause_ms


def _renew_positions(ports: Ports, tables: Sequence[ObservedTable]) -> None:
    """Of tables from which more snapshots could expire, and none does, as a rollback would not be noticed any more."""
    maintenance = ports.pipeline.maintenance
    expired_ms = ports.now_ms() - maintenance.keep_snapshots_for_seconds * 1000
    for observed in tables:
        state = observed.state
        if state is None or state.snapshots_since_publish <= maintenance.keep_snapshots:
            continue
        if state.snapshot_ms < expired_ms:
            renew_position(ports, observed.table.name, expired_ms)


def _compute_offsets(ports: Ports, tables: Sequence[ObservedTable]) -> tuple[Offsets, GiveUp | None]:
    quiet = _find_quiet_ends(ports, tables)
    own_offsets = compute_low_watermark(ports, tables)
    own_offsets = merge_offsets(_find_empty_start(ports, tables, own_offsets), own_offsets)
    try:
        return apply_offset_hook(ports, own_offsets, quiet), None
    except GiveUp as refusal:
        return merge_offsets(own_offsets, quiet), refusal


def _find_quiet_ends(ports: Ports, tables: Sequence[ObservedTable]) -> Offsets:
    """The ends of ignored topics; none if all tables were filled from another cluster, whose group is left alone."""
    ignored_topics = list_ignored_topics(ports)
    if not ignored_topics:
        return {}
    log = ports.broker.read_log(ignored_topics, ports.pipeline.source.isolation)
    is_foreign = 0 < len(tables) == len(find_foreign_positions(tables, log.cluster_id))
    return {} if is_foreign else log.end


def _find_empty_start(ports: Ports, tables: Sequence[ObservedTable], own_offsets: Offsets) -> Offsets:
    """Offsets to keep for topics that no table has read from: where `start: latest` or `group` begins, and the ends of
    empty topics. The brokers would forget the group's offsets otherwise, and the table would begin elsewhere. The group
    is left alone for a table that was filled from another cluster.
    """
    if all(topic in own_offsets for topic in list_row_topics(ports)):
        return {}
    log, kind = read_known_log(ports)[0], ports.pipeline.source.start.kind
    foreign_topics = find_topics_of_other_clusters(tables, log.cluster_id)
    unread_topics = tuple(topic for topic in log.begin if topic not in own_offsets and topic not in foreign_topics)
    if kind == StartKind.LATEST:
        start = resolve_latest_start(ports, log)
        return {topic: start[topic] for topic in unread_topics}
    empty = tuple(topic for topic in unread_topics if log.begin[topic] == log.end[topic])
    asked_topics = unread_topics if kind == StartKind.GROUP else empty
    committed_offsets = ports.broker.read_committed(ports.pipeline.source.group, asked_topics) if asked_topics else {}
    return merge_offsets({topic: log.end[topic] for topic in empty}, committed_offsets)


def _report_tables(ports: Ports, tables: Sequence[ObservedTable], offsets: Offsets) -> HeartbeatResult:
    records: list[HeartbeatRecord] = []
    warnings: list[str] = []
    sent_records = 0
    try:
        progress = measure_progress(ports, tables)
        records = build_heartbeat_records(progress)
        warnings += find_risks(ports, progress.log, progress.published_offsets)
        if ports.pipeline.heartbeat.produce and records:
            messages = encode_records((record.key, record.to_dict()) for record in records)
            ports.broker.send(ports.pipeline.heartbeat.topic, messages)
            sent_records = len(records)
    except TidegateError as reason:
        warnings.append(f"pipeline={ports.pipeline.name}: the report of this heartbeat is incomplete: {reason}")
    for warning in warnings:
        log.warning(warning)
    return HeartbeatResult(
        committed=offsets, due=True, sent=sent_records, tables=tuple(records), warnings=tuple(warnings)
    )
