"""plan: which two snapshots of the table the next run lies between, and what every part of the keys has to do."""

from dataclasses import dataclass, replace
from typing import Any

from tidegate.errors import GiveUp, NothingToDo
from tidegate.jobs.publish_job import Part, TouchedFiles
from tidegate.model.publication_progress import AGAIN, CHANGES, EVERYTHING, TOPIC, Progress, Standing
from tidegate.ports.publication_ports import FoundTopics, PublicationPorts, TableNow
from tidegate.publications.joined_tables import are_same, joined_now, lost
from tidegate.publications.unfinished_parts import Rest, next_rest

REMEDY = "run `bin/tidegate publish {name} --resynchronise`, which compares the table with what the topic holds"


@dataclass(frozen=True)
class Planned:
    """The next run: the position that it leads to, the parts that it has to bring there, the files that it reads."""

    position: Progress
    parts: tuple[Part, ...]
    touched: TouchedFiles | None
    found: FoundTopics
    resumed: bool = False

    def to_dict(self) -> dict[str, Any]:
        """For people and programs."""
        files = None if self.touched is None else len(self.touched.old) + len(self.touched.new)
        return {
            "from_snapshot_id": self.position.origin,
            "to_snapshot_id": self.position.to,
            "compared_with": self.position.mode,
            "resumed": self.resumed,
            "parts": len(self.parts),
            "touched_files": files,
        }


def plan(ports: PublicationPorts, resynchronise: bool = False) -> Planned:
    """Decide the next run; changes nothing.

    1. Parts that do not stand together are brought together first, a group at a time: see `unfinished`.
    2. Else the parts go from the snapshot that they stand at to the table's current one.
    3. The first run goes from nothing, or from where `start` says.
    4. With `resynchronise`, or where the snapshot of the last run is gone and `on_expired` says so, the table is
       compared with what the topic holds instead.

    `NothingToDo` when no row can have changed; `GiveUp` when the recorded progress no longer fits table or topic.
    """
    table, found, standing = look(ports)
    if not resynchronise:
        refuse_estranged(ports, standing, found, table)
        if standing.is_new:
            return _next(ports, standing, found, table)
        rest = _rest(ports, standing, found, table)
        wanted = rest.position if rest else standing.settled
        if wanted is not None and _fits(ports, found, table, wanted) and _missing(ports, wanted, rest) is None:
            return _next(ports, standing, found, table) if rest is None else _rest_of(ports, standing, rest, found)
    return planned(ports, standing, found, _position(ports, TOPIC, None, table, found))


def look(ports: PublicationPorts) -> tuple[TableNow, FoundTopics, Standing]:
    """The table, the topics and the progress; NothingToDo without a table, GiveUp for topics that have grown."""
    publication = ports.publication
    table = ports.snapshots.table(publication.table)
    if table is None or table.snapshot_id is None:
        raise NothingToDo(f"publication={publication.name}: table={publication.table} does not exist yet")
    found, standing = ports.topics.found(publication), ports.topics.standing(publication)
    _refuse_growth(ports, standing, found)
    return table, found, standing


def refuse_estranged(ports: PublicationPorts, standing: Standing, found: FoundTopics, table: TableNow) -> None:
    """GiveUp where the recorded progress says nothing about this table and this topic any more."""
    reason = _estranged(ports, standing, found, table)
    if reason:
        raise GiveUp(f"publication={ports.publication.name}: {reason}; {REMEDY.format(name=ports.publication.name)}")


def _estranged(ports: PublicationPorts, standing: Standing, found: FoundTopics, table: TableNow) -> str | None:
    publication, last = ports.publication, standing.last
    if last is None:
        full = publication.start.kind == "full"
        return f"no progress is recorded, and topics={_list(found.ids)} hold records" if full and _held(found) else None
    if not any(_fits(ports, found, table, part, same_table=False) for part in standing.known):
        if last.digest != publication.digest:
            return "its file has changed what the topic's records look like since the last run"
        topic = next(topic for topic in publication.topics if last.topic_ids.get(topic) != found.ids.get(topic))
        return f"topic={topic} was deleted or made anew since the last run"
    if publication.on_expired == "fail":
        if not any(_fits(ports, found, table, part) for part in standing.known):
            return f"table={publication.table} was replaced by another of that name since the last run"
        rest = _rest(ports, standing, found, table)
        wanted = rest.position if rest else standing.settled
        gone = None if wanted is None else _missing(ports, wanted, rest)
        if gone is not None:
            return f"{gone}, which was published last, has expired"
    return None


def _fits(
    ports: PublicationPorts, found: FoundTopics, table: TableNow, part: Progress, same_table: bool = True
) -> bool:
    """Whether a position is one of records that look like those of now, in these very topics and of this very table."""
    publication = ports.publication
    is_ours = all(part.topic_ids.get(topic) == found.ids.get(topic) for topic in publication.topics)
    return is_ours and part.digest == publication.digest and (not same_table or part.table_uuid == table.uuid)


