"""approve and reject: what a person decides about a batch that a rule of `approve` holds. Nothing is published here.

The next merge makes the diff again, and publishes it if its digest is the approved one. Else it asks again.
"""

import json
from functools import partial

from tidegate.errors import GiveUp, NothingToDo, RetryLater
from tidegate.merge.attempt import retry_commits
from tidegate.model.offsets import format_names, get_offset, iterate_offsets
from tidegate.model.resource_names import name_memory_table, quote_word
from tidegate.ports.session import Session
from tidegate.table.approval import (
    Decision,
    DecisionKind,
    HeldTable,
    build_decision_property,
    find_asked,
    find_decision,
)
from tidegate.table.history import add_action
from tidegate.table.log import read_log
from tidegate.table.position import REMAINING, select_tables
from tidegate.table.progress import ObservedTable, observe_tables


def list_held_tables(session: Session, name: str | None = None, *, with_approved: bool = False) -> list[HeldTable]:
    """Return each table that waits, or the one named; `NothingToDo` if none does, or the error of one that is not read.

    `with_approved`: if none does, those that are approved and not published yet.
    """
    observed_tables = observe_tables(session, select_tables(session, name))
    asked_tables = [asked for observed in observed_tables if (asked := find_asked(observed, observed.queue))]
    held_tables = [asked for asked in asked_tables if not asked.approved_by] or (asked_tables if with_approved else [])
    if not held_tables:
        for observed in observed_tables:
            _check_is_known(observed)
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

    `GiveUp` if the log has lost what follows: the rebase gives up what is staged of it.
    """
    batch = next((b for b in _observe(held).queue if b.attempt == held.hold.staged_attempt), None)
    if batch is None:
        raise RetryLater(f"{held.table.prefix}: the batch is staged no more; see `tidegate status`")
    end = batch.ranges.end
    session = held.table.session
    for topic, partition, begin in iterate_offsets(read_log(session).find_begins_behind(end)):
        raise GiveUp(
            f"{held.table.prefix} batch={batch.batch} topic={topic} partition={partition}: the log starts at "
            f"offset={begin}, behind the batch's end={get_offset(end, topic, partition)}, so what is staged behind it "
            "could not be read again; nothing was changed; approve the batch, or leave that out too with: tidegate "
            f"rebase {session.pipeline.name} --table {quote_word(held.table.name)} --to {REMAINING}"
        )
    return json.dumps(end)


def _observe(held: HeldTable) -> ObservedTable:
    (observed,) = observe_tables(held.table.session, [held.table.spec])
    _check_is_known(observed)
    return observed


def _check_is_known(observed: ObservedTable) -> None:
    if observed.error is not None:  # it has no queue, whatever waits
        raise observed.error
