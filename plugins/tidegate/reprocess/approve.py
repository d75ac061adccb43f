"""approve and reject: what a person decides about a batch that a rule of `approve` holds. Nothing is published here.

The next merge makes the diff again, and publishes it if its digest is the approved one. Else it asks again.
"""

import json
from dataclasses import replace
from functools import partial
from typing import Any

from tidegate.errors import ConfigurationError, GiveUp, NothingToDo, RetryLater
from tidegate.merge.attempt import retry_commits
from tidegate.model.offsets import format_names, get_offset, iterate_offsets
from tidegate.model.resource_names import name_memory_table
from tidegate.ports.session import Session
from tidegate.reprocess.proposed_action import ActionPart, ProposedAction
from tidegate.reprocess.rebase import propose_rebase
from tidegate.table.approval import (
    Decision,
    DecisionKind,
    HeldTable,
    build_decision_property,
    find_asked,
    find_decision,
)
from tidegate.table.history import add_action
from tidegate.table.log import filter_table_log, read_log
from tidegate.table.observed_table import ObservedTable, observe_tables
from tidegate.table.position import REMAINING, check_log, check_not_cut, describe_all_losses
from tidegate.table.session import select_tables


def list_held_tables(session: Session, name: str | None = None, *, with_approved: bool = False) -> list[HeldTable]:
    """Return each table that waits, or the one named; `NothingToDo` if none does, or the error of one that is not read.

    `with_approved`: if none does, those that are approved and not published yet.
    """
    observed_tables = observe_tables(session, select_tables(session, name))
    asked_tables = [asked for observed in observed_tables if (asked := find_asked(observed, observed.queue))]
    held_tables = [asked for asked in asked_tables if not asked.approved_by] or (asked_tables if with_approved else [])
    if not held_tables:
        for observed in observed_tables:
            observed.check_queue_is_known()
        names = format_names([observed.name for observed in observed_tables])
        raise NothingToDo(
            f"pipeline={session.pipeline.name} tables={names}: no batch waits for an approval; nothing was changed"
        )
    return held_tables


def decide(held: HeldTable, verdict: DecisionKind, by: str) -> None:
    """Note the verdict about the diff that was shown, and `by` whom.

    `GiveUp` if the table waits for another diff by now, or somebody else decides about it at the same time.
    """
    decision = retry_commits(held.table.session, held.table.prefix, partial(_note_decision, held, verdict, by))
    # a catalog compares the properties only when it is read, so of two decisions within milliseconds the last one stays
    _check_not_decided(held, find_decision(_observe(held), held.hold), decision)


def _check_not_decided(held: HeldTable, found: Decision | None, expected: Decision | None) -> None:
    if found is not None and found != expected:
        raise GiveUp(
            f"{held.table.prefix} batch={held.hold.batch}: somebody else has decided meanwhile, and that counts: "
            f"verdict={found.verdict} by={found.by}; see `tidegate status`, and decide again if that is wrong"
        )


def _note_decision(shown: HeldTable, verdict: DecisionKind, by: str) -> Decision:
    session = shown.table.session
    observed = _observe(shown)
    asked = find_asked(observed, observed.queue)
    if asked is None or asked.hold.digest != shown.hold.digest:
        raise GiveUp(
            f"{shown.table.prefix} batch={shown.hold.batch}: the table does not wait for this diff any more, so "
            "nothing was decided; see `tidegate status`"
        )
    _check_not_decided(shown, asked.decision, shown.decision)
    former = asked.decision
    decision = Decision(
        digest=shown.hold.digest,
        stands_on=shown.hold.stands_on,
        staged_attempt=shown.hold.staged_attempt,
        verdict=verdict,
        by=by,
        at_ms=session.now_ms(),
        was_approved=former is not None and (former.was_approved or former.verdict == DecisionKind.APPROVE),
    )
    counts = " ".join(f"{name}={count}" for name, count in shown.hold.counts.items())
    details = ", ".join([f"batch={shown.hold.batch}", *shown.hold.rules, counts or "; ".join(shown.hold.changes)])
    properties = {**build_decision_property(observed, decision), **add_action(observed, verdict, by, details)}
    session.commits.note(observed.name, observed.require_state(), properties)
    return decision


def is_remembered(held: HeldTable) -> bool:
    """Whether a publish of the batch has begun: its deletes or changes are remembered right before that."""
    memory = name_memory_table(held.table.spec)
    line = held.table.session.commits.read_snapshot_line(memory, held.table.pipeline.name)
    return any(carried.staged_attempt == held.hold.staged_attempt for carried in line.positions)


def find_end_of_held_batch(held: HeldTable) -> str:
    """Return where `rebase` moves the position to so that the batch's records stay out of the table.

    `GiveUp` if the log has lost what follows: the rebase gives up what is staged of it. `PositionLost` if the log is
    another one than the batch's, whose end would lead over records that nobody has read.
    """
    observed = _observe(held)
    batch = next((b for b in observed.queue if b.attempt == held.hold.staged_attempt), None)
    if batch is None:
        raise RetryLater(f"{held.table.prefix}: the batch is staged no more; see `tidegate status`")
    end = batch.ranges.end
    session = held.table.session
    log = filter_table_log(read_log(session), held.table.spec)
    behind = replace(observed, queue=(batch,)).end
    if behind is not None:
        check_log(observed, replace(behind, offsets={}), log)
        check_not_cut(observed, behind, log)
    begins = log.find_begins_behind(end)
    for topic, partition, begin in iterate_offsets(begins):
        raise GiveUp(
            f"{held.table.prefix} batch={batch.batch} topic={topic} partition={partition}: the log starts at "
            f"offset={begin}, behind the batch's end={get_offset(end, topic, partition)}"
            f"{describe_all_losses(end, begins)}, so what is staged behind it could not be read again; nothing was "
            "changed; approve the batch, or leave that out too with: tidegate "
            f"rebase {held.table.arguments} --to {REMAINING}"
        )
    return json.dumps(end)


def _observe(held: HeldTable) -> ObservedTable:
    (observed,) = observe_tables(held.table.session, [held.table.spec])
    observed.check_queue_is_known()
    return observed


# ---- the action: shown first, then done

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
