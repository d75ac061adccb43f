"""The action discard: dead letters are shown, then given up for a reason that is kept with each of them."""

from functools import partial

from tidegate.actions.proposed_action import ActionPart, ProposedAction
from tidegate.errors import ConfigurationError
from tidegate.merge.owed import LetterFilter
from tidegate.model.counts import format_count
from tidegate.ports.session import Session
from tidegate.reprocess.discard import (
    ProposedDiscard,
    discard_dead_letters,
    propose_discards,
)

MAX_SHOWN_PLACES = 20
MAX_SHOWN_CHARACTERS = 120


def propose_discard(session: Session, letter_filter: LetterFilter, because: str) -> ProposedAction:
    if not because.strip():
        raise ConfigurationError("because is empty: say why these dead letters will never be needed")
    proposals = propose_discards(session, letter_filter)
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
            )
            for proposal in proposals
        ),
        question="Discard them?",
        success_message="they were discarded",
    )


def _format_discard(proposal: ProposedDiscard) -> str:
    count = format_count(len(proposal.letters), "dead letter")
    lines = [f"{proposal.table.name}: {count} would be discarded and never replayed"]
    for letter in proposal.letters[:MAX_SHOWN_PLACES]:
        reason = shorten_text(letter.message)
        lines.append(f"  topic={letter.topic} partition={letter.partition} offset={letter.offset}: {reason}")
    more = len(proposal.letters) - MAX_SHOWN_PLACES
    return "\n".join([*lines, *([f"  and {more} more"] if more > 0 else [])])


def shorten_text(text: str) -> str:
    line = text.encode("unicode_escape").decode() if not text.isprintable() else text
    return line if len(line) <= MAX_SHOWN_CHARACTERS else f"{line[:MAX_SHOWN_CHARACTERS]}..."
