"""commit_offsets and heartbeat: report to Kafka how far the pipeline has published."""

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from tidegate.errors import GiveUp, NothingToDo, RetryLater, TidegateError
from tidegate.merge.attempt import begin_attempt, publish_attempt, retry_commits
from tidegate.model.kafka_log import Message
from tidegate.model.offsets import Offsets, find_lowest, format_offsets, get_offset, iterate_offsets, merge_offsets
from tidegate.ports.session import Session
from tidegate.spec.source import StartKind
from tidegate.table.log import filter_table_log, list_ignored_topics, list_row_topics, read_known_log
from tidegate.table.observed_table import ObservedTable, observe_tables
from tidegate.table.pipeline_progress import PipelineProgress, measure_progress
from tidegate.table.risks import find_risks
from tidegate.table.session import TableSession, expand_template
from tidegate.table.start_offsets import resolve_latest_start
from tidegate.table.watermark import (
    commit_to_group,
    compute_low_watermark,
    explain_empty_watermark,
    find_positions_of_other_clusters,
    find_topics_of_other_clusters,
    list_existing_topics,
)

log = logging.getLogger(__name__)


def apply_offset_hook(session: Session, published_offsets: Offsets, ignored_ends: Offsets) -> Offsets:
    """Return the offsets as the pipeline's hook changes them; `GiveUp` if it lowers one, or raises one too far."""
    offsets = merge_offsets(published_offsets, ignored_ends)
    if session.heartbeat_hook is None:
        return offsets
    place = f"pipeline={session.pipeline.name} heartbeat.hook={session.pipeline.heartbeat.hook}"
    hook_offsets = _call_hook(session.heartbeat_hook, place, session.pipeline.name, offsets)
    for topic, partition, offset in iterate_offsets(offsets):
        result = get_offset(hook_offsets, topic, partition)
        if result is None or result < offset:
            raise GiveUp(
                f"{place}: topic={topic} partition={partition} offset={offset} became {result}: a hook may raise and "
                "add offsets, never lower or remove them; correct it, or take it out of the pipeline file"
            )
    unpublished_topics = tuple(topic for topic in hook_offsets if topic not in published_offsets)
    ends = (
        session.broker.read_end_offsets(unpublished_topics, session.pipeline.source.isolation)
        if unpublished_topics
        else {}
    )
    # what is published in topics with rows, the end of the log in others
    limits = merge_offsets(ends, published_offsets)
    for topic, partition, offset in iterate_offsets(hook_offsets):
        limit = get_offset(limits, topic, partition)
        if limit is None or offset > limit:
            words = "the log, which has no such partition" if limit is None else f"what is published, offset={limit}"
            raise GiveUp(
                f"{place}: topic={topic} partition={partition} offset={offset} lies beyond {words}: a hook "
                "never reports what is not published; correct it, or take it out of the pipeline file"
            )
    return hook_offsets


def _call_hook(hook: Callable[[str, Offsets], Offsets], place: str, pipeline: str, offsets: Offsets) -> Offsets:
    try:
        hook_offsets = hook(pipeline, merge_offsets(offsets))  # a copy, which the hook may change
        return {str(t): {int(p): int(o) for p, o in parts.items()} for t, parts in hook_offsets.items()}
    except TidegateError:
        raise
    except Exception as fault:  # the user's own code: whatever it raises is logged, and the heartbeat goes on
        raise GiveUp(f"{place}: {type(fault).__name__}: {fault}; correct it, or take it out of the file") from fault


def renew_position(table: TableSession, older_than_ms: int) -> None:
    """Put the pipeline's position and its tag, unchanged, onto a new snapshot without rows.

    For a tag older than `older_than_ms` above which others have written. A failure is only logged.
    """
    try:
        if table.has_branches:
            retry_commits(table.session, table.prefix, partial(_renew_once, table, older_than_ms))
    except TidegateError as error:
        log.warning("the position was not renewed, so older snapshots stay: %s; the next heartbeat tries again", error)


