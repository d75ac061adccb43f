"""Holds a batch that a rule of `approve` stops: before its branch becomes main, or before it changes the schema."""

import logging
from contextlib import suppress
from dataclasses import replace
from typing import NoReturn

from tidegate.errors import CommitRefused, HeldForApproval, TidegateError
from tidegate.merge.diff import Diff
from tidegate.model.batch import StagedBatch
from tidegate.schema.evolution import EvolutionRules, find_schema_changes
from tidegate.table.approval import (
    HeldTable,
    Hold,
    build_hold_property,
    compute_diff_digest,
    describe_place,
    find_decision,
    find_held_branch,
    is_approved,
    read_hold,
)
from tidegate.table.session import TableSession

log = logging.getLogger(__name__)


def hold_schema(table: TableSession, staged_batch: StagedBatch) -> None:
    """Raise `HeldForApproval` if the batch would change the schema, and the file wants that to be approved.

    Before the change: Iceberg's schema is the whole table's, also of branches, so nobody could look at it beside main.
    """
    approve = table.spec.approve
    if approve is None or not approve.holds_schema:
        return
    changes = list_schema_changes(table)
    hold = _build_hold(table, staged_batch, compute_diff_digest("schema", changes))
    if not changes or is_approved(table, hold):
        return
    hold = replace(hold, rules=("schema=any",), changes=changes)
    kept = find_equal_hold(table, hold)
    if kept is None:
        keep_hold(table, hold)
    raise_held(table, kept or hold, is_new=kept is None)


def leaves_schema(table: TableSession, staged_batch: StagedBatch) -> bool:
    """Whether a change of the schema has to wait for a batch with rows: this one has none, and it must be approved."""
    approve = table.spec.approve
    return approve is not None and approve.holds_schema and not staged_batch.counts.to_write


def list_schema_changes(table: TableSession) -> tuple[str, ...]:
    """Return a sentence for each change that a merge would make to the schema first."""
    spec = table.resolved
    rules = EvolutionRules(add=spec.add_columns, widen=spec.widen, relax=spec.relax)
    return tuple(map(str, find_schema_changes(table.name, table.require_state().struct, table.columns, rules)))


def build_hold_of_rows(table: TableSession, staged_batch: StagedBatch, diff: Diff, branch: str) -> Hold | None:
    """Return what is to wait of the diff that was made on `branch`; None if no rule holds it, or it is approved."""
    rules = diff.list_rules(table.spec.approve) if table.spec.approve else ()
    hold = _build_hold(table, staged_batch, diff.digest)
    if not rules or is_approved(table, hold):
        return None
    return replace(hold, rules=rules, counts=diff.counts, branch=branch)


def _build_hold(table: TableSession, staged_batch: StagedBatch, digest: str) -> Hold:
    return Hold(
        batch=staged_batch.batch,
        staged_attempt=staged_batch.attempt,
        stands_on=describe_place(table),
        digest=digest,
        rules=(),
        at_ms=table.session.now_ms(),
    )


def find_equal_hold(table: TableSession, hold: Hold) -> Hold | None:
    """Return the hold that the table has already, if it is of the same batch and diff and its branch is there."""
    kept = read_hold(table)
    if kept is None or (kept.digest, kept.staged_attempt) != (hold.digest, hold.staged_attempt):
        return None
    is_there = not kept.branch or table.session.commits.read_head(table.name, kept.branch) is not None
    return kept if is_there else None


def keep_hold(table: TableSession, hold: Hold) -> None:
    """Let the table wait, in place of what it waited for before. `CommitRefused` if main or that has changed.

    Of a former hold, and of one that was refused, the branch is dropped. Not where no answer came.
    """
    former = find_held_branch(table)
    try:
        table.session.commits.note(table.name, table.require_state(), build_hold_property(table, hold))
    except CommitRefused:
        _drop_branch(table, hold.branch)
        raise
    _drop_branch(table, former)


def _drop_branch(table: TableSession, branch: str) -> None:
    if branch:
        with suppress(TidegateError):  # clean_up drops it behind the publish of its batch
            table.session.commits.drop_branch(table.name, branch)


def raise_held(table: TableSession, hold: Hold, *, is_new: bool) -> NoReturn:
    raise HeldForApproval(HeldTable(table, hold, find_decision(table, hold)).describe(), is_new=is_new)
