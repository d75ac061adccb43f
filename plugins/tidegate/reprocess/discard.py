"""discard: say of waiting dead letters that they will never be needed, why and by whom; their bytes stay readable."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from tidegate.errors import ConfigurationError, NothingToDo, TidegateError
from tidegate.jobs.statements_job import StatementsJob
from tidegate.merge.attempt import retry_commits
from tidegate.merge.owed import LetterFilter
from tidegate.model.counts import format_count
from tidegate.model.ownership import describe_dead_letters
from tidegate.model.table_state import WaitingLetter
from tidegate.ports.session import Session
from tidegate.reprocess.proposed_action import ActionPart, ProposedAction
from tidegate.reprocess.rebase import note_beside_position
from tidegate.spec.table import Table
from tidegate.table.history import add_action, list_undone_letters, reopen_letters
from tidegate.table.position import check_homes, check_not_rolled_back
from tidegate.table.session import TableSession, select_tables

log = logging.getLogger(__name__)
ACTION = "discard"
MAX_LETTERS_PER_STATEMENT = 20_000  # offsets of up to 19 digits, in the megabyte that BigQuery reads of a statement
MAX_PARTITIONS_PER_STATEMENT = 500  # each is a condition of its own
MAX_SHOWN_PLACES = 20
MAX_SHOWN_CHARACTERS = 120


@dataclass(frozen=True)
class ProposedDiscard:
    """One table's waiting dead letters that are chosen, in order."""

    table: Table
    letters: tuple[WaitingLetter, ...]


def propose_discards(session: Session, letter_filter: LetterFilter) -> list[ProposedDiscard]:
    """Return what `discard_dead_letters` would discard of each table. `NothingToDo` if no letter is chosen."""
    check_homes(session)
    name = session.letters_table
    discards = []
    for table in select_tables(session, letter_filter.table):
        waiting = session.dead_letters.list_waiting_letters(name, table.name)
        # those whose replay was rolled back wait again
        letters = filter(letter_filter.matches, [*waiting, *list_undone_letters(session, table.name)])
        in_order = tuple(sorted(letters, key=lambda letter: (*_get_partition(letter), letter.offset)))
        discards += [ProposedDiscard(table, in_order)] if in_order else []
    if not discards:
        raise NothingToDo(f"pipeline={session.pipeline.name}: no dead letter that waits is chosen; nothing was changed")
    return discards


def _get_partition(letter: WaitingLetter) -> tuple[str, int, str]:
    return letter.topic, letter.partition, letter.topic_id or ""


def split_into_statements(letters: Sequence[WaitingLetter]) -> list[list[WaitingLetter]]:
    parts: list[list[WaitingLetter]] = []
    partitions = set[tuple[str, int, str]]()
    for letter in letters:
        partitions.add(_get_partition(letter))
        is_full = not parts or len(parts[-1]) >= MAX_LETTERS_PER_STATEMENT
        if is_full or len(partitions) > MAX_PARTITIONS_PER_STATEMENT:
            parts.append([])
            partitions = {_get_partition(letter)}
        parts[-1].append(letter)
    return parts


def discard_dead_letters(session: Session, discard: ProposedDiscard, because: str, by: str) -> None:
    """Discard each chosen letter of the table, with the reason in its row; a repeat call changes nothing.

    The action, its user and the reason are noted beside the table's position too; if that fails, the log says so.
    """
    letters = session.letters_table
    session.tables.claim(letters, describe_dead_letters(session.pipeline))
    reopen_letters(session, discard.table.name)
    for part in split_into_statements(discard.letters):
        places = [
            {"topic": topic, "partition": partition, "topic_id": topic_id, "offsets": [it.offset for it in members]}
            for (topic, partition, topic_id), members in groupby(part, _get_partition)
        ]
        statement = session.get_sql(letters).render(
            "discard_dead_letters",
            table=letters,
            target=discard.table.name,
            note=f"discarded by {by}: {because}; it was: ",
            places=places,
        )
        session.engine.run(StatementsJob(session.pipeline.name, 0, (statement,), table=letters))
    details = f"dead_letters={len(discard.letters)} because: {because}"
    table = TableSession(session, discard.table)
    try:
        retry_commits(session, table.prefix, partial(_note_discard, table, details, by))
    except TidegateError as error:  # it is done, as the rows tell
        log.warning("%s: discarded %s; the table's actions lack this: %s", table.prefix, details, error)


def _note_discard(table: TableSession, details: str, by: str) -> None:
    state = table.refresh().state
    if state is None or state.recorded_position is None or state.is_rolled_back:
        return  # no position to note it beside; the rows tell of it

    def note(table: TableSession) -> dict[str, str]:
        check_not_rolled_back(table)
        return add_action(table, ACTION, by, details)

    note_beside_position(table, state.recorded_position, note)


# ---- the action: shown first, then done


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
                    "dead_letters": len(proposal.letters),
                    "places": [[letter.topic, letter.partition, letter.offset] for letter in proposal.letters],
                },
                perform=partial(discard_dead_letters, session, proposal, because),
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
