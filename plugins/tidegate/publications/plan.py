"""plan: chooses the two snapshots between which the next run publishes, and the work of each part of the keys."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tidegate.errors import GiveUp, NothingToDo
from tidegate.jobs.publish_job import KeyPart, TouchedFiles
from tidegate.model.counts import format_count
from tidegate.model.publication_progress import PartProgress, Progress, RunMode, Target
from tidegate.ports.publication_session import ExistingTopics, PublicationSession, TableHead
from tidegate.spec.publication import Publication

Snapshots = Mapping[str, int]
REMEDY = "run `tidegate publish {name} --resynchronise`, which compares the table with what the topic holds"
APPEND_REMEDY = "publish to a new topic, with start where the last run ended"


@dataclass(frozen=True)
class PlannedRun:
    """The next run: its target position, the parts that it has to move, and the data files that it reads."""

    position: Progress
    parts: tuple[KeyPart, ...]
    touched_files: TouchedFiles | None
    topics: ExistingTopics
    is_resumed: bool = False

    def to_dict(self) -> dict[str, Any]:
        files = None if self.touched_files is None else len(self.touched_files.old) + len(self.touched_files.new)
        return {
            "from_snapshot_id": self.position.origin,
            "to_snapshot_id": self.position.to,
            "compared_with": self.position.mode,
            "resumed": self.is_resumed,
            "parts": len(self.parts),
            "touched_files": files,
        }


@dataclass(frozen=True)
class ObservedPublication:
    """A publication's table, topics and recorded progress, as one look at them shows them."""

    session: PublicationSession
    table: TableHead
    topics: ExistingTopics
    progress: PartProgress

    @property
    def publication(self) -> Publication:
        return self.session.publication

    def fits(self, part: Progress, *, same_table: bool = True) -> bool:
        """Whether the recorded progress of a part belongs to the file and these topics, and to this table."""
        is_ours = all(part.topic_ids.get(topic) == self.topics.ids.get(topic) for topic in self.publication.topics)
        return (
            is_ours
            and part.digest == self.publication.digest
            and (not same_table or part.table_uuid == self.table.uuid)
        )


@dataclass(frozen=True)
class UnfinishedGroup:
    """The parts of one group, and the two states between which they are. `position.run` is an earlier run."""

    position: Progress
    numbers: tuple[int, ...]


def plan_run(session: PublicationSession, resynchronise: bool = False) -> PlannedRun:
    """Decide the next run; changes nothing.

    1. Parts that are at different snapshots are brought together first, a group at a time.
    2. Else the parts go from their snapshot to the table's current one.
    3. The first run goes from nothing, or from where `start` says.
    4. With `resynchronise`, or if a snapshot is gone and `on_expired` says so, table and topic are compared instead.

    `NothingToDo` if no row can have changed; `GiveUp` if the recorded progress no longer fits table or topic.
    """
    if resynchronise and session.publication.is_append:
        raise GiveUp(
            f"publication={session.publication.name}: --resynchronise finds records by their keys, and key.fields is "
            "[]; nothing was produced; to have all rows again publish to a new topic"
        )
    observed = observe_publication(session)
    if not resynchronise:
        refuse_lost_progress(observed)
        if observed.progress.is_new:
            return _plan_next(observed)
        group = _find_next_group(observed)
        position = group.position if group else observed.progress.common_position
        if (
            position is not None
            and observed.fits(position)
            and _find_missing_snapshot(session, position, group) is None
        ):
            return _plan_next(observed) if group is None else _plan_group(observed, group)
    return _plan_all_parts(observed, _build_position(observed, RunMode.TOPIC, None))


def observe_publication(session: PublicationSession) -> ObservedPublication:
    """Read the table, the topics and the progress.

    `NothingToDo` without a table, `GiveUp` if a topic has more partitions.
    """
    publication = session.publication
    table = session.snapshots.read_table(publication.table)
    if table is None or table.snapshot_id is None:
        raise NothingToDo(f"publication={publication.name}: table={publication.table} does not exist yet")
    topics = session.topics.find_topics(publication)
    progress = session.topics.read_progress(publication)
    for part in progress.parts:
        for topic, partitions in (part.partitions if part else {}).items():
            now = topics.partitions.get(topic)
            is_same = part is not None and topics.ids.get(topic) == part.topic_ids.get(topic)
            if is_same and now not in (None, partitions):
                raise GiveUp(
                    f"publication={session.publication.name} topic={topic}: it had "
                    f"{format_count(partitions, 'partition')} and has {now}, so its keys no "
                    "longer lie where their records are; publish to a new topic"
                )
    return ObservedPublication(session, table, topics, progress)


