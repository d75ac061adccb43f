"""The action discard: dead letters are shown, and given up for a reason that is kept with each of them."""

from functools import partial
from typing import Any

from tidegate.actions.proposed_action import ActionPart, ProposedAction
from tidegate.errors import ConfigurationError
from tidegate.merge.letter_filter import LetterFilter
from tidegate.ports.context import Ports
from tidegate.reprocess.discard import ProposedDiscard, discard_dead_letters, note_discard, propose_discards
from tidegate.spec.table import Table

MAX_SHOWN_PLACES = 20
MAX_SHOWN_CHARACTERS = 120


def propose_discard(ports: Ports, letter_filter: LetterFilter, because: str) -> ProposedAction:
    """Take the chosen dead letters from those that wait."""
    if not because.strip():
        raise ConfigurationError("because is empty: say why these dead letters will never be needed")
    proposals = propose_discards(ports, letter_filter)
    return ProposedAction(
        preview="\n".join(map(_format_discard, proposals)),
        subject={"pipeline": ports.pipeline.name, "because": because},
        parts=tuple(
            ActionPart(one.table.name, _describe_discard(one), partial(discard_dead_letters, ports, [one], because))
            for one in proposals
        ),
        question="Discard them?",
        success_message="they were discarded",
    )


def propose_discard_note(ports: Ports, table: Table, letter_count: int, because: str) -> ProposedAction:
    """Note what an earlier try has discarded of a table and not noted any more. Nothing else is left of it."""
    return ProposedAction(
        preview=f"{table.name}: an earlier try of this run has discarded {letter_count} dead letters and not noted it",
        subject={"pipeline": ports.pipeline.name, "because": because},
        parts=(
            ActionPart(
                table=table.name,
                facts={"table": table.name, "dead_letters": letter_count},
                perform=partial(note_discard, ports, table, letter_count, because),
            ),
        ),
        question="Note it?",
        success_message="they were discarded",
    )


def _describe_discard(proposal: ProposedDiscard) -> dict[str, Any]:
    places = [[letter.topic, letter.partition, letter.offset] for letter in proposal.letters]
    return {"table": proposal.table.name, "dead_letters": len(proposal.letters), "places": places}


def _format_discard(proposal: ProposedDiscard) -> str:
    lines = [f"{proposal.table.name}: {len(proposal.letters)} dead letters would be discarded and never replayed"]
    for letter in proposal.letters[:MAX_SHOWN_PLACES]:
        reason = shorten_text(letter.message)
        lines.append(f"  topic={letter.topic} partition={letter.partition} offset={letter.offset}: {reason}")
    more = len(proposal.letters) - MAX_SHOWN_PLACES
    return "\n".join([*lines, *([f"  and {more} more"] if more > 0 else [])])


def shorten_text(text: str) -> str:
    """One printable line of at most some hundred characters."""
    line = text.encode("unicode_escape").decode() if not text.isprintable() else text
    return line if len(line) <= MAX_SHOWN_CHARACTERS else f"{line[:MAX_SHOWN_CHARACTERS]}..."
