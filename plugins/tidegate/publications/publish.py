"""publish: one run of a publication, from the plan to the recorded progress."""

import logging
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tidegate.errors import NothingToDo, PublishedElsewhere, RetryLater, TidegateError
from tidegate.flush.heartbeat import encode_records
from tidegate.jobs.publish_job import PublishJob
from tidegate.model.publication_progress import PartProgress, Progress, RunMode
from tidegate.ports.publication_session import PublicationSession
from tidegate.publications.plan import PlannedRun, plan_run
from tidegate.publications.status import COUNT_NAMES, read_publication_status

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class PublicationHeartbeat:
    """The record in the heartbeat topic."""

    publication: str
    table: str
    topics: list[str]
    published_snapshot_id: int | None
    snapshots_behind: int
    valid_through_ms: int | None  # the topic contains every earlier change of the table; None if unknown
    sent_ms: int


def send_heartbeat(session: PublicationSession) -> PublicationHeartbeat | None:
    """Send one record at the end of a run, also if the run had no work. Return it; None if none was sent."""
    publication = session.publication
    if publication.heartbeat_topic is None:
        return None
    looked_ms = session.now_ms()
    try:
        status = read_publication_status(session)
        behind = None if status.problem else status.behind_seconds
        valid = None if behind is None else looked_ms if not status.snapshots_behind else looked_ms - behind * 1000 - 1
        value = PublicationHeartbeat(
            publication=publication.name,
            table=publication.table,
            topics=list(publication.topics),
            published_snapshot_id=status.published_snapshot_id,
            snapshots_behind=status.snapshots_behind,
            valid_through_ms=None if valid is None or status.published_snapshot_id is None else int(valid),
            sent_ms=session.now_ms(),
        )
        key = {"publication": publication.name, "table": publication.table}
        session.topics.send(publication.heartbeat_topic, encode_records([(key, asdict(value))]))
    # a warning only: the changes are published
    except TidegateError as reason:
        log.warning("publication=%s: the heartbeat was not sent: %s", publication.name, reason)
        return None
    return value


MAX_ROUNDS = 20  # each brings one group of parts on; there are hardly ever more than three


@dataclass(frozen=True)
class PublicationResult:
    """The result of one run. The counts are changes, each one produced record."""

    publication: str
    from_snapshot_id: int | None
    to_snapshot_id: int
    compared_with: str
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    topics: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


def publish(session: PublicationSession, resynchronise: bool = False) -> PublicationResult:
    """Run `publish_changes`, then send a heartbeat if the file asks for one, also after `NothingToDo`."""
    try:
        result = publish_changes(session, resynchronise)
    except NothingToDo:
        send_heartbeat(session)
        raise
    send_heartbeat(session)
    return result


def publish_changes(session: PublicationSession, resynchronise: bool) -> PublicationResult:
    """Bring the topic to the table's current snapshot.

    1. Create topics that are missing, before the first run and before a resynchronisation.
    2. Plan the run.
    3. Pin its target snapshot, so that it is still there when the next run begins at it.
    4. Produce the changes, with each part's progress behind them.
    5. Read the progress back. While the parts are at different snapshots, go on with 2, a group at a time.
    6. Remove older pins.

    A repeat call finds nothing to do. `RetryLater` if a part has not arrived; the next call goes on from there.
    """
    publication = session.publication
    before = session.topics.read_progress(session.publication)
    # 1.
    if resynchronise or before.is_new:
        session.topics.create(publication)
    pins = _read_pins(session, before)
    # 2.
    planned_run = plan_run(session, resynchronise)
    first = planned_run.position
    counts = Counter[str]()
    for _ in range(MAX_ROUNDS):
        for table, snapshot in _list_needed_snapshots(session, planned_run.position):
            # 3.
            pins.setdefault(table, set()).add(format_pin_name(publication.name, snapshot))
        # 4. and 5.
        progress = _produce_round(session, planned_run)
        counts.update(_count_changes(session, planned_run, progress))
        if (settled_run := progress.common_position) is None:
            planned_run = plan_run(session)
        # what came since waits too, and nothing else may start a run for it
        elif (following := _plan_what_came_since(session, planned_run)) is not None:
            planned_run = following
        else:
            # 6.
            _release_pins(session, settled_run, pins)
            changes = {name: counts.get(name, 0) for name in COUNT_NAMES}
            return PublicationResult(
                publication.name, first.origin, settled_run.to, first.mode, **changes, topics=[*publication.topics]
            )
    raise RetryLater(
        f"publication={publication.name}: after {MAX_ROUNDS} rounds its parts are in different states still, because "
        "other runs publish at the same time; let one run at a time, and run it again"
    )


def _plan_what_came_since(session: PublicationSession, last_round: PlannedRun) -> PlannedRun | None:
    if not last_round.is_resumed:
        return None
    try:
        return plan_run(session)
    except NothingToDo:
        return None


