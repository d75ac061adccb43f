"""The action rebase: shows what moving the position skips or reads again, by partition, then moves it."""

import json
from dataclasses import asdict
from functools import partial

from tidegate.actions.proposed_action import ActionPart, ProposedAction
from tidegate.model.counts import format_count
from tidegate.model.offsets import MAX_NAMED_PARTITIONS, Offsets
from tidegate.ports.session import Session
from tidegate.reprocess.rebase import PartitionMove, TableMove, propose_moves, rebase_positions
from tidegate.table.position import REMAINING
from tidegate.table.start_offsets import is_json

SHOWN_FACTS = ("topic", "partition", "before", "after", "skipped", "read_again")
MAX_SHOWN_MOVES = 100  # partitions of a preview: what is behind them would stand in a log, and nobody would look


def propose_rebase(session: Session, to: str, table: str | None = None) -> ProposedAction:
    """Move the position of every table, or of the one named, to where `to` says."""
    proposed = propose_moves(session, to, table)
    shown: Offsets = {}
    for move in proposed:
        for topic, partitions in move.after.offsets.items():
            shown[topic] = {**shown.get(topic, {}), **partitions}
    moves = format_moves([move for table_move in proposed for move in table_move.moves])
    beside = (
        format_dropped_topics(proposed),
        format_unpublished(proposed),
        format_old_topics(session.pipeline.name, proposed),
    )
    return ProposedAction(
        preview="\n".join(text for text in (moves, *beside) if text),
        subject={"pipeline": session.pipeline.name, "to": to},
        parts=tuple(
            ActionPart(
                table=move.table.name,
                facts={
                    "table": move.table.name,
                    "partitions": [{name: getattr(part, name) for name in SHOWN_FACTS} for part in move.moves],
                    "old_topics": [asdict(old) for old in move.old_topics],
                },
                perform=partial(rebase_positions, session, [move]),
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


def format_dropped_topics(proposed: list[TableMove]) -> str:
    """Topics that are no longer read, whose position a rebase forgets; empty without one."""
    return "\n".join(
        f"{move.table.name}  topic={topic} is not read any more: position={_format_partitions(offsets)} of it is "
        "forgotten"
        for move in proposed
        for topic, offsets in sorted(move.before.offsets.items())
        if topic not in move.after.offsets
    )


def _format_partitions(offsets: dict[int, int]) -> str:
    more = len(offsets) - MAX_NAMED_PARTITIONS
    named = json.dumps(dict(sorted(offsets.items())[:MAX_NAMED_PARTITIONS]))
    return named if more <= 0 else f"{named} and {format_count(more, 'partition')} more"


def format_unpublished(proposed: list[TableMove]) -> str:
    """Staged batches that a rebase gives up; empty without one."""
    return "\n".join(
        f"{move.table.name}  batch={move.last_unpublished_batch} is staged and not published: nothing of it will be; "
        "flush first to publish it"
        for move in proposed
        if move.last_unpublished_batch
    )


def format_old_topics(pipeline: str, proposed: list[TableMove]) -> str:
    """What stays of topics that were deleted and created again; empty without one."""
    lines = []
    for old in (old for move in proposed for old in move.old_topics):
        rows = "" if old.rows is None else f" rows={old.rows}"
        lines.append(
            f"{old.table}  topic={old.topic} was deleted and created again: topic_id={old.found} "
            f"recorded={old.recorded}; the table keeps the rows that it has{rows}"
        )
        if old.dead_letters:
            lines.append(
                f"{old.table}  dead_letters={old.dead_letters} of the old topic wait and stay; no flush removes them; "
                f"look at them with: tidegate dead-letters {pipeline}"
            )
    return "\n".join(lines)
