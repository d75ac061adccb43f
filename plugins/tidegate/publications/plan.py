"""plan: chooses the two snapshots between which the next run publishes, and the work of each part of the keys."""

from dataclasses import dataclass, replace
from typing import Any

from tidegate.errors import GiveUp, NothingToDo
from tidegate.jobs.publish_job import KeyPart, TouchedFiles
from tidegate.model.publication_progress import PartProgress, Progress, RunMode
from tidegate.ports.publication_ports import ExistingTopics, PublicationPorts, TableHead
from tidegate.publications.joined_tables import find_lost_snapshot, is_unchanged, read_joined_snapshots
from tidegate.publications.unfinished_parts import UnfinishedGroup, find_next_group

REMEDY = "run `tidegate publish {name} --resynchronise`, which compares the table with what the topic holds"


@dataclass(frozen=True)
class PlannedRun:
    """The next run: the position that it moves to, the parts that it has to move, and the data files that it reads."""

    position: Progress
    parts: tuple[KeyPart, ...]
    touched_files: TouchedFiles | None
    topics: ExistingTopics
    is_resumed: bool = False

    def to_dict(self) -> dict[str, Any]:
        """For people and programs."""
        files = None if self.touched_files is None else len(self.touched_files.old) + len(self.touched_files.new)
        return {
            "from_snapshot_id": self.position.origin,
            "to_snapshot_id": self.position.to,
            "compared_with": self.position.mode,
            "resumed": self.is_resumed,
            "parts": len(self.parts),
            "touched_files": files,
        }


def plan_run(ports: PublicationPorts, resynchronise: bool = False) -> PlannedRun:
    """Decide the next run; changes nothing.

    1. Parts that are at different snapshots are brought together first, a group at a time: see `unfinished_parts`.
    2. Else the parts go from the snapshot that they stand at to the table's current one.
    3. The first run goes from nothing, or from where `start` says.
    4. With `resynchronise`, or where the snapshot of the last run is gone and `on_expired` says so, the table is
       compared with what the topic holds instead.

    `NothingToDo` when no row can have changed; `GiveUp` when the recorded progress no longer fits table or topic.
    """
    table, topics, progress = observe_publication(ports)
    if not resynchronise:
        refuse_lost_progress(ports, progress, topics, table)
        if progress.is_new:
            return _plan_next(ports, progress, topics, table)
        group = _find_next_group(ports, progress, topics, table)
        position = group.position if group else progress.common_position
        if (
            position is not None
            and _is_compatible(ports, topics, table, position)
            and _find_missing_snapshot(ports, position, group) is None
        ):
            if group is None:
                return _plan_next(ports, progress, topics, table)
            return _plan_group(ports, progress, group, topics)
    return plan_all_parts(ports, progress, topics, _build_position(ports, RunMode.TOPIC, None, table, topics))


def observe_publication(ports: PublicationPorts) -> tuple[TableHead, ExistingTopics, PartProgress]:
    """Read the table, the topics and the progress. `NothingToDo` without a table, `GiveUp` if a topic has more
    partitions.
    """
    publication = ports.publication
    table = ports.snapshots.read_table(publication.table)
    if table is None or table.snapshot_id is None:
        raise NothingToDo(f"publication={publication.name}: table={publication.table} does not exist yet")
    topics = ports.topics.find_topics(publication)
    progress = ports.topics.read_progress(publication)
    _refuse_growth(ports, progress, topics)
    return table, topics, progress


def refuse_lost_progress(
    ports: PublicationPorts,
    progress: PartProgress,
    topics: ExistingTopics,
    table: TableHead,
    *,
    can_compare: bool = True,
) -> None:
    """`GiveUp` if the recorded progress no longer belongs to these topics. Also if it no longer belongs to this table,
    unless the run `can_compare` the table with the topics instead, and `on_expired` says so.
    """
    compares = can_compare and ports.publication.on_expired != "fail"
    reason = _find_mismatch(ports, progress, topics, table, compares=compares)
    if reason:
        raise GiveUp(f"publication={ports.publication.name}: {reason}; {REMEDY.format(name=ports.publication.name)}")


def _find_mismatch(
    ports: PublicationPorts, progress: PartProgress, topics: ExistingTopics, table: TableHead, *, compares: bool
) -> str | None:
    publication = ports.publication
    last = progress.last_position
    if last is None:
        is_lost = publication.start.kind == "full" and topics.holds_records
        problem = f"no progress is recorded, and topics={', '.join(sorted(topics.ids))} hold records"
        return f"{problem} (if not by the partitioner of Java's client, publish to a new topic)" if is_lost else None
    if not any(_is_compatible(ports, topics, table, part, same_table=False) for part in progress.recorded_parts):
        if last.digest != publication.digest:
            return "its file has changed what the topic's records look like since the last run"
        topic = next(topic for topic in publication.topics if last.topic_ids.get(topic) != topics.ids.get(topic))
        return f"topic={topic} was deleted or made anew since the last run"
    if not compares:
        if not any(_is_compatible(ports, topics, table, part) for part in progress.recorded_parts):
            return f"table={publication.table} was replaced by another of that name since the last run"
        group = _find_next_group(ports, progress, topics, table)
        position = group.position if group else progress.common_position
        missing_snapshot = None if position is None else _find_missing_snapshot(ports, position, group)
        if missing_snapshot is not None:
            return f"{missing_snapshot}, which was published last, has expired"
    return None


