"""publish: one run from plan to progress."""

import logging
from dataclasses import dataclass, field, replace
from typing import Any

from tidegate.errors import NothingToDo, PublishedElsewhere, RetryLater
from tidegate.publications.again import Again, plan_again
from tidegate.publications.heartbeat import heartbeat
from tidegate.publications.job import PublishJob
from tidegate.publications.plan import Planned, plan
from tidegate.publications.ports import PublicationPorts
from tidegate.publications.progress import AGAIN, TOPIC, Progress

log = logging.getLogger(__name__)
COUNTS = ("inserted", "updated", "deleted")


@dataclass(frozen=True)
class Published:
    """What one run did; the counts are changes, so of produced records."""

    publication: str
    from_snapshot_id: int | None
    to_snapshot_id: int
    compared_with: str
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    topics: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """The stable form of the result."""
        return dict(vars(self))


def publish(ports: PublicationPorts, resynchronise: bool = False, again: Again | None = None) -> Published:
    """One run, and a heartbeat behind it, if asked for: also behind a run that finds nothing to do.

    See `run`; what it raises is raised.
    """
    try:
        done = run(ports, resynchronise, again)
    except NothingToDo:
        heartbeat(ports)
        raise
    heartbeat(ports)
    return done


def run(ports: PublicationPorts, resynchronise: bool = False, again: Again | None = None) -> Published:
    """Bring the topic to the table's current snapshot.

    1. Create topics that are missing, before the first run and before a resynchronisation.
    2. Plan the run.
    3. Pin the snapshot that it leads to, so that it is still there when the next run begins at it.
    4. Produce the changes, with each part's progress behind them.
    5. Read the progress back, and let older pins go.

    With `again` what is published of some keys is produced once more, and the position stays.

    A repeat call finds nothing to do. `RetryLater` where a part has not arrived; the next call goes on from there.
    """
    publication = ports.publication
    if resynchronise or ports.topics.standing(publication).is_new:
        ports.topics.create(publication)
    planned = plan(ports, resynchronise) if again is None else plan_again(ports, again)
    if planned.position.mode == TOPIC:  # also where the file asks for it
        ports.topics.create(publication)
        planned = replace(planned, found=ports.topics.found(publication))
        position = replace(planned.position, topic_ids=planned.found.ids, partitions=planned.found.partitions)
        planned = replace(planned, position=position)
    for table, snapshot in _needed(ports, planned.position):
        ports.snapshots.pin(table, snapshot, pin_name(publication.name, snapshot))
    log.info("publishing: publication=%s %s", publication.name, planned.to_dict())
    ports.engine.run(job_of(ports, planned))
    return _recorded(ports, planned)


def _needed(ports: PublicationPorts, position: Progress) -> list[tuple[str, int]]:
    """Table and snapshot of all that a run reads."""
    own = (position.origin, position.until, position.to)
    joined = [*position.joined_origin.items(), *position.joined.items()]
    return [*((ports.publication.table, one) for one in own if one is not None), *joined]


def job_of(ports: PublicationPorts, planned: Planned) -> PublishJob:
    """What Spark is asked for."""
    asked = ports.publication
    return PublishJob(
        publication=asked.name,
        table=asked.table,
        sql=asked.sql,
        key=asked.key,
        value=asked.value,
        metadata=asked.metadata,
        topics=asked.topics,
        delivery=asked.delivery,
        state_topic=asked.state_topic,
        parallelism=asked.parallelism,
        transaction_records=asked.transaction_records,
        position=planned.position,
        parts=planned.parts,
        touched=planned.touched,
        grouped=asked.grouped,
        ranges=planned.found.ranges if planned.position.mode == TOPIC else None,
    )


def pins_of(publication: str) -> str:
    """What the names of a publication's tags begin with; no pipeline's begin so."""
    return f"tidegate-publication-{publication}-"


def pin_name(publication: str, snapshot_id: int) -> str:
    """The tag that keeps a published snapshot from expiring."""
    return f"{pins_of(publication)}{snapshot_id}"


def _recorded(ports: PublicationPorts, planned: Planned) -> Published:
    publication, position = ports.publication, planned.position
    standing = ports.topics.standing(publication, at_rest=True)
    ours = [part for part in standing.parts if part is not None and part.run == position.run]
    counts = {name: sum(part.counts.get(name, 0) for part in ours) for name in COUNTS}
    settled = standing.settled
    is_short = position.mode == AGAIN and len(ours) < len(planned.parts)  # where they stand tells nothing then
    if settled is None or settled.target != position.target or is_short:
        kind = RetryLater if ours or standing.is_new else PublishedElsewhere
        raise kind(
            f"publication={publication.name} snapshot={position.to}: {len(ours)} of {len(planned.parts)} parts arrived "
            "there, others are where another run has brought them; run it again"
        )
    for table, snapshot in {publication.table: settled.to, **settled.joined}.items():
        _let_go(ports, table, pin_name(publication.name, snapshot))
    return Published(
        publication.name, position.origin, position.to, position.mode, **counts, topics=list(publication.topics)
    )


def _let_go(ports: PublicationPorts, table: str, kept: str) -> None:
    """Older pins of a table."""
    prefix = pins_of(ports.publication.name)
    pins = [tag for tag in ports.snapshots.pins(table, prefix) if tag.removeprefix(prefix).isdigit()]
    ports.snapshots.unpin(table, [tag for tag in pins if tag != kept])
