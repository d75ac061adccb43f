"""What a person answers to a rollback: undo it, read its records again (rewind), or go on after them (keep).

undo_rollback makes the last snapshot that the pipeline published the table's main again. Main alone moves: the position
is the one that was published with that snapshot. The others move the position. A rollback is noticed by
the adapter that builds a `TableState`.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from tidegate.errors import CommitRefused, GiveUp, OutcomeUnknown, RetryLater
from tidegate.merge.attempt import retry_commits
from tidegate.model import resource_names
from tidegate.model.offsets import Offsets, get_offset, iterate_offsets
from tidegate.model.position import Position
from tidegate.model.table_state import PastSnapshot, Rollback, TableState
from tidegate.ports.session import Session
from tidegate.reprocess.proposed_action import ActionPart, ProposedAction
from tidegate.reprocess.rebase import PartitionMove, TableMove, find_highest_staged, rebase_position
from tidegate.spec.table import Table
from tidegate.spec.time_text import format_time_ms
from tidegate.table.history import add_action
from tidegate.table.log import filter_table_log, read_log
from tidegate.table.position import check_log, list_rolled_back_tables, name_moved
from tidegate.table.session import TableSession, select_tables

Answer = Literal["rewind", "keep"]


@dataclass(frozen=True)
class ProposedAnswer:
    """The `move` that answers a table's rollback. `undone_moves`: the offsets that the table lacks."""

    move: TableMove
    undone_moves: tuple[PartitionMove, ...]


def propose_answers(session: Session, answer: Answer, name: str | None) -> list[ProposedAnswer]:
    """Return what the answer would do to each rolled back table, or to the one named; changes nothing.

    rewind: the position becomes the one that main carries, whose records the log must still hold, else `PositionLost`.
    keep: it stays the recorded one. `NothingToDo` if no table was rolled back.
    """
    tables = list_rolled_back_tables(session, name)
    if answer == "rewind":
        return [_propose_rewind(table) for table in tables]
    return [_propose_answer(table, _require_recorded(table.require_state())) for table in tables]


def _propose_rewind(table: TableSession) -> ProposedAnswer:
    state = table.require_state()
    if state.position is None or state.is_untraceable:
        raise GiveUp(
            f"{table.prefix}: no snapshot of {table.spec.branch} has a position to rewind to; go on after the recorded "
            f"one with: tidegate answer-rollback {table.arguments} --keep, or say where to read from with: tidegate "
            f"rebase {name_moved(table)} --to earliest"
        )
    check_log(table, state.position, filter_table_log(read_log(table.session), table.spec), rewound=True)
    after = replace(state.position, batch=max(state.highest_batch, find_highest_staged(table)))
    return _propose_answer(table, after)


def _propose_answer(table: TableSession, after: Position) -> ProposedAnswer:
    state = table.require_state()
    recorded = _require_recorded(state)
    current: Offsets = state.position.offsets if state.position else {}
    undone = tuple(
        PartitionMove(
            table=table.name,
            topic=topic,
            partition=partition,
            before=offset,
            after=get_offset(current, topic, partition) or 0,
        )
        for topic, partition, offset in iterate_offsets(recorded.offsets)
    )
    return ProposedAnswer(TableMove(table.spec, recorded, after), undone)


def _require_recorded(state: TableState) -> Position:
    assert state.recorded_position is not None  # a rollback is detected by it
    return state.recorded_position


ACTION = "undo-rollback"


@dataclass(frozen=True)
class ProposedUndo:
    """One rolled back table, and the snapshots that an undo brings back and discards."""

    table: Table
    rollback: Rollback


def propose_undos(session: Session, name: str | None) -> list[ProposedUndo]:
    """Return what `undo_rollback` would do to each rolled back table, or to the one named; changes nothing.

    `NothingToDo` if none was rolled back, `GiveUp` if a rollback cannot be undone.
    """
    for table in (TableSession(session, spec) for spec in select_tables(session, name)):
        if not table.has_branches:
            raise GiveUp(
                f"{table.prefix}: BigQuery keeps no snapshots by which a rollback is noticed or undone; "
                "if the table was restored to an earlier time, read the records since then again, e.g. with: "
                f"tidegate rebase {name_moved(table)} --to 2026-01-01T00:00:00Z"
            )
    return [_propose_undo(table) for table in list_rolled_back_tables(session, name)]


