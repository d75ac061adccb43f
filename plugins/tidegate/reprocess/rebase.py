"""rebase: moves a position by hand, after showing what that skips or reads again; every such move goes this way."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial

from tidegate.errors import CommitRefused, ConfigurationError, GiveUp, RetryLater
from tidegate.merge.attempt import begin_attempt, make_first_snapshot, publish_attempt, retry_commits
from tidegate.merge.owed import find_known_topic_ids
from tidegate.model import resource_names
from tidegate.model.counts import format_count
from tidegate.model.kafka_log import Log
from tidegate.model.offsets import Offsets, format_offsets, get_offset, iterate_offsets
from tidegate.model.ownership import describe_memory
from tidegate.model.position import Position
from tidegate.model.table_state import TableState, is_another_cluster
from tidegate.ports.session import Session
from tidegate.reprocess.proposed_action import ActionPart, ProposedAction
from tidegate.spec.table import Table
from tidegate.table.coverage import answer_coverage
from tidegate.table.history import add_action
from tidegate.table.log import filter_table_log, read_log
from tidegate.table.position import REMAINING, find_position_cuts
from tidegate.table.queue import is_passed
from tidegate.table.session import TableSession, expand_template, select_tables
from tidegate.table.start_offsets import check_target_topics, is_json, parse_offsets_target, resolve_target

MAX_NAMED_MOVES = 10
ACTION = "rebase"
Note = Callable[[TableSession], dict[str, str]]
SHOWN_FACTS = ("topic", "partition", "before", "after", "skipped", "read_again")
MAX_SHOWN_MOVES = 100  # partitions of a preview: what is behind them would stand in a log, and nobody would look


@dataclass(frozen=True)
class PartitionMove:
    """One partition of one table: `before` is None if the table had no position for it.

    `new_log` has begin and end of a topic that was created again: then `before` counted records of the old topic.
    """

    table: str
    topic: str
    partition: int
    before: int | None
    after: int
    new_log: tuple[int, int] | None = None

    @property
    def skipped(self) -> int:
        before = (self.before or 0) if self.new_log is None else self.new_log[0]
        return max(0, self.after - before)

    @property
    def read_again(self) -> int:
        return max(0, (self.before or 0) - self.after) if self.new_log is None else 0


@dataclass(frozen=True)
class OldTopic:
    """A topic that was created again since the table read it, by its id then and now.

    The table's `rows` (None if not counted) and the waiting `dead_letters` that came from it stay.
    """

    table: str
    topic: str
    recorded: str
    found: str
    rows: int | None
    dead_letters: int


@dataclass(frozen=True)
class TableMove:
    """One table's position before and after the move, and what the move leaves behind of deleted topics."""

    table: Table
    before: Position
    after: Position
    old_topics: tuple[OldTopic, ...] = ()
    last_unpublished_batch: int = 0  # the highest staged batch that the move discards; 0 for none
    log: Log | None = None  # that the move was proposed for
    held: Offsets | None = None  # up to where a table that was rolled back has its rows, if that is known

    @property
    def moves(self) -> list[PartitionMove]:
        def find_new_log(topic: str, partition: int) -> tuple[int, int] | None:
            if self.log is None or topic not in {old.topic for old in self.old_topics}:
                return None
            return self.log.begin[topic][partition], self.log.end[topic][partition]

        # what lies behind the rows of a table that was rolled back is skipped, also where its position stays
        before = self.before.offsets if self.held is None else self.held
        return [
            PartitionMove(
                table=self.table.name,
                topic=topic,
                partition=partition,
                before=get_offset(before, topic, partition),
                after=after,
                new_log=find_new_log(topic, partition),
            )
            for topic, partition, after in iterate_offsets(self.after.offsets)
        ]


def propose_moves(session: Session, to: str, name: str | None = None) -> list[TableMove]:
    """Return what `rebase_position` would do to each table, or to the one named; changes nothing.

    `to` is earliest, latest, group, remaining, a time (ISO 8601 with zone) or offsets as JSON, ``{"topic": {"0":
    42}}``; partitions that it does not name stay. remaining names those that have lost records behind the position.
    """
    log = read_log(session)
    session = expand_template(session)
    if is_json(to):
        check_target_topics(log, parse_offsets_target(to))
    tables = tuple(table for table in session.pipeline.tables if name in (None, table.name)) or select_tables(
        session, name
    )
    return [_propose_move(session, table, to, log) for table in tables]


