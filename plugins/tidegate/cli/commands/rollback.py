"""``tidegate undo-rollback`` and ``tidegate answer-rollback``: the ways out for a table that was rolled back."""

import argparse
from typing import Any

from tidegate.cli.confirmation import confirm_change, report_change
from tidegate.connections import read_connection_from_env
from tidegate.model.table_state import PastSnapshot
from tidegate.monitoring.status import format_time_ms
from tidegate.ports.context import Ports
from tidegate.reprocess.answer_rollback import ProposedAnswer, answer_rollbacks, propose_answers
from tidegate.reprocess.undo_rollback import ProposedUndo, propose_undos, undo_rollbacks
from tidegate.settings import find_include_folder, find_user
from tidegate.wiring.pipeline import assemble_checked_pipeline


def run_undo_rollback(words: argparse.Namespace) -> int:
    """Show, ask, undo; the exit code."""
    ports = _assemble_ports(words)
    proposed = propose_undos(ports, words.table)
    tables = [_describe_undo(undo) for undo in proposed]
    data, preview = {"pipeline": words.pipeline, "tables": tables}, "\n".join(map(_format_undo, proposed))
    if not confirm_change(words, preview, data, "Undo the rollback?"):
        return 1
    undo_rollbacks(ports, proposed, find_user(), discard_foreign=words.discard_foreign)
    report_change(words, "the rollback was undone", data)
    return 0


def run_answer_rollback(words: argparse.Namespace) -> int:
    """Show, ask, answer; the exit code."""
    ports = _assemble_ports(words)
    proposed = propose_answers(ports, words.answer, words.table)
    data = {
        "pipeline": words.pipeline,
        "answer": words.answer,
        "tables": [{"table": one.move.table.name, "partitions": _list_partitions(one)} for one in proposed],
    }
    preview = "\n".join(_format_answer(one, words.answer) for one in proposed)
    if not confirm_change(words, preview, data, "Go on so?"):
        return 1
    answer_rollbacks(ports, proposed, words.answer, find_user())
    report_change(words, "the rollback was answered; the next flush goes on", data)
    return 0


def _assemble_ports(words: argparse.Namespace) -> Ports:
    return assemble_checked_pipeline(find_include_folder(), words.pipeline, read_connection_from_env)


def _describe_undo(undo: ProposedUndo) -> dict[str, Any]:
    rollback = undo.rollback
    return {
        "table": undo.table.name,
        "snapshot_id": str(rollback.head),
        "goes_to_snapshot_id": str(rollback.tagged),
        "rows": rollback.rows_now,
        "rows_after": rollback.rows_then,
        "returning": [_describe_snapshot(snapshot) for snapshot in rollback.returning],
        "lost": [_describe_snapshot(snapshot) for snapshot in rollback.lost],
    }


def _describe_snapshot(snapshot: PastSnapshot) -> dict[str, Any]:
    at = format_time_ms(snapshot.at_ms)
    return {**snapshot._asdict(), "snapshot_id": str(snapshot.snapshot_id), "at": at}


def _format_undo(undo: ProposedUndo) -> str:
    rollback, name = undo.rollback, undo.table.name
    lines = [
        f"{name}: snapshot={rollback.head} -> snapshot={rollback.tagged}, "
        f"rows={_format_count(rollback.rows_now)} -> rows={_format_count(rollback.rows_then)}"
    ]
    lines += [f"  comes back: {_format_snapshot(snapshot)}" for snapshot in rollback.returning]
    lines += [f"  is lost: {_format_snapshot(snapshot)}" for snapshot in rollback.lost]
    return "\n".join(lines)


def _format_count(rows: int | None) -> str:
    return "unknown" if rows is None else str(rows)


def _format_snapshot(snapshot: PastSnapshot) -> str:
    batch = "" if snapshot.batch is None else f" batch={snapshot.batch}"
    writer = f"pipeline={snapshot.pipeline}{batch}" if snapshot.pipeline else "another writer"
    rows = _format_count(snapshot.rows)
    return f"snapshot={snapshot.snapshot_id} of {format_time_ms(snapshot.at_ms)}, {writer}, changed rows={rows}"


def _list_partitions(one: ProposedAnswer) -> list[dict[str, Any]]:
    """By partition: the offset that the table holds, and the one that was recorded before the rollback."""
    return [
        {"topic": part.topic, "partition": part.partition, "held": part.after, "recorded": part.before}
        for part in one.undone
    ]


def _format_answer(one: ProposedAnswer, answer: str) -> str:
    effect = "are read again" if answer == "rewind" else "stay away"
    name = one.move.table.name
    lines = [
        f"{name}  {part.topic} {part.partition}: offsets [{part.after}, {part.before}) {effect}: {part.read_again}"
        for part in one.undone
    ]
    lines.append(f"{name}  afterwards the rollback can no longer be undone with: tidegate undo-rollback")
    return "\n".join(lines)
