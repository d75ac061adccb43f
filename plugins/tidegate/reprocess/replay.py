"""replay: decode dead letters again after a fix, and bring in what can be read now; nothing newer is overwritten."""

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from tidegate.errors import (
    CommitRefused,
    ConfigurationError,
    GiveUp,
    PositionLost,
    RetryLater,
    join_failures,
    try_tables,
)
from tidegate.flush.stage_request import build_stage_job, build_stage_table
from tidegate.flush.staged import add_lacking_columns, read_staged_batch
from tidegate.jobs.stage_job import DeadLetterSource
from tidegate.jobs.statements_job import StatementsJob
from tidegate.merge.attempt import MAX_ROUNDS, begin_attempt_beside, publish_attempt, retry_commits
from tidegate.merge.owed import ALL_LETTERS, LetterFilter, count_changes, cut_into_statements, find_known_topic_ids
from tidegate.merge.scd2_statements import refuse_history, refuse_truncates
from tidegate.merge.statements import find_written_memory, render_replay_statements
from tidegate.model import resource_names
from tidegate.model.backfill import list_later_pieces
from tidegate.model.batch import Plan, PlannedBatch
from tidegate.model.offsets import Offsets, Ranges, get_offset, group_by_topic, iterate_offsets
from tidegate.model.ownership import describe_dead_letters, describe_intermediate
from tidegate.model.position import Position
from tidegate.model.table_state import Head, StagedSource, Staging, WaitingLetter
from tidegate.ports.session import Session
from tidegate.spec.source import Errors
from tidegate.spec.table import TableMode
from tidegate.table.columns import compute_shape
from tidegate.table.compatibility import check_key_unchanged
from tidegate.table.history import find_undone_replays, reopen_letters
from tidegate.table.log import check_same_log, filter_table_log, read_log
from tidegate.table.position import check_homes, check_read_log, describe_all_losses, require_position
from tidegate.table.session import TableSession, open_table, refuse_template, select_tables

log = logging.getLogger(__name__)
MAX_CHOSEN_GROUPS = 50
REPLAY_SUMMARY = {resource_names.BACKFILL_PROPERTY: resource_names.REPLAY_ID}
BEGUN = "begun "  # in the mark, ahead of an attempt: its replay has published nothing yet
UNLIMITED_ERRORS = Errors("all", 2**31 - 1)  # what is still bad stays where it is, however much it is


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


def replay_dead_letters(
    session: Session, letter_filter: LetterFilter = ALL_LETTERS, report: Callable[[ReplayResult], None] = lambda _: None
) -> list[ReplayResult]:
    """Replay the dead letters of each table, or those that match. One replay of a pipeline at a time.

    1. Finish a replay that was killed before its letters were marked. Letters whose rows were rolled back wait again.
    2. Stage the dead letters from their own bytes, and the keys of all later records up to the table's position.
    3. Merge those that can be read now, except keys with a later record; publish as a backfill does.
    4. Mark what was read; what is still bad stays, with today's reason.

    `report` gets the result of each published part, also if a later one fails. A table that fails holds up no other;
    its error is raised at the end, as `SomeTables` with the others' results if there are any.
    """
    refuse_template(session.pipeline, "replay")
    tolerant = session.tolerate(UNLIMITED_ERRORS)
    chosen_tables = select_tables(tolerant, letter_filter.table)
    refuse_history(session.pipeline, chosen_tables, "replay")
    refuse_truncates(session.pipeline, "replay")
    check_homes(session)
    works = {it.name: Replay(TableSession(tolerant, it), letter_filter, report=report) for it in chosen_tables}
    replayed, failures = try_tables(works, lambda name: _replay_table(works[name]))
    results = [result for result in replayed if result is not None]
    if failures:
        raise join_failures(failures.values(), tuple(results))
    return results


