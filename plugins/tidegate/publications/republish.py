"""again: produces published rows once more, for the keys that changed in a range of the table's history.

For readers that lost records, and for a damaged topic. The range selects the keys; the rows are those of the published
snapshot, so that no older row is produced. The position stays.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.errors import ConfigurationError, GiveUp, NothingToDo
from tidegate.jobs.publish_job import TouchedFiles
from tidegate.model.publication_progress import Progress, RunMode
from tidegate.ports.publication_session import PublicationSession
from tidegate.publications.plan import (
    PlannedRun,
    observe_publication,
    plan_all_parts,
    refuse_lost_progress,
    refuse_without_key,
)
from tidegate.spec.time_text import EXAMPLE as A_TIME
from tidegate.spec.time_text import parse_timestamp_ms

INVALID_BOUND = f"neither a snapshot nor a time; write a snapshot's id, or a time like {A_TIME}"


@dataclass(frozen=True)
class RepublishRequest:
    """Keys that changed after `begin` and up to `end`. `begin` None: all keys. `end` None: the published snapshot.

    Both are a snapshot id, or a time, which means the snapshot that was current then.
    """

    begin: str | None = None
    end: str | None = None


def read_republish_request(words: Mapping[str, Any]) -> RepublishRequest | None:
    """Read a form; None without `again`. `ConfigurationError` for words that do not fit it."""
    begin = words["from"] or None
    end = words["to"] or None
    if not words["again"] and (begin or end):
        raise ConfigurationError(
            f"from={begin} to={end}: only a run that produces again takes them; nothing was produced; choose again "
            "(Produce again), or leave them out"
        )
    if words["again"] and words["resynchronise"]:
        raise ConfigurationError("again and resynchronise are two kinds of a run; choose one; nothing was produced")
    return RepublishRequest(begin, end) if words["again"] else None


def plan_republish(session: PublicationSession, request: RepublishRequest) -> PlannedRun:
    """Plan the run that produces again; changes nothing.

    `NothingToDo` if nothing was published yet, or no row changed in the range. `GiveUp` while a run is unfinished, and
    if a bound or the published snapshot has expired.
    """
    publication = session.publication
    refuse_without_key(session, "--again", is_asked=True)
    observed = observe_publication(session)
    refuse_lost_progress(observed, can_compare=False)
    if observed.progress.is_new:
        raise NothingToDo(f"publication={publication.name}: nothing was published yet, so nothing is produced again")
    settled_run = observed.progress.common_position
    if settled_run is None:
        raise GiveUp(
            f"publication={publication.name}: a run is unfinished; finish it by `tidegate publish "
            f"{publication.name}`, and then ask again"
        )
    origin = None if request.begin is None else _resolve_snapshot(session, "from", request.begin)
    end_snapshot = None if request.end is None else _resolve_snapshot(session, "to", request.end)
    if request.end is not None and end_snapshot is None:
        place = f"publication={publication.name}: table={publication.table}"
        raise NothingToDo(f"{place} had no snapshot by to={request.end}")
    position = Progress(
        run=session.new_run(),
        mode=RunMode.REPUBLISH,
        origin=origin,
        to=settled_run.to,
        digest=publication.digest,
        table_uuid=observed.table.uuid,
        topic_ids=observed.topics.ids,
        partitions=observed.topics.partitions,
        until=None if end_snapshot == settled_run.to else end_snapshot,
        joined=settled_run.joined,
        joined_origin=settled_run.joined,
    )
    run = plan_all_parts(observed, position)
    if run.touched_files == TouchedFiles():
        bounds = f"from={request.begin} to={request.end}"
        raise NothingToDo(f"publication={publication.name}: no row changed between {bounds}")
    return run


def _resolve_snapshot(session: PublicationSession, name: str, text: str) -> int | None:
    publication = session.publication
    snapshot_id = (
        int(text)
        if text.isdecimal()
        else session.snapshots.find_at(publication.table, parse_timestamp_ms(name, text, INVALID_BOUND))
    )
    if snapshot_id is not None and not session.snapshots.has_snapshot(publication.table, snapshot_id):
        raise GiveUp(
            f"publication={publication.name} table={publication.table} {name}={text}: snapshot={snapshot_id} has "
            f"expired or never existed; choose a later one, or leave {name} out"
        )
    return snapshot_id
