"""replay: decode dead letters again after a fix, and bring in what can be read now; nothing newer is overwritten."""

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from tidegate.errors import (
    CommitRefused,
    ConfigurationError,
    GiveUp,
    PositionLost,
    RetryLater,
    TidegateError,
    join_failures,
)
from tidegate.jobs.statements_job import StatementsJob
from tidegate.merge.attempt import begin_attempt_beside, publish_attempt, retry_commits
from tidegate.merge.owed import ALL_LETTERS, LetterFilter, count_changes, cut_into_statements
from tidegate.merge.scd2_statements import refuse_history, refuse_truncates
from tidegate.merge.statements import find_written_memory, render_replay_statements
from tidegate.model import resource_names
from tidegate.model.ownership import describe_dead_letters, describe_intermediate
from tidegate.model.table_state import Head, StagedSource, Staging
from tidegate.ports.session import Session
from tidegate.reprocess.replay_stage import LetterGroup, Replay, ReplayResult, group_letters, stage_missing_letters
from tidegate.spec.source import Errors
from tidegate.spec.table import TableMode
from tidegate.table.compatibility import check_key_unchanged
from tidegate.table.history import find_undone_replays, reopen_letters
from tidegate.table.log import filter_table_log, read_log
from tidegate.table.position import check_homes, check_read_log, require_position
from tidegate.table.session import TableSession, open_table, refuse_template, select_tables

log = logging.getLogger(__name__)
REPLAY_SUMMARY = {resource_names.BACKFILL_PROPERTY: resource_names.REPLAY_ID}
BEGUN = "begun "  # in the mark, ahead of an attempt: its replay has published nothing yet
UNLIMITED_ERRORS = Errors("all", 2**31 - 1)  # what is still bad stays where it is, however much it is


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
    results = list[ReplayResult]()
    failures = list[TidegateError]()
    for table in chosen_tables:
        try:
            result = _replay_table(Replay(TableSession(tolerant, table), letter_filter, report=report))
        except (GiveUp, RetryLater) as failure:
            failures.append(failure)
            continue
        results += [result] if result is not None else []
    if failures:
        raise join_failures(failures, tuple(results))
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
