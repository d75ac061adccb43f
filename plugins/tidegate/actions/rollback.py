"""The actions for a table that was rolled back: undo it, or go on from where it stands."""

from functools import partial
from typing import Any

from tidegate.actions.proposed_action import ActionPart, ProposedAction
from tidegate.model import resource_names
from tidegate.model.table_state import PastSnapshot
from tidegate.monitoring.status import format_time_ms
from tidegate.ports.session import Session
from tidegate.reprocess.rollback import (
    Answer,
    ProposedAnswer,
    ProposedUndo,
    answer_rollbacks,
    propose_answers,
    propose_undos,
    refuse_losses,
    undo_rollbacks,
)


def propose_undo(session: Session, table: str | None = None, *, discard_foreign: bool = False) -> ProposedAction:
    """For every rolled-back table, or the one named."""
    proposed = propose_undos(session, table)
    return ProposedAction(
        preview="\n".join(map(_format_undo, proposed)),
        subject={"pipeline": session.pipeline.name},
        parts=tuple(
            ActionPart(
                undo.table.name,
                _describe_undo(undo),
                partial(undo_rollbacks, session, [undo], discard_foreign=discard_foreign),
            )
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
                    "table": proposal.move.table.name,
                    "partitions": [
                        {"topic": part.topic, "partition": part.partition, "held": part.after, "recorded": part.before}
                        for part in proposal.undone_moves
                    ],
                },
                perform=partial(answer_rollbacks, session, [proposal], answer),
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
        "table": undo.table.name,
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