def _replay_table(work: Replay) -> ReplayResult | None:
    session = work.session
    # ahead of the table, whose mark then tells whether this very attempt is applied
    staging = work.read_staging()
    table = work.table.refresh()
    if table.state is None:
        return None
    mark = table.state.marks.get(work.mark)
    is_undone = mark in find_undone_replays(session, table.name)
    if staging is not None and mark == staging.batches[0].attempt and not is_undone:
        result, work = _mark_replayed(replace(work, own_mark=mark, checks_mark=work.is_append), mark, None)
        if work.checks_mark:
            _forget_mark(work)
        # what it could not read then may be readable now
        finished = replace(result, tried=result.replayed, still_bad=0)
        rest = _replay_table(replace(work, own_mark=None, checks_mark=False))
        return finished if rest is None else rest.add(finished)
    position = require_position(table)
    reopen_letters(session, table.name)
    if work.is_append and group_letters(work, position):
        if not is_undone:
            _check_known(work, mark)
        work = _begin(replace(work, own_mark=mark, checks_mark=True))
    session.tables.claim(work.intermediate, describe_intermediate(session.pipeline, table.spec))
    _check_is_newest(work, table.refresh())
    session.staging.drop(work.intermediate)  # of a replay that was killed before its publish
    groups = group_letters(work, position)
    possible = [group for group in groups if work.is_append or not group.is_old]
    if possible and not work.is_append:
        check_read_log(table, position, filter_table_log(read_log(session), table.spec))
    old_letters = sum(group.count for group in groups if group not in possible)
    result = ReplayResult(table.name, 0, 0, 0, of_old_topics=old_letters)
    for group in possible:
        part, work = _replay_group(work, group)
        result = result.add(part)
    if work.checks_mark:
        _forget_mark(work)
    return result if groups else None


def _check_known(work: Replay, mark: str | None) -> None:
    if mark is None or mark.startswith(BEGUN) or work.letter_filter.places:
        return
    staging = work.read_staging()  # behind the mark
    state = work.table.refresh().state
    if state is None or state.marks.get(work.mark) != mark or (staging and staging.batches[0].attempt == mark):
        raise RetryLater(f"{work.prefix}: another replay ends at this moment; run it again")
    raise GiveUp(
        f"{work.prefix}: an earlier replay was committed, attempt={mark}, and the list of its dead letters is lost; "
        "its rows are those that the table's snapshot with this tidegate.attempt in its summary added: compare them "
        f"with `tidegate dead-letters {work.table.pipeline.name}`; replay those that are missing there (--offsets "
        "PLACE --replay), and discard the others (--offsets PLACE --discard)"
    )


def _begin(work: Replay) -> Replay:
    def begin() -> Replay:
        table = work.table.refresh()
        require_position(table)
        _check_is_newest(work, table)
        guard = partial(_check_is_newest, work)
        attempt = begin_attempt_beside(table, 1, guard, work.prefix, resource_names.REPLAY_ID)
        mark = BEGUN + attempt.id
        publish_attempt(replace(attempt, properties={work.mark: mark}, summary=REPLAY_SUMMARY))
        return replace(work, own_mark=mark)

    # an earlier replay publishes nothing any more after this commit
    return retry_commits(work.session, work.prefix, begin)


def _check_is_newest(work: Replay, table: TableSession) -> None:
    state = table.state
    if work.checks_mark and (state is None or state.marks.get(work.mark) != work.own_mark):
        raise RetryLater(f"{work.prefix}: another replay has begun meanwhile; let one run at a time, and run it again")


def _replay_group(work: Replay, letters: LetterGroup) -> tuple[ReplayResult, Replay]:
    session = work.session
    if work.table.spec.mode == TableMode.DELETE:
        raise ConfigurationError(
            f"{work.prefix}: a table with deletes and without upserts keeps several rows of a key, and which "
            "of them follow a dead letter is not known; insert its dead letters by hand, and delete them"
        )
    session.tables.claim(work.letters, describe_dead_letters(session.pipeline))
    attempt, head = retry_commits(session, work.prefix, partial(_replay_round, work, letters))
    if head is not None and work.checks_mark:
        work = replace(work, own_mark=attempt)
    return _mark_replayed(work, attempt, head)