def _rest(ports: PublicationPorts, standing: Standing, found: FoundTopics, table: TableNow) -> Rest | None:
    return next_rest(ports, standing, lambda part: _fits(ports, found, table, part))


def _held(found: FoundTopics) -> bool:
    return found.holds_records


def _list(ids: dict[str, str]) -> str:
    return ", ".join(sorted(ids))


def _missing(ports: PublicationPorts, position: Progress, rest: Rest | None) -> str | None:
    """A snapshot that the next run would have to read and cannot; without `rest` it begins at `position`."""
    needed = [position.to] if rest is None else [position.origin, position.until, position.to]
    table = ports.publication.table
    own = next((one for one in needed if one is not None and not ports.snapshots.has(table, one)), None)
    if own is not None:
        return f"snapshot={own} of table={table}"
    return lost(ports, position.joined, {} if rest is None else position.joined_origin)


def _refuse_growth(ports: PublicationPorts, standing: Standing, found: FoundTopics) -> None:
    """Keys of a topic with another number of partitions lie elsewhere: their old records would never be replaced."""
    for part in standing.parts:
        for topic, partitions in (part.partitions if part else {}).items():
            now = found.partitions.get(topic)
            is_same = part is not None and found.ids.get(topic) == part.topic_ids.get(topic)
            if is_same and now not in (None, partitions):
                raise GiveUp(
                    f"publication={ports.publication.name} topic={topic}: it had {partitions} partitions and "
                    f"has {now}, so its keys no longer lie where their records are; publish to a new topic"
                )


def _next(ports: PublicationPorts, standing: Standing, found: FoundTopics, table: TableNow) -> Planned:
    publication, settled = ports.publication, standing.settled
    origin = settled.to if settled else _beginning(ports)
    to = table.snapshot_id
    joined, before = joined_now(ports), settled.joined if settled else {}
    is_same = are_same(ports, before, joined)
    if origin == to and is_same:
        raise NothingToDo(f"publication={publication.name}: published up to snapshot={origin}, and nothing came since")
    mode = EVERYTHING if origin is None else CHANGES
    position = _position(ports, mode, origin, table, found)
    if mode == CHANGES:
        position = replace(position, joined=joined, joined_origin=joined if is_same else before)
    following = planned(ports, standing, found, position)
    if following.touched == TouchedFiles() and settled is not None:
        raise NothingToDo(f"publication={publication.name}: no row has changed since snapshot={origin}")
    return following


def _beginning(ports: PublicationPorts) -> int | None:
    """The snapshot that a first run begins at; None for nothing."""
    publication, start = ports.publication, ports.publication.start
    if start.kind == "full":
        return None
    wanted = start.snapshot_id
    if start.timestamp_ms is not None:
        wanted = ports.snapshots.at(publication.table, start.timestamp_ms)
    if wanted is None or not ports.snapshots.has(publication.table, wanted):
        raise GiveUp(
            f"publication={publication.name} table={publication.table}: there is no snapshot for its start "
            f"(snapshot={start.snapshot_id} timestamp_ms={start.timestamp_ms}); choose a later one, or start: full"
        )
    return wanted


def _position(ports: PublicationPorts, mode: str, origin: int | None, table: TableNow, found: FoundTopics) -> Progress:
    to, digest = table.snapshot_id or 0, ports.publication.digest
    return Progress(ports.new_run(), mode, origin, to, digest, table.uuid, found.ids, found.partitions,
        joined=joined_now(ports),
    )  # fmt: skip


def planned(ports: PublicationPorts, standing: Standing, found: FoundTopics, position: Progress) -> Planned:
    """A run of all parts, from where each of them stands."""
    parts = tuple(Part(number, raw) for number, raw in enumerate(standing.raw))
    return Planned(position, parts, _touched(ports, position), found)


def _touched(ports: PublicationPorts, position: Progress) -> TouchedFiles | None:
    if position.mode not in (CHANGES, AGAIN) or position.origin is None:
        return None
    if position.joined != position.joined_origin:  # any row may look different then
        return None
    return ports.snapshots.touched(ports.publication.table, position.origin, position.until or position.to)


def _rest_of(ports: PublicationPorts, standing: Standing, rest: Rest, found: FoundTopics) -> Planned:
    """The run of one group; parts that are between its two states go on behind the key that they have come to."""
    position = replace(
        rest.position, run=ports.new_run(), topic_ids=found.ids, partitions=found.partitions,
        after=None, counts={}, at_ms=0,
    )  # fmt: skip
    parts = []
    for number in rest.numbers:
        part = standing.parts[number]
        is_on_the_way = part is not None and part.state is None and part.pair == position.pair and part.mode != TOPIC
        after, counts = (part.after or "", part.counts) if part is not None and is_on_the_way else ("", {})
        parts.append(Part(number, standing.raw[number], after, counts))
    return Planned(position, tuple(parts), _touched(ports, position), found, resumed=True)