def refuse_lost_progress(observed: ObservedPublication) -> None:
    """Raise `GiveUp` if the recorded progress no longer belongs to these topics, or to this table.

    For the table not if `on_expired` says to compare it with the topics.
    """
    publication = observed.publication
    reason = _find_mismatch(observed, compares=publication.on_expired != "fail")
    if reason:
        remedy = APPEND_REMEDY if publication.is_append else REMEDY.format(name=publication.name)
        raise GiveUp(f"publication={publication.name}: {reason}; {remedy}")


def _find_mismatch(observed: ObservedPublication, *, compares: bool) -> str | None:
    publication = observed.publication
    topics = observed.topics
    progress = observed.progress
    last = progress.last_position
    if last is None:
        is_lost = publication.start.kind == "full" and topics.holds_records
        problem = f"no progress is recorded, and topics={', '.join(sorted(topics.ids))} hold records"
        return f"{problem} (if not by the partitioner of Java's client, publish to a new topic)" if is_lost else None
    if not any(observed.fits(part, same_table=False) for part in progress.recorded_parts):
        if last.digest != publication.digest:
            return "its file has changed what the topic's records look like since the last run"
        topic = next(topic for topic in publication.topics if last.topic_ids.get(topic) != topics.ids.get(topic))
        return f"topic={topic} was deleted or created again since the last run"
    if not compares:
        if not any(observed.fits(part) for part in progress.recorded_parts):
            return f"table={publication.table} was replaced by another of that name since the last run"
        group = _find_next_group(observed)
        position = group.position if group else progress.common_position
        missing_snapshot = None if position is None else _find_missing_snapshot(observed.session, position, group)
        if missing_snapshot is not None:
            return f"{missing_snapshot}, which was published last, has expired"
    return None


def _find_missing_snapshot(
    session: PublicationSession, position: Progress, group: UnfinishedGroup | None
) -> str | None:
    needed = [position.to] if group is None else [position.origin, position.to]
    table = session.publication.table
    for snapshot_id in needed:
        if snapshot_id is not None and not session.snapshots.has_snapshot(table, snapshot_id):
            return f"snapshot={snapshot_id} of table={table}"
    return _find_lost_snapshot(session, position.joined, {} if group is None else position.joined_origin)


def _plan_next(observed: ObservedPublication) -> PlannedRun:
    session = observed.session
    publication = observed.publication
    settled_run = observed.progress.common_position
    origin = settled_run.to if settled_run else _find_start_snapshot(session)
    joined_snapshots = _read_joined_snapshots(session)
    before = settled_run.joined if settled_run else {}
    is_same = _is_unchanged(session, before, joined_snapshots)
    if origin == observed.table.snapshot_id and is_same:
        raise NothingToDo(f"publication={publication.name}: published up to snapshot={origin}, and nothing came since")
    mode = RunMode.EVERYTHING if origin is None else RunMode.CHANGES
    position = _build_position(observed, mode, origin)
    if mode == RunMode.CHANGES:
        position = replace(position, joined=joined_snapshots, joined_origin=joined_snapshots if is_same else before)
    following = _plan_all_parts(observed, position)
    if following.touched_files == TouchedFiles() and settled_run is not None:
        raise NothingToDo(f"publication={publication.name}: no row has changed since snapshot={origin}")
    return following


def _find_start_snapshot(session: PublicationSession) -> int | None:
    publication = session.publication
    start = session.publication.start
    if start.kind == "full":
        return None
    snapshot_id = start.snapshot_id
    if start.timestamp_ms is not None:
        snapshot_id = session.snapshots.find_at(publication.table, start.timestamp_ms)
    if snapshot_id is None or not session.snapshots.has_snapshot(publication.table, snapshot_id):
        raise GiveUp(
            f"publication={publication.name} table={publication.table}: there is no snapshot for its start "
            f"(snapshot={start.snapshot_id} timestamp_ms={start.timestamp_ms}); choose a later one, or start: full"
        )
    return snapshot_id