def _replay_round(work: Replay, letters: LetterGroup) -> tuple[str, Head | None]:
    # letters, and records up to the position, may be of a schema that was registered since the last round
    work.session.schemas.forget()
    table = open_table(work.session, work.table.name).refresh()
    work = replace(work, table=table)
    position = require_position(table)
    _check_is_newest(work, table)
    check_key_unchanged(table)
    table = table.evolve()
    staged = stage_missing_letters(work, letters, position).batches[0]
    if not staged.counts.staged:
        return staged.attempt, None
    uuid = table.require_state().uuid

    def check_undisturbed(table_now: TableSession) -> None:
        if table_now.require_state().uuid != uuid:
            raise PositionLost(
                f"{work.prefix}: the table was dropped, or replaced by another of the same name, during the "
                "replay; nothing was applied; run: tidegate flush "
                f"{work.table.pipeline.name}; then replay again"
            )
        _check_is_newest(work, table_now)
        _read_own_staging(work, staged.attempt)

    attempt = begin_attempt_beside(table, staged.batch, check_undisturbed, work.prefix, resource_names.REPLAY_ID)
    attempt = replace(
        attempt,
        properties={work.mark: staged.attempt},
        summary={**REPLAY_SUMMARY, resource_names.REPLAY_PROPERTY: staged.attempt},
        memory=find_written_memory(table, staged),
        source=StagedSource(work.intermediate, staged.parts),
        min_added_rows=staged.counts.staged if work.is_append else 0,
    )
    statements = render_replay_statements(table, staged, attempt.branch, work.intermediate)
    head = publish_attempt(attempt, *statements)
    log.info("replayed: %s snapshot=%s", work.prefix, head.snapshot_id)
    return staged.attempt, head


def _read_own_staging(work: Replay, attempt: str) -> Staging:
    staging = work.read_staging()
    if staging is None or staging.batches[0].attempt != attempt:
        raise RetryLater(
            f"{work.prefix}: what attempt={attempt} staged was taken away, as another replay of the pipeline "
            "does; let one run at a time, and run it again"
        )
    return staging


def _mark_replayed(work: Replay, attempt: str, head: Head | None) -> tuple[ReplayResult, Replay]:
    session = work.session
    staging = _read_own_staging(work, attempt)
    staged = staging.batches[0]
    read = staged.counts.read
    bad = staged.counts.dead_lettered
    result = ReplayResult(work.table.name, read, read - bad, bad, **vars(count_changes(head)))
    result = replace(result, snapshot_id=head.snapshot_id if head else None)
    work.report(result)
    render = partial(
        session.get_sql(work.letters).render,
        "replayed_dead_letters",
        table=work.letters,
        target=work.table.name,
        source=work.intermediate,
        snapshot_id=staging.snapshot_id,
        parts=staged.parts,
        attempt=staged.attempt,
        ids=staged.topic_ids,
    )
    statements = tuple(render(ranges=ranges) for ranges in cut_into_statements(staged.ranges))
    session.engine.run(StatementsJob(session.pipeline.name, staged.batch, statements, table=work.letters))
    if work.checks_mark:
        work = _begin(work)  # ahead of the drop: a mark of an attempt without its letters is none that can be finished
    session.staging.drop(work.intermediate)
    if not work.checks_mark:
        _forget_mark(work)
    return result, work


def _forget_mark(work: Replay) -> None:
    with suppress(CommitRefused, RetryLater):  # it names one attempt, and branches go with the next replay
        work.session.history.forget_backfill(work.table.name, work.session.pipeline.name, resource_names.REPLAY_ID)


# ---- stage the letters from their own bytes, and the keys of all that came after them


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
    starts = group_by_topic({(topic, partition): start for topic, partition, start, end in ranges if end > start})
    begins = read_log(work.session).find_begins_behind(starts)
    # a range may end before the log begins
    ends = group_by_topic({(t, p): min(begin, ranges.by_topic[t][p][1]) for t, p, begin in iterate_offsets(begins)})
    for topic, partition, begin in iterate_offsets(begins):
        raise PositionLost(
            f"{work.prefix} topic={topic} partition={partition}: the log starts at offset={begin}, so the records "
            f"[{starts[topic][partition]}, {ends[topic][partition]}) are gone that would tell whether a dead letter is "
            f"the newest of its key{describe_all_losses(starts, ends)}; nothing was replayed; bring these in by hand, "
            "and delete them from the dead letters"
        )
