"""How far the tries of one run have come with an action: the next try does only the rest."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tidegate.actions.discard import describe_letters, find_rest, propose_discard_note, propose_rest
from tidegate.actions.proposed_action import ProposedAction
from tidegate.actions.request import propose_action
from tidegate.errors import GiveUp, NothingToDo
from tidegate.model.offsets import format_names
from tidegate.ports.session import Session
from tidegate.reprocess.discard import ProposedDiscard
from tidegate.table.session import find_table


@dataclass
class ActionProgress:
    """What a run asked for at its first try, and what is done; plain data for JSON.

    - `digests`: by table what is done to it. `snapshots`: by table the earlier snapshot that becomes current, if one
      does.
    - `pinned_params`: ask for exactly this action again.
    - `letters`, `described_letters`: by table how many dead letters are discarded, and which.
    - `done`: the changed tables. `begun`: the table at which a try ended, which may be changed.
    """

    digests: dict[str, str]
    snapshots: dict[str, str]
    pinned_params: dict[str, Any]
    success_message: str
    done: list[str] = field(default_factory=list)
    begun: str | None = None
    letters: dict[str, int] = field(default_factory=dict)
    described_letters: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def start(cls, proposed: ProposedAction) -> "ActionProgress":
        facts = {part.table: part.facts for part in proposed.parts}
        return cls(
            digests={part.table: part.digest for part in proposed.parts},
            snapshots={
                table: fact["goes_to_snapshot_id"] for table, fact in facts.items() if "goes_to_snapshot_id" in fact
            },
            pinned_params=proposed.pinned_params,
            success_message=proposed.success_message,
            letters={part.table: len(part.letters) for part in proposed.parts if part.letters},
            described_letters={part.table: describe_letters(part.letters) for part in proposed.parts if part.letters},
        )

    def to_dict(self) -> dict[str, Any]:
        """`ActionProgress(**data)` reads it."""
        return asdict(self)

    def propose_rest(self, session: Session, params: Mapping[str, Any]) -> ProposedAction | None:
        """What is left to do, exactly as first asked; None if all is done.

        `GiveUp` if the table at which a try ended has changed: that try may have done it. Also if a person confirmed a
        preview, and a table would now be changed in another way.
        """
        proposals = []
        for table in [table for table in self.digests if table not in self.done]:
            try:
                proposed = propose_action(session, {**params, **self.pinned_params, "table": table})
            except NothingToDo:  # the try ended before it noted that
                if table == self.begun and table in self.letters:
                    noted_table = find_table(session, table)
                    proposals.append(propose_discard_note(session, noted_table, self.letters[table], params["because"]))
                else:
                    self.done.append(table)
                continue
            if proposed.parts[0].digest != self.digests[table]:
                # a discard may have ended between two statements, or before letters came later
                rest = self._find_rest_of_letters(session, table, params, proposed)
                if rest is None:
                    self._refuse_other_state(table, params, proposed)
                proposed = rest or proposed
            proposals.append(proposed)
        return _join_proposals(proposals)

    def _find_rest_of_letters(
        self, session: Session, table: str, params: Mapping[str, Any], proposed: ProposedAction
    ) -> ProposedAction | None:
        described = self.described_letters.get(table)
        letters = proposed.parts[0].letters
        left = None if described is None else find_rest(letters, described)
        if left is None or (table != self.begun and len(left) < self.letters[table]):  # then others discarded some
            return None
        rest = ProposedDiscard(find_table(session, table), left, discarded_before=self.letters[table] - len(left))
        return propose_rest(session, rest, params["because"])

    def _refuse_other_state(self, table: str, params: Mapping[str, Any], proposed: ProposedAction) -> None:
        done = f"done for tables={format_names(self.done)}, and not for " if self.done else ""
        if table == self.begun:
            if table in self.described_letters:
                raise GiveUp(
                    f"{done}table={table}: an earlier try of this run may have discarded some dead letters, and those "
                    "that wait are not just its rest, so it ends; see its actions in `tidegate status`, and start the "
                    f"DAG again with preview for what is left; now it would do:\n{proposed.preview}"
                )
            raise GiveUp(
                f"{done}table={table}: an earlier try of this run may have done it, and the table is not as it was "
                "before, so it is not done again; see its actions in `tidegate status`, and start the DAG again with "
                f"preview for what is left; now it would do:\n{proposed.preview}"
            )
        if params.get("previewed"):
            raise GiveUp(
                f"{done}table={table}: the effect has changed since the preview, so it was not changed; "
                f"look at the preview again:\n{proposed.preview}"
            )


def _join_proposals(proposals: list[ProposedAction]) -> ProposedAction | None:
    if not proposals:
        return None

    def refuse() -> None:
        for proposal in proposals:
            proposal.refuse()

    return replace(
        proposals[0],
        preview="\n".join(proposal.preview for proposal in proposals),
        parts=tuple(part for proposal in proposals for part in proposal.parts),
        refuse=refuse,
    )