def _is_compatible(
    ports: PublicationPorts, topics: ExistingTopics, table: TableHead, part: Progress, same_table: bool = True
) -> bool:
    """Whether a position was recorded for the present file, these very topics and this very table."""
    publication = ports.publication
    is_ours = all(part.topic_ids.get(topic) == topics.ids.get(topic) for topic in publication.topics)
    return is_ours and part.digest == publication.digest and (not same_table or part.table_uuid == table.uuid)


def _find_next_group(
    ports: PublicationPorts, progress: PartProgress, topics: ExistingTopics, table: TableHead
) -> UnfinishedGroup | None:
    return find_next_group(ports, progress, lambda part: _is_compatible(ports, topics, table, part))


def _find_missing_snapshot(ports: PublicationPorts, position: Progress, group: UnfinishedGroup | None) -> str | None:
    """Describe an expired snapshot that the next run needs. Without `group` the run begins at `position`."""
    needed = [position.to] if group is None else [position.origin, position.until, position.to]
    table = ports.publication.table
    missing_snapshot = next(
        (
            snapshot_id
            for snapshot_id in needed
            if snapshot_id is not None and not ports.snapshots.has_snapshot(table, snapshot_id)
        ),
        None,
    )
    if missing_snapshot is not None:
        return f"snapshot={missing_snapshot} of table={table}"
    return find_lost_snapshot(ports, position.joined, {} if group is None else position.joined_origin)


def _refuse_growth(ports: PublicationPorts, progress: PartProgress, topics: ExistingTopics) -> None:
    """`GiveUp` if a topic has more partitions: its keys would move, and their old records would never be replaced."""
    for part in progress.parts:
        for topic, partitions in (part.partitions if part else {}).items():
            now = topics.partitions.get(topic)
            is_same = part is not None and topics.ids.get(topic) == part.topic_ids.get(topic)
            if is_same and now not in (None, partitions):
                raise GiveUp(
                    f"publication={ports.publication.name} topic={topic}: it had {partitions} partitions and "
                    f"has {now}, so its keys no longer lie where their records are; publish to a new topic"
                )


def _plan_next(ports: PublicationPorts, progress: PartProgress, topics: ExistingTopics, table: TableHead) -> PlannedRun:
    publication = ports.publication
    settled_run = progress.common_position
    origin = settled_run.to if settled_run else _find_start_snapshot(ports)
    to = table.snapshot_id
    joined_snapshots = read_joined_snapshots(ports)
    before = settled_run.joined if settled_run else {}
    is_same = is_unchanged(ports, before, joined_snapshots)
    if origin == to and is_same:
        raise NothingToDo(f"publication={publication.name}: published up to snapshot={origin}, and nothing came since")
    mode = RunMode.EVERYTHING if origin is None else RunMode.CHANGES
    position = _build_position(ports, mode, origin, table, topics)
    if mode == RunMode.CHANGES:
        position = replace(position, joined=joined_snapshots, joined_origin=joined_snapshots if is_same else before)
    following = plan_all_parts(ports, progress, topics, position)
    if following.touched_files == TouchedFiles() and settled_run is not None:
        raise NothingToDo(f"publication={publication.name}: no row has changed since snapshot={origin}")
    return following


def _find_start_snapshot(ports: PublicationPorts) -> int | None:
    """The snapshot that a first run begins at; None for nothing."""
    publication = ports.publication
    start = ports.publication.start
    if start.kind == "full":
        return None
    snapshot_id = start.snapshot_id
    if start.timestamp_ms is not None:
        snapshot_id = ports.snapshots.find_at(publication.table, start.timestamp_ms)
    if snapshot_id is None or not ports.snapshots.has_snapshot(publication.table, snapshot_id):
        raise GiveUp(
            f"publication={publication.name} table={publication.table}: there is no snapshot for its start "
            f"(snapshot={start.snapshot_id} timestamp_ms={start.timestamp_ms}); choose a later one, or start: full"
        )
    return snapshot_id


def _build_position(
    ports: PublicationPorts, mode: RunMode, origin: int | None, table: TableHead, topics: ExistingTopics
) -> Progress:
    return Progress(
        run=ports.new_run(),
        mode=mode,
        origin=origin,
        to=table.snapshot_id or 0,
        digest=ports.publication.digest,
        table_uuid=table.uuid,
        topic_ids=topics.ids,
        partitions=topics.partitions,
        joined=read_joined_snapshots(ports),
    )


def plan_all_parts(
    ports: PublicationPorts, progress: PartProgress, topics: ExistingTopics, position: Progress
) -> PlannedRun:
    """Plan a run of all parts to `position`, each from its own state. Finds the data files that differ, and reads no
    row. Changes nothing.
    """
    parts = tuple(
        KeyPart(number, raw, key_form=progress.get_key_form(number)) for number, raw in enumerate(progress.raw_records)
    )
    position = replace(position, run=progress.name_run(position.run))
    return PlannedRun(position, parts, _find_touched_files(ports, position), topics)


def _find_touched_files(ports: PublicationPorts, position: Progress) -> TouchedFiles | None:
    if position.mode not in (RunMode.CHANGES, RunMode.REPUBLISH) or position.origin is None:
        return None
    if position.joined != position.joined_origin:  # any row may look different then
        return None
    return ports.snapshots.find_touched_files(ports.publication.table, position.origin, position.until or position.to)


def _plan_group(
    ports: PublicationPorts, progress: PartProgress, group: UnfinishedGroup, topics: ExistingTopics
) -> PlannedRun:
    """Plan the run of one group. Parts between its two states continue after their last published key."""
    position = replace(
        group.position, run=progress.name_run(ports.new_run()), topic_ids=topics.ids, partitions=topics.partitions,
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
    return PlannedRun(position, tuple(parts), _find_touched_files(ports, position), topics, is_resumed=True)
