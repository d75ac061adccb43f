"""Brings parts that are at different snapshots together: one group of parts in equal states at a time.

Two runs may have been planned from the same progress to different snapshots, and each may have moved some parts to its
own. The difference between two states does not apply to a part that is in a third state.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace

from tidegate.model.publication_progress import PartProgress, Progress, RunMode, Target
from tidegate.ports.publication_ports import PublicationPorts
from tidegate.publications.joined_tables import find_lost_snapshot, is_unchanged


@dataclass(frozen=True)
class UnfinishedGroup:
    """The numbers of the parts of one group, and the two states between which they are. `position.run` is an earlier
    run.
    """

    position: Progress
    numbers: tuple[int, ...]


def find_next_group(
    ports: PublicationPorts, progress: PartProgress, fits: Callable[[Progress], bool]
) -> UnfinishedGroup | None:
    """The group to bring on next; None where all parts stand together, or none has begun.

    1. Parts that a comparison with the topic has not reached yet, where one was begun, or whose position fits neither
       file, table nor topics any more.
    2. Parts that are between two states: towards the one that was theirs, each behind the key that it has come to.
       Parts that are still in the older of the two states come along.
    3. Parts without a position: they begin where the others began.
    4. Parts that stay behind: from their state to the newest one that any part is in.
    """
    if progress.common_position is not None and fits(progress.common_position):
        return None
    return (
        _find_not_compared(ports, progress, fits)
        or _find_in_progress(ports, progress)
        or _find_not_begun(ports, progress)
        or _find_behind(ports, progress)
    )


def _find_not_compared(
    ports: PublicationPorts, progress: PartProgress, fits: Callable[[Progress], bool]
) -> UnfinishedGroup | None:
    last = progress.last_position
    good = [part for part in progress.recorded_parts if fits(part)]
    if last is None or not good:
        return None
    compared = [part for part in good if part.mode == RunMode.TOPIC]
    is_begun = last.mode == RunMode.TOPIC or any(part.state is None for part in compared)
    if not is_begun and len(good) == len(progress.recorded_parts):
        return None
    goal = _find_newest(ports, compared or good)
    finished_target = (RunMode.TOPIC, goal.target) if is_begun else None

    def is_done(part: Progress | None) -> bool:
        if part is None or not fits(part):
            return False
        return finished_target is None or (part.is_complete and (part.mode, part.target) == finished_target)

    numbers = tuple(number for number, part in enumerate(progress.parts) if not is_done(part))
    position = replace(goal, mode=RunMode.TOPIC, origin=None, until=None, joined_origin={})
    return UnfinishedGroup(position, numbers) if numbers else None


def _find_in_progress(ports: PublicationPorts, progress: PartProgress) -> UnfinishedGroup | None:
    begun_parts = [part for part in progress.recorded_parts if part.state is None]
    if not begun_parts:
        return None
    goal = _find_newest(ports, begun_parts)

    def belongs(part: Progress | None) -> bool:
        if part is None:  # while there are such, every run has begun where the first one did
            return True
        return part.pair == goal.pair if part.state is None else _is_origin(ports, part, goal)

    return UnfinishedGroup(goal, tuple(number for number, part in enumerate(progress.parts) if belongs(part)))


def _is_origin(ports: PublicationPorts, part: Progress, run: Progress) -> bool:
    """Whether the part's keys are in the state at which the run begins."""
    if part.to != run.origin:
        return False
    if part.joined == run.joined_origin:
        return True
    return find_lost_snapshot(ports, part.joined, run.joined_origin) is None and is_unchanged(
        ports, part.joined, run.joined_origin
    )


def _find_not_begun(ports: PublicationPorts, progress: PartProgress) -> UnfinishedGroup | None:
    numbers = tuple(number for number, part in enumerate(progress.parts) if part is None)
    if not numbers or not progress.recorded_parts:
        return None
    goal = _find_newest(ports, progress.recorded_parts)
    return UnfinishedGroup(goal, numbers)


def _find_behind(ports: PublicationPorts, progress: PartProgress) -> UnfinishedGroup | None:
    if not progress.recorded_parts:
        return None
    goal = _find_newest(ports, progress.recorded_parts)
    stays = next((part for part in progress.recorded_parts if part.target != goal.target), None)
    if stays is None:
        return None
    numbers = tuple(n for n, part in enumerate(progress.parts) if part is not None and part.target == stays.target)
    is_same = find_lost_snapshot(ports, stays.joined, goal.joined) is None and is_unchanged(
        ports, stays.joined, goal.joined
    )
    before = goal.joined if is_same else stays.joined
    position = replace(goal, mode=RunMode.CHANGES, origin=stays.to, until=None, joined_origin=before)
    return UnfinishedGroup(position, numbers)


def _find_newest(ports: PublicationPorts, parts: list[Progress] | tuple[Progress, ...]) -> Progress:
    """The part whose target the tables reached last, so that readers never see an older state; of equal ones the last
    part.
    """
    targets: list[Target] = []
    for part in parts:
        if part.target not in targets:
            targets.append(part.target)
    if len(targets) == 1:
        return max(parts, key=lambda part: part.order)
    ages = {
        name: _read_snapshot_ages(ports, name) for name in (ports.publication.table, *ports.publication.joined_tables)
    }

    def measure_age(part: Progress) -> tuple[int, ...]:
        snapshot_ids = {ports.publication.table: part.to, **part.joined}
        return tuple(ages[name].get(snapshot_ids.get(name, 0), sys.maxsize) for name in ages)

    return min(parts, key=lambda part: (measure_age(part), [-number for number in part.order]))


def _read_snapshot_ages(ports: PublicationPorts, name: str) -> dict[int, int]:
    """The number of newer snapshots in the table's current line, by snapshot id."""
    return {snapshot.snapshot_id: age for age, snapshot in enumerate(ports.snapshots.list_ancestors(name, sys.maxsize))}
