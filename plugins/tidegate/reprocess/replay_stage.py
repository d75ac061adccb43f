"""replay, first part: stage dead letters from their own bytes, and the keys of all that came after them."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from tidegate.errors import GiveUp, PositionLost, RetryLater
from tidegate.flush.stage_request import build_stage_job, build_stage_table
from tidegate.flush.staged import add_lacking_columns, read_staged_batch
from tidegate.jobs.stage_job import DeadLetterSource
from tidegate.merge.attempt import MAX_ROUNDS
from tidegate.merge.owed import ALL_LETTERS, LetterFilter, find_known_topic_ids
from tidegate.model import resource_names
from tidegate.model.backfill import list_later_pieces
from tidegate.model.batch import Plan, PlannedBatch
from tidegate.model.offsets import Offsets, Ranges, get_offset, group_by_topic, iterate_offsets
from tidegate.model.position import Position
from tidegate.model.table_state import Staging, WaitingLetter
from tidegate.ports.session import Session
from tidegate.spec.table import TableMode
from tidegate.table.columns import compute_shape
from tidegate.table.log import check_same_log, read_log
from tidegate.table.position import describe_all_losses
from tidegate.table.session import TableSession

MAX_CHOSEN_GROUPS = 50
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReplayResult:
    """What became of one table's dead letters; `still_bad` stay among them.

    So do those `of_old_topics`, which were deleted since: it is unknown whether such a letter is the newest of its key.
    `snapshot_id` is that of the last publish, or None.
    """

    table: str
    tried: int
    replayed: int
    still_bad: int
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    of_old_topics: int = 0
    snapshot_id: int | None = None

    def add(self, other: "ReplayResult") -> "ReplayResult":
        """Add a later part of the table's letters."""
        sums = asdict(self).keys() - {"table", "snapshot_id"}
        total = {name: getattr(self, name) + getattr(other, name) for name in sums}
        return replace(self, **total, snapshot_id=other.snapshot_id or self.snapshot_id)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data; the snapshot id is text, as browsers round numbers of this size."""
        return {**asdict(self), "snapshot_id": None if self.snapshot_id is None else str(self.snapshot_id)}


@dataclass(frozen=True)
class Replay:
    """The replay of one table's dead letters.

    `own_mark` is what it last found, or wrote, in the table's mark; another value means that another replay has begun.
    That is checked with `checks_mark`; without it, what is applied twice changes nothing.
    """

    table: TableSession
    letter_filter: LetterFilter = ALL_LETTERS
    own_mark: str | None = None
    checks_mark: bool = False
    report: Callable[[ReplayResult], None] = lambda _: None

    @property
    def session(self) -> Session:
        return self.table.session

    @property
    def prefix(self) -> str:
        return f"{self.table.prefix} replay"

    @property
    def letters(self) -> str:
        return self.session.letters_table

    @property
    def intermediate(self) -> str:
        return resource_names.name_backfill_table(self.session.pipeline, self.table.spec, resource_names.REPLAY_ID)

    @property
    def mark(self) -> str:
        """The property that names the staged attempt that is applied and not yet marked, or who has begun a replay."""
        return resource_names.name_backfill_property(self.session.pipeline.name, resource_names.REPLAY_ID)

    @property
    def is_append(self) -> bool:
        return self.table.spec.mode == TableMode.APPEND

    def read_staging(self) -> Staging | None:
        staging = self.session.staging.read_staging(self.intermediate, self.table.name)
        return staging if staging is not None and any(batch.batch == 1 for batch in staging.batches) else None


@dataclass(frozen=True)
class LetterGroup:
    """Dead letters of one table that are replayed together: of the topics with these ids, or without an id."""

    ranges: Ranges
    topic_ids: dict[str, str]
    count: int
    is_old: bool = False  # their topic was deleted since, so nothing in the log came after them


class _GroupKey(NamedTuple):
    """Letters with equal keys are replayed together, and groups in the order of their keys.

    `old_topic` and `topic_id` name a deleted topic, else empty. No letter was left out between those of one `run`.
    """

    old_topic: str
    topic_id: str
    has_id: bool
    run: int


def group_letters(work: Replay, position: Position) -> list[LetterGroup]:
    """Return the table's dead letters that are published, in groups.

    Letters at one offset of two topics of a name are never in one group. If only some letters are chosen, no other
    letter lies between those of a group.
    """
    ids = find_known_topic_ids(position.topic_ids)
    groups = dict[_GroupKey, list[WaitingLetter]]()
    run = 0
    waiting_letters = work.session.dead_letters.list_waiting_letters(work.letters, work.table.name)
    for letter in sorted(waiting_letters, key=lambda it: (it.topic, it.partition, it.offset, it.topic_id or "")):
        if not work.letter_filter.matches(letter):
            run += 1
            continue
        is_old = letter.topic_id is not None and letter.topic_id != ids.get(letter.topic)
        if is_old or letter.offset < (get_offset(position.offsets, letter.topic, letter.partition) or 0):
            old_topic, topic_id = (letter.topic, letter.topic_id or "") if is_old else ("", "")
            key = _GroupKey(old_topic, topic_id, has_id=bool(letter.topic_id), run=run)
            groups.setdefault(key, []).append(letter)
    if work.letter_filter.is_given and len(groups) > MAX_CHOSEN_GROUPS:
        raise GiveUp(
            f"{work.prefix}: the chosen dead letters lie between others, in groups={len(groups)}, and each group is "
            f"merged by itself; choose letters of at most {MAX_CHOSEN_GROUPS} groups, e.g. by --since, or replay all"
        )
    return [
        LetterGroup(
            ranges=_find_span(letters),
            topic_ids={letter.topic: letter.topic_id for letter in letters if letter.topic_id is not None},
            count=len(letters),
            is_old=bool(key.old_topic),
        )
        for key, letters in sorted(groups.items(), key=lambda item: item[0])
    ]


def _find_span(letters: Iterable[WaitingLetter]) -> Ranges:
    ends: dict[str, dict[int, tuple[int, int]]] = {}
    for letter in letters:
        parts = ends.setdefault(letter.topic, {})
        first, last = parts.get(letter.partition, (letter.offset, letter.offset))
        parts[letter.partition] = (min(first, letter.offset), max(last, letter.offset + 1))
    return Ranges(ends)


def stage_missing_letters(work: Replay, letters: LetterGroup, position: Position) -> Staging:
    """Return the intermediate table once it holds all that decides; stage what is missing.

    The letters are batch 1; later records of their keys, up to `position`, are the batches after it. `RetryLater` if
    others take away what was staged, again and again.
    """
    for _ in range(MAX_ROUNDS):
        staging = work.read_staging()
        pieces = _find_missing_pieces(work, letters.ranges, position.offsets, staging)
        if staging is not None and not pieces:
            return staging
        for number, ranges in pieces:
            if not any(_stage_piece(work, number, ranges, letters, position) for _ in range(2)):
                raise RetryLater(f"{work.prefix}: columns were changed meanwhile; it is staged again")
    raise RetryLater(f"{work.prefix}: what was staged was taken away {MAX_ROUNDS} times; it will be tried again")


def _find_missing_pieces(
    work: Replay, letters: Ranges, position: Offsets, staging: Staging | None
) -> list[tuple[int, Ranges]]:
    current = compute_shape(work.table.refresh().resolved)  # a column may have come since they were staged
    staged_ranges = (
        {batch.batch: batch.ranges for batch in staging.batches if batch.row_shape == current} if staging else {}
    )
    pieces = [] if 1 in staged_ranges else [(1, letters)]
    if work.is_append:
        return pieces
    after = {topic: {p: start + 1 for p, (start, _) in parts.items()} for topic, parts in letters.by_topic.items()}
    return pieces + list_later_pieces(staged_ranges, 1, after, position, work.session.pipeline.merge.max_records)


def _stage_piece(work: Replay, number: int, ranges: Ranges, letters: LetterGroup, position: Position) -> bool:
    """Return False if it added columns to the table, with which the piece is to be staged once more."""
    session = work.session
    are_letters = number == 1
    if not are_letters:
        _check_log(work, ranges)
    planned_batch = PlannedBatch(work.table.name, number, ranges, last_per_key=True)
    plan = Plan((), position.cluster_id, letters.topic_ids if are_letters else position.topic_ids)
    stage_table = replace(
        build_stage_table(session, plan, planned_batch, intermediate=work.intermediate), keys_only=not are_letters
    )
    source = None
    if are_letters:
        folder = session.dead_letters.copy_dead_letters(work.letters, work.table.name, work.intermediate)
        source = DeadLetterSource(work.letters, work.table.name, folder, letters.topic_ids)
    session.engine.run(build_stage_job(session, number, ranges, [stage_table], letters=source))
    if not are_letters:
        check_same_log(session, work.prefix, ranges, position)
    if add_lacking_columns(work.table, planned_batch, stage_table):
        return False
    read_staged_batch(session, planned_batch, stage_table)
    return True


def _check_log(work: Replay, ranges: Ranges) -> None:
    begin = read_log(work.session).begin
    # of each partition the place up to which the records of the range are gone
    lost = {
        (topic, partition): min(end, get_offset(begin, topic, partition) or 0)
        for topic, partition, start, end in ranges
        if start < min(end, get_offset(begin, topic, partition) or 0)
    }
    starts, ends = ranges.start, group_by_topic(lost)
    for topic, partition, end in iterate_offsets(ends):
        raise PositionLost(
            f"{work.prefix} topic={topic} partition={partition}: the log starts at offset={begin[topic][partition]}, "
            f"so the records [{starts[topic][partition]}, {end}) are gone that would tell whether a dead "
            f"letter is the newest of its key{describe_all_losses(starts, ends)}; nothing was replayed; bring these in "
            "by hand, and delete them from the dead letters"
        )