def _propose_move(session: Session, table: Table, to: str, log: Log) -> TableMove:
    table_session = _require_table(TableSession(session, table))
    state = table_session.require_state()
    part = filter_table_log(log, table)
    before = state.recorded_position or Position({})
    ids = {topic: part.topic_ids[topic] for topic in part.begin}
    target = resolve_target(session, before, _find_lasting_offsets(before, part), to, part)
    # no batch that was staged before the move is resumed after it: its number is not above the position's
    batch = max(state.highest_batch, find_highest_staged(table_session))
    epochs = target.choose_epochs(before, part)
    after = Position(
        offsets=target.offsets,
        batch=batch,
        cluster_id=log.cluster_id,
        topic_ids=ids,
        epochs=epochs,
        outside=before.outside,
    )
    old_topics = _find_old_topics(session, table, before, ids)
    is_ordered = table.history is not None and bool(table.sequence_by)
    if is_ordered and (old_topics or _leads_to_other_log(session, before, after, part)):
        _refuse_remembered_offsets(table_session)
    return TableMove(
        table=table,
        before=before,
        after=after,
        old_topics=old_topics,
        last_unpublished_batch=_find_unpublished(table_session, before),
        log=part,
        held=_find_held(state),
    )


def _leads_to_other_log(session: Session, before: Position, after: Position, part: Log) -> bool:
    """Whether equal offsets mean other records behind the move than before it, though no topic's id has changed."""
    if is_another_cluster(before.cluster_id, part.cluster_id):
        return before.offsets != after.offsets  # a position that stays is that of a copy with equal offsets
    topics_change = before.offsets.keys() - after.offsets.keys() and after.offsets.keys() - before.offsets.keys()
    return bool(topics_change or find_position_cuts(session, before, part))


def _refuse_remembered_offsets(table: TableSession) -> None:
    """Raise `GiveUp` if the table remembers changes whose offsets would be compared with those of another log.

    Of a key's changes at one sequence, and of a delete without one, the offset decides: a new delete would be left out.
    """
    memory = resource_names.name_memory_table(table.spec)
    tables = table.session.tables
    if tables.claim(memory, describe_memory(table.spec)) is None or tables.count_rows(memory) == 0:
        return
    raise GiveUp(
        f"{table.prefix}: {memory} remembers changes by offsets of the log that this leaves, and those of another "
        "log may be lower: deletes there would end no row; nothing was moved; forget these changes first, as "
        "tombstone_retention does later: drop that table, then run the same command again"
    )


def _find_held(state: TableState) -> Offsets | None:
    position = state.position
    is_unclear = state.is_untraceable or state.cherry_picked_batch is not None or (state.is_untagged and not position)
    if not state.is_rolled_back or is_unclear:
        return None
    held = {} if position is None else position.offsets
    # a table that only lost its tag counts as rolled back too
    return None if state.recorded_position and held == state.recorded_position.offsets else held


def find_highest_staged(table: TableSession) -> int:
    return max(table.session.staging.find_highest_batch(name) for name in _list_intermediates(table))


def _list_intermediates(table: TableSession) -> list[str]:
    # the file may name another table than the one that the table was last published from
    mark = resource_names.name_pipeline_property(table.pipeline.name, "intermediate-suffix")
    suffix = table.pipeline.merge.intermediate_suffix
    suffixes = dict.fromkeys((suffix, table.require_state().marks.get(mark, suffix)))
    return [f"{table.name}_{table.pipeline.name}{suffix}" for suffix in suffixes]


def _find_lasting_offsets(before: Position, part: Log) -> Offsets:
    was = find_known_topic_ids(before.topic_ids)
    now = find_known_topic_ids(part.topic_ids)
    is_moved = is_another_cluster(before.cluster_id, part.cluster_id)
    lasting: Offsets = {}
    for topic, offsets in before.offsets.items():
        # a topic that was created again does not stay; one of another cluster may be a copy with equal offsets
        is_same = topic not in was or now.get(topic, was[topic]) == was[topic]
        if is_same or is_moved:
            log_begins = part.begin.get(topic, {})
            lasting[topic] = {p: offset for p, offset in offsets.items() if p in log_begins or not is_moved}
    return lasting