def _renew_once(table: TableSession, older_than_ms: int) -> None:
    table = table.refresh()
    state = table.state
    position = state.recorded_position if state else None
    # a table that was rolled back keeps its position: a person has yet to answer
    if state is None or position is None or state.is_rolled_back or state.snapshot_ms >= older_than_ms:
        return
    if not state.snapshots_since_publish:
        return

    def check_unmoved(table_now: TableSession) -> None:
        state_now = table_now.require_state()
        if state_now.is_rolled_back or state_now.recorded_position != position:
            raise RetryLater(
                f"{table.prefix}: another run was faster, and the position is newer by that; it will be tried again"
            )

    properties = position.to_properties(table.pipeline.name)
    attempt = begin_attempt(table, state.highest_batch, check_unmoved)
    attempt = replace(attempt, properties=properties, summary=properties)
    head = publish_attempt(attempt)
    log.info("position renewed: %s snapshot=%s", table.prefix, head.snapshot_id)


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


@dataclass(frozen=True)
class HeartbeatResult:
    """What a heartbeat did."""

    committed: Offsets  # the next offsets that it committed to the consumer group
    due: bool = False  # the interval was over. Only then are there `tables` and `warnings`
    sent: int = 0  # how many records were produced to `heartbeat.topic`
    tables: tuple[HeartbeatRecord, ...] = ()
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        tables = [record.to_dict() for record in self.tables]
        return {**asdict(self), "tables": tables, "warnings": list(self.warnings)}


def heartbeat(session: Session) -> HeartbeatResult:
    """Commit again what is published, and once per `heartbeat.interval` report how the pipeline stands.

    1. Read each table once.
    2. Commit the low watermark, and for ignored topics the end of the log. The hook may change these offsets.
    3. If the interval is over, begin the next one, even if the rest fails.
    4. Publish a position once more if its tag keeps old snapshots. With an interval of 0, every ten minutes.
    5. Look for risks, and send heartbeat records if `heartbeat.produce` is set. A failure here is only a warning.

    A repeat call commits again; within the interval it reports nothing. Raises if no table can be read; `GiveUp`, at
    the end, if the hook asks for offsets that are not published.
    """
    session = expand_template(session)
    tables = observe_tables(session)
    # 2. of quiet partitions too: brokers forget offsets some days after their last commit (offsets.retention.minutes)
    offsets, refusal = _compute_offsets(session, tables)
    group_report = commit_to_group(session, offsets)
    beat = HeartbeatResult(group_report.offsets)
    # a time in the future was stored before the clock was set back
    pause_ms = session.pipeline.heartbeat.pause_seconds * 1000
    before_ms = group_report.beat_ms
    is_due = before_ms is None or not 0 <= session.now_ms() - before_ms < pause_ms
    if any(offsets.values()) and is_due:
        # 3.
        commit_to_group(session, group_report.offsets, session.now_ms())
        # 4.
        _renew_positions(session, tables)
        if session.pipeline.heartbeat.interval_seconds:
            # 5.
            beat = _report_tables(session, tables, group_report.offsets)
    if refusal is not None:
        raise refusal
    return beat


def require_begun(session: Session) -> Session:
    # a heartbeat before the first run would settle where `start: latest` begins
    if not any(session.broker.read_committed(session.pipeline.source.group, list_existing_topics(session)).values()):
        raise NothingToDo(f"pipeline={session.pipeline.name}: no run has committed an offset yet")
    return session


def settle_start(session: Session) -> None:
    """Commit where `start: latest` begins, for topics of which nothing is committed. A failure is only logged.

    To be called behind each plan that no heartbeat follows at once: the start of tables that it found without work
    would move with every record.
    """
    source = session.pipeline.source
    if source.start.kind != StartKind.LATEST:
        return
    try:
        topics = list_existing_topics(session)
        committed_offsets = session.broker.read_committed(source.group, topics)
        if not all(committed_offsets.get(topic) for topic in topics):
            heartbeat(session)
    except TidegateError as error:
        log.warning("%s", error)


def _renew_positions(session: Session, tables: Sequence[ObservedTable]) -> None:
    maintenance = session.pipeline.maintenance
    expired_ms = session.now_ms() - maintenance.keep_snapshots_for_seconds * 1000
    for observed in tables:
        state = observed.state
        # expiry keeps all snapshots from the tag on, as a rollback would not be noticed without them
        if state is None or state.snapshots_since_publish <= maintenance.keep_snapshots:
            continue
        if state.snapshot_ms < expired_ms:
            renew_position(observed, expired_ms)


