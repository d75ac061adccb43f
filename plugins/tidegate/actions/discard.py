"""The action discard: dead letters are shown, then given up for a reason that is kept with each of them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from tidegate.actions.proposed_action import ActionPart, ProposedAction, compute_digest
from tidegate.errors import ConfigurationError
from tidegate.merge.owed import LetterFilter
from tidegate.model.counts import format_count
from tidegate.model.table_state import WaitingLetter
from tidegate.ports.session import Session
from tidegate.reprocess.discard import (
    ProposedDiscard,
    discard_dead_letters,
    note_discard,
    propose_discards,
    split_into_statements,
)
from tidegate.spec.table import Table

MAX_SHOWN_PLACES = 20
MAX_SHOWN_CHARACTERS = 120


def propose_discard(session: Session, letter_filter: LetterFilter, because: str) -> ProposedAction:
    if not because.strip():
        raise ConfigurationError("because is empty: say why these dead letters will never be needed")
    return _build_action(session, propose_discards(session, letter_filter), because)


def propose_rest(session: Session, rest: ProposedDiscard, because: str) -> ProposedAction:
    """Discard what an earlier try left of a table, and note the count of both."""
    if not rest.letters:
        return propose_discard_note(session, rest.table, rest.discarded_before, because)
    return _build_action(session, [rest], because)


def _build_action(session: Session, proposals: Sequence[ProposedDiscard], because: str) -> ProposedAction:
    return ProposedAction(
        preview="\n".join(map(_format_discard, proposals)),
        subject={"pipeline": session.pipeline.name, "because": because},
        parts=tuple(
            ActionPart(
                table=proposal.table.name,
                facts={
                    "table": proposal.table.name,
                    "dead_letters": len(proposal.letters),
                    "places": [[letter.topic, letter.partition, letter.offset] for letter in proposal.letters],
                },
                perform=partial(discard_dead_letters, session, [proposal], because),
                letters=proposal.letters,
            )
            for proposal in proposals
        ),
        question="Discard them?",
        success_message="they were discarded",
    )


def describe_letters(letters: Sequence[WaitingLetter]) -> dict[str, Any]:
    """What tells the letters of a discard from those that come later, as plain data.

    `statements`: digests of the places that each statement takes, in order. `newest`: when the last letter was set
    aside.
    """
    parts = [
        [[letter.topic, letter.partition, letter.offset, letter.topic_id] for letter in part]
        for part in split_into_statements(letters)
    ]
    times = [letter.written_at for letter in letters if letter.written_at is not None]
    return {
        "statements": [compute_digest(part) for part in parts],
        "newest": max(times).isoformat() if times else None,
    }


def find_rest(letters: Sequence[WaitingLetter], described: Mapping[str, Any]) -> tuple[WaitingLetter, ...] | None:
    """The waiting `letters` that a discard of the `described` ones has left; None if they are not just its rest."""
    newest = described["newest"] and datetime.fromisoformat(described["newest"])
    own = tuple(letter for letter in letters if not newest or not letter.written_at or letter.written_at <= newest)
    left = describe_letters(own)["statements"]
    before = described["statements"]
    # anything but a rest of its last statements: no person has seen these letters
    return own if left == before[len(before) - len(left) :] else None


def propose_discard_note(session: Session, table: Table, letter_count: int, because: str) -> ProposedAction:
    """Note what an earlier try has discarded and did not note; nothing else is left to do."""
    letters = format_count(letter_count, "dead letter")
    return ProposedAction(
        preview=f"{table.name}: an earlier try of this run has discarded {letters} and not noted it",
        subject={"pipeline": session.pipeline.name, "because": because},
        parts=(
            ActionPart(
                table=table.name,
                facts={"table": table.name, "dead_letters": letter_count},
                perform=partial(note_discard, session, table, letter_count, because),
            ),
        ),
        question="Note it?",
        success_message="they were discarded",
    )


def _format_discard(proposal: ProposedDiscard) -> str:
    before = f", as {proposal.discarded_before} were by an earlier try" if proposal.discarded_before else ""
    count = f"{format_count(len(proposal.letters), 'dead letter')} would be discarded and never replayed{before}"
    lines = [f"{proposal.table.name}: {count}"]
    for letter in proposal.letters[:MAX_SHOWN_PLACES]:
        reason = shorten_text(letter.message)
        lines.append(f"  topic={letter.topic} partition={letter.partition} offset={letter.offset}: {reason}")
    more = len(proposal.letters) - MAX_SHOWN_PLACES
    return "\n".join([*lines, *([f"  and {more} more"] if more > 0 else [])])


def shorten_text(text: str) -> str:
    line = text.encode("unicode_escape").decode() if not text.isprintable() else text
    return line if len(line) <= MAX_SHOWN_CHARACTERS else f"{line[:MAX_SHOWN_CHARACTERS]}..."