def _find_unpublished(table: TableSession, before: Position) -> int:
    try:
        names = _list_intermediates(table)
        batches = [batch for name in names for batch in table.session.staging.list_staged(name, table.name)]
    except GiveUp:
        return 0
    # what cannot be read is published by no flush either, and must not block the move
    end = before.offsets
    last = 0
    for staged_batch in batches:
        if not is_passed(table, before, staged_batch) and staged_batch.ranges.continues(end):
            end = staged_batch.ranges.end
            last = staged_batch.batch
    return last


def _find_old_topics(session: Session, table: Table, before: Position, ids: dict[str, str]) -> tuple[OldTopic, ...]:
    was = find_known_topic_ids(before.topic_ids)
    now = find_known_topic_ids(ids)
    changed_topics = [topic for topic in sorted(was) if now.get(topic, was[topic]) != was[topic]]
    if not changed_topics:
        return ()
    letters = session.dead_letters.list_waiting_letters(session.letters_table, table.name)
    letters_by_topic = Counter(letter.topic for letter in letters if letter.topic_id != now.get(letter.topic))
    rows = session.tables.count_rows(table.name)
    return tuple(
        OldTopic(
            table=table.name,
            topic=topic,
            recorded=was[topic],
            found=now[topic],
            rows=rows,
            dead_letters=letters_by_topic[topic],
        )
        for topic in changed_topics
    )


def rebase_position(session: Session, move: TableMove, by: str, action: str = ACTION) -> None:
    """Move the position of the table as proposed, if it has not changed since.

    Like a publish, this is one compare-and-swap. Its snapshot keeps ``tidegate.rebase`` with the offsets before and
    after, and the table a note of the `action` and its user.
    """
    moved = [part for part in move.moves if part.before != part.after]
    names = [f"{part.topic} {part.partition}: {part.before} -> {part.after}" for part in moved[:MAX_NAMED_MOVES]]
    more = [f"and {len(moved) - len(names)} more"] if len(moved) > len(names) else []
    details = ", ".join([*names, *more]) or "the position stays"
    note = partial(add_action, action=action, by=by, details=details)
    table = TableSession(session, move.table)
    retry_commits(session, table.prefix, partial(move_position, table, move, note, moves_home=action == ACTION))


def note_beside_position(table: TableSession, position: Position, note: Note) -> None:
    """Try once to set what `note` gives, and leave the position where it is; for `retry_commits`.

    `CommitRefused` asks for another try, also where a flush has moved the position meanwhile.
    """
    move_position(table, TableMove(table.spec, position, position), note, if_moved=CommitRefused)


def move_position(
    table: TableSession,
    move: TableMove,
    note: Note,
    *,
    moves_home: bool = False,
    if_moved: type[RetryLater | CommitRefused] = RetryLater,
) -> None:
    """Try a move once; `note` gives what else is set in its commit. `CommitRefused` asks for another try.

    `if_moved` is raised if the position is not the one that the move begins at.
    """
    pipeline = table.pipeline.name
    table = _require_table(table)

    def check_unmoved(table_now: TableSession) -> None:
        recorded = table_now.require_state().recorded_position
        # it is made already if an earlier try of it has died behind the first snapshot
        if (recorded or Position({})) not in (move.before, move.after):
            recorded_offsets = format_offsets(recorded.offsets) if recorded else None
            raise if_moved(
                f"{table.prefix}: another writer was faster, this position was not moved: found={recorded_offsets} "
                f"shown={format_offsets(move.before.offsets)}; see `tidegate status`, and run the command again"
            )

    check_unmoved(table)
    if table.require_state().snapshot_id is None:  # replaced by an empty one, or lost: nothing to cut a branch from
        make_first_snapshot(table, move.after)
        table = _require_table(table)
    properties = move.after.to_properties(pipeline)
    is_moved = move.before.offsets != move.after.offsets
    mark = json.dumps({"from": move.before.offsets, "to": move.after.offsets})
    attempt = begin_attempt(table, table.require_state().highest_batch, check_unmoved)
    attempt = replace(
        attempt,
        properties={**properties, **note(table), **answer_coverage(table, move.after.offsets)},
        summary={**properties, **({"tidegate.rebase": mark} if is_moved else {})},
        moves_home=moves_home,
    )
    publish_attempt(attempt)


def _require_table(table: TableSession) -> TableSession:
    table = table.refresh()
    state = table.state
    if state is None or (state.recorded_position is None and not state.is_position_lost):
        raise ConfigurationError(
            f"{table.prefix}: no position yet, so there is none to move: its first batch begins where source.start "
            "says; set that instead, and move each other table by its name, with --table"
        )
    return table