def _produce_round(session: PublicationSession, planned_run: PlannedRun) -> PartProgress:
    publication = session.publication
    if planned_run.position.mode == RunMode.TOPIC:  # also where the file asks for it
        session.topics.create(publication)
        topics = session.topics.find_topics(publication, at_rest=True)
        position = replace(planned_run.position, topic_ids=topics.ids, partitions=topics.partitions)
        planned_run = replace(planned_run, topics=topics, position=position)
    for table, snapshot in _list_needed_snapshots(session, planned_run.position):
        session.snapshots.pin(table, snapshot, format_pin_name(publication.name, snapshot))
    log.info("publishing: publication=%s %s", publication.name, planned_run.to_dict())
    session.engine.run(build_publish_job(session, planned_run))
    return session.topics.read_progress(publication, at_rest=True)


def _list_needed_snapshots(session: PublicationSession, position: Progress) -> list[tuple[str, int]]:
    snapshot_ids = (position.origin, position.to)
    joined_snapshots = [*position.joined_origin.items(), *position.joined.items()]
    return [
        *((session.publication.table, snapshot_id) for snapshot_id in snapshot_ids if snapshot_id is not None),
        *joined_snapshots,
    ]


def build_publish_job(session: PublicationSession, planned_run: PlannedRun) -> PublishJob:
    """Build the job for Spark, with the topics' ranges only if the run compares the table with the topics."""
    publication = session.publication
    return PublishJob(
        publication=publication.name,
        table=publication.table,
        sql=publication.sql,
        key=publication.key,
        value=publication.value,
        metadata=publication.metadata,
        topics=publication.topics,
        delivery=publication.delivery,
        state_topic=publication.state_topic,
        parallelism=publication.parallelism,
        transaction_records=publication.transaction_records,
        position=planned_run.position,
        parts=planned_run.parts,
        touched=planned_run.touched_files,
        grouped=publication.grouped,
        ranges=planned_run.topics.ranges if planned_run.position.mode == RunMode.TOPIC else None,
        on_delete=publication.on_delete,
    )


def format_pin_prefix(publication: str) -> str:
    """Return the prefix of a publication's tags. No pipeline's tags begin with it."""
    return f"tidegate-publication-{publication}-"


def format_pin_name(publication: str, snapshot_id: int) -> str:
    return f"{format_pin_prefix(publication)}{snapshot_id}"


def _count_changes(session: PublicationSession, planned_run: PlannedRun, progress: PartProgress) -> dict[str, int]:
    """Sum up the counts of the round's parts.

    `PublishedElsewhere` or `RetryLater` if another run has moved some of them.
    """
    publication = session.publication
    position = planned_run.position
    parts = [progress.parts[part.number] for part in planned_run.parts]
    run_parts = [part for part in parts if part is not None and part.is_complete and part.run == position.run]
    is_short = len(run_parts) < len(parts)
    # if another run brought them to this state, nothing is missing, unless every record was to be compared
    is_same = all(part is not None and part.state == position.target for part in parts)
    if is_short and (position.mode == RunMode.TOPIC or not is_same):
        is_unmoved = all(progress.raw_records[part.number] == part.expected for part in planned_run.parts)
        kind = RetryLater if run_parts or is_unmoved else PublishedElsewhere
        raise kind(
            f"publication={publication.name} snapshot={position.to}: {len(run_parts)} of {len(planned_run.parts)} "
            "parts arrived there; another run has taken the others over, or a transaction of theirs took longer than "
            "ten minutes; run it again, and if it stays so, set transaction_records lower"
        )
    return {name: sum(part.counts.get(name, 0) for part in run_parts) for name in COUNT_NAMES}


def _read_pins(session: PublicationSession, before: PartProgress) -> dict[str, set[str]]:
    was_joined = (name for part in before.recorded_parts for name in (*part.joined, *part.joined_origin))
    names = dict.fromkeys((session.publication.table, *session.publication.joined_tables, *was_joined))
    prefix = format_pin_prefix(session.publication.name)
    existing = [name for name in names if session.snapshots.read_table(name) is not None]
    return {
        name: {tag for tag in session.snapshots.list_pins(name, prefix) if tag.removeprefix(prefix).isdigit()}
        for name in existing
    }


def _release_pins(session: PublicationSession, settled_run: Progress, pins: dict[str, set[str]]) -> None:
    # a tag that appeared meanwhile belongs to a later run, and stays
    needed = {session.publication.table: settled_run.to, **settled_run.joined}
    for table, tags in pins.items():
        needed_tags = {format_pin_name(session.publication.name, needed[table])} if table in needed else set[str]()
        session.snapshots.unpin(table, sorted(tags - needed_tags))