def _propose_undo(table: TableSession) -> ProposedUndo:
    place = table.prefix
    branch = table.spec.branch
    pipeline = table.pipeline.name
    rollback = table.session.commits.find_rollback(table.name, pipeline)
    if rollback is None:
        state = table.refresh().state
        if state is not None and not state.is_rolled_back:
            raise RetryLater(f"{place}: another writer was faster, it is no longer rolled back; see `tidegate status`")
        raise GiveUp(
            f"{place}: nothing to go back to: the tag {resource_names.name_tag(pipeline)} is gone, or "
            f"{branch} has no snapshot; {_name_other_ways(table)}"
        )
    if not rollback.is_traceable:
        raise GiveUp(
            f"{place}: the last published snapshot={rollback.tagged_snapshot_id} and {branch} at "
            f"snapshot={rollback.current_snapshot_id} share no snapshot that is still there: the table was replaced, "
            "or expiry took what lay between them; so nobody can tell what would be lost; "
            f"{_name_other_ways(table)}"
        )
    return ProposedUndo(table.spec, rollback)


def _name_other_ways(table: TableSession) -> str:
    return (
        f"go on after the recorded position with: tidegate answer-rollback {table.arguments} --keep; "
        f"or fill the table again with: tidegate rebase {name_moved(table)} --to earliest"
    )


def undo_rollback(session: Session, undo: ProposedUndo, by: str) -> None:
    """Undo the rollback as proposed, rows of others that this loses too, if table and tag have not changed since.

    One compare-and-swap that notes `by` whom. A repeat call finds it done.
    """
    table = TableSession(session, undo.table)
    retry_commits(session, table.prefix, partial(_undo_rollback, table, undo, by))


def refuse_losses(session: Session, undos: list[ProposedUndo]) -> None:
    """Raise `GiveUp` if an undo would lose rows that others wrote since the rollback."""
    for undo in undos:
        lost_changes = undo.rollback.discarded_changes
        if not lost_changes:
            continue
        counts = [snapshot.rows for snapshot in lost_changes if snapshot.rows is not None]
        rows = f"up to rows={sum(counts)}" if len(counts) == len(lost_changes) else "rows that nobody has counted"
        numbers = ", ".join(str(snapshot.snapshot_id) for snapshot in lost_changes)
        table = TableSession(session, undo.table)
        raise GiveUp(
            f"{table.prefix}: others wrote to {undo.table.branch} after the rollback, and "
            f"undoing it would lose snapshots={numbers} with {rows}; "
            f"nothing was changed; if they may be lost: tidegate undo-rollback {table.arguments} "
            "--discard-foreign"
        )


def _undo_rollback(table: TableSession, undo: ProposedUndo, by: str) -> None:
    pipeline = table.pipeline.name
    commits = table.session.commits
    previewed = undo.rollback
    found_rollback = commits.find_rollback(table.name, pipeline)
    table = table.refresh()
    state = table.state
    tagged = commits.read_head(table.name, resource_names.name_tag(pipeline)) if state is not None else None
    is_same_tag = tagged is not None and tagged.snapshot_id == previewed.tagged_snapshot_id
    if state is not None and not state.is_rolled_back and is_same_tag:
        return  # also by somebody else, since the look before this one, or by a try whose answer was lost
    if (
        state is None
        or found_rollback is None
        or (found_rollback.current_snapshot_id, found_rollback.tagged_snapshot_id)
        != (previewed.current_snapshot_id, previewed.tagged_snapshot_id)
    ):
        raise RetryLater(
            f"{table.prefix}: another writer was faster, nothing was undone: "
            f"found={found_rollback and found_rollback.current_snapshot_id} shown={previewed.current_snapshot_id}; "
            "see `tidegate status`, and undo the rollback again"
        )
    details = f"snapshot={previewed.current_snapshot_id} -> snapshot={previewed.tagged_snapshot_id}"
    if previewed.discarded_changes:
        details += f" discarded={','.join(str(snapshot.snapshot_id) for snapshot in previewed.discarded_changes)}"
    try:
        commits.undo_rollback(table.name, pipeline, found_rollback, add_action(table, ACTION, by, details))
    except OutcomeUnknown as error:
        raise CommitRefused(str(error)) from error  # the next look finds it done, or does it