# ---- the action: shown first, then done


def propose_rebase(session: Session, to: str, table: str | None = None) -> ProposedAction:
    """Move the position of every table, or of the one named, to where `to` says."""
    proposed = propose_moves(session, to, table)
    shown: Offsets = {}
    for move in proposed:
        for topic, partitions in move.after.offsets.items():
            shown[topic] = {**shown.get(topic, {}), **partitions}
    moves = format_moves([move for table_move in proposed for move in table_move.moves])
    return ProposedAction(
        preview="\n".join(filter(None, (moves, *format_consequences(session.pipeline.name, proposed)))),
        subject={"pipeline": session.pipeline.name, "to": to},
        parts=tuple(
            ActionPart(
                table=move.table.name,
                facts={
                    "partitions": [{name: getattr(part, name) for name in SHOWN_FACTS} for part in move.moves],
                    "old_topics": [asdict(old) for old in move.old_topics],
                },
                perform=partial(rebase_position, session, move),
                expected_batch=move.before.batch,
            )
            for move in proposed
        ),
        question="Move the position?",
        success_message="the position was moved",
        # the end of the log or a time may mean other offsets later, so those shown are pinned; not for remaining: each
        # table has another place, and partitions that stay must not count as named
        pinned_params={"to": to if is_json(to) or to == REMAINING else json.dumps(shown)},
    )


def format_moves(moves: list[PartitionMove]) -> str:
    """By partition; of very many, those that move farthest, and the sums of all."""
    listed_moves = moves
    if len(moves) > MAX_SHOWN_MOVES:
        moved_ones = [move for move in moves if move.before != move.after]
        # those that skip most come first: nobody reads what is skipped
        listed_moves = sorted(moved_ones, key=lambda move: (-move.skipped, -move.read_again))[:MAX_SHOWN_MOVES]
    lines = [f"{move.table}  {move.topic} {move.partition}: {_format_move(move)}" for move in listed_moves]
    if len(listed_moves) < len(moves):
        skipped = sum(move.skipped for move in moves)
        read_again = sum(move.read_again for move in moves)
        moved = sum(move.before != move.after for move in moves)
        lines.append(
            f"and more: of {format_count(len(moves), 'partition')} {moved} move; in all skips {skipped} and reads "
            f"again {format_count(read_again, 'offset')}"
        )
    return "\n".join(lines)


def _format_move(move: PartitionMove) -> str:
    if move.new_log is not None:
        begin, end = move.new_log
        all_offsets = format_count(end - begin, "offset")
        return f"begins at {move.after} of the new topic, reads {end - move.after} of its {all_offsets}"
    verb = "skips" if move.skipped else "reads again"
    before = "none" if move.before is None else move.before
    return f"{before} -> {move.after}, {verb} {format_count(move.skipped or move.read_again, 'offset')}"


def format_consequences(pipeline: str, proposed: list[TableMove]) -> Iterator[str]:
    """Yield what else the moves do: topics that are not read any more, rollbacks that they answer, batches given up."""
    for move in proposed:
        for topic, offsets in sorted(move.before.offsets.items()):
            if topic not in move.after.offsets:
                position = format_offsets({topic: offsets})
                yield f"{move.table.name}  topic={topic} is not read any more: position={position} of it is forgotten"
    for move in proposed:
        if move.held is not None:
            yield (
                f"{move.table.name}  was rolled back, and stands where these moves begin; afterwards the rollback can "
                "no longer be undone with: tidegate undo-rollback"
            )
    for move in proposed:
        if move.last_unpublished_batch:
            yield (
                f"{move.table.name}  batch={move.last_unpublished_batch} is staged and not published: nothing of it "
                "will be, unless you publish it first"
            )
    for old in (old for move in proposed for old in move.old_topics):
        rows = "" if old.rows is None else f" rows={old.rows}"
        yield (
            f"{old.table}  topic={old.topic} was deleted and created again: topic_id={old.found} "
            f"recorded={old.recorded}; the table keeps the rows that it has{rows}"
        )
        if old.dead_letters:
            yield (
                f"{old.table}  dead_letters={old.dead_letters} of the old topic wait and stay; no flush removes them; "
                f"look at them with: tidegate dead-letters {pipeline}"
            )
