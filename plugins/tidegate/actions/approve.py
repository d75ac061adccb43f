"""The actions approve and reject: the diff of a held batch is shown, and what a person decides is noted."""

from dataclasses import replace
from functools import partial
from typing import Any

from tidegate.actions.proposed_action import ActionPart, ProposedAction
from tidegate.actions.rebase import propose_rebase
from tidegate.errors import ConfigurationError, GiveUp
from tidegate.model.offsets import format_names
from tidegate.ports.session import Session
from tidegate.reprocess.approve import decide, find_end_of_held_batch, is_remembered, list_held_tables
from tidegate.table.approval import DecisionKind, HeldTable

EFFECTS = {
    DecisionKind.APPROVE: ("Approve?", "the next flush publishes the batch, if its diff is still this one"),
    DecisionKind.REJECT: ("Reject?", "the batch stays staged, and nothing of the table is published"),
}


def propose_decision(session: Session, verdict: DecisionKind, table: str | None = None) -> ProposedAction:
    """For every table whose batch is held, or the one named. A reject also takes back an approval not used yet."""
    held_tables = list_held_tables(session, table, with_approved=verdict == DecisionKind.REJECT)
    question, effect = EFFECTS[verdict]
    return ProposedAction(
        preview="\n".join([*map(_format_held, held_tables), effect]),
        subject={"pipeline": session.pipeline.name, "verdict": str(verdict)},
        parts=tuple(
            ActionPart(held.table.name, _describe_held(held), partial(decide, held, verdict)) for held in held_tables
        ),
        question=question,
        success_message=effect,
    )


def propose_reject(session: Session, table: str | None = None, *, skip: bool = False) -> ProposedAction:
    """Reject; with `skip` the position moves behind the held batch of one table, and its records stay out."""
    if not skip:
        return propose_decision(session, DecisionKind.REJECT, table)
    held_tables = list_held_tables(session, table, with_approved=True)
    if len(held_tables) > 1:
        names = format_names([held.table.name for held in held_tables])
        raise ConfigurationError(
            f"tables={names}: each has a batch that is held, and skip leaves out one; nothing was changed; "
            "name one table"
        )
    (held,) = held_tables
    # a run that died within its publish, or whose publish was refused, may have remembered them
    if held.table.spec.remembers and (held.was_approved or is_remembered(held)):
        raise GiveUp(
            f"{held.table.prefix} batch={held.hold.batch}: its publish may have begun, so it cannot be left out any "
            "more: its deletes or changes may be remembered already, and would come back with later records of its "
            "keys; let the source send corrected records, then approve the batch: they are merged after it"
        )
    proposed = propose_rebase(session, find_end_of_held_batch(held), held.table.name)
    return replace(proposed, pinned_params={})  # of a rebase; the held batch itself is what is left out


def _describe_held(held: HeldTable) -> dict[str, Any]:
    hold = held.hold
    return {
        "table": held.table.name,
        "batch": hold.batch,
        "rules": list(hold.rules),
        **hold.counts,
        "schema_changes": list(hold.changes),
        "digest": hold.digest,
        "rejected_by": held.rejected_by or None,
        "approved_by": held.approved_by or None,
    }


def _format_held(held: HeldTable) -> str:
    hold = held.hold
    lines = [f"{held.table.name}: batch={hold.batch} held by {', '.join(hold.rules)}"]
    if hold.counts:
        lines.append("  " + " ".join(f"{name}={count}" for name, count in hold.counts.items()))
    lines += [f"  {change}" for change in hold.changes]
    if hold.branch:
        lines.append(f"  read it with: SELECT * FROM {held.table.name} VERSION AS OF '{hold.branch}'")
    if held.rejected_by:
        lines.append(f"  rejected by {held.rejected_by}")
    if held.approved_by:
        lines.append(f"  approved by {held.approved_by}: that is taken back, unless a flush publishes it just now")
    return "\n".join(lines)