# ---- the action: shown first, then done


def propose_undo(session: Session, table: str | None = None, *, discard_foreign: bool = False) -> ProposedAction:
    """For every rolled-back table, or the one named."""
    proposed = propose_undos(session, table)
    return ProposedAction(
        preview="\n".join(map(_format_undo, proposed)),
        subject={"pipeline": session.pipeline.name},
        parts=tuple(
            ActionPart(undo.table.name, _describe_undo(undo), partial(undo_rollback, session, undo))
            for undo in proposed
        ),
        question="Undo the rollback?",
        success_message="the rollback was undone",
        refuse=lambda: None if discard_foreign else refuse_losses(session, proposed),
    )


def propose_answer(session: Session, answer: Answer, table: str | None = None) -> ProposedAction:
    """Continue once from where a rolled-back table stands: read its records again, or start after them."""
    proposed = propose_answers(session, answer, table)
    return ProposedAction(
        preview="\n".join(_format_answer(proposal, answer) for proposal in proposed),
        subject={"pipeline": session.pipeline.name, "answer": answer},
        parts=tuple(
            ActionPart(
                table=proposal.move.table.name,
                facts={
                    "partitions": [
                        {"topic": part.topic, "partition": part.partition, "held": part.after, "recorded": part.before}
                        for part in proposal.undone_moves
                    ],
                },
                perform=partial(rebase_position, session, proposal.move, action=answer),
                expected_batch=proposal.move.before.batch,
            )
            for proposal in proposed
        ),
        question="Go on so?",
        success_message="the rollback was answered; the next flush goes on",
    )


def _describe_undo(undo: ProposedUndo) -> dict[str, Any]:
    rollback = undo.rollback
    return {
        "snapshot_id": str(rollback.current_snapshot_id),
        "goes_to_snapshot_id": str(rollback.tagged_snapshot_id),
        "rows": rollback.rows_now,
        "rows_after": rollback.rows_then,
        "returning": [_describe_snapshot(snapshot) for snapshot in rollback.returning_snapshots],
        "lost": [_describe_snapshot(snapshot) for snapshot in rollback.discarded_snapshots],
    }


def _describe_snapshot(snapshot: PastSnapshot) -> dict[str, Any]:
    at = format_time_ms(snapshot.at_ms)
    return {**snapshot._asdict(), "snapshot_id": str(snapshot.snapshot_id), "at": at}


def _format_undo(undo: ProposedUndo) -> str:
    rollback = undo.rollback
    name = undo.table.name
    lines = [
        f"{name}: snapshot={rollback.current_snapshot_id} -> snapshot={rollback.tagged_snapshot_id}, "
        f"rows={_format_count(rollback.rows_now)} -> rows={_format_count(rollback.rows_then)}"
    ]
    lines += [f"  comes back: {_format_snapshot(snapshot)}" for snapshot in rollback.returning_snapshots]
    lines += [f"  is lost: {_format_snapshot(snapshot)}" for snapshot in rollback.discarded_snapshots]
    return "\n".join(lines)


def _format_count(rows: int | None) -> str:
    return "unknown" if rows is None else str(rows)


def _format_snapshot(snapshot: PastSnapshot) -> str:
    batch = "" if snapshot.batch is None else f" batch={snapshot.batch}"
    writer = f"pipeline={snapshot.pipeline}{batch}" if snapshot.pipeline else "another writer"
    rows = _format_count(snapshot.rows)
    return f"snapshot={snapshot.snapshot_id} of {format_time_ms(snapshot.at_ms)}, {writer}, changed rows={rows}"


def _format_answer(proposal: ProposedAnswer, answer: str) -> str:
    effect = "are read again" if answer == "rewind" else "stay out of the table"
    name = proposal.move.table.name
    lines = [
        f"{name}  {part.topic} {part.partition}: offsets [{part.after}, {part.before}) {effect}: {part.read_again}"
        for part in proposal.undone_moves
    ]
    if proposal.move.table.remembers:
        memory = resource_names.name_memory_table(proposal.move.table)
        lines.append(f"{name}  what these records have noted stays in {memory}: see docs/runbook/rolled-back.md")
    lines.append(f"{name}  afterwards the rollback can no longer be undone with: tidegate undo-rollback")
    return "\n".join(lines)