def _build_position(observed: ObservedPublication, mode: RunMode, origin: int | None) -> Progress:
    return Progress(
        run=observed.session.new_run(),
        mode=mode,
        origin=origin,
        to=observed.table.snapshot_id or 0,
        digest=observed.publication.digest,
        table_uuid=observed.table.uuid,
        topic_ids=observed.topics.ids,
        partitions=observed.topics.partitions,
        joined=_read_joined_snapshots(observed.session),
    )


def _plan_all_parts(observed: ObservedPublication, position: Progress) -> PlannedRun:
    """Plan a run of all parts to `position`, each from its own state.

    Finds the data files that differ, and reads no row.
    """
    progress = observed.progress
    parts = tuple(
        KeyPart(number, raw, key_form=progress.get_key_form(number)) for number, raw in enumerate(progress.raw_records)
    )
    position = replace(position, run=progress.name_run(position.run))
    return PlannedRun(position, parts, _find_touched_files(observed.session, position), observed.topics)


def _find_touched_files(session: PublicationSession, position: Progress) -> TouchedFiles | None:
    if position.mode != RunMode.CHANGES or position.origin is None:
        return None
    if position.joined != position.joined_origin:  # any row may look different then
        return None
    return session.snapshots.find_touched_files(session.publication.table, position.origin, position.to)


def _read_joined_snapshots(session: PublicationSession) -> dict[str, int]:
    """Return the current snapshot id of each joined table; `NothingToDo` while one of them has none."""
    snapshot_ids: dict[str, int] = {}
    for name in session.publication.joined_tables:
        snapshot_id = find_current_snapshot(session, name)
        if snapshot_id is None:
            raise NothingToDo(f"publication={session.publication.name}: joined table={name} does not exist yet")
        snapshot_ids[name] = snapshot_id
    return snapshot_ids


def find_current_snapshot(session: PublicationSession, name: str) -> int | None:
    """Return the id of a table's current snapshot; None without one, or without the table."""
    table = session.snapshots.read_table(name)
    return None if table is None else table.snapshot_id


def _is_unchanged(session: PublicationSession, old: Snapshots, new: Snapshots) -> bool:
    """Whether no row of the joined tables can have changed between these snapshot ids. False if unknown."""
    return all(
        name in old and (old[name] == to or session.snapshots.find_touched_files(name, old[name], to) == TouchedFiles())
        for name, to in new.items()
    )


def _find_lost_snapshot(session: PublicationSession, *needed: Snapshots) -> str | None:
    """Describe the first of these snapshots that can no longer be read; None if all exist."""
    for snapshots in needed:
        for name, snapshot in snapshots.items():
            if session.snapshots.read_table(name) is None or not session.snapshots.has_snapshot(name, snapshot):
                return f"snapshot={snapshot} of table={name}"
    return None


def _plan_group(observed: ObservedPublication, group: UnfinishedGroup) -> PlannedRun:
    session = observed.session
    topics = observed.topics
    progress = observed.progress
    # parts between the two states continue after their last published key
    position = replace(
        group.position, run=progress.name_run(session.new_run()), topic_ids=topics.ids, partitions=topics.partitions,
        after=None, counts={}, at_ms=0,
    )  # fmt: skip
    parts = []
    for number in group.numbers:
        part = progress.parts[number]
        is_on_the_way = (
            part is not None and part.state is None and part.pair == position.pair and part.mode != RunMode.TOPIC
        )
        after, counts = (part.after or "", part.counts) if part is not None and is_on_the_way else ("", {})
        form = progress.get_key_form(number)
        parts.append(
            KeyPart(number=number, expected=progress.raw_records[number], after=after, counts=counts, key_form=form)
        )
    return PlannedRun(position, tuple(parts), _find_touched_files(session, position), topics, is_resumed=True)


def _find_next_group(observed: ObservedPublication) -> UnfinishedGroup | None:
    """Return the group to bring on next; None if all parts are at one state, or none has begun.

    1. Parts that a comparison with the topic has not reached, or whose position fits file, table or topics no more.
    2. Parts between two states, each behind its last key. Parts still in the older of the two states come along.
    3. Parts without a position: they begin where the others began.
    4. Parts that stay behind: from their state to the newest one of any part.
    """
    progress = observed.progress
    if progress.common_position is not None and observed.fits(progress.common_position):
        return None
    return (
        # 1. to 4.
        _find_not_compared(observed)
        or _find_in_progress(observed.session, progress)
        or _find_not_begun(observed.session, progress)
        or _find_behind(observed.session, progress)
    )


