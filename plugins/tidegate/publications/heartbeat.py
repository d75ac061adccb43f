"""heartbeat: tells readers of a topic up to which time the topic contains the table's changes, also if none came."""

import logging
from dataclasses import asdict, dataclass

from tidegate.errors import TidegateError
from tidegate.ports.publication_ports import PublicationPorts
from tidegate.publications.status import read_publication_status
from tidegate.table.heartbeat_records import encode_records

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class PublicationHeartbeat:
    """The record in the heartbeat topic.

    `valid_through_ms`: the topic contains every change that was committed to the table before; None if that is not
    known.
    """

    publication: str
    table: str
    topics: list[str]
    published_snapshot_id: int | None
    snapshots_behind: int
    valid_through_ms: int | None
    sent_ms: int


def send_heartbeat(ports: PublicationPorts) -> PublicationHeartbeat | None:
    """Send one record at the end of a run, also if the run had no work. Returns it; None if none was sent.

    A failure is logged as a warning, because the changes are already published.
    """
    publication = ports.publication
    if publication.heartbeat_topic is None:
        return None
    looked_ms = ports.now_ms()
    try:
        status = read_publication_status(ports)
        behind = None if status.problem else status.behind_seconds
        valid = None if behind is None else looked_ms if not status.snapshots_behind else looked_ms - behind * 1000 - 1
        value = PublicationHeartbeat(
            publication=publication.name,
            table=publication.table,
            topics=list(publication.topics),
            published_snapshot_id=status.published_snapshot_id,
            snapshots_behind=status.snapshots_behind,
            valid_through_ms=None if valid is None or status.published_snapshot_id is None else int(valid),
            sent_ms=ports.now_ms(),
        )
        key = {"publication": publication.name, "table": publication.table}
        ports.topics.send(publication.heartbeat_topic, encode_records([(key, asdict(value))]))
    except TidegateError as reason:
        log.warning("publication=%s: the heartbeat was not sent: %s", publication.name, reason)
        return None
    return value
