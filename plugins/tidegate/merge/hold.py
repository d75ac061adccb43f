"""Holds a batch that a rule of `approve` stops: before its branch becomes main, or before it changes the schema."""

import json
import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from tidegate.errors import CommitRefused, GiveUp, HeldForApproval, TidegateError
from tidegate.merge.statements import build_merge_input, render_hashed
from tidegate.model.batch import StagedBatch
from tidegate.schema.evolution import EvolutionRules, find_schema_changes
from tidegate.spec.table import Approve, DeleteMode
from tidegate.table.approval import (
    HeldTable,
    Hold,
    build_hold_property,
    compute_diff_digest,
    describe_place,
    find_decision,
    find_last_hold,
    is_approved,
    read_hold,
)
from tidegate.table.session import TableSession

# what a condition of `approve` sees: keys by what happens to them, their sum, and the keys that the table had before
DIFF_COUNTS = ("inserted", "updated", "deleted", "rows", "table_rows")
UNREADABLE_COLUMNS = ("_deleted", "_file", "_partition", "_pos", "_spec_id")  # Spark reads no column of these names
MAX_SAMPLES = 20
MAX_CHARACTERS = 200  # of a row


@dataclass(frozen=True)
class Diff:
    """The counts of `DIFF_COUNTS`, a checksum of all changes, and whether the condition `when` holds."""

    counts: dict[str, int]
    checksum: str
    holds_when: bool

    @property
    def digest(self) -> str:
        """Equal for the same changes of the same keys, from the same rows to the same rows."""
        return compute_diff_digest({name: self.counts[name] for name in DIFF_COUNTS[:3]}, self.checksum)

    @classmethod
    def from_json(cls, text: str) -> "Diff":
        data = json.loads(text)
        return cls({name: data[name] for name in DIFF_COUNTS}, data["checksum"], data["when"])

    def list_rules(self, approve: Approve) -> tuple[str, ...]:
        """Return the rules that hold, in words."""
        counts = self.counts
        share = approve.deletes_over_percent
        rules = {
            f"deletes_over={approve.deletes_over}": approve.deletes_over is not None
            and counts["deleted"] > approve.deletes_over,
            f"deletes_over={share:g}%" if share is not None else "": share is not None
            and counts["deleted"] * 100 > share * counts["table_rows"],
            f"rows_over={approve.rows_over}": approve.rows_over is not None and counts["rows"] > approve.rows_over,
            f"when={' '.join((approve.when or '').split())}": self.holds_when,
        }
        return tuple(rule for rule, holds in rules.items() if holds)


def render_diff_question(table: TableSession, staged_batch: StagedBatch, branch: str) -> str:
    """Return the query whose answer `Diff.from_json` reads, to be asked behind the statements of the merge."""
    approve = table.spec.approve
    when = None if approve is None else approve.when
    return table.sql.render("diff_counts", **_build_values(table, staged_batch, branch), when=when)


def render_sample_question(table: TableSession, staged_batch: StagedBatch, branch: str) -> str:
    """Return the query for the first changed rows, and how often each column changes in an updated one, as JSON."""
    values = _build_values(table, staged_batch, branch)
    return table.sql.render("diff_samples", **values, max_samples=MAX_SAMPLES, max_characters=MAX_CHARACTERS)


def _build_values(table: TableSession, staged_batch: StagedBatch, branch: str) -> dict[str, Any]:
    spec = table.resolved
    columns = table.require_state().struct.fields
    unread = [name for name, _ in columns if name in UNREADABLE_COLUMNS]
    if unread:
        raise GiveUp(
            f"{table.prefix}: column={unread[0]}: Spark reads no column of this name, so approve would overlook its "
            "changes; nothing was published; rename the column, or take approve out of the pipeline file"
        )
    values = build_merge_input(table, staged_batch, branch)
    # one that no batch has been published to yet begins at main
    has_branch = spec.branch != "main" and table.session.commits.read_head(table.name, spec.branch) is not None
    flag = values.get("flag") if spec.deletes == DeleteMode.SOFT else None
    return {
        **values,
        "truncates": staged_batch.truncated_at is not None,
        "main": f"branch_{spec.branch}" if has_branch else "",
        "flag": flag,
        "current": spec.history.is_current if spec.history else None,
        "columns": [name for name, _ in columns],
        "typed_columns": list(columns),
        "hashed_columns": [text for name, kind in columns for text in render_hashed(table, name, kind, of="t")],
    }


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
    former = find_last_hold(table)
    try:
        table.session.commits.note(table.name, table.require_state(), build_hold_property(table, hold))
    except CommitRefused:
        _drop_branch(table, hold)
        raise
    _drop_branch(table, former)


def _drop_branch(table: TableSession, hold: Hold | None) -> None:
    if hold is not None and hold.branch:
        with suppress(TidegateError):  # clean_up drops it behind the publish of its batch
            table.session.commits.drop_branch(table.name, hold.branch)


def raise_held(table: TableSession, hold: Hold, *, is_new: bool) -> NoReturn:
    raise HeldForApproval(HeldTable(table, hold, find_decision(table, hold)).describe(), is_new=is_new)
