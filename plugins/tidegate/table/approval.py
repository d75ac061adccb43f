"""What holds a table back: a batch that a rule of `approve` holds, and what a person has decided about it.

Two properties of the table: `held` is written by the merge that found the rule to hold, `decision` by a person. Both
name the digest of a diff. Nothing of them is needed to be right: a merge makes the diff again, and publishes it only if
its digest is the approved one.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any, Self

from tidegate.model import resource_names
from tidegate.model.batch import StagedBatch
from tidegate.model.plain_data import read_plain
from tidegate.table.session import TableSession

HELD_PROPERTY = "held"
DECISION_PROPERTY = "decision"
DIGEST_CHARACTERS = 16


class DecisionKind(StrEnum):
    """What a person says of a held batch; also the word of the action."""

    APPROVE = "approve"
    REJECT = "reject"


@dataclass(frozen=True, kw_only=True)
class _Note:
    """What stands as JSON in a property of the table. Anybody may set that."""

    @classmethod
    def from_json(cls, text: str) -> Self | None:
        """None for a text that `to_json` has not written."""
        try:
            data = json.loads(text)
            # what another version has noted besides may say something else
            return read_plain(cls, data) if {*data} <= {each.name for each in fields(cls)} else None
        except (KeyError, TypeError, ValueError):
            return None

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))


@dataclass(frozen=True, kw_only=True)
class Hold(_Note):
    """A batch that waits. `digest` tells its diff from any other, `stands_on` the place where it was made.

    `rules` says in words which rules hold, `counts` how many rows change by what happens to them, `changes` what would
    be changed of the schema; one of these two is empty. `branch` can be read, empty for a change of the schema.
    """

    batch: int
    staged_attempt: str
    stands_on: str
    digest: str
    rules: tuple[str, ...]
    counts: dict[str, int] = field(default_factory=dict)
    changes: tuple[str, ...] = ()
    branch: str = ""
    at_ms: int = 0

    @property
    def found(self) -> str:
        """What holds it, in words."""
        counts = " ".join(f"{name}={count}" for name, count in self.counts.items())
        return ", ".join([*self.rules, *([counts] if counts else self.changes)])

    def describe(self, place: str) -> str:
        """Say what waits, or waited, and why; `place` names its table."""
        return f"{place} batch={self.batch}: held for approval: {self.found}"


@dataclass(frozen=True, kw_only=True)
class Decision(_Note):
    """What `by` has decided about the diff of this digest, of that staged attempt and at that place.

    `was_approved`: somebody had approved it before, so a merge of it may have begun.
    """

    digest: str
    stands_on: str
    staged_attempt: str
    verdict: str
    by: str
    at_ms: int
    was_approved: bool = False

    def is_about(self, hold: Hold) -> bool:
        """Whether it decides this hold. One about an equal diff elsewhere, or of another batch, decides nothing."""
        mine = (self.digest, self.stands_on, self.staged_attempt)
        return mine == (hold.digest, hold.stands_on, hold.staged_attempt)


@dataclass(frozen=True)
class HeldTable:
    """A table whose batch a rule holds, and what a person has decided about that; None until somebody has."""

    table: TableSession
    hold: Hold
    decision: Decision | None = None

    @property
    def rejected_by(self) -> str:
        return self._get_author(DecisionKind.REJECT)

    @property
    def approved_by(self) -> str:
        return self._get_author(DecisionKind.APPROVE)

    @property
    def was_approved(self) -> bool:
        """Whether somebody has approved it, so that a publish of it may have begun."""
        decision = self.decision
        return decision is not None and (decision.was_approved or decision.verdict == DecisionKind.APPROVE)

    def _get_author(self, verdict: DecisionKind) -> str:
        return self.decision.by if self.decision is not None and self.decision.verdict == verdict else ""

    def describe(self) -> str:
        """Say in one sentence what waits, and which commands go on."""
        hold = self.hold
        words = self.table.arguments
        place = f"{self.table.prefix} batch={hold.batch}"
        if self.rejected_by:
            return (
                f"{place}: rejected by {self.rejected_by}, held for approval: {hold.found}; it stays staged; publish "
                f"it after all with: tidegate approve {words}; or leave its records out with: tidegate reject {words} "
                "--skip"
            )
        look = f"read branch={hold.branch}, then " if hold.branch else ""
        return (
            f"{hold.describe(self.table.prefix)}; {look}publish it with: tidegate approve {words}; or keep it "
            f"back with: tidegate reject {words}"
        )


def find_asked(table: TableSession, queue: Sequence[StagedBatch]) -> HeldTable | None:
    """Return the batch that a rule holds and that is not published yet, whatever a person has decided about it.

    `queue` is that of the table as it was read. A hold of another position, file, table or staged attempt counts no
    more: the next merge asks again.
    """
    hold = read_hold(table)
    first = next((batch for batch in queue if batch.counts.to_write), None)
    if hold is None or first is None or first.attempt != hold.staged_attempt:
        return None
    return HeldTable(table, hold, find_decision(table, hold))


def read_hold(table: TableSession) -> Hold | None:
    """Return the hold of the table as it is read, whatever is staged by now; None if it does not fit any more."""
    if table.spec.approve is None or table.state is None:
        return None
    hold = Hold.from_json(_get_mark(table, HELD_PROPERTY))
    return hold if hold is not None and hold.stands_on == describe_place(table) else None


def find_decision(table: TableSession, hold: Hold) -> Decision | None:
    """Return what a person has decided about this hold; None if nobody has."""
    decision = Decision.from_json(_get_mark(table, DECISION_PROPERTY))
    return decision if decision is not None and decision.is_about(hold) else None


def is_approved(table: TableSession, hold: Hold) -> bool:
    decision = find_decision(table, hold)
    return decision is not None and decision.verdict == DecisionKind.APPROVE


def describe_place(table: TableSession) -> str:
    """Return a digest of what a hold stands on: the table, its position, and the rules."""
    state = table.require_state()
    # after a rollback these are two positions
    positions = [[it.batch, it.offsets] for it in (state.recorded_position, state.position) if it is not None]
    return compute_diff_digest(state.uuid, positions, asdict(table.spec.approve) if table.spec.approve else None)


def compute_diff_digest(*facts: Any) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:DIGEST_CHARACTERS]


def build_hold_property(table: TableSession, hold: Hold) -> dict[str, str]:
    return {_name(table, HELD_PROPERTY): hold.to_json()}


def build_decision_property(table: TableSession, decision: Decision) -> dict[str, str]:
    return {_name(table, DECISION_PROPERTY): decision.to_json()}


def clear_approval(table: TableSession) -> dict[str, str]:
    """Return the properties that a publish sets, so that nothing is held any more.

    Also where nothing is held yet: another run may hold the batch, and a person approve it, before this one publishes.
    """
    names = (_name(table, HELD_PROPERTY), _name(table, DECISION_PROPERTY))
    marks = table.state.marks if table.state else {}
    return {name: "" for name in names if table.spec.approve is not None or marks.get(name)}


def find_last_hold(table: TableSession) -> Hold | None:
    """Return what the table began to wait for since its last publish, whether or not that still counts."""
    return Hold.from_json(_get_mark(table, HELD_PROPERTY))


def _get_mark(table: TableSession, subject: str) -> str:
    return table.state.marks.get(_name(table, subject), "") if table.state else ""


def _name(table: TableSession, subject: str) -> str:
    return resource_names.name_pipeline_property(table.pipeline.name, subject)