def _find_not_compared(observed: ObservedPublication) -> UnfinishedGroup | None:
    progress = observed.progress
    last = progress.last_position
    good = [part for part in progress.recorded_parts if observed.fits(part)]
    if last is None or not good:
        return None
    compared = [part for part in good if part.mode == RunMode.TOPIC]
    is_begun = last.mode == RunMode.TOPIC or any(part.state is None for part in compared)
    if not is_begun and len(good) == len(progress.recorded_parts):
        return None
    goal = _find_newest(observed.session, compared or good)
    finished_target = (RunMode.TOPIC, goal.target) if is_begun else None

    def is_done(part: Progress | None) -> bool:
        if part is None or not observed.fits(part):
            return False
        return finished_target is None or (part.is_complete and (part.mode, part.target) == finished_target)

    numbers = tuple(number for number, part in enumerate(progress.parts) if not is_done(part))
    position = replace(goal, mode=RunMode.TOPIC, origin=None, joined_origin={})
    return UnfinishedGroup(position, numbers) if numbers else None


def _find_in_progress(session: PublicationSession, progress: PartProgress) -> UnfinishedGroup | None:
    begun_parts = [part for part in progress.recorded_parts if part.state is None]
    if not begun_parts:
        return None
    goal = _find_newest(session, begun_parts)

    def belongs(part: Progress | None) -> bool:
        if part is None:  # while there are such, every run has begun where the first one did
            return True
        return part.pair == goal.pair if part.state is None else _is_origin(session, part, goal)

    return UnfinishedGroup(goal, tuple(number for number, part in enumerate(progress.parts) if belongs(part)))


def _is_origin(session: PublicationSession, part: Progress, run: Progress) -> bool:
    if part.to != run.origin:
        return False
    if part.joined == run.joined_origin:
        return True
    return _find_lost_snapshot(session, part.joined, run.joined_origin) is None and _is_unchanged(
        session, part.joined, run.joined_origin
    )


def _find_not_begun(session: PublicationSession, progress: PartProgress) -> UnfinishedGroup | None:
    numbers = tuple(number for number, part in enumerate(progress.parts) if part is None)
    if not numbers or not progress.recorded_parts:
        return None
    goal = _find_newest(session, progress.recorded_parts)
    return UnfinishedGroup(goal, numbers)


def _find_behind(session: PublicationSession, progress: PartProgress) -> UnfinishedGroup | None:
    if not progress.recorded_parts:
        return None
    goal = _find_newest(session, progress.recorded_parts)
    stays = next((part for part in progress.recorded_parts if part.target != goal.target), None)
    if stays is None:
        return None
    numbers = tuple(n for n, part in enumerate(progress.parts) if part is not None and part.target == stays.target)
    is_same = _find_lost_snapshot(session, stays.joined, goal.joined) is None and _is_unchanged(
        session, stays.joined, goal.joined
    )
    before = goal.joined if is_same else stays.joined
    position = replace(goal, mode=RunMode.CHANGES, origin=stays.to, joined_origin=before)
    return UnfinishedGroup(position, numbers)


def _find_newest(session: PublicationSession, parts: list[Progress] | tuple[Progress, ...]) -> Progress:
    # readers must never see an older state
    targets: list[Target] = []
    for part in parts:
        if part.target not in targets:
            targets.append(part.target)
    if len(targets) == 1:
        return max(parts, key=lambda part: part.order)
    ages = {
        name: {s.snapshot_id: age for age, s in enumerate(session.snapshots.list_ancestors(name, sys.maxsize))}
        for name in (session.publication.table, *session.publication.joined_tables)
    }

    def measure_age(part: Progress) -> tuple[int, ...]:
        snapshot_ids = {session.publication.table: part.to, **part.joined}
        return tuple(ages[name].get(snapshot_ids.get(name, 0), sys.maxsize) for name in ages)

    return min(parts, key=lambda part: (measure_age(part), [-number for number in part.order]))
