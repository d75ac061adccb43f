"""The diff of a batch: which keys its branch changes against main, asked by the merge job beside the audits."""

import json
from dataclasses import dataclass
from typing import Any

from tidegate.errors import GiveUp
from tidegate.merge.statements import build_merge_input, render_hashed
from tidegate.model.batch import StagedBatch
from tidegate.spec.table import Approve, DeleteMode
from tidegate.table.approval import compute_diff_digest
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