def _compute_offsets(session: Session, tables: Sequence[ObservedTable]) -> tuple[Offsets, GiveUp | None]:
    ignored_topics = list_ignored_topics(session)
    ignored_ends: Offsets = {}
    if ignored_topics:
        kafka_log = session.broker.read_log(ignored_topics, session.pipeline.source.isolation)
        # the group is left alone if all tables were filled from another cluster
        is_foreign = 0 < len(tables) == len(find_positions_of_other_clusters(tables, kafka_log.cluster_id))
        ignored_ends = {} if is_foreign else kafka_log.end
    own_offsets = compute_low_watermark(session, tables)
    own_offsets = merge_offsets(_find_empty_start(session, tables, own_offsets), own_offsets)
    try:
        return apply_offset_hook(session, own_offsets, ignored_ends), None
    except GiveUp as refusal:
        return merge_offsets(own_offsets, ignored_ends), refusal


def _find_empty_start(session: Session, tables: Sequence[ObservedTable], own_offsets: Offsets) -> Offsets:
    if all(topic in own_offsets for topic in list_row_topics(session)):
        return {}
    # the brokers would forget the group's offsets without a commit, and the table would begin elsewhere
    kafka_log = read_known_log(session)[0]
    kind = session.pipeline.source.start.kind
    # the group is left alone for a table that was filled from another cluster
    foreign_topics = find_topics_of_other_clusters(tables, kafka_log.cluster_id)
    unread_topics = tuple(
        topic for topic in kafka_log.begin if topic not in own_offsets and topic not in foreign_topics
    )
    if kind == StartKind.LATEST:
        # as each table's plan does: one that came later, with topics of its own, begins at their end
        specs = {table.spec.topics: table.spec for table in tables}
        logs = [filter_table_log(kafka_log, spec) for spec in specs.values()]
        committed_offsets = session.broker.read_committed(session.pipeline.source.group, tuple(kafka_log.begin))
        starts = [resolve_latest_start(session.pipeline, table_log, committed_offsets) for table_log in logs]
        start = find_lowest(*starts)
        return {topic: start[topic] for topic in unread_topics if topic in start}
    empty = tuple(topic for topic in unread_topics if kafka_log.begin[topic] == kafka_log.end[topic])
    asked_topics = unread_topics if kind == StartKind.GROUP else empty
    committed_offsets = (
        session.broker.read_committed(session.pipeline.source.group, asked_topics) if asked_topics else {}
    )
    return merge_offsets({topic: kafka_log.end[topic] for topic in empty}, committed_offsets)


def _report_tables(session: Session, tables: Sequence[ObservedTable], offsets: Offsets) -> HeartbeatResult:
    records: list[HeartbeatRecord] = []
    warnings: list[str] = []
    sent_records = 0
    try:
        progress = measure_progress(session, tables)
        records = build_heartbeat_records(progress)
        warnings += find_risks(progress)
        if session.pipeline.heartbeat.produce and records:
            messages = encode_records((record.key, record.to_dict()) for record in records)
            broker = session.open_heartbeat_broker() if session.open_heartbeat_broker else session.broker
            broker.send(session.pipeline.heartbeat.topic, messages)
            sent_records = len(records)
    except TidegateError as reason:
        warnings.append(f"pipeline={session.pipeline.name}: the report of this heartbeat is incomplete: {reason}")
    for warning in warnings:
        log.warning(warning)
    return HeartbeatResult(
        committed=offsets, due=True, sent=sent_records, tables=tuple(records), warnings=tuple(warnings)
    )


def build_heartbeat_records(progress: PipelineProgress) -> list[HeartbeatRecord]:
    pipeline = progress.session.pipeline
    return [
        HeartbeatRecord(
            pipeline=pipeline.name,
            table=table_progress.spec.name,
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


def commit_offsets(session: Session) -> Offsets:
    """Commit the low watermark over all tables to the consumer group, read it back and return it.

    Idempotent. Nothing reads the group's offsets once a table has a position: what a zombie commits late, the next run
    corrects. `NothingToDo` while no table has a position of this cluster.
    """
    session = expand_template(session)
    tables = observe_tables(session)
    offsets = compute_low_watermark(session, tables)
    if not any(offsets.values()):
        raise explain_empty_watermark(session, tables)
    group = session.pipeline.source.group
    log.info("committing: pipeline=%s group=%s %s", session.pipeline.name, group, format_offsets(offsets))
    return commit_to_group(session, offsets).offsets
